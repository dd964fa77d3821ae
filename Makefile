PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-slow lint types imports bench docs clean clients

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)

# Agent frameworks whose programs the tests run against the gateway; apart, so that their pins are not ours.
CLIENTS := .venv-clients
clients: $(CLIENTS)/.installed

$(CLIENTS)/.installed: tests/acceptance/clients/requirements.txt
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

demo: setup
	$(BIN)/prx demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: setup
	$(BIN)/python -m pytest -m slow -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[bench]'
	$(BIN)/python bench/table.py

docs: setup
	$(BIN)/python docs/build.py
	$(BIN)/python tests/statistics/table.py
	$(BIN)/python tests/statistics/reliability.py

clean:
	rm -rf $(VENV) $(CLIENTS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
