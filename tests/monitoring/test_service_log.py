"""Log of a service: one format for every line, whatever writes it."""

from __future__ import annotations

import re
import subprocess
import sys
from textwrap import dedent, indent

import msgspec

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ [\w.]+: ")


def logged(code: str, **settings: str) -> tuple[int, list[str]]:
    """Run code that logs; return its exit status and its lines."""
    program = f"""\
import logging, threading, warnings
from holdfast.errors import NotFound
from holdfast.monitoring.service_log import fields, logging_to_stderr
from holdfast.settings import Logging
log = logging.getLogger("holdfast.scheduler")
with logging_to_stderr(Logging(**{settings!r})):
{indent(dedent(code), "    ")}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.splitlines()


def test_every_line_has_a_time_a_level_and_a_logger() -> None:
    status, lines = logged(
        """
    log.info("two\\nlines")
    warnings.warn("old")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    try:
        raise RuntimeError("wrong")
    except RuntimeError:
        log.exception("failed")
    """
    )

    assert status == 0
    assert all(map(LINE.match, lines)), lines
    text = [LINE.sub("", line) for line in lines]
    assert text[:2] == ["two", "lines"]
    assert {"ZeroDivisionError: division by zero", "RuntimeError: wrong"} <= set(text)
    assert any("UserWarning: old" in line for line in text)


def test_json_is_one_object_per_line_with_the_facts_as_fields() -> None:
    _, lines = logged(
        """
    log.info("run %s ended\\n", "r1", extra=fields(dag_id="etl", seconds=1.5))
    try:
        raise RuntimeError("wrong")
    except RuntimeError:
        log.exception("failed")
    """,
        format="json",
    )

    ended, failed = map(msgspec.json.decode, lines)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", ended.pop("time"))
    assert ended == {
        "level": "info",
        "logger": "holdfast.scheduler",
        "message": "run r1 ended\n",
        "dag_id": "etl",
        "seconds": 1.5,
    }
    assert failed["traceback"].endswith("RuntimeError: wrong")


def test_lines_below_the_level_are_left_out() -> None:
    code = """
    for level in ("debug", "info", "warning", "error"):
        getattr(log, level)(level)
    """

    shown = {
        level: [LINE.sub("", line) for line in logged(code, level=level)[1]]
        for level in ("debug", "warning")
    }

    assert shown["debug"] == ["debug", "info", "warning", "error"]
    assert shown["warning"] == ["warning", "error"]


def test_an_error_that_ends_a_service_is_its_last_line() -> None:
    status, [line] = logged("raise NotFound('there is no DAG', hint='write one')")

    assert status == 1
    assert line.endswith(" CRITICAL holdfast: there is no DAG; hint: write one")


def test_control_characters_in_a_message_are_escaped() -> None:
    _, lines = logged("""
    log.warning("a\\tb\\x1b[2J\\x9b31m\\x7f\\x00\\r\\nnext\\x85last")
    log.warning("")
    """)

    said = [LINE.sub("", line) for line in lines]
    assert said == ["a\tb\\x1b[2J\\x9b31m\\x7f\\x00", "next\\x85last", ""]
    assert all(map(LINE.match, lines))
