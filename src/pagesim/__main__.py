"""`python -m pagesim` is the `pagesim` command."""

from pagesim.cli import main

main()
