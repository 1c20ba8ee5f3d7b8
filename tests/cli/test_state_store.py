"""`holdfast state-store`: reading, writing, history and rewinds of entries."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.accessor.task_store import TaskStore
from holdfast.commands import Get, GetEntry, List, RegisterTask, Set, TaskFilter
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import as_reference

LOAD = TaskScope("etl", "r1", "load")
ORDERS = AssetScope(name="orders")


def test_get_prints_a_value_as_json(holdfast, task):
    written = holdfast("state-store", "set", *task, "job_id", '"app_1"')
    read = holdfast("state-store", "get", *task, "job_id")

    assert written == (0, "", "Set `job_id` of task etl/r1/load.\n")
    assert read == (0, '"app_1"\n', "")


def test_the_writer_is_the_person_at_the_terminal(holdfast, store, task):
    holdfast("state-store", "set", *task, "job_id", "1")

    assert store.execute(GetEntry(LOAD, "job_id")).writer == ApiWriter(getpass.getuser())


@pytest.mark.parametrize("value", ["5", "-5", "-1.5e3", "true", "[1,null]", '{"a":{"b":"é"}}'])
def test_any_json_may_be_set(holdfast, store, task, value):
    result = holdfast("state-store", "set", *task, "k", value)

    assert result.status == 0
    assert json.loads(store.execute(Get(LOAD, "k"))) == json.loads(value)


def test_a_dash_reads_the_value_from_stdin(holdfast, store, task):
    holdfast("state-store", "set", *task, "k", "-", stdin='{"naïve": 1}\n'.encode())

    assert store.execute(Get(LOAD, "k")) == '{"naïve":1}'


@pytest.mark.parametrize(
    ("value", "stdin", "message"),
    [
        ("text", b"", "not JSON"),
        ("null", b"", "None cannot be stored"),
        ("NaN", b"", "not JSON"),
        ("123456789012345678901234567890", b"", "64 bits"),
        ("-", b"\xff", "not UTF-8"),
        ("-", b"", "not JSON"),
    ],
)
def test_an_invalid_value_is_refused(holdfast, store, task, value, stdin, message):
    result = holdfast("state-store", "set", *task, "k", value, stdin=stdin)

    assert result.status == 2
    assert message in result.err
    assert store.execute(List(TaskFilter())).total == 0


def test_a_value_over_the_limit_is_refused(holdfast, store, task):
    result = holdfast("state-store", "set", *task, "k", json.dumps("x" * 70_000))

    assert result.status == 2
    assert result.err.startswith("error: `k` of task etl/r1/load: the value has 70,002 bytes")


@pytest.mark.parametrize("key", ["", "a\nb", "k" * 513])
def test_an_invalid_key_is_refused(holdfast, task, key):
    result = holdfast("state-store", "set", *task, key, "1")

    assert result.status == 2
    assert "key" in result.err


@pytest.mark.parametrize("key", ["a/b", 'it\'s "quoted"', "a b%20", "日本", "[red]x[/red]"])
def test_a_key_that_needs_quoting_elsewhere_is_just_a_key(holdfast, task, key):
    holdfast("state-store", "set", *task, key, "1")

    assert holdfast("state-store", "get", *task, key).out == "1\n"
    assert f"\n{key}\t1\t" in holdfast("state-store", "list", *task).out


@pytest.mark.parametrize(("text", "days"), [("7d", 7), ("48h", 2)])
def test_retention_sets_the_expiry(holdfast, store, task, text, days):
    holdfast("state-store", "set", *task, "k", "1", "--retention", text)

    left = store.execute(GetEntry(LOAD, "k")).expires_at - datetime.now(UTC)
    assert timedelta(days=days, minutes=-1) < left < timedelta(days=days)


def test_without_retention_the_configured_default_applies(holdfast, store, task, project):
    (project / "holdfast.toml").write_text("[state_store]\ndefault_retention_days = 0")

    holdfast("state-store", "set", *task, "k", "1")

    assert store.execute(GetEntry(LOAD, "k")).expires_at is None


def test_an_entry_may_never_expire(holdfast, store, task):
    holdfast("state-store", "set", *task, "k", "1", "--retention", "never")

    assert store.execute(GetEntry(LOAD, "k")).expires_at is None


@pytest.mark.parametrize("text", ["7", "0", "0s", "-1d", "forever", "99999999999d"])
def test_an_invalid_retention_is_refused(holdfast, task, text):
    result = holdfast("state-store", "set", *task, "k", "1", "--retention", text)

    assert result.status == 2
    assert result.err == (
        f"error: --retention may not be {text!r}\nhint: write 30s, 5m, 1h, 7d or never\n"
    )


def test_if_version_writes_only_over_that_version(holdfast, store, task):
    first = holdfast("state-store", "set", *task, "k", "1", "--if-version", "0")
    late = holdfast("state-store", "set", *task, "k", "2", "--if-version", "0")

    assert (first.status, late.status) == (0, 1)
    assert "it has version 1" in late.err
    assert store.execute(Get(LOAD, "k")) == "1"


def test_an_asset_is_declared_by_name_uri_or_both(holdfast, store):
    holdfast("state-store", "set", "--declare", "--asset", "a", "k", "1")
    holdfast("state-store", "set", "--declare", "--asset-uri", "s3://b", "k", "2")
    holdfast("state-store", "set", "--declare", "--asset", "c", "--asset-uri", "s3://c", "k", "3")

    assert store.execute(Get(AssetScope(uri="a"), "k")) == "1"
    assert store.execute(Get(AssetScope(name="s3://b"), "k")) == "2"
    assert store.execute(Get(AssetScope(uri="s3://c"), "k")) == "3"


def test_declaring_an_asset_again_succeeds(holdfast, store):
    holdfast("state-store", "set", "--declare", "--asset", "a", "k", "1")

    assert holdfast("state-store", "set", "--declare", "--asset", "a", "k", "2").status == 0


def test_an_unknown_asset_is_an_error_that_names_it(holdfast, orders):
    result = holdfast("state-store", "get", "--asset", "orderz", "watermark")

    assert result.status == 1
    assert result.err.startswith("error: asset `orderz` is not known\nhint: ")
    assert "orders" in result.err


def test_reading_an_unknown_task_is_an_error(holdfast, store, task):
    for args in (("get", *task, "k"), ("list", *task), ("delete", *task, "k", "--yes")):
        result = holdfast("state-store", *args)

        assert result.status == 1
        assert result.err.startswith("error: task etl/r1/load is not known")


def test_a_missing_key_is_an_error_that_names_scope_and_key(holdfast, orders):
    for flags in ((), ("--json",)):
        result = holdfast("state-store", "get", "--asset", "orders", "watermrk", *flags)

        assert (result.status, result.out) == (1, "")
        assert result.err.startswith("error: asset `orders` has no entry `watermrk`\n")


def test_get_json_is_the_whole_entry(holdfast, orders):
    result = holdfast("state-store", "get", "--asset", "orders", "watermark", "--json")

    entry = json.loads(result.out)
    assert datetime.fromisoformat(entry.pop("updated_at")).tzinfo is not None
    assert entry == {
        "asset": "orders",
        "key": "watermark",
        "value": "2026-01-03",
        "reference": None,
        "version": 3,
        "expires_at": None,
        "last_updated_by": {"kind": "api", "user": "ann"},
    }


LOOKALIKES = [
    '{"__holdfast_ref__":"x"}',
    '{"__holdfast_loc__":"x"}',
    '{"__holdfast_value__":{"__holdfast_ref__":"x"}}',
    '{"__holdfast_held__":true}',
    '"reference to x"',
    '{"a":[1,2.5,null,true,"\u00e9 \\" \\n"]}',
    "-1.0",
    "9223372036854775807",
]


@pytest.mark.parametrize("value", LOOKALIKES)
def test_a_value_is_shown_as_its_writer_knows_it(holdfast, store, task, value):
    store.execute(RegisterTask(LOAD))
    TaskStore(store, LOAD, ApiWriter("ann")).set("k", json.loads(value))

    got = holdfast("state-store", "get", *task, "k")
    listed = holdfast("state-store", "list", *task)
    document = json.loads(holdfast("state-store", "list", *task, "--json").out)["entries"][0]

    assert got == (0, f"{value}\n", "")
    assert listed.out.splitlines()[1].split("\t")[:2] == ["k", value]
    assert (document["value"], document["reference"]) == (json.loads(value), None)


@pytest.mark.parametrize("value", LOOKALIKES)
def test_a_value_printed_by_get_can_be_set_unchanged(holdfast, store, task, value):
    store.execute(RegisterTask(LOAD))
    task_store = TaskStore(store, LOAD, ApiWriter("ann"))
    task_store.set("k", json.loads(value))

    got = holdfast("state-store", "get", *task, "k")
    piped = holdfast("state-store", "set", *task, "copy", "-", stdin=got.out.encode())

    assert piped.status == 0
    assert store.execute(Get(LOAD, "copy")) == store.execute(Get(LOAD, "k"))
    assert task_store.get("copy") == json.loads(value)


def test_a_reference_is_shown_as_one_and_not_set_as_a_value(holdfast, store, task, orders):
    store.execute(RegisterTask(LOAD))
    for scope in (LOAD, ORDERS):
        text = as_reference("s3://lake/object", in_place=True)
        store.execute(Set(scope, "k", text, ApiWriter("ann")))

    got = holdfast("state-store", "get", *task, "k")
    whole = json.loads(holdfast("state-store", "get", *task, "k", "--json").out)
    listed = holdfast("state-store", "list", *task)
    history = holdfast("state-store", "history", "--asset", "orders", "k")
    piped = holdfast("state-store", "set", *task, "copy", "-", stdin=got.out.encode())

    assert got == (0, "reference to s3://lake/object\n", "")
    assert (whole["value"], whole["reference"]) == (None, "s3://lake/object")
    for table in (listed, history):
        assert "reference to s3://lake/object" in table.out
        assert "__holdfast" not in table.out
    assert piped.status == 2
    assert piped.err.startswith(
        "error: VALUE is a reference to s3://lake/object, which cannot be stored as a value"
    )
    assert store.execute(Get(LOAD, "copy")) is None


def test_text_that_is_not_json_is_an_error_and_lists_go_on(holdfast, store, task):
    store.execute(RegisterTask(LOAD))
    for key, text in (("a", "1"), ("k", "app_17"), ("z", "2")):
        store.execute(Set(LOAD, key, text, ApiWriter("ann")))

    for flags in ((), ("--json",)):
        got = holdfast("state-store", "get", *task, "k", *flags)
        assert (got.status, got.out) == (1, "")
        assert got.err.startswith("error: `k` of task etl/r1/load holds text that is not JSON")
    lines = holdfast("state-store", "list", *task).out.splitlines()
    documents = json.loads(holdfast("state-store", "list", *task, "--json").out)["entries"]

    assert [line.split("\t")[1] for line in lines[1:]] == ["1", "(not JSON) app_17", "2"]
    assert [entry["value"] for entry in documents] == [1, None, 2]


def test_set_json_prints_the_written_entry(holdfast, task):
    result = holdfast("state-store", "set", *task, "k", '{"a": 1}', "--json")

    entry = json.loads(result.out)
    assert (entry["dag_id"], entry["map_index"], entry["value"], entry["version"]) == (
        "etl",
        -1,
        {"a": 1},
        1,
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("get", "k"), "no task instance or asset is named"),
        (("get", "--dag-id", "d", "k"), "no task instance or asset is named"),
        (("get", "--map-index", "0", "k"), "no task instance or asset is named"),
        (("get", "--dag-id", "d", "--asset", "a", "k"), "both a task and an asset"),
        (("get", "--asset", "a", "--asset-uri", "u", "k"), "both --asset and --asset-uri"),
        (("history", "k"), "no asset is named"),
        (("list", "--assets", "--asset", "a"), "--assets selects all assets"),
        (("list", "--limit", "-1"), "not a whole number"),
        (("list", "--limit", "9" * 30), "not a whole number"),
        (("get", "--asset", ""), "Missing argument"),
        (("get", "--asset", "", "k"), "asset name is empty"),
        (("get", "--dag-id", "d" * 251, "--run-id", "r", "--task-id", "t", "k"), "251 characters"),
        (("set", "--asset", "a", "k", "1", "--retention", "5m"), "--retention is for tasks"),
        (("clear", "--asset", "a", "--all-map-indices", "--yes"), "--all-map-indices is for tasks"),
        (("rewind", "--asset", "a", "k"), "one target"),
        (("rewind", "--asset", "a", "k", "--version", "1", "--run-id", "r"), "one target"),
        (("rewind", "--asset", "a", "k", "--at", "yesterday"), "--at is not a time"),
        (("rewind", "--asset", "a", "k", "--at", "2026-01-01T00:00:00"), "no time zone"),
        (("rewind", "--asset", "a", "k", "--at", "2026-01-01"), "write 2026-01-01T00:00:00Z"),
        (("rewind", "--asset", "a", "k", "--at", "0001-01-01T00:00:00+10:00"), "out of range"),
        (("rewind", "--asset", "a", "k", "--at", "9999-12-31T23:59:59-10:00"), "out of range"),
        (("list", "--dag-id", ""), "--dag-id is empty"),
        (("list", "--run-id", "r" * 251), "--run-id has 251 characters"),
        (("list", "--assets", "--dag-id", "d"), "--assets selects all assets"),
        (("list", "--assets", "--asset", ""), "--assets selects all assets"),
        (("list", "--bogus"), "No such option"),
        (("bogus",), "No such command"),
    ],
)
def test_bad_usage_ends_with_status_2_and_a_hint(holdfast, args, message):
    result = holdfast("state-store", *args)

    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("error: ")


def test_declare_is_refused_for_a_task(holdfast, task):
    assert holdfast("state-store", "set", *task, "k", "1", "--declare").status == 2


def test_list_of_one_scope_shows_its_keys_in_order(holdfast, task):
    holdfast("state-store", "set", *task, "b", "2", "--retention", "never")
    holdfast("state-store", "set", *task, "a", '"x"')

    result = holdfast("state-store", "list", *task)

    header, first, second = (line.split("\t") for line in result.out.splitlines())
    assert header == ["key", "value", "version", "updated", "expires"]
    assert first[:3] == ["a", '"x"', "2"]
    assert second[:3] == ["b", "2", "1"]
    assert second[4] == "never"


def test_list_covers_several_task_instances(holdfast, mapped):
    result = holdfast("state-store", "list", "--dag-id", "etl")

    rows = [line.split("\t")[:6] for line in result.out.splitlines()]
    assert rows[0] == ["dag", "run", "task", "map index", "key", "value"]
    assert rows[1:] == [["etl", "r1", "load", str(i), "new key", "2"] for i in range(3)]


def test_list_of_all_assets(holdfast, orders):
    result = holdfast("state-store", "list", "--assets")

    assert result.out.splitlines()[1].startswith('orders\twatermark\t"2026-01-03"\t3\t')
    assert result.out.endswith("\tapi ann\n")


def test_list_prints_a_page_and_the_command_for_the_next(holdfast, mapped):
    first = holdfast("state-store", "list", "--limit", "2")
    last = holdfast("state-store", "list", "--limit", "2", "--offset", "2")

    assert first.err == "2 of 3 entries; --offset 2 shows the next ones.\n"
    assert len(last.out.splitlines()) == 2
    assert last.err == ""


def test_list_takes_a_prefix(holdfast, mapped):
    assert json.loads(holdfast("state-store", "list", "--prefix", "x", "--json").out) == {
        "entries": [],
        "total_entries": 0,
    }


def test_list_json_is_one_document(holdfast, mapped):
    document = json.loads(holdfast("state-store", "list", "--json").out)

    assert document["total_entries"] == 3
    assert document["entries"][2]["map_index"] == 2
    assert document["entries"][2]["last_updated_by"] == {"kind": "api", "user": "ann"}


def test_an_empty_list_points_to_the_assets(holdfast, orders):
    assert holdfast("state-store", "list") == (
        0,
        "",
        "There are no task entries; --assets lists those of assets.\n",
    )


def test_delete_removes_one_key(holdfast, mapped, task):
    args = ("state-store", "delete", *task, "--map-index", "1", "new key", "--yes", "--json")

    first, again = holdfast(*args), holdfast(*args)

    assert json.loads(first.out) == {"deleted": 1}
    assert (again.status, json.loads(again.out)) == (0, {"deleted": 0})
    assert mapped.execute(Get(TaskScope("etl", "r1", "load", 0), "new key")) == "2"


def test_clear_removes_the_keys_of_one_map_index(holdfast, mapped, task):
    result = holdfast("state-store", "clear", *task, "--map-index", "1", "--yes")

    assert result.err == "Cleared 1 entry of task etl/r1/load[1].\n"
    assert mapped.execute(List(TaskFilter())).total == 2


def test_clear_of_all_map_indices_needs_no_index(holdfast, mapped, task):
    result = holdfast("state-store", "clear", *task, "--all-map-indices", "--yes", "--json")

    assert json.loads(result.out) == {"deleted": 3}
    assert mapped.execute(List(TaskFilter())).total == 0


def test_clear_of_all_map_indices_of_an_unknown_task_is_an_error(holdfast, task):
    assert holdfast("state-store", "clear", *task, "--all-map-indices", "--yes").status == 1


@pytest.mark.parametrize("args", [("delete", "watermark"), ("clear",)])
def test_a_destructive_command_in_a_script_needs_yes(holdfast, orders, args):
    result = holdfast("state-store", *args, "--asset", "orders")

    assert result.status == 2
    assert result.err.endswith("hint: in a script, add --yes\n")
    assert orders.execute(Get(ORDERS, "watermark")) == '"2026-01-03"'


def test_history_is_newest_first_with_deletions(holdfast, orders):
    holdfast("state-store", "delete", "--asset", "orders", "watermark", "--yes")

    rows = [
        line.split("\t")[:2]
        for line in holdfast("state-store", "history", "--asset", "orders", "watermark")
        .out.strip()
        .splitlines()
    ]

    assert rows == [
        ["version", "value"],
        ["4", "(deleted)"],
        ["3", '"2026-01-03"'],
        ["2", '"2026-01-02"'],
        ["1", '"2026-01-01"'],
    ]


def test_history_json_has_null_for_a_deletion(holdfast, orders):
    holdfast("state-store", "delete", "--asset", "orders", "watermark", "--yes")

    steps = json.loads(
        holdfast("state-store", "history", "--asset", "orders", "watermark", "--json").out
    )

    assert [(step["version"], step["value"]) for step in steps[:2]] == [
        (4, None),
        (3, "2026-01-03"),
    ]
    assert steps[1]["last_updated_by"] == {"kind": "api", "user": "ann"}


def test_a_key_without_history_is_an_error(holdfast, orders):
    assert holdfast("state-store", "history", "--asset", "orders", "nothing").status == 1


@pytest.mark.parametrize("option", ["--version", "--to-version"])
def test_rewind_restores_a_version_as_a_new_one(holdfast, orders, option):
    result = holdfast("state-store", "rewind", "--asset", "orders", "watermark", option, "1")

    assert result == (
        0,
        '"2026-01-01"\n',
        "Restored version 1 of `watermark` of asset `orders`:\n",
    )
    assert orders.execute(GetEntry(ORDERS, "watermark")).version == 4


def test_a_dry_run_of_a_rewind_changes_nothing(holdfast, orders):
    args = ("state-store", "rewind", "--asset", "orders", "watermark", "--version", "2")

    shown = holdfast(*args, "--dry-run")
    document = json.loads(holdfast(*args, "--dry-run", "--json").out)

    assert shown.out == '"2026-01-02"\n'
    assert shown.err.startswith("Would restore version 2")
    assert (document["dry_run"], document["restored"]["version"]) == (True, 2)
    assert orders.execute(GetEntry(ORDERS, "watermark")).version == 3


@pytest.mark.parametrize("option", ["--run-id", "--before-run"])
def test_rewind_to_before_a_run(holdfast, orders, option):
    orders.execute(RegisterTask(LOAD))
    orders.execute(Set(ORDERS, "watermark", '"2027-01-01"', TaskWriter(LOAD)))

    result = holdfast("state-store", "rewind", "--asset", "orders", "watermark", option, "r1")

    assert result.out == '"2026-01-03"\n'


def test_rewind_to_a_time_before_the_first_write_leaves_the_key_absent(holdfast, orders):
    result = holdfast(
        "state-store", "rewind", "--asset", "orders", "watermark", "--at", "2020-01-01T00:00:00Z"
    )

    assert (result.status, result.out) == (0, "")
    assert "did not exist" in result.err
    assert orders.execute(Get(ORDERS, "watermark")) is None


def test_rewind_to_an_unknown_version_is_an_error(holdfast, orders):
    result = holdfast("state-store", "rewind", "--asset", "orders", "watermark", "--version", "9")

    assert result.status == 1
    assert result.err.endswith("hint: versions kept: 1 to 3\n")
