# `make run` sets up a fresh checkout and runs the main experiment; `make test` installs the extras and runs the tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock

.PHONY: run test lint docs notebooks lite lock clean

run: .venv/base
	$(BIN)/pagesim run --load high

test: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages of docs/ as a site, in site/.
docs: .venv/dev
	$(BIN)/python -m mkdocs build --quiet
	@echo site: site/index.html

# The lessons, in a browser; the engine that lessons 4 and 7 need comes with them.
notebooks: .venv/notebooks
	$(BIN)/jupyter lab notebooks

# Lessons 1, 2, 3, 5, 6 and 8 as a static site that runs in a browser with nothing installed, in build/lite/.
lite: .venv/lite
	$(BIN)/python notebooks/lite.py

# Pins what an empty environment with every extra gets today.
lock:
	rm -rf .venv/lock && $(PYTHON) -m venv .venv/lock
	.venv/lock/bin/python -m pip install --quiet torch==2.13.0 triton==3.7.1 '.[engine,serve,images,notebooks,lite,cluster,dev]'
	echo '# Exact versions that the tests pass with; a constraints file for pip. `make lock` writes it anew.' > requirements.lock
	.venv/lock/bin/python -m pip freeze | grep -v '^pagesim' | sed -e 's/+cpu//' \
		-e '/^triton==/s/$$/; platform_system == "Linux"/' >> requirements.lock

clean:
	rm -rf .venv build dist site

.venv/base: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/notebooks: .venv/base
	$(PIP) --editable '.[engine,notebooks]'
	touch $@

.venv/lite: .venv/base
	$(PIP) --editable '.[notebooks,lite]'
	touch $@

.venv/dev: .venv/base
	$(PIP) --editable '.[engine,serve,cluster,dev]'
	touch $@
