"""Public API: logs of attempts."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from urllib.parse import quote

import pipeline
import pytest
from project import wait_until
from public_client import Api, serving
from servers import SqliteDatabase
from talk import Answer

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity, UserIdentity
from holdfast.actions.logs import log_key, log_path
from holdfast.logs.files import LogWriter
from holdfast.logs.log import BLOCK
from holdfast.logs.storage import LogStorage, StoredLog
from holdfast.model.entry import TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import Process
from holdfast.model.scope import TaskScope

EXTRACT = TaskScope("etl", "r1", "extract")
REPORT = TaskScope("etl", "r1", "report")


@pytest.fixture
def api(sqlite_database: SqliteDatabase, tmp_path: Path) -> Iterator[Api]:
    (tmp_path / "holdfast.toml").write_text(f'[logs]\nurl = "file://{tmp_path}/storage"\n')
    with serving(sqlite_database.empty(), tmp_path) as api:
        pipeline.half_way(api.store)
        yield api


def path_of(scope: TaskScope, attempt: int | str = 1) -> str:
    ids = [quote(one, safe="") for one in (scope.dag_id, scope.run_id, scope.task_id)]
    return f"/dags/{ids[0]}/dagRuns/{ids[1]}/taskInstances/{ids[2]}/logs/{attempt}"


def write(tmp_path: Path, scope: TaskScope, text: bytes, limit: int = 2**20) -> None:
    writer = LogWriter(log_path(tmp_path / ".holdfast", scope, 1), limit)
    writer.write(text)
    writer.close()


def facts(answer: Answer) -> tuple[int, bytes, int, str]:
    """Return the status, the text, the next offset, and whether the log is complete."""
    headers = answer.headers
    return answer.status, answer.body, int(headers["log-next-offset"]), headers["log-complete"]


def test_the_log_of_an_ended_attempt_is_read_as_text(api: Api, tmp_path: Path) -> None:
    write(tmp_path, EXTRACT, "one\ntwo ü <b>\n".encode())

    answer = api.ask("GET", path_of(EXTRACT))

    assert facts(answer) == (200, "one\ntwo ü <b>\n".encode(), 15, "true")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_live_log_is_followed_by_offset(api: Api, tmp_path: Path) -> None:
    number = api.store.execute(c.StartAttempt(REPORT))
    write(tmp_path, REPORT, b"begun\n")

    assert facts(api.ask("GET", path_of(REPORT))) == (200, b"begun\n", 6, "false")
    assert facts(api.ask("GET", path_of(REPORT), offset=6)) == (200, b"", 6, "false")
    write(tmp_path, REPORT, b"ended\n")
    api.store.execute(c.FinishAttempt(TaskWriter(REPORT, number), succeeded=True))
    assert facts(api.ask("GET", path_of(REPORT), offset=6)) == (200, b"ended\n", 12, "true")
    assert facts(api.ask("GET", path_of(REPORT), offset=12)) == (200, b"", 12, "true")


def test_the_last_lines_are_read(api: Api, tmp_path: Path) -> None:
    write(tmp_path, EXTRACT, b"a\nb\nc\n")

    answer = api.ask("GET", path_of(EXTRACT), tail=2)

    assert facts(answer) == (200, b"b\nc\n", 6, "true")
    assert answer.headers["log-offset"] == "2"


def test_a_large_log_is_read_in_parts_that_make_up_the_whole(api: Api, tmp_path: Path) -> None:
    text = b"".join(b"%09d\n" % number for number in range(300_000))
    write(tmp_path, EXTRACT, text, limit=2**26)

    read, offset = b"", 0
    while part := (answer := api.ask("GET", path_of(EXTRACT), offset=offset)).body:
        assert len(part) <= BLOCK
        read, offset = read + part, int(answer.headers["log-next-offset"])

    assert read == text


def test_what_was_left_out_is_said_in_the_text(api: Api, tmp_path: Path) -> None:
    write(tmp_path, EXTRACT, b"line of text\n" * 50_000, limit=2**16)
    first = api.ask("GET", path_of(EXTRACT))

    second = api.ask("GET", path_of(EXTRACT), offset=int(first.headers["log-next-offset"]))

    note, _, rest = second.body.partition(b"\n")
    assert note.endswith(b" bytes were left out here]") and rest.startswith(b"line of text\n")


def test_a_log_of_another_machine_is_read_from_storage(api: Api, tmp_path: Path) -> None:
    storage = LogStorage(f"file://{tmp_path}/storage")
    storage.put(log_key(EXTRACT, 1), 0, b"from far away\n")

    assert facts(api.ask("GET", path_of(EXTRACT))) == (200, b"from far away\n", 14, "false")
    storage.finish(log_key(EXTRACT, 1), 14)
    assert facts(api.ask("GET", path_of(EXTRACT))) == (200, b"from far away\n", 14, "true")


class Hanging:
    """Storage that does not respond until it is released."""

    def __init__(self) -> None:
        self.requests = 0
        self.released = Event()

    def exists(self, log: StoredLog) -> bool:
        self.requests += 1
        self.released.wait(20)
        return False


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Hanging:
    storage = Hanging()
    monkeypatch.setattr(StoredLog, "exists", lambda log: storage.exists(log))
    return storage


def test_a_bearer_reads_two_logs_at_once_and_others_meanwhile(
    api: Api, tmp_path: Path, hanging: Hanging
) -> None:
    with ThreadPoolExecutor() as threads:
        first = [threads.submit(api.ask, "GET", path_of(EXTRACT)) for _ in range(2)]
        wait_until(lambda: hanging.requests == 2)
        third = api.ask("GET", path_of(EXTRACT))
        write(tmp_path, EXTRACT, b"text\n")
        other = api.of(UserIdentity("vera", Role.VIEWER)).ask("GET", path_of(EXTRACT))
        hanging.released.set()
    again = api.ask("GET", path_of(EXTRACT))

    assert (third.status, third.reason) == (429, "too_many_requests")
    assert "retry-after" in third.headers
    assert [one.result().status for one in first] == [404, 404]
    assert (other.status, again.status) == (200, 200)


def test_logs_of_this_machine_are_read_while_the_storage_hangs(
    api: Api, tmp_path: Path, hanging: Hanging
) -> None:
    users = [api.of(UserIdentity(f"user{number}", Role.VIEWER)) for number in range(12)]
    with ThreadPoolExecutor(12) as threads:
        for user in users:
            threads.submit(user.ask, "GET", path_of(EXTRACT))
        wait_until(lambda: hanging.requests == 8)
        write(tmp_path, EXTRACT, b"text\n")
        begun = time.monotonic()
        answer = api.ask("GET", path_of(EXTRACT))
        waited = time.monotonic() - begun
        hanging.released.set()

    assert (answer.status, answer.body) == (200, b"text\n")
    assert waited < 10


def test_the_error_for_a_log_that_is_elsewhere_names_the_machine(api: Api, tmp_path: Path) -> None:
    answer = api.ask("GET", path_of(EXTRACT))

    assert (answer.status, answer.reason) == (404, "not_found")
    assert f"on {socket.gethostname()}, nor in file://" in answer.json["detail"]["message"]
    assert "the machine that ran the attempt, here," in answer.json["detail"]["hint"]


def test_the_error_for_a_missing_file_names_it(api: Api, tmp_path: Path) -> None:
    here = Process(socket.gethostname(), 1, "now")
    api.store.execute(c.StartAttempt(REPORT, here))

    message = api.ask("GET", path_of(REPORT)).json["detail"]["message"]

    assert str(log_path(tmp_path / ".holdfast", REPORT, 1)) in message


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (path_of(REPORT), 404),
        (path_of(EXTRACT, 2), 404),
        (path_of(TaskScope("etl", "r1", "nope")), 404),
        (path_of(TaskScope("etl", "nope", "extract")), 404),
        (path_of(EXTRACT, 0), 422),
        (path_of(EXTRACT, "x"), 422),
        (path_of(EXTRACT) + "?offset=-1", 422),
        (path_of(EXTRACT) + "?tail=-1", 422),
        (path_of(EXTRACT) + "?tail=10001", 422),
        (path_of(EXTRACT) + "?tail=1&offset=1", 422),
        (path_of(EXTRACT) + "?token=x", 422),
        (path_of(EXTRACT) + "?map_index=3", 404),
    ],
)
def test_a_bad_request_is_refused(api: Api, path: str, status: int) -> None:
    assert api.ask("GET", path).status == status


def test_an_offset_after_the_end_reads_nothing(api: Api, tmp_path: Path) -> None:
    write(tmp_path, EXTRACT, b"text\n")

    assert facts(api.ask("GET", path_of(EXTRACT), offset=2**62)) == (200, b"", 2**62, "true")


def test_a_directory_or_a_link_in_place_of_a_log_file_is_not_found(
    api: Api, tmp_path: Path
) -> None:
    path = log_path(tmp_path / ".holdfast", EXTRACT, 1)
    path.mkdir(parents=True)
    directory = api.ask("GET", path_of(EXTRACT)).status
    path.rmdir()
    path.symlink_to("/etc/passwd")

    assert (directory, api.ask("GET", path_of(EXTRACT)).status) == (404, 404)


@pytest.mark.parametrize("id", ["..", "../..", "a/../../b", "/etc", "%2e%2e", "x\\..\\y"])
def test_no_id_leads_out_of_the_directory_of_logs(api: Api, tmp_path: Path, id: str) -> None:
    scope = TaskScope(id, id, id)
    (tmp_path / "1.log").write_text("secret")
    (tmp_path / ".holdfast" / "1.log").write_text("secret")
    api.store.execute(c.RegisterTask(scope))
    api.store.execute(c.StartAttempt(scope))

    assert api.ask("GET", path_of(scope)).status == 404
    write(tmp_path, scope, b"its own\n")
    assert api.ask("GET", path_of(scope)).body == b"its own\n"


def test_a_viewer_may_read_logs_and_a_task_may_not(api: Api, tmp_path: Path) -> None:
    write(tmp_path, EXTRACT, b"text\n")

    assert api.of(UserIdentity("vera", Role.VIEWER)).ask("GET", path_of(EXTRACT)).status == 200
    assert api.of(TaskIdentity(EXTRACT, 1)).ask("GET", path_of(EXTRACT)).status == 403
    assert api.ask("GET", path_of(EXTRACT), token="").status == 401


def test_the_logs_in_storage_are_deleted_with_their_run_by_an_admin_only(
    api: Api, tmp_path: Path
) -> None:
    storage = LogStorage(f"file://{tmp_path}/storage")
    storage.put(log_key(EXTRACT, 1), 0, b"text\n")
    editor = api.of(UserIdentity("ed", Role.EDITOR))

    assert editor.ask("DELETE", "/dags/etl/dagRuns/r1").status == 403
    assert storage.log(log_key(EXTRACT, 1)).exists()

    assert api.ask("DELETE", "/dags/etl/dagRuns/r1").status == 204
    assert not storage.log(log_key(EXTRACT, 1)).exists()
