# `make run` sets up a fresh checkout and runs the main experiment; `make test` installs the extras and runs the tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock

.PHONY: run test lint lock clean

run: .venv/base
	$(BIN)/pagesim run --load high

test: .venv/dev
	$(BIN)/python -m pytest

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What is pinned: the packages of this environment, with every extra.
lock: .venv/dev
	$(PIP) --editable '.[engine,notebooks,cluster,dev]'
	$(BIN)/python -m pip freeze --exclude-editable | sed -e 's/+cpu//' -e '/^triton/s/$$/; platform_system == "Linux"/' > requirements.lock

clean:
	rm -rf .venv build dist

.venv/base: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/dev: .venv/base
	$(PIP) --editable '.[engine,dev]'
	touch $@
