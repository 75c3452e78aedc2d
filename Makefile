# Every target sets up what it needs: a fresh machine with Python >= 3.11 is enough.
PYTHON ?= python3
VENV ?= .venv
# What `make test-jax` tests with, on PYTHON: a version of JAX, or the newest that this Python can have.
JAX ?= 0.8.0
PYTHONS := 3.11 3.12 3.13 3.14
BIN := $(VENV)/bin
# So many tests at a time, except for the quiet ones; most of them wait for processes. More would leave some
# without a core for so long that they fail. 0: one after the other.
JOBS ?= 9
SIDE_BY_SIDE := -p tests.side_by_side --side-by-side
# What fails is run once more, and listed at the end.
ONCE_MORE := --reruns 1 --rerun-show-tracebacks -rR
# Python compiles what is imported; all the rest would take half a minute of CPU time.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# uv takes a quarter of the CPU time of pip. Where it cannot be had, or finds no packages, pip does the same.
QUICKLY = $(1)/bin/python $(INSTALL) uv && UV_HTTP_RETRIES=0 $(1)/bin/uv pip install --quiet --python $(1)/bin/python
# Of the quiet tests these need both cores of a small machine. The others run in pairs.
ALONE := tests/agent/test_black_box.py tests/features/probe/test_probe_live.py tests/live/test_collectives_live.py
# What is of no interest is not imported either.
OF_JAX = $(shell grep -L 'pytestmark = .*mark\.newest' $$(grep -rl --include='test_*.py' 'mark\.jax' tests))
QUIET = $(shell grep -rl --include='test_*.py' 'mark\.quiet' tests)
# What tests import where not all of [dev] is installed.
TOOLS := pytest pytest-rerunfailures pytest-timeout grpcio jsonschema perfetto prometheus-client types-psutil
WITH_JAX = $(VENV)-$(notdir $(PYTHON))-jax-$(JAX)
ITS_JAX = $(if $(filter newest,$(JAX)),--upgrade jax jaxlib,'jax==$(JAX)' 'jaxlib==$(JAX)')
BESIDE_IT = $(ITS_JAX) --editable '.[demo,tpu]' equinox flax $(TOOLS)
# pyenv has no `python3.12` unless that version is asked for.
EACH_PYTHON = $(if $(filter python3.%,$(PYTHON)),PYENV_VERSION=$(PYTHON:python%=%)) $(PYTHON)
# What depends on the version of Python: frames and hooks of the agent, snapshots, recordings, the app.
ON_EACH_PYTHON := tests/agent/test_bytes.py tests/agent/test_windows.py tests/live/test_first_steps_live.py tests/agent/test_thread_stacks.py tests/agent/test_activity.py \
	tests/agent/test_walk.py tests/wire/test_wire.py tests/recording/test_recordings*.py tests/recording/test_recording_schemas.py \
	tests/export/test_export_mcap.py tests/cli/test_cli.py tests/tui/test_looks.py
# Tests start a thousand processes: without compiled modules each of them would take a third of a second more.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check lint lint-nicely test-newest test-side-by-side test-pairs test-alone test-jax test-python test-beside-others test-lowest test-pythons test-node jax-names python always soak bench faults plans accelerators screenshots looks docs clean

demo: $(VENV)/.demo                  ## a real multi-process JAX run on this machine, with the app on it
	@echo "starting jaxtop demo"
	@$(BIN)/jaxtop demo

# Tests leave some of the time of the cores, and what checks the text takes it. Those that need both come last.
test:                                ## everything CI runs
	$(MAKE) --jobs 2 $(VENV)/.ready $(WITH_JAX)/.ready
	$(MAKE) --jobs 2 test-beside-others lint-nicely
	$(MAKE) test-alone

check: lint                          ## lint, types, layers, import cycles
	$(BIN)/python -m pytest -q tests/project/test_imports.py

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lint-nicely:
	nice -n 5 $(MAKE) lint

test-beside-others:
	$(MAKE) test-side-by-side
	$(MAKE) test-pairs
	$(MAKE) test-jax

test-newest: test-side-by-side test-pairs test-alone        ## on the newest JAX

test-side-by-side: $(VENV)/.ready
	$(BIN)/python -m pytest -m 'not quiet' $(SIDE_BY_SIDE) $(JOBS) --fillers 2 $(ONCE_MORE)

test-pairs: $(VENV)/.ready
	$(BIN)/python -m pytest -m 'quiet' $(SIDE_BY_SIDE) 2 $(filter-out $(ALONE),$(QUIET)) $(ONCE_MORE)

test-alone: $(VENV)/.ready
	$(BIN)/python -m pytest -m 'quiet' $(ALONE) $(ONCE_MORE)

test-jax: $(WITH_JAX)/.ready         ## what depends on the version of JAX, with JAX=… (else the oldest supported) on PYTHON=…
	$(WITH_JAX)/bin/python -m pytest -m 'jax and not newest' $(SIDE_BY_SIDE) $(JOBS) $(OF_JAX) $(ONCE_MORE)

soak: $(VENV)/.ready jax-names test-lowest test-pythons    ## the long repetitions of which CI runs a sample
	$(BIN)/python $(INSTALL) --editable '.[xprof,loaders,frameworks]' wandb mlflow-skinny sqlalchemy alembic trackio ray
	JAXTOP_SOAK=1 $(BIN)/python -m pytest -m 'jax or long or thorough' --timeout 3600

