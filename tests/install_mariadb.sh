#!/bin/sh
# MariaDB for the tests, from the system's packages, where that can be done without a question.
# Where it cannot, the tests that need it say so and are skipped.
command -v mariadbd >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing mariadb-server for the tests" >&2
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends mariadb-server; } \
        >/dev/null 2>&1 || echo "mariadb-server could not be installed" >&2
else
    echo "hint: install mariadb-server to run the MariaDB tests too" >&2
fi
exit 0
