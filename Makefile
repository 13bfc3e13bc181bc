# Targets for a fresh clone; `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
QUICK := tests/base tests/nn tests/freeze tests/config
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install train test test-quick test-slow test-lowest lint format docs results wheel release clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo '  Arguments of a command are passed on by ARGS, such as make train ARGS="model=gin".'

install: $(STAMP) ## Make .venv and install the package with its development tools

# torch first: the release that is pinned, whatever build of it the machine offers.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --editable ".[dev]" --constraint constraints.txt
	@touch $(STAMP)

train: $(STAMP) ## Train the default experiment, or another with ARGS="data=mutag model=gin"
	$(BIN)/unionsnn train $(ARGS)

test: $(STAMP) ## Run the tests; one of them with ARGS="tests/nn -k gate"
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

test-quick: $(STAMP) ## Run the tests of base, networks, configuration and frozen values alone
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(QUICK) $(ARGS)

test-slow: $(STAMP) ## Run the long tests, some of them on real data
	$(BIN)/python -m pytest -m slow $(ARGS)

# Into its own environment, whose torch may take gigabytes.
test-lowest: $(STAMP) ## Run the tests on the lowest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --extra dev pyproject.toml --output-file $(VENV)/lowest.txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest --requirement $(VENV)/lowest.txt
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest --no-deps --editable .
	$(VENV)-lowest/bin/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

lint: $(STAMP) ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Its notebooks call the command line.
docs: $(STAMP) ## Build the documentation site into docs/_build/html; warnings are errors
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m sphinx --fail-on-warning --keep-going --builder html docs docs/_build/html

results: $(STAMP) ## Write the result tables of the pages from the records; ARGS="--runs DIR" copies new ones first
	$(BIN)/python benchmarks/pages.py $(ARGS)

wheel: $(STAMP) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

# First the library without the command line, whose packages it must do without.
release: $(STAMP) ## Build wheel and sdist into dist/ and try both in an empty environment
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	for built in dist/*.whl dist/*.tar.gz; do \
	  rm -rf build/release && $(PYTHON) -m venv build/release \
	  && build/release/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)" \
	  && build/release/bin/python -m pip install --quiet "$$built" --constraint constraints.txt \
	  && (cd build && release/bin/python -c "from unionsnn import StructuralCoefficients, UnionPlugin, structural_coefficients") \
	  && build/release/bin/python -m pip install --quiet "$$built[bench]" --constraint constraints.txt \
	  && (cd build && release/bin/unionsnn train --dry-run > /dev/null) && echo "$$built works" || exit 1; \
	done
	rm -rf build/release

clean: ## Delete what the tools above left behind, but not .venv
	rm -rf build dist docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
