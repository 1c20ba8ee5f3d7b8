"""Both stores in a task."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from task_runs import RUN_ID, Pipeline

from holdfast import commands as c
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.runner.protocol.messages import Failed
from holdfast.runner.task.execution import execute
from holdfast.sdk import NEVER_EXPIRE
from holdfast.sdk.execution_time.context import NEVER_EXPIRE as ALSO_NEVER_EXPIRE

Make = Callable[[str], Pipeline]
Body = Callable[..., Pipeline]

HEAD = """
from datetime import datetime, timedelta
from holdfast.sdk import *

orders, customers = Asset("orders", "s3://lake/orders"), Asset("customers")
"""


@pytest.fixture
def body(pipeline: Make) -> Body:
    """Return a function that creates a pipeline of one task `t` with the given body, which has
    `context`."""

    def make(text: str, arguments: str = "") -> Pipeline:
        lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
        return pipeline(
            f"{HEAD}\n@task({arguments})\ndef t(x=None):\n    context = get_current_context()\n"
            f"{lines}\nwith DAG('d'):\n    t()\n"
        )

    return make


def test_never_expire_has_one_meaning_wherever_it_is_imported_from() -> None:
    assert NEVER_EXPIRE is ALSO_NEVER_EXPIRE


@pytest.mark.parametrize("store", ["task", "asset"])
def test_a_store_has_three_names_in_the_context(body: Body, store: str) -> None:
    pipeline = body(
        f"""
return len({{id(context["{store}_" + name]) for name in ("store", "state", "state_store")}})
""",
        "outlets=[orders]",
    )

    assert pipeline.result("t") == 1


@pytest.mark.parametrize("store", ["task", "asset"])
def test_a_store_is_given_to_parameters_of_three_names(pipeline: Make, store: str) -> None:
    names = ", ".join(f"{store}_{name}" for name in ("store", "state", "state_store"))
    made = pipeline(f"""
from holdfast.sdk import *

@task(inlets=[Asset("a")])
def t({names}):
    return len({{id(one) for one in ({names})}})

with DAG("d"):
    t()
""")

    assert made.result("t") == 1


def test_every_call_of_the_task_store_works_in_a_task(body: Body) -> None:
    pipeline = body("""
store = context["task_store"]
store.set("a", 1)
store.set("for ever", 1, retention=NEVER_EXPIRE)
store.set_many({"b": [2], "c": {"x": None}}, retention=timedelta(days=1))
store.delete("c")
store.delete("absent")
entry = store.entry("a")
store.set("a", 2, if_version=entry.version)
before = store.keys()
items = store.items()
never = store.entry("for ever").expires_at
store.clear()
gone = [store.get("a"), store.get("a", "default"), store.keys()]
return [*gone, before, items, never, entry.version]
""")

    assert pipeline.result("t") == [
        None,
        "default",
        [],
        ["a", "b", "for ever"],
        [["a", 2], ["b", [2]], ["for ever", 1]],
        None,
        1,
    ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("set('k', None)", "InvalidInput: `k` of task d/run-1/t: None cannot be stored"),
        ("set('k', datetime.now())", "InvalidType: `k` of task d/run-1/t: value is a datetime"),
        ("set('k', {'a': [float('nan')]})", "InvalidInput: `k` of task d/run-1/t: value['a'][0]"),
        ("set('k', 1, retention=7)", "InvalidType: task d/run-1/t: retention must be a timedelta"),
        ("set('k', 1, retention=timedelta(0))", "InvalidInput: task d/run-1/t: retention is"),
        ("set('', 1)", "InvalidInput: the key is empty for task d/run-1/t"),
        ("set('k' * 513, 1)", "InvalidInput: the key"),
        ("set('k', 1, if_version=3)", "VersionConflict: `k` of task d/run-1/t"),
    ],
)
def test_bad_input_to_the_task_store_fails_the_task_with_a_clear_message(
    body: Body, call: str, error: str
) -> None:
    pipeline = body(f'context["task_store"].{call}')

    assert pipeline.failure("t").startswith(error)


def test_a_retry_reads_the_entries_of_the_previous_attempt(body: Body) -> None:
    pipeline = body("""
store = context["task_store"]
done = store.get("done", 0)
store.set("done", done + 1)
if context["ti"].try_number == 1:
    raise RuntimeError("crash")
