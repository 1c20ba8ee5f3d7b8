"""Demo of the flights pipeline: an undisturbed run and one that is killed twice have equal results.

    make demo

All its files are under `.demo`, which is replaced each time. The exit status is 0 only if every
statement that it prints was verified.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Final

from fingerprint import fingerprint
from landing import land, unpack
from plot import draw
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Column, Table
from workplace import Day, Workplace

from holdfast.errors import HoldfastError
from holdfast.spark.session.check import check_java, check_packages
from server import spark_server, spark_session

FLIGHTS: Final = 336_776
"""The number of flights in the year."""
KILLED: Final = 1
"""The map index of `ingest` whose process is killed: February."""
NEXT: Final = """\
export HOLDFAST__CORE__HOME=.demo/killed PATH=.venv/bin:$PATH

holdfast tasks list flights first                       # the tasks of the run that was killed
holdfast tasks logs flights first ingest --map-index 1  # the log of February's last attempt
holdfast state-store list --asset flights_raw           # the ingested days, by month

# To clean December again, rewind the watermark and clear the task:
holdfast state-store rewind --asset flights_clean watermark --before-run second
holdfast tasks clear flights second clean --yes
holdfast run examples/flights/pipeline.py --run-id second
"""

console = Console(highlight=False, soft_wrap=True)
say = console.print


def main() -> None:
    began = time.monotonic()
    for name in [name for name in os.environ if name.startswith("HOLDFAST__")]:
        del os.environ[name]
    check_packages()
    check_java()
    root = Path(".demo").absolute()
    shutil.rmtree(root, ignore_errors=True)
    with spark_server(root / "spark") as remote, spark_session(remote) as spark:
        show(spark, remote, root)
    heading("What to try next")
    say(NEXT, markup=False)
    say(f"All of it held, in {time.monotonic() - began:.0f} s.", style="bold green")


def show(spark: SparkSession, remote: str, root: Path) -> None:
    heading("1. Eleven months of flights land")
    landing, file = root / "landing", unpack(root)
    landed = land(spark, file, landing, "date < '2013-12-01'")
    say(f"{landed:,} flights of {days_in(landing)} days, as CSV files in {shown(landing)}")

    live = sys.stderr.isatty()
    with (
        Workplace(root / "undisturbed", landing, remote, quiet=not live) as left_alone,
        Workplace(root / "killed", landing, remote) as killed,
    ):
        heading("2. The pipeline runs, and nobody disturbs it")
        left_alone.run("first")
        if live:
            say()
        say(steps(left_alone, "first"))

        heading("3. The pipeline runs in another place, and is killed with SIGKILL, twice")
        kill_twice(killed, "first")

        heading("4. Both have come to the same")
        compare(spark, left_alone, killed)

        heading("5. December lands, and the pipeline runs again")
        landed = land(spark, file, landing, "date >= '2013-12-01'")
        killed.run("second")
        say()
        say(steps(killed, "second"))
        check_that_only_new_was_read(spark, killed, landed, days_in(landing))

        heading("6. The watermark moved with the data, once in each run")
        command = ("state-store", "history", "--asset", "flights_clean", "watermark")
        say(f"$ holdfast {' '.join(command)}", style="dim")
        header, *lines = killed.show(*command).splitlines()
        versions = table(*header.split("\t"))
        for line in lines:
            versions.add_row(*line.split("\t"))
        say(versions)

        heading("7. A year of delays")
        picture = root / "delays.png"
        draw(spark, killed.warehouse / "delays", picture)
        say(shown(picture))


def kill_twice(place: Workplace, run_id: str) -> None:
    """Kill a task half-way, then the whole run half-way, and resume it."""

    def of_killed() -> int:
        return sum(day.map_index == KILLED for day in place.days(run_id))

    place.begin(run_id)
    place.wait_until(lambda: of_killed() >= 10)
    worker = place.attempts(run_id, KILLED)[-1].worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    first = place.days(run_id)
    recorded = of_killed()
    place.wait_until(lambda: len(place.days(run_id)) >= 170)
    pid = place.kill()
    second = place.days(run_id)

    console.show_cursor()  # hidden by the live view
    say(
        f"\n\nKilled: process {worker.pid}, ingest[{KILLED}], with {recorded} days recorded."
        f"\nKilled: process {pid}, `holdfast run`, with {len(second)} of 334 days recorded."
        "\nIt goes on:\n",
    )
    say(f"$ holdfast run examples/flights/pipeline.py --run-id {run_id}", style="dim")
    place.go_on(run_id)
    place.finish()

    days, before = place.days(run_id), {*first, *second}
    say()
    say(resumed(place, run_id, days))
    hold(len(days) == 334, "all 334 days are in")
    hold(before <= {*days}, f"none of the {len(before)} days recorded before a kill was done again")


def resumed(place: Workplace, run_id: str, days: list[Day]) -> Table:
    """Return a table of the months with several attempts, and the days of each attempt."""
    months = table("month", "attempt", number("days"), "ended by")
    for index in sorted({day.map_index for day in days}):
        attempts = place.attempts(run_id, index)
        of_month = [day for day in days if day.map_index == index]
        for one in attempts if len(attempts) > 1 else ():
            months.add_row(
                of_month[0].day[:7] if one.number == 1 else "",
                str(one.number),
                str(sum(day.attempt == one.number for day in of_month)),
                "SIGKILL" if one.signal == signal.SIGKILL else str(one.outcome),
            )
    return months


def steps(place: Workplace, run_id: str) -> Table:
    """Return a table of the days and rows that each step of a run has read."""
    days = place.days(run_id)
    done = table("step", "days", number("rows"))
    until = f"{days[0].day} to {days[-1].day}" if days else "none"
    done.add_row("ingest", until, f"{sum(day.rows for day in days):,}")
    for step in ("clean", "aggregate"):
        loaded = place.result(run_id, step)
        newer = f"after {loaded['since']}" if loaded["since"] else "all"
        done.add_row(step, newer, f"{loaded['rows']:,}")
    return done


def compare(spark: SparkSession, left_alone: Workplace, killed: Workplace) -> None:
    checksums = table("table", number("rows"), number("days"), "undisturbed", "killed")
    same = True
    for name in ("raw", "clean", "delays"):
        one = fingerprint(spark, left_alone.warehouse / name)
        other = fingerprint(spark, killed.warehouse / name)
        same = same and one == other
        shortened = one.checksum[:16], other.checksum[:16]
        checksums.add_row(name, f"{one.rows:,}", str(one.days), *shortened)
    say(checksums)
    hold(same, "the same rows, by the checksum of the sorted content of each table")


def check_that_only_new_was_read(
    spark: SparkSession, place: Workplace, landed: int, days_landed: int
) -> None:
    days = place.days("second")
    clean, aggregate = place.result("second", "clean"), place.result("second", "aggregate")
    total = spark.read.parquet(str(place.warehouse / "raw")).count()
    kept = spark.read.parquet(str(place.warehouse / "clean")).where("date >= '2013-12-01'").count()
    hold(total == FLIGHTS, f"all {FLIGHTS:,} flights of the year are in")
    hold(
        sum(day.rows for day in days) == clean["rows"] == landed and aggregate["rows"] == kept,
        f"only December was read: {len(days)} of {days_landed} days, {landed:,} of {total:,} rows",
    )


def table(*columns: str | Column) -> Table:
    return Table(*columns, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")


def number(name: str) -> Column:
    return Column(name, justify="right")


def heading(text: str) -> None:
    say(f"\n{text}\n", style="bold")


def hold(claim: bool, text: str) -> None:
    """Print a verified statement, or exit with an error if it does not hold."""
    if not claim:
        raise SystemExit(f"error: this does not hold: {text}")
    say(f"[bold green]✓[/] {text}")


def days_in(landing: Path) -> int:
    return sum(1 for _ in landing.glob("date=*"))


def shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()))


if __name__ == "__main__":
    try:
        main()
    except HoldfastError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")
    except KeyboardInterrupt:
        sys.exit(130)
