"""Execution of one attempt of a task: arguments, context, results, events, failures."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from task_runs import RUN_ID, Pipeline

from holdfast.commands import DeclareAsset
from holdfast.model.run import AssetEvent, EmittedEvent
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.runner.protocol.messages import Failed, Skipped, Succeeded
from holdfast.runner.task.execution import execute

Make = Callable[[str], Pipeline]

HEAD = """
from holdfast.sdk import *
from holdfast.sdk.exceptions import *
"""


@pytest.fixture
def tasks(pipeline: Make) -> Make:
    """Return a function that creates a pipeline of one DAG whose file has the names of the SDK."""
    return lambda text: pipeline(HEAD + text)


def test_a_result_is_passed_on(tasks: Make) -> None:
    pipeline = tasks("""
@task
def extract():
    return {"rows": [1, 2], "meta": {"source": "x"}}

@task
def load(rows, source, both):
    return [rows, source, both]

with DAG("d"):
    found = extract()
    load(found["rows"], source=found["meta"]["source"], both=[found, {"k": found["rows"][1]}])
""")
    pipeline.run("extract")

    everything = {"rows": [1, 2], "meta": {"source": "x"}}
    assert pipeline.result("load") == [[1, 2], "x", [everything, {"k": 2}]]


def test_the_results_of_a_mapped_task_are_a_list_in_order_of_index(tasks: Make) -> None:
    pipeline = tasks("""
@task
def square(x):
    return {"y": x * x}

@task
def total(all, ys):
    return [all, sum(ys)]

with DAG("d"):
    squares = square.expand(x=[3, 1, 2])
    total(squares, squares["y"])
""")
    for index in (2, 0, 1):
        pipeline.run("square", index)

    assert pipeline.result("total") == [[{"y": 9}, {"y": 1}, {"y": 4}], 14]


def test_a_task_without_result_passes_none_on(tasks: Make) -> None:
    pipeline = tasks("""
@task
def nothing(): ...

@task
def after(x):
    return x is None

@task
def inside(x): ...

with DAG("d"):
    after(nothing())
    inside(nothing.override(task_id="other")()["key"])
""")
    pipeline.run("nothing")

    assert pipeline.result("after") is True
    assert "the result of task `other`['key'] does not exist" in pipeline.failure("inside")


def test_map_indices_enumerate_all_combinations_with_the_last_argument_fastest(tasks: Make) -> None:
    pipeline = tasks("""
@task
def months():
    return {"jan": 1, "feb": 2}

@task
def load(month, kind, fixed):
    return [month, kind, fixed]

with DAG("d"):
    load.partial(fixed="f").expand(month=months(), kind=["a", "b"])
""")
    pipeline.run("months")

    assert [pipeline.result("load", index)[:2] for index in range(4)] == [
        [["jan", 1], "a"],
        [["jan", 1], "b"],
        [["feb", 2], "a"],
        [["feb", 2], "b"],
    ]
    assert "no longer has map index 4" in pipeline.failure("load", 4)


def test_a_task_is_mapped_over_dicts_of_arguments(tasks: Make) -> None:
    pipeline = tasks("""
@task
def files():
    return [{"path": "a", "size": 1}, {"path": "b", "size": 2}]

@task
def load(path, size):
    return path * size

class Copy(BaseOperator):
    def __init__(self, *, path, size, **kwargs):
        super().__init__(**kwargs)
        self.path, self.size = path, size

    def execute(self, context):
        return [self.path, self.size, self.task_id, self.dag.dag_id]

with DAG("d", default_args={"retries": 1}):
    found = files()
    load.expand_kwargs(found)
    Copy.partial(task_id="copy", size=3).expand(path=["x", found[1]["path"]])
""")
    pipeline.run("files")

    assert pipeline.result("load", 1) == "bb"
    assert pipeline.result("copy", 1) == ["b", 3, "copy", "d"]


def test_mapping_over_a_result_that_is_not_a_list_fails(tasks: Make) -> None:
    pipeline = tasks("""
