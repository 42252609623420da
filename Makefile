# `make run` and `make test` are all a fresh machine with Python 3.11 and make needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORPUS ?= data/sample/corpus/handbook_en.parquet
SOAK_KILLS ?= 20

export DO_NOT_TRACK = 1
export PREFECT_SERVER_ANALYTICS_ENABLED = false

.PHONY: run test lint bench quality soak clean help

run: $(READY)  ## the nightly job on data/sample into data/warehouse
	@$(BIN)/nightfold run

test: $(READY)  ## all tests
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(READY)  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(READY)  ## speed and memory a stage, beside what one would pick instead: make bench CORPUS=rows.parquet
	@$(BIN)/python -m benchmarks.exact $(CORPUS) $(BENCH_OPTIONS)
	@$(BIN)/python -m benchmarks.near $(CORPUS) $(NEAR_OPTIONS)
	@$(BIN)/python -m benchmarks.review $(REVIEW_OPTIONS)

quality: $(READY)  ## how well the judge judges on labelled data: make quality EVAL=folder
	@$(BIN)/python -m benchmarks.quality $(EVAL) $(QUALITY_OPTIONS)

soak: $(READY)  ## kills a real run at random moments: make soak SOAK_KILLS=20
	@SOAK_KILLS=$(SOAK_KILLS) $(BIN)/python -m pytest -m soak -s tests/flows/test_kill.py tests/flows/test_review_kill.py --timeout 3600

clean:  ## removes what was built and the sample's warehouse
	@rm -rf $(VENV) data/warehouse build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Nightfold needs Python 3.11; found: $$($(PYTHON) --version 2>&1). Set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "setting up $(VENV) (once; two to five minutes)"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages of constraints.txt"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade -c constraints.txt pip setuptools
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	@touch $@
	@echo "ready"
