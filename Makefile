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

.PHONY: setup run test long quick lint fuzz soak dist bench reproduce figures serve cluster cluster-scale clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# All methods on the embedded digits graph, three seeds, coarse grids: under three minutes on two cores.
run: setup
	$(BIN)/ocgl bench digits --grids coarse --seeds 3 --tune-seeds 1 --out runs/digits
	$(BIN)/ocgl report runs/digits --out report.html --expansion digits

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not long"

# Tests that repeat what shorter ones do in other ways, or at more moments (about 4 minutes).
long: setup
	$(BIN)/pytest -n 2 --dist worksteal -m long

# Lint, types and the fast tests, in under a minute.
quick: lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow and not long"

# 50,000 damaged files, each read by a command in its own process, then long fuzzing of every reader (about 2 hours).
fuzz: setup
	$(BIN)/python -m tests.faults.damage 50000 --seed 7 --out docs/reliability.json
	$(BIN)/python -m studies.reliability
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -n 2 tests/faults/test_fuzz.py

# The live service for long: 30 kills under load, 100,000 strange requests, Amazon Computer over HTTP, rates and latencies
# (about an hour; the load generator is Debian's package `hey`). Writes docs/live/ and the figures of docs/live.md.
soak: setup
	$(BIN)/python -m tests.serving.soak
	$(BIN)/python -m perf.live

# Wheel and sdist; the wheel is installed into an empty environment without extras and used there.
dist: setup
	$(BIN)/python -m build --outdir dist .
	tests/dist.sh dist

# Speed and memory as ratios against a reference in the same run (about 20 minutes).
bench: setup
	$(BIN)/python -m perf

# The paper's Amazon Computer tables and claims; what is kept in results/ is not computed again (stop and continue at will).
reproduce: setup
	$(BIN)/python -m studies.reproduce

# A live service on the embedded digits graph, which is played in by a client; the page is at http://127.0.0.1:8000
serve: setup
	rm -rf runs/live
	$(BIN)/ocgl serve runs/live --strategy ridge --features 64 --shadow linear,slda --port 8000 & \
	trap 'kill %1 2> /dev/null' EXIT INT TERM; $(BIN)/ocgl play digits http://127.0.0.1:8000 --rate 60 --no-score && \
	echo "the stream is over; the service runs on at http://127.0.0.1:8000 until Ctrl-C" && wait

# A graph on a cluster of Redis servers on this machine (Debian's package redis-server); a master is killed on the way.
cluster: setup
	$(BIN)/python -m tests.redis.show

# A graph of 2.4 million nodes on such a cluster, against one of 20,000 (about 25 minutes). Writes
# docs/cluster/scale.json and the table of docs/cluster.md.
cluster-scale: setup
	$(BIN)/python -m perf.redis_scale

# The picture of the setting in the README.
figures: setup
	$(BIN)/python -m studies.setting_figure

# Removes what make has built; results in runs/ are yours and stay.
clean:
	rm -rf $(VENV) build dist src/*.egg-info
