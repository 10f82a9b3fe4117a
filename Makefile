# For a fresh machine: `make demo`, `make test`, `make docs`.  Each makes the virtual environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests read real data from KARAT_DATA and say so when they skip without it.
export KARAT_DATA ?= $(wildcard $(abspath ../shared/datasets))

# Tests run in two processes: one BLAS thread each, or the four would wait for each other on two cores.
test quick: export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test quick torture lint bench docs reproduce clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group test --group lint --group docs
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/karat demo

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --durations=10

quick: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not slow" -x

# The standing campaign: hostile data through every door, judged by oracles of its own (about 20 minutes on 2 cores).
torture: $(STAMP)
	$(BIN)/python -m tests.torture

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --group peers || echo "Peers could not be installed; their rows are left out."
	$(BIN)/python benchmarks/run.py

# Warnings are errors, and every link is followed.  The gallery's examples run; docs/_build/html/index.html is the front page.
docs: export OPENBLAS_NUM_THREADS ?= 1
docs: $(STAMP)
	$(BIN)/python -m sphinx -b html -E -n -W --keep-going docs docs/_build/html
	$(BIN)/python docs/_ext/links.py docs/_build/html

# The paper's tables and figures, with peers where they can be installed, into reproduction/index.html.
reproduce: $(STAMP)
	$(BIN)/python -m pip install --quiet --group peers || echo "Peers could not be installed; the page says so and has the rest."
	$(BIN)/karat reproduce

clean:
	rm -rf docs/_build docs/gallery docs/api/generated
	rm -rf $(VENV) dist reproduction .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
