# Everything a stranger needs: make demo, make test, make lint, make bench, make clean.
# Each sets up a virtual environment in the project root the first time.

PYTHON ?= python3
VENV ?= .venv
# Each process takes a run of files, so that what the tests of a file share is made once.
PYTEST_ARGS ?= -q -n 2 --dist worksteal

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d%d" % sys.version_info[:2])')
# Which file of constraints/ holds the versions; STACK=minimum-py311 takes the lowest that are promised.
STACK := py$(VERSION)
# The stamp carries the interpreter's version and the stack: another PYTHON or STACK builds the environment anew.
STAMP := $(VENV)/.ready-$(VERSION)-$(STACK)
BIN := $(VENV)/bin

# One thread per process for BLAS: the tests run in two processes, the benchmarks compare single threads.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg

# Which tests: the quick ones; the slow ones too when CI=true. The long ones run with `make test-long` alone.
SELECT := -m "$(if $(filter true,$(CI)),not long,not slow and not long)"
# Where: everywhere, or some folders and files of tests/.
TESTS ?=

# The benchmarks run with their peers where `make bench-peers` has set them up, and without them otherwise.
BENCH = $(if $(wildcard .venv-bench/.ready),.venv-bench/bin/python,$(BIN)/python)
BENCH_ARGS ?=

.PHONY: help setup demo test test-long lint audit format bench bench-quick bench-peers docs notebooks build clean

help:
	@echo "make demo    run the first study and draw its map into out/"
	@echo "make test    run the tests (CI=true includes the slow ones)"
	@echo "make test-long  run every test, the long campaigns too"
	@echo "make lint    check style and types, list licences, and look for known weaknesses where the network allows it"
	@echo "make format  put the code into the house style"
	@echo "make bench   print our times as ratios against the alternatives, load large files and maps, keep benchmarks/RESULTS.md"
	@echo "make bench-quick  the same at small sizes, kept in out/"
	@echo "make bench-peers  set up the packages that the benchmarks compare with (Python 3.11)"
	@echo "make docs    build the documentation into out/docs"
	@echo "make notebooks  run the notebooks and keep their outputs"
	@echo "make build   build the wheel and the source archive into dist/"
	@echo "make clean   remove what make has made"

setup: $(STAMP)

# A stack that does not exist is no prerequisite, so that the recipe can say what is wrong.
$(STAMP): pyproject.toml $(wildcard constraints/$(STACK).txt)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "ruvdecision needs Python 3.11, 3.12 or 3.13; say which with make PYTHON=python3.13" >&2; exit 1; }
	@test -f constraints/$(STACK).txt || { echo "there is no constraints/$(STACK).txt" >&2; exit 1; }
	@echo "Setting up $(VENV) for $$($(PYTHON) --version) (once; a few minutes)"
	@rm -f $(VENV)/.ready-*
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --quiet --progress-bar off --disable-pip-version-check \
	  --constraint constraints/$(STACK).txt --editable '.[test,dev,docs]'
	@touch $@

demo: setup
	$(BIN)/ruvdecision run models/trottini_fienberg_normal.py --max-risk 0.5 --out out/ --force
	@echo "The map is drawn in out/map.png, its numbers are in out/map.csv and out/map.nc; out/report.html tells the whole story."

test: setup
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(SELECT) $(TESTS)

test-long: setup
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(TESTS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python .ci/licences.py
	@$(MAKE) --no-print-directory audit

# Known weaknesses of what is installed. The list of them is on the network: without one that is said, and nothing fails.
audit: setup
	@found=$$({ test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv --clear .venv-audit \
	    && .venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }; } 2>&1 \
	  && .venv-audit/bin/pip-audit --progress-spinner off \
	    --path "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" 2>&1); \
	case "$$found" in \
	  *"Found "*" known vulnerabilit"*) echo "$$found"; exit 1 ;; \
	  *"No known vulnerabilities"*) echo "No known vulnerabilities in what the package index knows" ;; \
	  *) echo "pip-audit was not run: the package index cannot be reached from here" ;; \
	esac

format: setup
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

bench: setup
	$(BENCH) -m benchmarks --out benchmarks/RESULTS.md $(BENCH_ARGS)
	$(BENCH) -m benchmarks.load --out benchmarks/RESULTS.md $(BENCH_ARGS)

bench-quick: setup
	@mkdir -p out
	$(BENCH) -m benchmarks --quick --out out/RESULTS.md $(BENCH_ARGS)
	$(BENCH) -m benchmarks.load --quick --out out/RESULTS.md $(BENCH_ARGS)

bench-peers: .venv-bench/.ready .venv-anonymeter/.ready

.venv-bench/.ready: pyproject.toml constraints/bench.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "the peers are pinned for Python 3.11; say make bench-peers PYTHON=python3.11" >&2; exit 1; }
	@echo "Setting up .venv-bench (once; a few minutes)"
	@$(PYTHON) -m venv --clear .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --quiet --progress-bar off --disable-pip-version-check \
	  --constraint constraints/bench.txt --editable '.[bench]'
	@touch $@

.venv-anonymeter/.ready: constraints/anonymeter.txt
	@echo "Setting up .venv-anonymeter (once)"
	@$(PYTHON) -m venv --clear .venv-anonymeter
	@.venv-anonymeter/bin/python -m pip install --quiet --quiet --progress-bar off --disable-pip-version-check \
	  --constraint constraints/anonymeter.txt anonymeter
	@touch $@

docs: setup
	$(BIN)/python docs/build.py out/docs

notebooks: setup
	$(BIN)/python notebooks/build.py

build: setup
	$(BIN)/python -m build --outdir dist .

clean:
	rm -rf .venv .venv3?? .venvmin .venvwheel .venv-bench .venv-anonymeter .venv-audit $(VENV) out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