@task
def text():
    return "abc"

@task
def load(x): ...

with DAG("d"):
    load.expand(x=text())
""")
    pipeline.run("text")

    assert "is mapped over the result of task `text`, which is a str" in pipeline.failure("load", 0)


def test_parameters_are_filled_from_the_context_by_name(tasks: Make) -> None:
    pipeline = tasks("""
@task
def show(x, ti, run_id, params, logical_date, task_store, try_number, dag_run, y=2, ds=None):
    same = get_current_context()["ti"] is ti
    return [x, y, ti.task_id, ti.map_index, run_id, params["day"], logical_date.year, ds,
            task_store.get("k", "none"), try_number, dag_run.run_type, ti.max_tries, same]

with DAG("d", params={"day": 1}):
    show(7)
""")
    pipeline.logical_date = datetime(2026, 3, 4, tzinfo=UTC)

    assert pipeline.result("show") == [
        7, 2, "show", -1, RUN_ID, 1, 2026, "2026-03-04", "none", 1, "manual", 2, True,
    ]  # fmt: skip


def test_a_function_that_takes_keywords_gets_the_whole_context(tasks: Make) -> None:
    pipeline = tasks("""
@task
def show(x, ti, **context):
    return [x, ti.task_id, "x" in context, "ti" in context, context["run_id"],
            sorted(key for key in context if "store" in key or "state" in key)]

with DAG("d"):
    show(x=1)
""")

    assert pipeline.result("show") == [
        1, "show", False, False, RUN_ID, ["task_state", "task_state_store", "task_store"],
    ]  # fmt: skip


def test_the_dates_of_a_run_are_in_the_context(tasks: Make) -> None:
    pipeline = tasks("""
@task
def dates(ds, ds_nodash, ts, ts_nodash, ts_nodash_with_tz, data_interval_start):
    return [ds, ds_nodash, ts, ts_nodash, ts_nodash_with_tz, data_interval_start.isoformat()]

with DAG("d"):
    dates()
""")
    pipeline.logical_date = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

    assert pipeline.result("dates") == [
        "2026-03-04",
        "20260304",
        "2026-03-04T05:06:07+00:00",
        "20260304T050607",
        "20260304T050607+0000",
        "2026-03-04T05:06:07+00:00",
    ]


def test_a_run_without_logical_date_is_an_error_where_one_is_needed(tasks: Make) -> None:
    pipeline = tasks("""
@task
def show(ds): ...

with DAG("d"):
    show()
""")

    assert "run `run-1` has no logical date" in pipeline.failure("show")


def test_the_conf_of_a_run_overrides_the_defaults_of_its_params(tasks: Make) -> None:
    pipeline = tasks("""
@task(params={"b": 20})
def show(params):
    return params

@dag(params={"a": 1, "b": 2, "limit": Param(3, type="integer")})
def d(name="world"):
    @task
    def greet(name):
        return name
    show()
    greet(name)

d()
""")
    pipeline.conf = {"a": 10, "name": "you", "other": True}

    assert pipeline.result("show") == {
        "a": 10, "b": 20, "limit": 3, "name": "you", "other": True,
    }  # fmt: skip
    assert pipeline.result("greet") == "you"


def test_a_param_that_breaks_its_rules_or_is_missing_fails_the_task(tasks: Make) -> None:
    pipeline = tasks("""
@task
def show(params): ...

with DAG("d", params={"limit": Param(3, type="integer"), "needed": Param(type="string")}):
    show()
""")
    missing = pipeline.failure("show")
    pipeline.conf = {"needed": "x", "limit": "many"}

    assert "param `needed` has no default" in missing
    assert "param `limit` is 'many', but its type is 'integer'" in pipeline.failure("show")


def test_an_async_task_runs_and_uses_the_stores_without_blocking(tasks: Make) -> None:
    pipeline = tasks("""
