"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from servers import Server, ServerDatabase, SqliteDatabase, mariadb_server, postgres_server

# Hundreds of processes are started here: each would compile all its imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Files of the tests are in memory if there is room: databases wait for a disk at each
# commit, and no test cuts the power.
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

# Each JVM lives for seconds: careful compilation and verification take longer than they save. A
# JVM that cannot use the archive, which `make test` writes, silently runs without it.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    f"-XX:SharedArchiveFile={Path(sys.prefix, 'spark-classes.jsa')} -Xlog:disable",
)

# A background process ignores Ctrl-C, and one of nohup its terminal's end: so would the runs that
# tests send these signals to.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Spark's Python is the one that runs the tests, on this machine only.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

ROOT = Path(__file__).parent

settings.register_profile("holdfast", derandomize=True, database=None, deadline=None)
settings.load_profile("holdfast")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        type=int,
        default=1,
        metavar="N",
        help="kill, race and try random commands more often, the more the larger N is",
    )


QUICK, FULL = pytest.StashKey[set[str]](), pytest.StashKey[set[str]]()
"""Names of the collected tests that `make test` runs, and that only `make test-all` runs."""
LONG = ("chaos", "examples", "runner", "spark")
"""Directories whose tests take seconds: of the cases of a test, `make test` runs one."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Mark tests that belong to `make test-all`, and deal the selected ones to the workers.

    The conformance suite is shipped without our markers, so they are put on its tests here.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.name.startswith("test_random_commands"):
            item.add_marker("chaos")
            if item.path.parent.name != "sql":
                item.add_marker("full")
        if is_long(item):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        elif is_on_mariadb(item) or is_second_colour(item):
            item.add_marker("full")
    for alternatives in cases.values():
        chosen = min(alternatives, key=preference)
        for item in alternatives:
            if item is not chosen:
                item.add_marker("full")
    for item in items:
        tier = FULL if item.get_closest_marker("full") else QUICK
        config.stash.setdefault(tier, set()).add(item.name.partition("[")[0])
    yield
    items[:] = dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))


def dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in an order of which each worker at first gets an equal part.

    Long tests begin every part, so that no worker ends with one. Those with a Spark in their own
    process are in one part, and those with a Spark server in another, as each worker that runs such
    tests starts a Spark.
    """
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    modules = sorted({item.path for item in items if is_long(item) and not on_spark(item)})
    for item in items:
        if on_spark(item):
            parts[0 if uses_own_spark(item) else 1 % workers].append(item)
        elif is_long(item):
            parts[(2 + modules.index(item.path) % max(workers - 2, 1)) % workers].append(item)
    short = [item for item in items if not is_long(item)]
    for number, part in enumerate(parts):
        end = len(items) * (number + 1) // workers - len(items) * number // workers - len(part)
        part += short[: max(end, 0)]
        del short[: max(end, 0)]
    return [*itertools.chain(*parts), *short]


def is_long(item: pytest.Item) -> bool:
    return item.path.relative_to(ROOT).parts[0] in LONG


def on_spark(item: pytest.Item) -> bool:
    return item.path.relative_to(ROOT).parts[0] == "spark"


def uses_own_spark(item: pytest.Item) -> bool:
    return "local_spark" in getattr(item, "fixturenames", ()) or "local" in item.name


def is_on_mariadb(item: pytest.Item) -> bool:
    return "mariadb" in getattr(item, "fixturenames", ()) or "mariadb" in item.name


def is_second_colour(item: pytest.Item) -> bool:
    """Return whether a test of a suite runs async what is also run sync, on a store of which other
    async commands are tested, or whose async calls are sync ones in a thread."""
    name = item.parent.name if item.parent is not None else ""
    return "async" in item.name and name in ("TestPostgresRuns", "TestBackendWithOptionalMethods")


def preference(item: pytest.Item) -> bool:
    """Order the cases of a test: through Spark Connect first, as tasks of a runner use Spark."""
    return "connect" not in item.name


def pytest_runtest_call(item: pytest.Item) -> None:
    """Restore the format of `caplog`: Spark's loggers, once they exist, change it to JSON."""
    plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    plugin.caplog_handler.setFormatter(plugin.formatter)
    plugin.report_handler.setFormatter(plugin.formatter)


def pytest_collection_finish() -> None:
    """Freeze the garbage collector: thousands of tests are in memory until the end."""
    gc.freeze()


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> int:
    return int(pytestconfig.getoption("--rounds"))


@pytest.fixture(scope="session")
def only_in_full(pytestconfig: pytest.Config) -> set[str]:
    """The names of the collected tests that `make test` leaves out."""
    return pytestconfig.stash.get(FULL, set()) - pytestconfig.stash.get(QUICK, set())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Yield a PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """Yield a MariaDB server."""
    with mariadb_server() as server:
        yield server


@pytest.fixture(scope="module")
def sqlite_database(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabase:
    return SqliteDatabase(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="module")
def postgres_database(postgres: Server) -> Iterator[ServerDatabase]:
    database = ServerDatabase(postgres)
    yield database
    database.close()


@pytest.fixture(scope="module")
def mariadb_database(mariadb: Server) -> Iterator[ServerDatabase]:
    database = ServerDatabase(mariadb)
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a migrated database without rows, once for each kind of database."""
    database: SqliteDatabase | ServerDatabase
    database = request.getfixturevalue(f"{request.param}_database")
    return database.empty()
