# Everything a fresh machine needs beyond Python >= 3.11, make and git is installed here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
CLIENTS := $(VENV)/.installed-clients
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SOURCES := src tests bench db docs proto

.PHONY: help setup up test check fmt docs proto chaos bench lock clean

help:  ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) $(CLIENTS)  ## Virtual environment with pinned, hashed requirements; leaves .venv/bin/penstock

$(RUN): requirements/run.txt requirements/build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Penstock needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing pinned requirements into $(VENV) (about a minute the first time) ..."
	@$(PIP) --no-deps --require-hashes -r requirements/run.txt -r requirements/build.txt  # complete lists
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $(RUN)

$(STAMP): $(RUN) requirements/dev.txt
	@echo "Installing the tools for development ..."
	@$(PIP) --no-deps --require-hashes -r requirements/dev.txt
	@touch $(STAMP)

$(CLIENTS): $(STAMP) tests/browser/package-lock.json tests/install.sh
	@if tests/install.sh; then touch $(CLIENTS); fi

up: $(RUN)  ## Run everything here: PostgreSQL, Redis, HTTP, gRPC, worker, executor, scheduler, bucket
	@$(BIN)/penstock up $(ARGS)

test: setup  ## Every test, against real PostgreSQL and Redis
	@$(BIN)/python -m compileall -q src  # once, for the hundreds of processes that tests start, sandboxes among them
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

check: setup  ## Format, lint, types, import contracts, generated docs, tests
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python docs/generate.py --check
	@$(MAKE) --no-print-directory test

fmt: setup  ## Format and mend what can be mended
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/ruff check --fix $(SOURCES)

docs: setup  ## Write the generated pages of docs/ anew
	@$(BIN)/python docs/generate.py

proto: setup  ## Write the generated code of proto/ anew
	@$(BIN)/python proto/generate.py

chaos: setup  ## The long soak: at least 200 kills; SEED=n repeats a run
	@$(BIN)/python -m tests.chaos.soak $(if $(SEED),--seed $(SEED)) $(ARGS)
	@$(BIN)/python -m tests.chaos.upload_soak $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.chaos.harvest_soak $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.chaos.harvest_histories $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.chaos.etl_soak $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.chaos.pdf_gate_fuzz --files 4000 $(if $(SEED),--seed $(SEED))

bench: setup  ## All benchmarks; NAME=relay for one
	@$(BIN)/penstock bench $(NAME) $(ARGS)

lock: setup  ## Pin requirements anew (needs uv on the PATH)
	@for g in run build dev; do uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --upgrade \
	  $$(test $$g = build || echo pyproject.toml) $$(test $$g = run || echo --group $$g) -o requirements/$$g.txt; done

clean:  ## Remove the virtual environment and caches; data in .penstock stays
	@rm -rf $(VENV) tests/browser/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