import asyncio

@task(outlets=[Asset("a")])
async def load(task_store, asset_store):
    await asyncio.gather(*(task_store.aset(str(n), n) for n in range(3)))
    await asset_store.aset("done", True)
    return await task_store.akeys()

class Later(BaseOperator):
    async def execute(self, context):
        await asyncio.sleep(0)
        return context["run_id"]

with DAG("d"):
    load()
    Later(task_id="later")
""")

    assert pipeline.result("load") == ["0", "1", "2"]
    assert pipeline.asset_value("a", "done") is True
    assert pipeline.result("later") == RUN_ID


def test_an_operator_gets_its_arguments_resolved_and_its_hooks_called(tasks: Make) -> None:
    pipeline = tasks("""
@task
def path():
    return "p"

class Copy(BaseOperator):
    def __init__(self, *, source, **kwargs):
        super().__init__(**kwargs)
        self.source = source
        self.seen = []

    def pre_execute(self, context):
        self.seen.append("pre")

    def execute(self, context):
        self.seen.append(self.source)
        assert context["task"] is self
        return self.seen

    def post_execute(self, context, result):
        result.append("post")

with DAG("d"):
    Copy(task_id="copy", source={"from": path()})
""")
    pipeline.run("path")

    assert pipeline.result("copy") == ["pre", {"from": "p"}, "post"]


def test_tasks_push_and_pull_values_under_keys(tasks: Make) -> None:
    pipeline = tasks("""
@task
def push(ti):
    ti.xcom_push(key="k", value=[1])
    return {"part": 2}

@task
def each(x):
    return x

@task
def pull(ti, pushed):
    return [
        pushed,
        ti.xcom_pull(task_ids="push", key="k"),
        ti.xcom_pull(task_ids="push"),
        ti.xcom_pull(task_ids="push", key="part"),
        ti.xcom_pull(task_ids="each"),
        ti.xcom_pull(task_ids="each", map_indexes=1),
        ti.xcom_pull(task_ids="each", map_indexes=[1, 0]),
        ti.xcom_pull(task_ids=["push", "each"]),
        ti.xcom_pull(task_ids="gone", default="d"),
    ]

with DAG("d"):
    [push(), each.expand(x=[5, 6])] >> pull(push.override(task_id="push_2")()["k"])
""")
    for task_id in ("push", "push_2"):
        pipeline.run(task_id)
    for index in range(2):
        pipeline.run("each", index)

    assert pipeline.result("pull") == [
        [1], [1], {"part": 2}, 2, [5, 6], 6, [6, 5], [{"part": 2}, 5, 6], "d",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("{'a': [{1}]}", "the result of task `t`: value['a'][0] is a set"),
        ("float('nan')", "the result of task `t`: value is nan"),
        ("{1: 2}", "the result of task `t`: value has the key 1"),
        ("object()", "the result of task `t`: value is a object"),
        ("__import__('pandas').DataFrame()", "task `t` returned a DataFrame"),
        (
            "type('DataFrame', (), {})()",
            "task `t` returned a DataFrame: write the data, and return its path",
        ),
    ],
)
def test_a_result_that_is_not_json_fails_the_task(
    tasks: Make, returned: str, expected: str
) -> None:
    pipeline = tasks(f"""
@task
def t():
    return {returned}

with DAG("d"):
    t()
""")

    assert expected in pipeline.failure("t")


def test_a_result_is_not_stored_if_xcom_push_is_disabled(tasks: Make) -> None:
    pipeline = tasks("""
@task(do_xcom_push=False)
def t():
    return {1, 2}

with DAG("d"):
    t()
""")

    assert pipeline.run("t") == Succeeded()


def test_a_task_that_raises_skip_is_skipped(tasks: Make) -> None:
    pipeline = tasks("""
@task
def t():
    raise AirflowSkipException("nothing new")

