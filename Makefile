# Every target sets up what it needs: a fresh machine with Python >= 3.11 is enough.
PYTHON ?= python3
VENV ?= .venv
OLDEST_JAX := 0.8.0
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check test-newest test-oldest soak bench screenshots clean

demo: $(VENV)/.ready                 ## a real multi-process JAX run on this machine, with the app on it
	$(BIN)/jaxtop demo

test: check test-newest test-oldest  ## everything CI runs

check: $(VENV)/.ready                ## lint, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-newest: $(VENV)/.ready          ## those that start no JAX side by side, the others one after the other
	$(BIN)/python -m pytest -m 'not jax' --numprocesses 2
	$(BIN)/python -m pytest -m jax

test-oldest: $(VENV)-oldest/.ready   ## the JAX-facing tests again, on the oldest supported JAX
	$(VENV)-oldest/bin/python -m pytest -m jax

soak: $(VENV)/.ready                 ## the long repetitions of which CI runs a sample
	JAXTOP_SOAK=1 $(BIN)/python -m pytest -m jax --timeout 3600

bench: $(VENV)/.ready                ## what jaxtop costs, as figures beside their controls
	$(BIN)/python -m tests.bench

screenshots: $(VENV)/.ready
	$(BIN)/python -m tests.screenshots

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jaxtop needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)-oldest/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python $(INSTALL) --editable '.[dev]' 'jax==$(OLDEST_JAX)' 'jaxlib==$(OLDEST_JAX)'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest build dist .mypy_cache .ruff_cache .pytest_cache
