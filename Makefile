# Everything that is run on a checkout. `make` alone lists it.
#
# Needed on the machine: Python 3.11 or later with venv, Java 17 or later, make, bash. The rest is
# fetched: uv and the virtual environment into this directory, Go and the Java archives into the
# cache, and Debian packages for the embedded cluster (as root). Nothing is fetched twice.
# Progress goes to standard error; with `make -s` only a command's own output is shown.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
NAME ?= keyed_count
ARGS ?=

BIN := .venv/bin
UV := .tools/uv/bin/uv
PYTEST := $(BIN)/python -m pytest
export UV_PYTHON_DOWNLOADS := never

SILENT := $(findstring s,$(firstword -$(MAKEFLAGS)))
QUIET := $(if $(or $(SILENT),$(CI)),--quiet)
say = @$(if $(SILENT),:,echo "==> $(1)" >&2)

INITDB = $(firstword $(wildcard /usr/lib/postgresql/*/bin/initdb) $(shell command -v initdb))
CREATE_CLUSTER := /etc/postgresql-common/createcluster.conf

.PHONY: help setup java postgres check lint format types layers generated generate unit test test-jobs prepare \
        bench demo cluster-up cluster-down lock clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- environment

setup: .venv/.synced ## Install uv and the virtual environment; instant when nothing changed.

.tools/.uv-installed: requirements/uv.txt
	@[ -n "$(PYTHON)" ] && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed: install it, or name it with PYTHON=" >&2; exit 1; }
	$(call say,Installing uv into .tools/uv)
	@"$(PYTHON)" -m venv .tools/uv >&2
	@.tools/uv/bin/pip install --quiet --require-hashes --requirement requirements/uv.txt >&2
	@touch $@

.venv/.synced: .tools/.uv-installed requirements/dev.txt pyproject.toml
	$(call say,Installing the locked dependencies into .venv (the first time about 450 MB to fetch))
	@[ -x $(BIN)/python ] || $(UV) venv --quiet --python "$(PYTHON)" .venv
	@$(UV) pip sync $(QUIET) --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(UV) pip install $(QUIET) --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

java:
	@version="$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
	    | sed -nE 's/.* version "([0-9]+).*/\1/p' || true)"; \
	  [ "$${version:-0}" -ge 17 ] || { echo "Java 17 or later is needed (found: $${version:-none}):" \
	    "install it (on Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 1; }

postgres: ## PostgreSQL's programs for the tests of the JDBC sink, from Debian's package (as root).
	@[ -n "$(INITDB)" ] || { echo "==> Installing PostgreSQL's programs" >&2; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  mkdir -p "$(dir $(CREATE_CLUSTER))"; \
	  [ -e $(CREATE_CLUSTER) ] || echo 'create_main_cluster = false' >$(CREATE_CLUSTER); \
	  install=(apt-get -o DPkg::Lock::Timeout=300 -qq install --yes --no-install-recommends postgresql); \
	  "$${install[@]}" >&2 || { apt-get -qq update && "$${install[@]}" >&2; } }

lock: .tools/.uv-installed ## Resolve requirements/*.txt from pyproject.toml; UPGRADE=1 takes newer versions.
	$(call say,Resolving the locks)
	@requirements/lock $(if $(UPGRADE),--upgrade)

# ---- checks

check: lint types layers generated unit ## Everything that needs no cluster and no Spark.

lint: setup ## Formatting and lint rules.
	$(call say,ruff)
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/ruff check

format: setup ## Format and fix what can be fixed.
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

types: setup ## Static types, strict.
	$(call say,mypy)
	@$(BIN)/mypy

layers: setup ## Who may import whom.
	$(call say,import-linter)
	@$(BIN)/lint-imports --no-logo $(if $(VERBOSE),--verbose)

generated: setup ## Fail when generated files differ from their sources.
	$(call say,Generated files: crds/ and docs/configuration.md)
	@$(BIN)/python -m headrace.api.crd --check
	@$(BIN)/python -m headrace.config.reference | diff -u docs/configuration.md - \
	  || { echo "docs/configuration.md differs from the options: run 'make generate'" >&2; exit 1; }

generate: setup ## Write the generated files.
	@$(BIN)/python -m headrace.api.crd
	@$(BIN)/python -m headrace.config.reference > docs/configuration.md

# ---- tests

CLASSES := .venv/spark-classes.jsa
UNIT := not integration and not kill and not e2e and not slow

unit: setup ## Unit and property tests; ARGS="-k name" goes to pytest.
	@$(PYTEST) -n 2 -m "$(UNIT)" $(ARGS)

# Cheapest first, and all of them, whatever fails. What waits for real time runs two files at a time;
# where clusters live, a run has the machine to itself.
test: setup java postgres $(CLASSES) prepare ## All tests, with Spark, Kafka, kills and a real Kubernetes (root, Linux).
ifdef ARGS
	@$(PYTEST) $(ARGS)
else
	@failed=0; \
	$(PYTEST) -n 2 -m "$(UNIT)" || failed=1; \
	$(PYTEST) -n 2 --dist loadfile -m "(integration or slow or kill) and not e2e" || failed=1; \
	$(PYTEST) -m e2e || failed=1; \
	exit $$failed
endif

test-jobs: setup java prepare ## Jobs on the embedded cluster: changes by kubectl apply, bad input.
	@$(PYTEST) e2e/e2e_tests/jobs $(ARGS)

# JVMs of tests map Spark's classes from one file (see conftest.py) instead of reading them from jars.
$(CLASSES): .venv/.synced e2e/devcluster/images/runtime-deps/archive_classes.py | java
	$(call say,Archive of Spark's classes (the first time about half a minute))
	@log="$$(mktemp)"; $(BIN)/python $(word 2,$^) $@ >"$$log" 2>&1 || { cat "$$log" >&2; exit 1; }; rm "$$log"

prepare: setup
	$(call say,Programs and images of the embedded cluster (the first time about 15 minutes))
	@$(BIN)/headrace cluster build

# ---- running

demo: setup java ## Run the demo; ARGS="--check --json" without a terminal, ARGS=--help for more.
	@$(BIN)/headrace demo $(ARGS)

bench: setup java ## Run bench/NAME.py on a quiet machine; prints one JSON line last.
	@$(BIN)/python bench/$(NAME).py $(ARGS)

cluster-up: setup ## Start an embedded Kubernetes and print its kubeconfig (root, Linux).
	@$(BIN)/headrace cluster up $(ARGS)

cluster-down: setup ## Remove it with all that belongs to it.
	@$(BIN)/headrace cluster down $(ARGS)

clean: ## Remove what this file and the tools made in this directory; caches elsewhere stay.
	@rm -rf .venv .tools .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis \
	  build dist artifacts spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -prune -exec rm -rf {} +
