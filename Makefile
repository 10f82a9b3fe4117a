# For a fresh machine: `make demo`, `make test`, `make docs`.  Each target installs what it needs into .venv, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported; compiling all of them here would take longer than the demo.
PIP := $(BIN)/python -m pip install --quiet --no-compile
# One stamp per dependency group of pyproject.toml: $(call has,test) is .venv/.stamp-test.
has = $(VENV)/.stamp-$(1)
# Tests read real data from KARAT_DATA and say so when they skip without it.
export KARAT_DATA ?= $(wildcard $(abspath ../shared/datasets))

# Tests run in two processes.  One BLAS thread each: more would compete for the two cores.
test quick oldest docs nightly: export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test quick oldest torture nightly lint bench docs reproduce dist clean
# Two installations into one environment must not run at the same time.
.NOTPARALLEL:

$(VENV)/.stamp:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"
	touch $@

$(VENV)/.stamp-%: pyproject.toml | $(VENV)/.stamp
	$(PIP) --editable . --group $*
	touch $@

demo: $(call has,demo)
	$(BIN)/karat demo

# The docs group: pages are run, and make nightly builds the documentation.
test: $(call has,test) $(call has,docs) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=25 -m "not nightly"

quick: $(call has,test)
	$(BIN)/python -m pytest -n 2 -m "not slow and not nightly" -x

# The tests with the oldest versions that pyproject.toml allows, in an environment of their own.
oldest: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv --clear $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-oldest/bin/python -m pip install --quiet --editable . --group test --constraint constraints-oldest.txt
	$(VENV)-oldest/bin/python -m pytest -n 2 -m "not slow and not nightly" -W default tests

# The campaign against the certificate: difficult data through every entry point (about 40 minutes on 2 cores).
torture: $(call has,test)
	$(BIN)/python -m tests.torture

# Tests that make test leaves out; the campaign, for real rows and for made ones; the eight kinds of data that broke the claim
# of 0.2.0; spoilt coresets that verify must refuse; scikit-learn's own tests of linear models, fitted through karat; and 2,000
# random combinations of estimators and transformers beside scikit-learn (two hours).
SEED ?= 0
nightly: $(call has,test) $(call has,docs)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m nightly && tests=0 || tests=1; \
	$(BIN)/python -m tests.torture --synthetic --seed $(SEED) && made=0 || made=1; \
	$(BIN)/python -m tests.torture.wide --seed $(SEED) && wide=0 || wide=1; \
	$(BIN)/python -m tests.torture --seed $(SEED) && torture=0 || torture=1; \
	$(BIN)/python -m tests.torture.kinds --variants 200 --seed $$(($(SEED) + 1)) && kinds=0 || kinds=1; \
	$(BIN)/python -m tests.torture.spoil --count 1000 --seed $(SEED) && spoil=0 || spoil=1; \
	$(BIN)/python -m tests.estimators.sklearn_suite && linear=0 || linear=1; \
	$(BIN)/python -m tests.estimators.combos --seed $(SEED) && combos=0 || combos=1; \
	test $$tests$$made$$wide$$torture$$kinds$$spoil$$linear$$combos = 00000000

lint: $(call has,lint)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(call has,test)
	$(PIP) --group peers || echo "Peers could not be installed; their rows are left out."
	$(BIN)/python benchmarks/run.py

# Warnings are errors, and every link is checked.  The gallery's examples run; docs/_build/html/index.html is the front page.
docs: $(call has,docs)
	$(BIN)/python -m sphinx -b html -E -n -W --keep-going docs docs/_build/html
	$(BIN)/python docs/_ext/links.py docs/_build/html

# The paper's tables and figures, with peers where they can be installed, into reproduction/index.html.
reproduce: $(call has,reproduce)
	$(PIP) --group peers || echo "Peers could not be installed; the page says so and has the rest."
	$(BIN)/python -m paper

# The same bytes for the same commit: all files get its time.
dist: $(call has,dist)
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist .

clean:
	rm -rf docs/_build docs/gallery docs/api/generated
	rm -rf $(VENV) $(VENV)-oldest dist reproduction .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
