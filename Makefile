# Everything needs only Python >= 3.11 and make: the virtual environment is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := runs/demo
SMOKE := $(CURDIR)/runs/smoke
export KROGH_CACHE ?= $(CURDIR)/.krogh_cache
# Compiling is most of what short tests do, so the compiler is asked for little; the slow tests run what users run.
QUICKLY := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true

.PHONY: demo test test-slow test-gpu lint types imports unit smoke examples docs bench setup browser clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "krogh needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: setup  ## the hierarchy transformer < recurrent < feedforward at laptop scale, then the report page
	$(BIN)/krogh run qstr/sample-complexity --scale laptop --out $(RUNS)
	$(BIN)/krogh report $(RUNS)
	@echo "open $(RUNS)/index.html"

test: lint imports
	$(MAKE) --no-print-directory -j 2 types examples  # one core each
	$(MAKE) --no-print-directory smoke
	$(MAKE) --no-print-directory unit

lint: setup
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/ruff format --check src tests benchmarks examples docs

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

# A file's tests share their fixtures and programs, so they go to one worker; all share compiled programs on disk.
unit: export XLA_FLAGS = $(QUICKLY)
unit: setup
	KROGH_SMOKE=$(SMOKE) $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

test-slow: setup
	KROGH_SMOKE=$(wildcard $(SMOKE)) $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow

# On a machine with an NVIDIA GPU: what no other machine can test.
test-gpu: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cuda]'
	$(BIN)/pytest tests/gpu -m 'not nothing'

# Every experiment at its smallest scale, one half of them on each core; the unit tests read what is left there.
smoke: export XLA_FLAGS = $(QUICKLY)
smoke: setup
	rm -rf $(SMOKE)
	$(BIN)/krogh run '[a-e]*' --scale smoke --out $(SMOKE) & first=$$!; \
	$(BIN)/krogh run '[!a-e]*' --scale smoke --out $(SMOKE) && wait $$first
	$(BIN)/krogh report $(SMOKE)

# The tests of the replay page need a browser; without one they are skipped, and say so.
browser:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then \
	  echo "a browser is here"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null && echo "chromium installed"; \
	else \
	  echo "no browser, and none can be installed here (Debian: apt-get install chromium as root)"; exit 1; \
	fi

examples: setup
	for example in examples/*.py; do echo $$example; $(BIN)/python $$example || exit 1; done

# What of the documentation is made from the source and from examples; tests say when it is out of date.
docs: setup
	$(BIN)/python docs/include.py
	$(BIN)/python docs/imports.py

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/krogh bench --out docs/performance.md

clean:
	rm -rf $(VENV) runs .krogh_cache .pytest_cache .mypy_cache .ruff_cache
