PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-slow lint types imports bench docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)

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

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