with DAG("d"):
    t()
""")

    assert pipeline.run("t") == Skipped("nothing new")


def test_a_failure_is_one_line_with_the_exception(tasks: Make) -> None:
    pipeline = tasks("""
@task
def t():
    raise ValueError("first line\\nsecond line")

with DAG("d"):
    t()
""")

    report = pipeline.run("t")

    assert isinstance(report, Failed)
    assert (report.error, report.may_retry) == ("ValueError: first line", True)
    assert report.exception is not None
    assert pickle.loads(report.exception).args == ("first line\nsecond line",)


def test_the_log_of_a_failure_shows_the_frames_of_the_task_only(
    tasks: Make, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = tasks("""
def inner():
    raise LookupError("gone")

@task
async def t():
    inner()

with DAG("d"):
    t()
""")

    pipeline.run("t")

    assert "LookupError: gone" in caplog.text
    assert caplog.text.count('File "') == caplog.text.count(f'File "{pipeline.file}"') == 2


@pytest.mark.parametrize(
    ("raised", "may_retry"),
    [
        ("AirflowFailException('no')", False),
        ("AirflowException('no')", True),
        ("SystemExit(1)", True),
    ],
)
def test_a_failure_says_whether_it_may_be_retried(
    tasks: Make, raised: str, may_retry: bool
) -> None:
    pipeline = tasks(f"""
@task
def t():
    raise {raised}

with DAG("d"):
    t()
""")

    report = pipeline.run("t")

    assert isinstance(report, Failed)
    assert report.may_retry is may_retry


def test_an_exception_that_does_not_pickle_is_still_reported(tasks: Make) -> None:
    pipeline = tasks("""
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a}{b}")

@task
def t():
    raise Odd(1, 2)

with DAG("d"):
    t()
""")

    report = pipeline.run("t")

    assert report == Failed(error="Odd: 12", exception=None)


def test_a_stopped_task_gets_on_kill(tasks: Make) -> None:
    pipeline = tasks("""
class Long(BaseOperator):
    def execute(self, context):
        self.store = context["task_store"]
        raise KeyboardInterrupt

    def on_kill(self):
        self.store.set("killed", True)
        raise LookupError("in on_kill")

with DAG("d"):
    Long(task_id="long")
""")
    startup = pipeline.startup("long")

    with pytest.raises(KeyboardInterrupt):
        execute(startup, pipeline.store)

    assert pipeline.task_value("long", "killed") is True


def test_a_dag_or_task_removed_from_the_file_is_an_error_that_says_so(tasks: Make) -> None:
    pipeline = tasks("""
with DAG("d"):
    BaseOperator(task_id="t")
""")
    startup = pipeline.startup("t")
    other = msgspec.structs.replace(startup.writer, scope=TaskScope("d", RUN_ID, "gone"))

    report = execute(msgspec.structs.replace(startup, writer=other), pipeline.store)

    assert isinstance(report, Failed)
    assert "DAG `d` has no task `gone`" in report.error


def test_calling_a_task_inside_a_task_is_an_error_with_a_hint(tasks: Make) -> None:
    pipeline = tasks("""
@task
def inner():
    return 1

@task
def outer():
    return [inner.function(), inner()]

with DAG("d"):
    outer()
""")

    assert "task `inner` was called inside a running task" in pipeline.failure("outer")


def test_each_outlet_has_an_event_with_its_metadata(tasks: Make) -> None:
    pipeline = tasks("""
a, b, late = Asset("a", "s3://l/a"), Asset("b"), AssetAlias("late")

@task(outlets=[a, b, late])
def load(outlet_events):
    outlet_events[a].extra = {"rows": 3}
    outlet_events[Asset.ref(name="b")].extra["x"] = 1
    outlet_events[late].add(Asset("c", "s3://l/c"), extra={"n": 1})
    outlet_events[late].add(Asset("d"))

