# Two commands on a fresh machine: `make run` opens the app, `make test` passes the tests.
PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
TRL_VENV ?= .venv-trl
VERL_VENV ?= .venv-verl
RAY_VENV ?= .venv-ray
OPENRLHF_VENV ?= .venv-openrlhf
TRACKERS_VENV ?= .venv-trackers
BIN := $(VENV)/bin
PORT ?= 7860

.PHONY: help run test test-slow test-vllm test-trl test-verl test-openrlhf test-ray test-trackers check format bench site screenshots clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: requirements.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet -e ".[serve]"
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -e ".[data,serve,gemini,learned,mcp,dev]"
	touch $@

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1: \2/p' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.run  ## open the app with the built-in judge
	$(BIN)/rh app --port $(PORT)

PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --durations=25

test: $(VENV)/.test  ## fast tests
	$(PYTEST) -n 3 -m "not slow and not browser"

# Simulations of evolution, processes that are killed, and a real browser; 15 to 30 minutes on two cores.
test-slow: $(VENV)/.test  ## simulations, killed processes, a real browser
	$(PYTEST) -n 2 -m "slow or browser"

# A real vLLM with a tiny random model, on the CPU; 2.2 GB, and some minutes the first time.
$(VLLM_VENV)/.installed: tests/tiny_vlm/install.sh
	PYTHON=$(PYTHON) tests/tiny_vlm/install.sh $(VLLM_VENV)
	touch $@

test-vllm: $(VENV)/.test $(VLLM_VENV)/.installed  ## against a real vLLM on the CPU
	RH_TEST_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python $(BIN)/python -m pytest -m vllm

# Real trainers of TRL on the CPU, and the editor of examples/train_editor at a tiny size (half a minute of CPU), with
# torch in an environment of their own.
$(TRL_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TRL_VENV)
	$(TRL_VENV)/bin/python -m pip install --quiet torch==2.13.0 "trl>=1.16,<2" "diffusers>=0.42,<1"
	$(TRL_VENV)/bin/python -m pip install --quiet -e ".[data,serve]"
	touch $@

test-trl: $(VENV)/.test $(TRL_VENV)/.installed  ## with real trainers of TRL
	RH_TEST_TRL_PYTHON=$(abspath $(TRL_VENV))/bin/python $(BIN)/python -m pytest -m trl

$(VERL_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VERL_VENV)
	$(VERL_VENV)/bin/python -m pip install --quiet torch==2.13.0 "verl>=0.9,<1"
	$(VERL_VENV)/bin/python -m pip install --quiet -e ".[serve]"
	touch $@

test-verl: $(VENV)/.test $(VERL_VENV)/.installed  ## with verl
	RH_TEST_VERL_PYTHON=$(abspath $(VERL_VENV))/bin/python $(BIN)/python -m pytest -m verl

# The module of OpenRLHF that loads reward functions, without the GPU libraries that the rest of it needs.
$(OPENRLHF_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(OPENRLHF_VENV)
	$(OPENRLHF_VENV)/bin/python -m pip install --quiet --no-deps "openrlhf>=0.11,<0.12"
	$(OPENRLHF_VENV)/bin/python -m pip install --quiet aiohttp -e ".[serve]"
	touch $@

test-openrlhf: $(VENV)/.test $(OPENRLHF_VENV)/.installed  ## with OpenRLHF
	RH_TEST_OPENRLHF_PYTHON=$(abspath $(OPENRLHF_VENV))/bin/python $(BIN)/python -m pytest -m openrlhf

# A real Ray, on this machine.
$(RAY_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/python -m pip install --quiet -e ".[data,serve,ray]"
	touch $@

test-ray: $(VENV)/.test $(RAY_VENV)/.installed  ## with a real Ray
	RH_TEST_RAY_PYTHON=$(abspath $(RAY_VENV))/bin/python $(BIN)/python -m pytest -m ray

# Real trackers of experiments and OpenTelemetry, which bring servers of their own.
$(TRACKERS_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TRACKERS_VENV)
	$(TRACKERS_VENV)/bin/python -m pip install --quiet -e ".[track,wandb,tensorboard,otel]" tensorboard
	touch $@

test-trackers: $(VENV)/.test $(TRACKERS_VENV)/.installed  ## with real trackers and OpenTelemetry
	RH_TEST_TRACKERS_PYTHON=$(abspath $(TRACKERS_VENV))/bin/python $(BIN)/python -m pytest -m trackers

# The documentation as a site in build/site/site, with the command line and the Python API, and with every link checked.
site: $(VENV)/.run  ## the documentation as a site
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	rm -rf build/site
	mkdir -p build/site
	cp -r docs build/site
	mv build/site/docs/zensical.toml build/site
	rm build/site/docs/*.py
	$(BIN)/python docs/make_reference.py build/site/docs/reference
	cd build/site && $(abspath $(BIN))/zensical build --strict

# The pictures of the README, from the real app.
screenshots: $(VENV)/.test  ## pictures of the README
	$(BIN)/python docs/make_screenshots.py

check: $(VENV)/.test  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test  ## all benchmarks
	for script in benchmarks/[!_]*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove environments and caches
	rm -rf $(VENV) $(VLLM_VENV) $(TRL_VENV) $(VERL_VENV) $(OPENRLHF_VENV) $(RAY_VENV) $(TRACKERS_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
