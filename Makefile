PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CLASSES := $(VENV)/spark-classes.jsa

.PHONY: help setup demo test test-all test-airflow lint format docs bench bench-full chaos clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## install holdfast and the development dependencies into .venv, and Java
	@setup/install_java.sh

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than 3.11; run: make setup PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--editable ".[postgres,mysql,objects,server,spark,delta,iceberg,testing,tracing]" --group dev --group demo
	@touch $@

demo: setup ## a Spark pipeline over a year of flights, killed half-way
	@$(BIN)/python examples/flights/demo.py

$(CLASSES): $(READY) tests/support/ready_spark.py
	$(BIN)/python tests/support/ready_spark.py $@

test: setup $(CLASSES) ## every module and every guarantee, within 8 minutes
	@tests/install_databases.sh
	@tests/install_tools.sh
	$(BIN)/python -m pytest -n 5 --dist worksteal -m "not full"

test-all: test ## the same, then all databases, storages, kinds of Spark, chaos tests, benchmarks
	$(BIN)/python -m pytest -n 4 --dist worksteal -m full

test-airflow: setup ## Airflow's own client against our server
	@setup/install_airflow.sh
	$(BIN)/python -m pytest tests/airflow

chaos: setup $(CLASSES) ## the kill, concurrency and model tests at full count
	@tests/install_databases.sh
	$(BIN)/python -m pytest -n 2 --dist worksteal -m chaos --rounds 50

lint: setup ## style, types and layers
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## regenerate the reference pages from the code
	$(BIN)/python docs/generate.py

bench: setup ## measure side by side, within 15 minutes
	$(BIN)/python -m bench.store
	$(BIN)/python -m bench.server
	$(BIN)/python -m bench.runner
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.offload

bench-full: setup ## the same at the large sizes
	BENCH_SIZE=full $(BIN)/python -m bench.store
	BENCH_SIZE=full $(BIN)/python -m bench.server
	BENCH_SIZE=full $(BIN)/python -m bench.runner
	BENCH_SIZE=full $(BIN)/python -m bench.spark
	BENCH_SIZE=full $(BIN)/python -m bench.offload

clean: ## remove the environments and the files of runs
	rm -rf $(VENV) .venv-airflow .venv-sail .demo .holdfast .mypy_cache .pytest_cache .ruff_cache .hypothesis
