# Streamgauge. Every target does its own set-up in .venv and can be repeated.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
export PYTHONDONTWRITEBYTECODE :=  # hundreds of processes are started: each module is compiled once
CORES := $(shell nproc 2>/dev/null || echo 2)
.DEFAULT_GOAL := help
.PHONY: help demo live emoji quick test test-slow test-all test-times check audit bench clean parts
PYTEST := $(BIN)/python -m pytest --numprocesses $$(( $(CORES) + 2 )) --dist loadfile --no-loadscope-reorder --quiet  # some wait for clocks
QUICK := not law and not crash and not neighbour and not statistical and not browser and not cluster \
  and not integration and not slow

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/plot ## plan and run a synthetic clinic, compare it with the truth, plot it; in streamgauge-demo/
	@$(BIN)/streamgauge demo

live: $(VENV)/server ## the same clinic, live in the browser: a tick a second, until Ctrl-C
	@$(BIN)/streamgauge demo --live

emoji: $(VENV)/server ## a poll with an untrusted server, live in the browser, until Ctrl-C
	@$(BIN)/streamgauge demo --local --live

quick: $(VENV)/dev,plot,server ## tests without a marker: a minute
	@$(PYTEST) -m "$(QUICK)"

test: parts $(VENV)/dev,plot,server ## all checks, and all tests but the slow ones: at most 10 minutes on 2 cores
	@$(MAKE) --no-print-directory check & checks=$$!; $(PYTEST) -m "not slow"; tests=$$?; wait $$checks && exit $$tests

test-slow: parts $(VENV)/dev,plot,server ## the slow tests: every case, 1,000 kills, a soak of 10 minutes
	@$(PYTEST) -m slow

test-all: test test-slow ## everything: at most an hour

test-times: $(VENV)/dev,plot,server ## the seconds of all tests, by folder and by marker
	@$(PYTEST) --junit-xml test-times.xml; $(BIN)/python -m tools.test_times test-times.xml

parts:
	@if [ "$$CI" = true ] && ! command -v chromium >/dev/null; then \
	  echo "tests/browser needs a Chromium, found none: install the package chromium" >&2; exit 1; fi
	@if [ "$$CI" = true ] && ! command -v bwrap >/dev/null; then \
	  echo "tests/mapreduce needs bubblewrap, found none: install the package bubblewrap" >&2; exit 1; fi

check: $(VENV)/dev,plot,server ## format, lint, types, imports, figures of the layout
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tools.house

audit: $(VENV)/plot ## audit every claim of the package; writes a page and JSON to streamgauge-audit/ (minutes)
	@mkdir -p streamgauge-audit
	@$(BIN)/streamgauge audit --all --json --html streamgauge-audit/audit.html > streamgauge-audit/audit.json

bench: $(VENV)/bench ## compare noise, accuracy and speed with OpenDP, jax-privacy, NumPy and the bounds (minutes)
	@$(BIN)/python -P benchmarks/noise.py
	@$(BIN)/python -P benchmarks/accuracy.py
	@$(BIN)/python -P benchmarks/accounting.py
	@$(BIN)/python -P benchmarks/counters.py
	@$(BIN)/python -P benchmarks/statistics.py
	@$(BIN)/python -P benchmarks/coverage.py
	@$(BIN)/python -P benchmarks/distinct.py --runs 2000
	@$(BIN)/python -P benchmarks/pipeline.py
	@$(BIN)/python -P benchmarks/scale.py
	@$(BIN)/python -P benchmarks/adaptive.py --runs 1
	@$(BIN)/python -P benchmarks/sparse.py --quick
	@$(BIN)/python -P benchmarks/panprivate.py --quick
	@$(BIN)/python -P benchmarks/localdp.py --quick
	@$(BIN)/python -P benchmarks/liars.py --quick
	@$(BIN)/python -P benchmarks/reports.py

clean: ## remove all files that the targets created
	rm -rf $(VENV) build dist test-times.xml streamgauge-demo streamgauge-audit .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python must be 3.11 or later, got " + sys.version)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/%: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "setting up .venv with the extra [$*] ..."
	@$(PIP) --editable '.[$*]'
	@touch $@
