#!/bin/sh
# Sail in an environment of its own, .venv-sail: a Spark Connect engine that is not Spark, by which
# tests read lake tables. Its client is older than ours. It is made anew when the requirements change.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-sail
requirements=setup/sail-requirements.txt

# Several processes of a test run may ask for it.
exec 9> "${TMPDIR:-/tmp}/install-sail-$(id -u).lock"
flock 9
cmp -s $requirements $venv/installed.txt && exit 0
echo "installing Sail into $venv" >&2
.venv/bin/python -m venv --clear $venv
$venv/bin/python -m pip install -qq --requirement $requirements
cp $requirements $venv/installed.txt
