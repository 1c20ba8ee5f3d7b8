#!/bin/sh
# Airflow in an environment of its own, .venv-airflow, for the tests and benchmarks beside it.
# It is made anew when the requirements change.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-airflow
requirements=setup/airflow-requirements.txt

cmp -s $requirements $venv/installed.txt && exit 0
echo "installing Airflow into $venv" >&2
.venv/bin/python -m venv --clear $venv
$venv/bin/python -m pip install -qq --requirement $requirements
cp $requirements $venv/installed.txt