return [done, context["try_number"]]
""")
    pipeline.run("t")

    assert pipeline.result("t") == [1, 2]


def test_map_indices_are_isolated_except_for_a_clear_of_all(pipeline: Make) -> None:
    made = pipeline("""
from holdfast.sdk import *

@task
def t(x, task_store, ti):
    before = task_store.keys()
    task_store.set(f"k{x}", x)
    if x == 2:
        task_store.clear(all_map_indices=True)
    return before

with DAG("d"):
    t.expand(x=[0, 1, 2])
""")
    results = [made.result("t", index) for index in range(3)]

    assert results == [[], [], []]
    assert made.task_value("t", "k0", 0) is None


def test_a_task_without_asset_has_no_asset_store(body: Body) -> None:
    pipeline = body("""
try:
    context["asset_store"]
except KeyError as error:
    return [str(error), context.get("asset_store"), "asset_state" in context]
""")

    message, got, listed = pipeline.result("t")

    assert "task `t` has no `asset_store`: there is no asset among its inlets" in message
    assert "inlets= or outlets=" in message
    assert (got, listed) == (None, False)


def test_a_task_with_an_alias_among_its_outlets_alone_has_no_asset_store(body: Body) -> None:
    pipeline = body('context["asset_store"]', "outlets=[AssetAlias('late')]")

    assert pipeline.failure("t").startswith("UndeclaredAsset: task `t` has no `asset_store`")


def test_an_inlet_alias_with_nothing_behind_it_gives_an_empty_asset_store(body: Body) -> None:
    pipeline = body(
        """
seen = [len(context["asset_store"])]
for look in (lambda store: store.get("k"), lambda store: store[orders]):
    try:
        look(context["asset_state"])
    except (ValueError, KeyError) as error:
        seen.append(f"{type(error).__name__}: {error}")
return seen
""",
        "inlets=[AssetAlias('late')]",
    )

    size, get, subscript = pipeline.result("t")

    assert size == 0
    assert get.startswith("InvalidInput: task `t` has no asset yet")
    assert subscript.startswith("UndeclaredAsset: task `t` does not declare asset `orders`")
    for error in (get, subscript):
        assert "no task has added an asset to alias `late` yet" in error


@pytest.mark.parametrize("uri", ["s3://lake/orders", "S3://lake/orders/"])
@pytest.mark.parametrize(
    "declared", ["inlets=[orders, customers]", "outlets=[Asset.ref(uri='s3://lake/orders')]"]
)
def test_an_asset_is_found_by_its_uri_alone(body: Body, declared: str, uri: str) -> None:
    pipeline = body(f'context["asset_store"][Asset(uri="{uri}")].set("k", 1)', declared)
    pipeline.store.execute(c.DeclareAsset("orders", "s3://lake/orders"))

    assert pipeline.result("t") is None
    assert pipeline.asset_value("orders", "k") == 1


def test_an_asset_of_another_name_is_not_found_by_its_uri(body: Body) -> None:
    pipeline = body(
        'context["asset_store"][Asset("other", uri="s3://lake/orders")]', "inlets=[orders]"
    )

    assert "does not declare asset `other`" in pipeline.failure("t")


def test_an_asset_that_the_task_does_not_declare_is_a_key_error(body: Body) -> None:
    pipeline = body(
        """
try:
    context["asset_store"][customers]
except KeyError as error:
    return str(error)
""",
        "inlets=[orders]",
    )

    message = pipeline.result("t")

    assert "task `t` does not declare asset `customers`" in message
    assert "add it to the task's inlets or outlets; it declares `orders`" in message


@pytest.mark.parametrize("key", ["'orders'", "3", "None", "AssetAlias('orders')"])
def test_a_subscript_of_another_type_is_a_type_error(body: Body, key: str) -> None:
    pipeline = body(
        f"""
try:
    context["asset_store"][{key}]
except TypeError as error:
    return str(error)
""",
        "inlets=[orders]",
    )

    assert "is looked up by asset, not by" in pipeline.result("t")


@pytest.mark.parametrize(
    "declared",
    [
        "inlets=[orders]",
        "outlets=[orders]",
        "outlets=[Asset.ref(name='orders')]",
        "outlets=[Asset.ref(uri='s3://lake/orders')]",
        "inlets=[orders], outlets=[orders]",
        "inlets=[Asset.ref(name='orders')], outlets=[orders]",
        "inlets=[Asset.ref(uri='s3://lake/orders'), orders]",
        "inlets=[Asset.ref(name='orders')]",
        "inlets=[Asset.ref(uri='s3://lake/orders')]",
        "inlets=[AssetAlias('late')]",
        "inlets=[AssetAlias('late'), orders]",
    ],
)
def test_with_exactly_one_asset_its_store_needs_no_subscript(body: Body, declared: str) -> None:
    pipeline = body(
        """
