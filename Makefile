# make demo        install into .venv and run the main scenario
# make test        install into .venv and run the gate: what CI runs for each change (8 minutes)
# make test-all    the gate with every test: before work is called done (26 minutes)
# make test-fast   quick tests, for each save (2 minutes)
# make clean       remove the kernels that were compiled for tests
#
# PYTHON=python3.12              another Python (3.11 or later)
# TORCH_INDEX=https://download.pytorch.org/whl/cpu    the small torch without CUDA, where pip finds the large one
# PIP_ARGS="..."                 anything else for pip

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
PIP_ARGS ?=

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) $(PIP_ARGS) -c constraints.txt

PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: help setup demo test test-all test-fast clean check types gate everything

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

setup: $(VENV)/installed

demo: $(VENV)/installed
	$(BIN)/gossiprec simulate scenarios/rand_gossip.yaml --overwrite

# Types take a minute of one core; tests run meanwhile.
test: check
	@$(MAKE) --no-print-directory -j2 types gate

test-all: check
	@$(MAKE) --no-print-directory -j2 types everything

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/installed-dev
	$(BIN)/mypy

gate: $(VENV)/installed-dev
	$(PYTEST) --suite gate

everything: $(VENV)/installed-dev
	$(PYTEST) --suite all

test-fast: $(VENV)/installed-dev
	$(PYTEST) --suite fast

clean:
	rm -rf .cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than Python 3.11; name another: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: setup.cfg constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/installed-dev: setup.cfg constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/installed
