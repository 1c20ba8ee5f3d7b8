#!/bin/sh
# Java for Spark: the one that is there, or one from the system's packages where that can be done
# without a question. Where it cannot, this says how, and all that does not need Spark works on.
OLDEST=17

java_version() {
    "$1" -version 2>&1 | sed -n -E 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

has_java() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    command -v "$java" >/dev/null 2>&1 && [ "$(java_version "$java")" -ge "$OLDEST" ] 2>/dev/null
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_java() {
    if command -v apt-get >/dev/null 2>&1; then
        export DEBIAN_FRONTEND=noninteractive
        as_root apt-get update -qq
        for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
            as_root apt-get install -y -qq --no-install-recommends "$package" && return
        done
    elif command -v dnf >/dev/null 2>&1; then
        for package in java-17-openjdk-headless java-21-openjdk-headless; do
            as_root dnf install -y -q "$package" && return
        done
    elif command -v brew >/dev/null 2>&1; then
        brew install --quiet openjdk@17
    fi
}

has_java && exit 0
echo "installing Java $OLDEST for Spark" >&2
install_java >/dev/null 2>&1
if ! has_java; then
    echo "Java $OLDEST or later is missing, and could not be installed: Spark tasks will not run" >&2
    echo "hint: install it, for example with: sudo apt-get install openjdk-17-jre-headless" >&2
    echo "      (or brew install openjdk@17), and set JAVA_HOME where it is not on the PATH" >&2
fi
exit 0
