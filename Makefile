# Everything needs only Python >= 3.11 and make: the virtual environment is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := runs/demo
SMOKE := $(CURDIR)/runs/smoke
export KROGH_CACHE ?= $(CURDIR)/.krogh_cache
# Compiling is most of what short tests do, so the compiler is asked for little; the slow tests run what users run.
QUICKLY = $(shell $(BIN)/python tests/quick_compiling.py)
# Sources of experiments, those with most of them first.
GROUPS = $(shell cd src/krogh/experiments && wc -l */*.py | sed -n 's:^ *\([0-9]*\) \([a-z]*\)/.*:\2 \1:p' \
  | awk '{lines[$$1] += $$2} END {for (group in lines) print lines[group], group}' | sort -rn | cut -d ' ' -f 2)

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
unit: setup
	XLA_FLAGS="$(QUICKLY)" KROGH_SMOKE=$(SMOKE) $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

test-slow: setup
	KROGH_SMOKE=$(wildcard $(SMOKE)) $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow -rs

# On a machine with an NVIDIA GPU: what no other machine can test.
test-gpu: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cuda]'
	$(BIN)/pytest tests/gpu -m 'not nothing'

# Every experiment at its smallest scale, a source at a time on each core; the unit tests read what is left there.
smoke: setup
	rm -rf $(SMOKE)
	export XLA_FLAGS="$(QUICKLY)"; \
	printf '%s/*\n' $(GROUPS) | xargs -P 2 -I {} $(BIN)/krogh run {} --scale smoke --out $(SMOKE)
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
	$(BIN)/python docs/verdicts.py

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/krogh bench --out docs/performance.md

clean:
	rm -rf $(VENV) runs .krogh_cache .pytest_cache .mypy_cache .ruff_cache