with DAG("d"):
    load()
""")

    report = pipeline.run("load")

    assert report == Succeeded(
        events=(
            EmittedEvent("a", "s3://l/a", '{"rows":3}'),
            EmittedEvent("b", "b", '{"x":1}'),
            EmittedEvent("c", "s3://l/c", '{"n":1}', ("late",)),
            EmittedEvent("d", "d", "{}", ("late",)),
        )
    )


def test_an_outlet_that_is_a_reference_has_the_event_of_its_asset(tasks: Make) -> None:
    pipeline = tasks("""
@task(outlets=[Asset.ref(name="a"), Asset.ref(uri="s3://l/b"), Asset("b", "s3://l/b")])
def load(outlet_events):
    outlet_events[Asset.ref(name="a")].extra["rows"] = 3
    outlet_events[Asset("b", "s3://l/b")].extra["x"] = 1

with DAG("d"):
    load()
""")
    pipeline.store.execute(DeclareAsset("a", "s3://l/a"))

    assert pipeline.run("load") == Succeeded(
        events=(
            EmittedEvent("a", "s3://l/a", '{"rows":3}'),
            EmittedEvent("b", "s3://l/b", '{"x":1}'),
        )
    )


def test_an_outlet_that_refers_to_no_asset_fails_the_task_before_it_runs(tasks: Make) -> None:
    pipeline = tasks("""
@task(outlets=[Asset.ref(name="orderz")])
def load(task_store):
    task_store.set("worked", True)

with DAG("d"):
    load()
""")

    assert pipeline.failure("load").startswith("UnknownAsset: asset `orderz` is not known")
    assert pipeline.task_value("load", "worked") is None


def test_metadata_that_a_task_yields_or_returns_goes_into_the_events(tasks: Make) -> None:
    pipeline = tasks("""
a, late = Asset("a"), AssetAlias("late")

@task(outlets=[a, late])
def yields():
    yield Metadata(a, {"rows": 3})
    yield Metadata(Asset("b"), {"x": 1}, alias=late)
    return "done"

@task(outlets=[a])
def returns():
    return Metadata(a, {"rows": 4})

with DAG("d"):
    yields()
    returns()
""")

    assert pipeline.run("yields") == Succeeded(
        result='"done"',
        events=(EmittedEvent("a", "a", '{"rows":3}'), EmittedEvent("b", "b", '{"x":1}', ("late",))),
    )
    assert pipeline.run("returns") == Succeeded(events=(EmittedEvent("a", "a", '{"rows":4}'),))


def test_metadata_may_not_be_mixed_with_a_result(tasks: Make) -> None:
    pipeline = tasks("""
a = Asset("a")

@task(outlets=[a])
def mixes():
    return [1, Metadata(a, {"rows": 3})]

@task(outlets=[a])
def lists():
    return [Metadata(a, {"rows": 3}), Metadata(a, {"files": 1})]

with DAG("d"):
    mixes()
    lists()
""")

    assert "task `mixes` returned Metadata together with 1" in pipeline.failure("mixes")
    assert pipeline.run("lists") == Succeeded(
        events=(EmittedEvent("a", "a", '{"rows":3,"files":1}'),)
    )


def test_an_event_of_an_outlet_that_is_not_declared_is_an_error(tasks: Make) -> None:
    pipeline = tasks("""
@task(outlets=[Asset("a")])
def load(outlet_events):
    outlet_events[Asset("b")].extra = {}

with DAG("d"):
    load()
""")

    assert "not among the outlets of task `load`" in pipeline.failure("load")


def test_a_task_sees_the_events_that_started_its_run(tasks: Make) -> None:
    pipeline = tasks("""
orders = Asset("orders", "s3://lake/orders")

@task
def consume(triggering_asset_events):
    (event,) = triggering_asset_events[orders]
    assert list(triggering_asset_events) == [orders]
    return [event.extra["rows"], event.source_task_id, event.asset.name]

