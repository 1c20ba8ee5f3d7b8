#!/bin/sh
# MariaDB and PostgreSQL's JDBC driver for the tests, from the system's packages, where that can be
# done without a question. Where it cannot, the tests that need them say so and are skipped.
command -v mariadbd >/dev/null 2>&1 && [ -e /usr/share/java/postgresql.jar ] && exit 0
packages="mariadb-server libpostgresql-jdbc-java"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing $packages for the tests" >&2
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } \
        >/dev/null 2>&1 || echo "$packages could not be installed" >&2
else
    echo "hint: install $packages to run the tests that need them too" >&2
fi
exit 0
