# Commands that do all the set-up: `make demo`, `make studio` and `make test`. They use an environment
# of their own (.venv), so nothing outside this folder is touched.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Coverage is measured in CI, where it may not fall; COVERAGE=1 measures it here too.
COVERAGE ?= $(if $(CI),1,0)
PYTEST_OPTIONS ?=

# An environment that could not be made whole is made again by the next call.
.DELETE_ON_ERROR:

.PHONY: demo studio test lint types kernels docs debian benchmark torture clean

demo: .venv/installed
	$(BIN)/objectstates demo

# The page that leads from videos to a result, on the demo's clips.
studio: .venv/installed
	$(BIN)/objectstates studio --demo

# All checks first (two at a time), then the tests on all cores.
test: .venv/installed-dev debian
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types kernels
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder \
	  $(if $(filter 1,$(COVERAGE)),--cov --cov-report=term:skip-covered) $(PYTEST_OPTIONS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m tools.check_layout

types: .venv/installed-dev
	$(BIN)/mypy

# Compiled once here, the kernels need not be compiled by each process of the tests.
kernels: .venv/installed-dev
	$(BIN)/python -m tools.compile_kernels

docs: .venv/installed-docs
	$(BIN)/mkdocs build --strict

# Some tests need a browser or a speech synthesiser. Debian's are installed where that needs no
# password; elsewhere those tests are skipped with a message.
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
	$(BIN)/python -m benchmarks.start
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.narration
	$(BIN)/python -m benchmarks.wild.retrieval

# Kills, full disks and bad input for about an hour; anything lost, wrong or unreadable is an error.
MINUTES ?= 40
CASES ?= 100000
SEED ?= 0
torture: .venv/installed-dev
	mkdir -p .torture
	$(BIN)/python -m tests.faults.kills --minutes $(MINUTES) --seed $(SEED) --out .torture/kills.json
	$(BIN)/python -m tests.faults.parsers --cases $(CASES) --seed $(SEED) --out .torture/parsers.json

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "objectstates needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(PIP) --editable .
	touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ .venv/installed

.venv/installed-docs: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv .torture .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* site