with DAG("d", schedule=[orders]):
    consume()
""")
    pipeline.store.run_events = [
        AssetEvent(
            asset=AssetScope(1, "orders", "s3://lake/orders"),
            number=1,
            at=datetime(2026, 1, 1, tzinfo=UTC),
            extra='{"rows":3}',
            source=TaskScope("p", "r", "load"),
        )
    ]

    assert pipeline.result("consume") == [3, "load", "orders"]


def test_callbacks_are_called_with_the_context_and_the_exception(
    tasks: Make, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = tasks("""
import logging

class Broken(Exception): ...

def first(context):
    logging.getLogger("seen").warning(
        "%s %r %s", context["ti"].task_id, context["exception"], context["reason"]
    )

def fails(context):
    raise LookupError("in the callback")

async def last(context):
    logging.getLogger("seen").warning("last: %s", get_current_context()["run_id"])

@task(on_failure_callback=[first, fails, last])
def t():
    raise Broken("x")

with DAG("d", on_success_callback=last):
    t()
""")
    failed = pipeline.run("t")
    assert isinstance(failed, Failed)
    caplog.clear()

    pipeline.call_back("failure", "t", failed)
    pipeline.call_back("success")

    assert [one.getMessage() for one in caplog.records] == [
        "t Broken('x') Broken: x",
        "the callback fails failed",
        f"last: {RUN_ID}",
        f"last: {RUN_ID}",
    ]
    assert "in the callback" in caplog.text


def test_a_callback_is_called_for_a_run_whose_params_are_wrong(
    tasks: Make, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = tasks("""
import logging

def tell(context):
    logging.getLogger("seen").warning("told of %s", context["params"])

@task(on_failure_callback=tell)
def t(): ...

with DAG("d", params={"a": Param(1, type="integer"), "needed": Param()}):
    t()
""")
    pipeline.conf = {"a": "x"}
    failed = pipeline.run("t")
    assert isinstance(failed, Failed)

    pipeline.call_back("failure", "t", failed)

    assert "told of {'a': 'x'}" in caplog.text


def test_an_asset_function_gets_the_asset_the_context_and_the_assets_that_it_reads(
    tasks: Make,
) -> None:
    pipeline = tasks("""
@asset(schedule=None)
def raw(self, context, asset_store):
    context["asset_store"][self].set("rows", 3)
    return [self.name, context["run_id"], asset_store.get("rows")]

@asset(schedule=raw)
def clean(context, raw, outlet_events):
    outlet_events[Asset("clean")].extra = {"from": raw.name}
    return context["asset_store"][raw].get("rows")
""")

    assert pipeline.result("raw") == ["raw", RUN_ID, 3]
    report = pipeline.run("clean")
    assert report == Succeeded(
        result="3", events=(EmittedEvent("clean", "clean", '{"from":"raw"}'),)
    )


def test_a_spark_task_without_spark_is_an_error_that_says_so(tasks: Make) -> None:
    pipeline = tasks("""
@task.pyspark
def t(spark): ...

with DAG("d"):
    t()
""")

    assert "task `t` needs Spark, and none is configured for this run" in pipeline.failure("t")


def test_a_pushed_key_overrides_that_part_of_the_result(tasks: Make) -> None:
    pipeline = tasks("""
class Push(BaseOperator):
    def execute(self, context):
        context["ti"].xcom_push("rows", 7)
        return {"rows": 1, "files": {"new": 2}}

@task
def take(*values):
    return list(values)

with DAG("d"):
    push = Push(task_id="push")
    take(
        push.output["rows"],
        XComArg(push, key="rows"),
        XComArg(push, "files")["new"],
        XComArg(push)["files"]["new"],
        XComArg(push),
    )
""")
    pipeline.run("push")

    assert pipeline.result("take") == [7, 7, 2, 2, {"rows": 1, "files": {"new": 2}}]
