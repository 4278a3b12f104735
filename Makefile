# Two commands do all the set-up: `make demo` and `make test`. Both work in an environment of their
# own (.venv), so nothing outside this folder is touched.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types debian benchmark clean

demo: .venv/installed
	$(BIN)/objectstates demo

test: lint types debian
	$(BIN)/python -m pytest

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/installed-dev
	$(BIN)/mypy

# Some tests want a real browser, or a voice. Where Debian's can be installed without asking they are;
# where they cannot, those tests are skipped and say so.
debian:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null && \
	command -v espeak-ng >/dev/null || { \
	  command -v apt-get >/dev/null || exit 0; \
	  if [ "$$(id -u)" = 0 ]; then as=env; else as="sudo -n"; fi; \
	  $$as true 2>/dev/null || exit 0; \
	  echo "installing chromium and espeak-ng for the tests"; \
	  $$as apt-get -qq -o Acquire::http::Timeout=20 update >/dev/null 2>&1; \
	  $$as env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
	    chromium chromium-driver fonts-dejavu-core espeak-ng </dev/null >/dev/null 2>&1; \
	} || true

benchmark: .venv/installed-dev
	$(BIN)/python -m benchmarks.solver
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.narration
	$(BIN)/python -m benchmarks.wild.retrieval

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
