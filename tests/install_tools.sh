#!/bin/sh
# promtool and kubectl for the tests of deploy/, taken out of the system's packages: the packages
# themselves would start services. Where that cannot be done, the tests that need them say so and are
# skipped.
bin=$(dirname "$0")/../.venv/bin
[ -x "$bin/promtool" ] && [ -x "$bin/kubectl" ] && exit 0
hint() { echo "hint: put promtool and kubectl on the PATH to run the tests of deploy/ too" >&2; }
command -v promtool >/dev/null 2>&1 && command -v kubectl >/dev/null 2>&1 && exit 0
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || { hint; exit 0; }
bin=$(cd "$bin" && pwd) || exit 0
directory=$(mktemp -d) || exit 0
trap 'rm -rf "$directory"' EXIT
echo "unpacking promtool and kubectl for the tests" >&2
cd "$directory" || exit 0
[ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null 2>&1
for package in prometheus kubernetes-client; do
    apt-get download -qq "$package" >/dev/null 2>&1 && dpkg-deb -x "$package"_*.deb unpacked
done
for tool in promtool kubectl; do
    cp "unpacked/usr/bin/$tool" "$bin/$tool" 2>/dev/null || hint
done
exit 0
