# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
# Real data for tests, benchmarks and reproduction, where it lies beside the checkout.
ifndef OCGL_DATA
ifneq ($(wildcard ../shared/datasets),)
export OCGL_DATA := $(abspath ../shared/datasets)
endif
endif

.PHONY: setup run test lint bench reproduce reproduce-quick select clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# All methods on the embedded digits graph, three seeds, coarse grids: under three minutes on two cores.
run: setup
	$(BIN)/ocgl bench digits --grids coarse --seeds 3 --out runs/digits
	$(BIN)/ocgl report runs/digits --out report.html

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n 2 --dist worksteal

bench: setup
	$(BIN)/python -m benchmarks

# Amazon Computer, all methods, three seeds, both profiles, beside the published numbers (about 15 minutes).
reproduce-quick: setup
	$(BIN)/python -m benchmarks.quick

# The paper's Amazon Computer table by the whole protocol (about 100 minutes of two cores; stop and continue at will).
reproduce: setup
	$(BIN)/python -m benchmarks.reproduce

# Hyperparameters on the first two tasks; rewrites benchmarks/selected/.
select: setup
	$(BIN)/python -m benchmarks.select paper
	$(BIN)/python -m benchmarks.select textbook

clean:
	rm -rf $(VENV) runs build src/*.egg-info
