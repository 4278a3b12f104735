# Two commands do all the set-up: `make demo` and `make test`. Both work in an environment of their
# own (.venv), so nothing outside this folder is touched.

PYTHON ?= python3
BIN := .venv/bin

# Debian packages that some tests use, and are skipped without: `make debian`, where you may.
DEBIAN := espeak-ng

.PHONY: demo test lint types benchmark debian clean

demo: .venv/installed
	$(BIN)/objectstates demo

test: lint types
	$(BIN)/python -m pytest

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

benchmark: .venv/installed-dev
	$(BIN)/python -m benchmarks.solver
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.narration
	$(BIN)/python -m benchmarks.wild.retrieval

debian:
	apt-get install --yes --no-install-recommends $(DEBIAN)

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "objectstates needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ .venv/installed

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