test-lowest: $(VENV)-lowest/.ready   ## every screen, recordings, the wire and the demo on the lowest versions allowed
	JAXTOP_LOWEST=1 $(VENV)-lowest/bin/python -m pytest $(SIDE_BY_SIDE) $(JOBS) \
		tests/project/test_bounds.py tests/tui/test_looks.py tests/tui/test_tui_sizes.py tests/tui/test_tui_plot.py tests/tui/test_places.py tests/recording/test_recording_writer.py \
		tests/recording/test_recordings*.py tests/wire/test_wire.py tests/wire/test_transport.py tests/export/test_export.py tests/agent/test_machine.py \
		tests/agent/test_hardware_*.py tests/cli/test_demo.py \
		tests/agent/test_black_box.py::test_a_killed_process_is_shown_as_it_was_less_than_two_seconds_before \
		tests/agent/test_black_box.py::test_a_run_says_that_it_records_and_when_it_cannot

jax-names: $(VENV)/.ready            ## every private name of JAX that the agent reads, in the wheels of each minor version (or JAX=…)
	$(BIN)/python -m tests.jaxnames $(if $(filter command line,$(origin JAX)),$(JAX))

test-python: $(WITH_JAX)/.ready      ## what depends on the version of Python, in the environment of test-jax
	$(WITH_JAX)/bin/python -m pytest $(SIDE_BY_SIDE) $(JOBS) $(ON_EACH_PYTHON)

test-pythons: $(VENV)/.ready         ## what depends on Python or JAX, on each Python that can be had here with its newest JAX
	@for each in $(addprefix PYTHON=python,$(PYTHONS)); do \
		if $(MAKE) --no-print-directory python JAX=newest $$each 2>/dev/null; then \
			$(MAKE) test-python test-jax JAX=newest $$each || exit; fi; done

test-node: $(VENV)/.ready            ## the public TypeScript reader of MCAP on files of ours
	npm install --silent --no-save --prefix build/node '@mcap/core@^2' 'fzstd@^0.1'
	NODE_PATH=build/node/node_modules $(BIN)/python -m pytest tests/recording/test_recordings_elsewhere.py

bench: $(VENV)/.ready                ## what jaxtop costs, as figures beside their controls
	$(BIN)/python -m tests.bench

faults: $(VENV)/.ready               ## which planted faults are found in real runs, and how soon
	$(BIN)/python -m tests.faults

plans: $(VENV)/.ready                ## what the planner predicts, beside what real runs on other meshes need
	$(BIN)/python -m tests.plans --quiet

accelerators: $(VENV)/.ready         ## what the readers make of profiles and compiled texts in DIR, beside XProf
	@test -n "$(DIR)" || { echo "name a folder: make accelerators DIR=…"; exit 2; }
	$(BIN)/python -m tests.accelerators $(DIR)

docs: $(VENV)/.ready                 ## the generated pages of docs/
	$(BIN)/python -m tests.pages

screenshots: $(VENV)/.ready          ## the pictures of README and docs, from recorded runs of the demo
	$(BIN)/python -m tests.screenshots $(ONLY)

looks: $(VENV)/.ready                ## build/looks/index.html: each screen, four sizes, 1 to 8,192 devices; BEFORE=rev beside
	$(BIN)/python -m tests.gallery $(if $(BEFORE),--before $(BEFORE)) $(if $(SCREENS),--screens $(SCREENS)) \
		$(if $(DEVICES),--devices $(DEVICES)) $(if $(SIZES),--sizes $(SIZES))

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jaxtop needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	@echo "making a Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# What the demo needs takes a tenth of the time of what the tests need.
$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@$(BIN)/python tests/install.py --editable '.[demo]'
	@touch $@

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	@$(call QUICKLY,$(VENV)) --editable '.[dev]' || $(BIN)/python tests/install.py --editable '.[dev]'
	@touch $@ $(VENV)/.demo

# Where this Python is not here, uv may find or fetch it.
python $(WITH_JAX)/bin/python:
	@test -x $(WITH_JAX)/bin/python || $(EACH_PYTHON) -m venv $(WITH_JAX) 2>/dev/null || \
		$(BIN)/uv venv --quiet --seed --clear --python $(PYTHON:python%=%) $(WITH_JAX) 2>/dev/null || \
		{ rm -rf $(WITH_JAX); echo "not tested on $(PYTHON), which cannot be had here"; exit 1; }

$(WITH_JAX)/.ready: pyproject.toml $(if $(filter newest,$(JAX)),always) | $(WITH_JAX)/bin/python
	@{ $(call QUICKLY,$(WITH_JAX)) $(BESIDE_IT) || $(WITH_JAX)/bin/python $(INSTALL) $(BESIDE_IT); } 2>$(WITH_JAX)/log || \
		{ echo "JAX $(JAX) cannot be had for $$($(WITH_JAX)/bin/python --version): $$(tail -n 1 $(WITH_JAX)/log)"; exit 1; }
	@touch $@

$(VENV)-lowest/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python $(INSTALL) uv
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct \
		--editable '.[demo,tpu]'
	$(VENV)-lowest/bin/python $(INSTALL) $(TOOLS)
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-python* build dist .mypy_cache .ruff_cache .pytest_cache