store = context["asset_store"]
store.set("cursor", 3)
return [store.get("cursor"), store.keys(), store.advance("cursor", 2)]
""",
        declared,
    )
    pipeline.store.execute(c.DeclareAsset("orders", "s3://lake/orders"))
    pipeline.store.aliases = {"late": ["orders"]}

    assert pipeline.result("t") == [3, ["cursor"], 3]
    assert pipeline.asset_value("orders", "cursor") == 3


def test_with_several_assets_the_shorthand_names_them(body: Body) -> None:
    pipeline = body(
        """
try:
    context["asset_store"].get("cursor")
except ValueError as error:
    return str(error)
""",
        "inlets=[orders], outlets=[customers]",
    )

    message = pipeline.result("t")

    assert "`orders`, `customers`" in message
    assert 'context["asset_store"][my_asset].get' in message


@pytest.mark.parametrize(
    "key", ["orders", "Asset.ref(name='orders')", "Asset.ref(uri='s3://lake/orders')"]
)
def test_an_asset_is_found_by_itself_by_name_and_by_uri(body: Body, key: str) -> None:
    pipeline = body(
        f"""
store = context["asset_store"]
store[orders].set("cursor", 1)
return store[{key}].get("cursor")
""",
        "inlets=[orders, customers]",
    )

    assert pipeline.result("t") == 1


def test_a_staged_write_takes_effect_when_the_task_succeeds(body: Body) -> None:
    pipeline = body(
        """
store = context["asset_store"]
store.set("watermark", 10, on_success=True)
seen = store.get("watermark")
if context["ti"].try_number == 1:
    raise RuntimeError("crash")
return seen
""",
        "outlets=[orders]",
    )
    pipeline.run("t")
    after_failure = pipeline.asset_value("orders", "watermark")
    result = pipeline.result("t")

    assert (after_failure, result) == (None, 10)
    assert pipeline.asset_value("orders", "watermark") == 10


def test_an_asset_entry_knows_which_task_wrote_it(body: Body) -> None:
    pipeline = body('context["asset_store"].set("k", 1)', "outlets=[orders]")
    pipeline.run("t")

    entry = pipeline.store.execute(c.GetEntry(AssetScope(name="orders"), "k"))

    assert entry is not None
    assert entry.writer == TaskWriter(TaskScope("d", RUN_ID, "t"))


def test_history_and_rewind_work_in_a_task(body: Body) -> None:
    pipeline = body(
        """
store = context["asset_store"]
store.set("k", 1)
store.set("k", 2)
store.rewind("k", version=1)
return [[step.value for step in store.history("k")], store.get("k")]
""",
        "outlets=[orders]",
    )

    assert pipeline.result("t") == [[1, 2, 1], 1]


@pytest.mark.parametrize("store", ["task_store", "asset_store"])
def test_a_superseded_attempt_may_not_write(body: Body, store: str) -> None:
    pipeline = body(f'context["{store}"].set("k", 1)', "outlets=[orders]")
    zombie = pipeline.startup("t")
    pipeline.startup("t")

    report = execute(zombie, pipeline.store)

    assert isinstance(report, Failed)
    assert report.error.startswith("StaleAttempt: attempt 1 of task d/run-1/t may not write")


def test_an_inactive_asset_is_an_error_and_not_a_first_load(
    body: Body,
) -> None:
    pipeline = body('return context["asset_store"].get("k")', "inlets=[Asset.ref(name='orderz')]")

    assert pipeline.failure("t").startswith("UnknownAsset: asset `orderz` is not known")


def test_an_asset_in_the_arguments_of_a_task_is_an_inlet(pipeline: Make) -> None:
    made = pipeline("""
from holdfast.sdk import *

orders = Asset("orders")

@task
def t(asset, asset_store):
    asset_store[asset].set("k", 1)

with DAG("d"):
    t(orders)
""")
    made.run("t")

    assert made.asset_value("orders", "k") == 1
