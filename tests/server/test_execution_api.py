"""Execution API of Airflow's worker client, and the commands beside it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec
import pytest
from talk import ADMIN, ORDERS, Served

from holdfast import commands as c
from holdfast.access.identity import (
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.model.entry import ApiWriter, TaskWriter, WatcherWriter
from holdfast.model.role import Role
from holdfast.model.run import Process
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import as_reference, encode, is_reference
from holdfast.wire.codec import JSON

KEYS = ["plain", "a/b c", "😀 émoji", "100%", "a%2Fb", "q?x#y&z=1", "+", "..", "/", "ti/x", "a;b"]


def place(task: TaskIdentity, key: str | None = None, store: str = "store") -> str:
    base = f"/execution/{store}/ti/{task.scope.ti_id}"
    return base if key is None else f"{base}/{quote(key, safe='')}"


def asset_place(what: str = "value", by: str = "name", store: str = "store", **query: str) -> str:
    asset = {"name": ORDERS[0]} if by == "name" else {"uri": ORDERS[1]}
    return f"/execution/{store}/asset/by-{by}/{what}?{urlencode(asset | query)}"


@pytest.fixture
def orders(served: Served) -> AssetScope:
    scope = AssetScope(name=ORDERS[0])
    served.store.execute(c.Clear(scope, ApiWriter("test")))
    return scope


@pytest.mark.parametrize("store", ["store", "state"])
@pytest.mark.parametrize("key", KEYS)
def test_a_task_reads_what_it_wrote_under_any_key(
    served: Served, task: TaskIdentity, key: str, store: str
) -> None:
    value = {"cursor": [1, 2.5, None, "ü"]}

    put = served.ask("PUT", place(task, key, store), {"value": value}, token=task)
    got = served.ask("GET", place(task, key, store), token=task)

    assert (put.status, put.body) == (204, b"")
    assert (got.status, got.json) == (200, {"value": value})
    assert list(served.entries(task.scope)) == [key]


def test_airflows_reference_marker_is_understood_on_its_own_api(
    served: Served, task: TaskIdentity
) -> None:
    marked = {"__airflow_state_ref__": "s3://lake/state/1"}

    served.ask("PUT", place(task, "k"), {"value": marked}, token=task)

    assert served.entries(task.scope)["k"] == as_reference("s3://lake/state/1", in_place=True)
    assert served.ask("GET", place(task, "k"), token=task).json == {"value": marked}


@pytest.mark.parametrize(
    "value",
    [
        {"__airflow_state_ref__": "s3://lake/state/1", "more": 1},
        {"__airflow_state_ref__": 1},
        {"__holdfast_ref__": "s3://lake/state/1"},
        {"__holdfast_loc__": "s3://lake/state/1"},
        {"__holdfast_held__": True},
    ],
)
def test_a_value_that_resembles_a_reference_is_a_value(
    served: Served, task: TaskIdentity, value: object
) -> None:
    served.ask("PUT", place(task, "k"), {"value": value}, token=task)

    assert not is_reference(served.entries(task.scope)["k"])
    assert served.ask("GET", place(task, "k"), token=task).json == {"value": value}


def test_a_missing_key_is_not_found(served: Served, task: TaskIdentity) -> None:
    answer = served.ask("GET", place(task, "nix"), token=task)

    assert (answer.status, answer.reason) == (404, "not_found")


def test_a_task_deletes_one_key_and_clears_the_rest(served: Served, task: TaskIdentity) -> None:
    for key in ("a", "b", "c"):
        served.put(task.scope, key, "1")

    deleted = served.ask("DELETE", place(task, "a"), token=task)
    left = sorted(served.entries(task.scope))
    cleared = served.ask("DELETE", place(task), token=task)

    assert (deleted.status, left) == (204, ["b", "c"])
    assert (cleared.status, served.entries(task.scope)) == (204, {})


def test_deleting_the_empty_key_clears_nothing(served: Served, task: TaskIdentity) -> None:
    served.put(task.scope, "a", "1")

    answer = served.ask("DELETE", place(task) + "/", token=task)

    assert (answer.status, answer.reason) == (422, "invalid")
    assert list(served.entries(task.scope)) == ["a"]


def test_an_entry_expires_when_the_body_says(served: Served, task: TaskIdentity) -> None:
    at = datetime(2999, 1, 1, 1, tzinfo=UTC) + timedelta(hours=1)

    served.ask("PUT", place(task, "a"), {"value": 1, "expires_at": at}, token=task)
    served.ask("PUT", place(task, "b"), {"value": 1, "expires_at": None}, token=task)
    served.ask("PUT", place(task, "c"), {"value": 1}, token=task)

    page = served.store.execute(c.List(task.scope))
    assert [one.entry.expires_at for one in page.found] == [at, None, None]


@pytest.mark.parametrize(
    "body",
    [
        {"value": None},
        {},
        [],
        {"value": 1, "other": 2},
        {"value": 1, "expires_at": "2030-01-01T00:00:00"},
        {"value": 1, "expires_at": "0001-01-01T00:00:00+14:00"},
        {"value": 1, "expires_at": "soon"},
        {"value": 2**63},
        b'{"value": NaN}',
        b'{"value": 1e999}',
        b'{"value": [Infinity]}',
        b'{"value": 1',
        b"",
        b'{"value": "\xff"}',
        b'{"value": "\\ud800"}',
        b'{"value": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"value": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"value": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}",
    ],
)
def test_a_body_that_cannot_be_stored_is_refused(
    served: Served, task: TaskIdentity, body: Any
) -> None:
    answer = served.ask("PUT", place(task, "a"), body, token=task)

    assert answer.status == 422
    assert answer.reason in ("invalid", "invalid_type")
    assert served.entries(task.scope) == {}


def test_an_asset_has_no_expiry(served: Served, task: TaskIdentity, orders: AssetScope) -> None:
    body = {"value": 1, "expires_at": None}

    answer = served.ask("PUT", asset_place(key="a"), body, token=task)

    assert (answer.status, answer.reason) == (422, "invalid")


@pytest.mark.parametrize("store", ["store", "state"])
@pytest.mark.parametrize("key", KEYS)
def test_an_asset_is_the_same_by_name_and_uri(
    served: Served, task: TaskIdentity, orders: AssetScope, key: str, store: str
) -> None:
    put = served.ask("PUT", asset_place(store=store, key=key), {"value": key}, token=task)
    got = served.ask("GET", asset_place(by="uri", store=store, key=key), token=task)
    deleted = served.ask("DELETE", asset_place(by="uri", store=store, key=key), token=task)

    assert (put.status, got.status, got.json) == (204, 200, {"value": key})
    assert (deleted.status, served.entries(orders)) == (204, {})


@pytest.mark.parametrize("by", ["name", "uri"])
def test_an_asset_is_cleared(
    served: Served, task: TaskIdentity, orders: AssetScope, by: str
) -> None:
    served.put(orders, "a", "1")

    answer = served.ask("DELETE", asset_place("clear", by), token=task)

    assert (answer.status, served.entries(orders)) == (204, {})


def test_an_asset_entry_names_the_task_that_wrote_it(
    served: Served, task: TaskIdentity, orders: AssetScope
) -> None:
    served.ask("PUT", asset_place(key="a"), {"value": 1}, token=task)

    entry = served.store.execute(c.GetEntry(orders, "a"))

    assert entry is not None
    assert entry.writer == TaskWriter(task.scope)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "name=orders",
        "key=a",
        "name=orders&key=a&key=b",
        "name=%FF&key=a",
        "name=&key=a",
        "name=orders&key=a&uri=s3://lake/orders",
        "name=orders&key=a&kee=b",
    ],
)
def test_a_query_that_does_not_name_an_entry_is_refused(
    served: Served, task: TaskIdentity, orders: AssetScope, query: str
) -> None:
    path = f"/execution/store/asset/by-name/value?{query}"

    answer = served.ask("PUT", path, {"value": 1}, token=task)

    assert (answer.status, answer.reason) == (422, "invalid")
    assert served.entries(orders) == {}


def test_text_that_is_not_json_is_an_error_that_names_scope_and_key(
    served: Served, task: TaskIdentity
) -> None:
    served.put(task.scope, "a", "app_17")

    answer = served.ask("GET", place(task, "a"), token=task)

    assert (answer.status, answer.reason) == (500, "unreadable_value")
    message = answer.json["detail"]["message"]
    assert f"`a` of {task.scope} holds text that is not JSON" in message


@pytest.mark.parametrize("path", ["store", "state"])
@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("", {"a": "1"}),
        ("?all_map_indices=false", {"a": "1"}),
        ("?all_map_indices=true", {}),
        ("?all_map_indices=True", {}),
        ("?all_map_indices=1", {}),
    ],
)
def test_clearing_may_include_every_map_index(
    served: Served, task: TaskIdentity, path: str, query: str, left: dict[str, str]
) -> None:
    sibling = msgspec.structs.replace(task.scope, map_index=7)
    served.store.execute(c.RegisterTask(sibling))
    for scope in (task.scope, sibling):
        served.put(scope, "a", "1")

    cleared = f"/execution/{path}/ti/{task.scope.ti_id}{query}"
    answer = served.ask("DELETE", cleared, token=task)

    assert (answer.status, answer.body) == (204, b"")
    assert served.entries(task.scope) == {}
    assert served.entries(sibling) == left


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("query", ["all_map_indices=true", "x", "x=%FF"])
def test_a_query_of_a_task_store_is_refused(
    served: Served, task: TaskIdentity, method: str, query: str
) -> None:
    served.put(task.scope, "a", "1")

    clear = query.replace("=true", "=maybe")
    answer = served.ask(method, f"{place(task, 'a')}?{query}", {"value": 2}, token=task)
    clearing = served.ask("DELETE", f"{place(task, 'a')[:-2]}?{clear}", token=task)

    assert (answer.status, answer.reason) == (422, "invalid")
    assert (clearing.status, clearing.reason) == (422, "invalid")
    assert served.entries(task.scope) == {"a": "1"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "store/asset/by-name/clear?name=orders&key=a"),
        ("POST", "commands?dry_run=true"),
        ("GET", "commands?x=1"),
        ("POST", "tokens?x=1"),
    ],
)
def test_an_unknown_query_parameter_is_refused(
    served: Served, task: TaskIdentity, method: str, path: str
) -> None:
    answer = served.ask(method, f"/execution/{path}", {"command": "Now"}, token=task)

    assert (answer.status, answer.reason) == (422, "invalid")
    assert b"is not a parameter of this path" in answer.body


def test_any_airflow_api_version_is_accepted(served: Served, task: TaskIdentity) -> None:
    answer = served.ask(
        "PUT", place(task, "a"), {"value": 1}, token=task, Airflow_API_Version="1999-01-01"
    )

    assert answer.status == 204


def test_a_large_value_of_a_worker_is_written_with_a_warning(
    served: Served, task: TaskIdentity, caplog: pytest.LogCaptureFixture
) -> None:
    answer = served.ask("PUT", place(task, "large"), {"value": "x" * 70_000}, token=task)

    assert answer.status == 204
    assert "`large` of task" in caplog.text


def test_a_users_dict_that_looks_like_a_reference_stays_a_value(
    served: Served, task: TaskIdentity
) -> None:
    value = {"__holdfast_ref__": "s3://not/mine"}

    served.ask("PUT", place(task, "a"), {"value": value}, token=task)

    assert served.ask("GET", place(task, "a"), token=task).json == {"value": value}
    assert "__holdfast_value__" in served.entries(task.scope)["a"]


def test_a_job_uses_both_stores_while_its_intent_is_current(
    served: Served, task: TaskIdentity, orders: AssetScope
) -> None:
    intent = str(uuid4())
    job = JobIdentity(task.scope, "job.intent", intent, (ORDERS,))
    served.put(task.scope, "job.intent", encode(intent))

    before = [
        served.ask("PUT", place(task, "progress"), {"value": 1}, token=job).status,
        served.ask("PUT", asset_place(key="a"), {"value": 1}, token=job).status,
        served.ask("GET", place(task, "progress"), token=job).status,
    ]
    served.put(task.scope, "job.intent", encode(str(uuid4())))
    after = [
        served.ask("PUT", place(task, "progress"), {"value": 2}, token=job),
        served.ask("PUT", asset_place(key="a"), {"value": 2}, token=job),
        served.ask("GET", place(task, "progress"), token=job),
    ]

    assert before == [204, 204, 200]
    assert [(answer.status, answer.reason) for answer in after] == [(409, "stale_attempt")] * 3
    assert served.entries(orders) == {"a": "1"}


def test_a_watcher_uses_the_store_of_its_asset(served: Served, orders: AssetScope) -> None:
    watch = served.store.execute(
        c.StartWatch(
            asset=AssetScope(name=ORDERS[0], uri=ORDERS[1]),
            watcher="new files",
            process=Process("host", 1, "now"),
            lease=timedelta(minutes=1),
        )
    )
    watcher = WatcherIdentity(watch)

    put = served.ask("PUT", asset_place(key="cursor"), {"value": 7}, token=watcher)
    got = served.ask("GET", asset_place(by="uri", key="cursor"), token=watcher)
    other = served.ask(
        "GET", "/execution/store/asset/by-name/value?name=other&key=cursor", token=watcher
    )
    entry = served.store.execute(c.GetEntry(orders, "cursor"))

    assert (put.status, got.json) == (204, {"value": 7})
    assert entry is not None
    assert entry.writer == WatcherWriter()
    assert (other.status, other.reason) == (403, "forbidden")


@pytest.mark.parametrize("who", [ADMIN, WorkerIdentity("w")])
def test_the_api_of_tasks_is_only_for_tasks(
    served: Served, task: TaskIdentity, who: UserIdentity | WorkerIdentity
) -> None:
    answer = served.ask("PUT", place(task, "a"), {"value": 1}, token=who)

    assert (answer.status, answer.reason) == (403, "forbidden")
    assert served.entries(task.scope) == {}


def test_a_command_is_answered_as_the_store_answers_it(served: Served, task: TaskIdentity) -> None:
    write = c.Set(task.scope, "a", '"x"', task.writer)

    version = served.ask("POST", "/execution/commands", JSON.encode(write), token=task)
    value = served.ask(
        "POST", "/execution/commands", JSON.encode(c.Get(task.scope, "a")), token=task
    )

    assert (version.status, version.json) == (200, 1)
    assert (value.status, value.json) == (200, '"x"')


def test_a_retried_write_is_executed_once(served: Served, task: TaskIdentity) -> None:
    write = JSON.encode(c.Set(task.scope, "a", "1", task.writer, if_version=0))

    answers = [
        served.ask("POST", "/execution/commands", write, token=task, Idempotency_Key="client:1")
        for _ in range(3)
    ]

    assert [(answer.status, answer.json) for answer in answers] == [(200, 1)] * 3


def test_a_late_request_is_not_executed(served: Served, task: TaskIdentity) -> None:
    first, second = (JSON.encode(c.Set(task.scope, "a", n, task.writer)) for n in "12")

    served.ask("POST", "/execution/commands", second, token=task, Idempotency_Key="late:2")
    answer = served.ask("POST", "/execution/commands", first, token=task, Idempotency_Key="late:1")

    assert (answer.status, answer.reason) == (409, "stale_request")
    assert served.entries(task.scope) == {"a": "2"}


def test_identities_with_the_same_idempotency_key_do_not_share_answers(
    served: Served, task: TaskIdentity
) -> None:
    other = served.new_attempt("namesake")
    mine = JSON.encode(c.Set(task.scope, "a", "1", task.writer))
    theirs = JSON.encode(c.Set(other.scope, "a", "2", other.writer))

    served.ask("POST", "/execution/commands", mine, token=task, Idempotency_Key="same:1")
    served.ask("POST", "/execution/commands", theirs, token=other, Idempotency_Key="same:1")

    assert served.entries(other.scope) == {"a": "2"}


@pytest.mark.parametrize(
    "key", ["", ":", "c:", "c:0", "c:-1", "c:1:2", "ü:1", "c" * 65 + ":1", f"c:{2**63}", "c:1e3"]
)
def test_an_idempotency_key_of_another_form_is_refused(
    served: Served, task: TaskIdentity, key: str
) -> None:
    write = JSON.encode(c.Set(task.scope, "a", "1", task.writer))
    headers = {"Idempotency_Key": key.encode().decode("latin-1")}

    answer = served.ask("POST", "/execution/commands", write, token=task, **headers)

    assert (answer.status, answer.reason) == (422, "invalid")
    assert served.entries(task.scope) == {}


SCOPE = {"type": "task", "dag_id": "sales", "run_id": "r1", "task_id": "t"}
PROCESS = {"host": "h", "pid": 1, "started": "now"}
WRITER = {"kind": "api", "user": "x"}
SET = {"command": "Set", "scope": SCOPE, "key": "k", "value": "1", "writer": WRITER}


@pytest.mark.parametrize(
    "command",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        {"command": "Guarded"},
        {"command": "Once"},
        {"command": "Nonsense"},
        {**SET, "value": "not JSON"},
        {**SET, "value": "null"},
        {**SET, "value": "NaN"},
        {**SET, "value": str(2**63)},
        {**SET, "value": "[" * 300 + "]" * 300},
        {**SET, "value": '"\ud7ff'},
        {**SET, "value": '"' + "x" * 70_000 + '"'},
        {**SET, "key": ""},
        {**SET, "key": "a\0b"},
        {**SET, "key": "k" * 513},
        {**SET, "if_version": 2**63},
        {**SET, "expires_at": "2030-01-01T00:00:00"},
        {**SET, "expires_at": "0001-01-01T00:00:00+14:00"},
        {**SET, "scope": {**SCOPE, "map_index": 2**40}},
        {**SET, "scope": {"type": "asset", "asset_id": 2**70}},
        {**SET, "command": "SetMany", "values": [["a", "1"], ["b", "x"]]},
        {**SET, "command": "Advance", "scope": {"type": "asset", "name": "orders"}, "value": "{"},
        {"command": "List", "where": {"type": "assets"}, "limit": -1},
        {"command": "List", "where": {"type": "assets"}, "offset": 2**63},
        {"command": "List", "where": {"type": "assets"}, "prefix": "a\0"},
        {"command": "ListRuns", "limit": -5},
        {"command": "StartAttempt", "scope": SCOPE, "lease": "P999999999D"},
        {"command": "StartAttempt", "scope": SCOPE, "worker": PROCESS | {"pid": 2**40}},
        {"command": "CreateRun", "dag_id": "d", "run_id": "r", "conf": "{"},
    ],
)  # fmt: skip
def test_an_invalid_command_is_refused(served: Served, command: Any) -> None:
    before = served.store.execute(c.ListRuns())

    answer = served.ask("POST", "/execution/commands", command, token=ADMIN)

    assert answer.status == 422
    assert answer.reason in ("invalid", "invalid_type", "too_large")
    assert served.store.execute(c.ListRuns()) == before


def test_the_command_of_a_user_is_signed_with_their_name(
    served: Served, task: TaskIdentity
) -> None:
    served.ask(
        "POST",
        "/execution/commands",
        {**SET, "scope": msgspec.to_builtins(task.scope)},
        token=ADMIN,
    )

    entry = served.store.execute(c.GetEntry(task.scope, "k"))

    assert entry is not None
    assert entry.writer == ApiWriter("ann")


def test_a_viewer_may_read_and_not_write(served: Served, task: TaskIdentity) -> None:
    viewer = UserIdentity("vic", Role.VIEWER)
    scope = msgspec.to_builtins(task.scope)

    read = served.ask(
        "POST", "/execution/commands", {"command": "Get", "scope": scope, "key": "k"}, token=viewer
    )
    write = served.ask("POST", "/execution/commands", {**SET, "scope": scope}, token=viewer)

    assert (read.status, read.json) == (200, None)
    assert (write.status, write.reason) == (403, "forbidden")
    assert served.entries(task.scope) == {}


def test_a_command_unsupported_by_the_backend_is_not_implemented(
    make_served: Callable[..., Served],
) -> None:
    served = make_served(state_store__backend="plain_backend.PlainBackend")
    scope = {"type": "asset", "name": ORDERS[0]}
    command = {"command": "History", "scope": scope, "key": "a"}

    answer = served.ask("POST", "/execution/commands", command, token=ADMIN)

    assert (answer.status, answer.reason) == (501, "not_supported")


def test_an_unknown_task_instance_is_an_error_that_says_so(served: Served) -> None:
    scope = TaskScope("sales", "r1", "never registered")
    command = {"command": "Get", "scope": msgspec.to_builtins(scope), "key": "a"}

    answer = served.ask("POST", "/execution/commands", command, token=ADMIN)

    assert (answer.status, answer.reason) == (404, "unknown_task_instance")


def test_a_write_retried_under_its_number_is_executed_once(
    served: Served, task: TaskIdentity
) -> None:
    for _ in range(2):
        put = served.ask(
            "PUT", place(task, "a"), {"value": 1}, token=task, Idempotency_Key="client-1:1"
        )
        assert put.status == 204
    other = served.ask(
        "PUT", place(task, "b"), {"value": 1}, token=task, Idempotency_Key="client-1:1"
    )

    entry = served.store.execute(c.GetEntry(task.scope, "a"))
    assert entry is not None and entry.version == 1
    assert (other.status, other.reason) == (409, "stale_request")
