"""Parsing of DAG files to the values that the scheduler reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest
from task_runs import Pipeline, write_file

from holdfast.model.dag import (
    AliasSpec,
    AllOf,
    AnyOf,
    AssetRefSpec,
    AssetSpec,
    Cron,
    DagSpec,
    Every,
    LiteralAxis,
    OnAssets,
    Once,
    ResultAxis,
    WatcherSpec,
)
from holdfast.model.run import TriggerRule
from holdfast.runner.task.dag_import import load_file
from holdfast.sdk import (
    DAG,
    Asset,
    AssetAlias,
    AssetWatcher,
    BaseEventTrigger,
    BaseOperator,
    Param,
    chain,
    dag,
    task,
)
from holdfast.sdk.reference import DagParam, resolve

Make = Callable[[str], Pipeline]

FILE = "pipeline.py"


class Step(BaseOperator):
    def __init__(self, *, size: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size


def steps(*names: str) -> list[Step]:
    return [Step(task_id=name) for name in names]


def upstream(spec: DagSpec) -> dict[str, tuple[str, ...]]:
    return {one.task_id: one.upstream for one in spec.tasks}


def test_calling_a_decorated_function_creates_a_task_downstream_of_its_arguments() -> None:
    @task
    def extract() -> list[int]:
        return [1]

    @task(retries=2)
    def load(rows: list[int]) -> None: ...

    with DAG("d") as made:
        load(extract())

    spec = made.spec(FILE)
    assert upstream(spec) == {"extract": (), "load": ("extract",)}
    assert [one.retries for one in spec.tasks] == [0, 2]
    assert {one.operator for one in spec.tasks} == {"@task"}


def test_arrows_connect_tasks_results_and_lists() -> None:
    @task
    def end() -> None: ...

    with DAG("d") as made:
        a, b, c = steps("a", "b", "c")
        a >> [b, c] >> end()
        d = Step(task_id="d")
        d << [b, c]
        [a, b] << Step(task_id="first")

    assert upstream(made.spec(FILE)) == {
        "first": (),
        "a": ("first",),
        "b": ("a", "first"),
        "c": ("a",),
        "end": ("b", "c"),
        "d": ("b", "c"),
    }


def test_chain_connects_lists_pair_by_pair() -> None:
    with DAG("d") as made:
        a, b, c, d, e, f = steps(*"abcdef")
        chain(a, [b, c], [d, e], f)

    found = upstream(made.spec(FILE))
    assert found == {
        "a": (),
        "b": ("a",),
        "c": ("a",),
        "d": ("b",),
        "e": ("c",),
        "f": ("d", "e"),
    }


def test_a_decorated_function_called_twice_creates_two_tasks() -> None:
    @task
    def load() -> None: ...

    with DAG("d") as made:
        load()
        load()
        load.override(task_id="last", retries=1)()

    assert made.task_ids == ["load", "load__1", "last"]


def test_default_args_apply_to_all_operators() -> None:
    defaults = {"retries": 3, "retry_delay": timedelta(seconds=7), "size": 5, "unknown": 1}

    @task(retries=1)
    def own() -> None: ...

    with DAG("d", default_args=defaults) as made:
        step = Step(task_id="step")
        own()

    spec = made.spec(FILE)
    assert step.size == 5
    assert [(one.retries, one.retry_delay.seconds) for one in spec.tasks] == [(3, 7), (1, 7)]


def test_a_retry_waits_five_minutes_by_default() -> None:
    with DAG("d") as made:
        Step(task_id="default")
        Step(task_id="seconds", retry_delay=1.5, retry_exponential_backoff=True)
        Step(task_id="factor", retry_exponential_backoff=3, max_retry_delay=60)

    found = {one.task_id: one for one in made.spec(FILE).tasks}
    assert found["default"].retry_delay == timedelta(minutes=5)
    assert found["default"].retry_backoff == 0
    assert found["seconds"].retry_delay == timedelta(seconds=1.5)
    assert found["seconds"].retry_backoff == 2
    assert found["factor"].retry_backoff == 3
    assert found["factor"].max_retry_delay == timedelta(minutes=1)


def test_a_task_is_mapped_over_literals_and_results() -> None:
    @task
    def months() -> dict[str, list[int]]:
        return {"all": [1, 2]}

    @task
    def load(month: int, kind: str, fixed: int) -> None: ...

    with DAG("d") as made:
        load.partial(fixed=1).expand(month=months()["all"], kind=["a", "b", "c"])
        load.override(task_id="pairs").expand_kwargs([{"month": 1, "kind": "a", "fixed": 2}])
        Step.partial(task_id="steps", retries=4).expand(size=range(3))

    found = {one.task_id: one for one in made.spec(FILE).tasks}
    assert found["load"].mapped is not None
    assert found["load"].mapped.axes == (ResultAxis("months", ("all",)), LiteralAxis(3))
    assert found["load"].upstream == ("months",)
    assert found["pairs"].mapped is not None
    assert found["pairs"].mapped.axes == (LiteralAxis(1),)
    assert found["steps"].mapped is not None
    assert (found["steps"].operator, found["steps"].retries) == ("Step", 4)


def test_a_spark_task_is_marked_as_such() -> None:
    @task.pyspark
    def load(spark: Any) -> None: ...

    with DAG("d") as made:
        load()
        load.expand(spark=[1])

    assert [(one.operator, one.spark) for one in made.spec(FILE).tasks] == [
        ("@task.pyspark", True),
        ("@task.pyspark", True),
    ]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (None, None),
        ("30 2 * * 1-5", Cron("30 2 * * 1-5")),
        ("@daily", Cron("0 0 * * *")),
        ("@weekly", Cron("0 0 * * 0")),
        ("@once", Once()),
        (timedelta(hours=2), Every(timedelta(hours=2))),
        (Asset("a"), OnAssets(AssetSpec("a", "a"))),
        ([Asset("a")], OnAssets(AssetSpec("a", "a"))),
        (
            [Asset("a"), AssetAlias("b")],
            OnAssets(AllOf((AssetSpec("a", "a"), AliasSpec("b")))),
        ),
        (
            (Asset("a") & Asset("b")) | Asset.ref(name="c") | Asset.ref(uri="s3://d"),
            OnAssets(
                AnyOf(
                    (
                        AllOf((AssetSpec("a", "a"), AssetSpec("b", "b"))),
                        AssetRefSpec(name="c"),
                        AssetRefSpec(uri="s3://d/"),
                    )
                )
            ),
        ),
    ],
)
def test_a_schedule_is_converted_to_a_value(schedule: Any, expected: Any) -> None:
    assert DAG("d", schedule=schedule).spec(FILE).schedule == expected


def test_a_cron_schedule_is_in_the_time_zone_of_the_start_date() -> None:
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Vienna"))

    spec = DAG("d", schedule="@daily", start_date=start).spec(FILE)

    assert spec.schedule == Cron("0 0 * * *", "Europe/Vienna")
    assert spec.start_date == datetime(2025, 12, 31, 23, tzinfo=UTC)


def test_a_start_date_without_time_zone_is_in_utc_and_may_be_in_default_args() -> None:
    made = DAG("d", default_args={"start_date": datetime(2026, 1, 1)})  # noqa: DTZ001

    assert made.spec(FILE).start_date == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_dag_keeps_the_metadata_of_its_author() -> None:
    made = DAG(
        "d",
        description="what",
        catchup=True,
        max_active_tasks=2,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=1),
        is_paused_upon_creation=True,
        tags=["b", "a"],
        doc_md="""
            # Title
        """,
        params={"day": 3, "name": Param("x", type="string"), "needed": Param(type="string")},
        on_failure_callback=print,
    )

    spec = made.spec(FILE)

    assert (spec.description, spec.doc_md, spec.tags) == ("what", "# Title", ("a", "b"))
    assert (spec.catchup, spec.max_active_tasks, spec.max_active_runs) == (True, 2, 1)
    assert (spec.run_timeout, spec.paused_at_first) == (timedelta(hours=1), True)
    assert msgspec.json.decode(spec.params) == {"day": 3, "name": "x"}
    assert spec.callbacks == {"failure"}


def test_a_function_decorated_with_dag_is_a_dag_with_its_arguments_as_params() -> None:
    @task
    def show(text: str) -> None: ...

    @dag(schedule="@daily", tags=["t"])
    def greeting(name: str = "world") -> None:
        """Says hello."""
        show(name)

    spec = greeting().spec(FILE)

    assert (spec.dag_id, spec.doc_md, spec.params) == (
        "greeting",
        "Says hello.",
        '{"name":"world"}',
    )


def test_a_dag_declares_the_assets_and_watchers_that_it_names() -> None:
    class Poll(BaseEventTrigger):
        async def run(self) -> Any:
            yield

    watched = Asset("w", "s3://b/w/", watchers=[AssetWatcher("poll", Poll())])

    @task(inlets=Asset("i"), outlets=[Asset("o"), AssetAlias("later")])
    def copy() -> None: ...

    with DAG("d", schedule=[watched]) as made:
        copy()

    spec = made.spec(FILE)
    assert {one.name for one in spec.assets} == {"w", "i", "o"}
    assert spec.watchers == (WatcherSpec(AssetSpec("w", "s3://b/w"), "poll"),)
    assert spec.tasks[0].outlets == (AssetSpec("o", "o"), AliasSpec("later"))


def test_an_asset_function_is_an_asset_and_a_dag(pipeline: Make) -> None:
    orders, summary = pipeline(
        """
        from holdfast.sdk import asset

        @asset(schedule="@daily", uri="s3://lake/orders")
        def orders(self, context):
            '''All orders.'''

        @asset(schedule=orders)
        def summary(orders): ...
        """
    ).specs

    assert (orders.dag_id, orders.tasks[0].task_id) == ("orders", "orders")
    assert orders.tasks[0].outlets == (AssetSpec("orders", "s3://lake/orders"),)
    assert summary.schedule == OnAssets(AssetSpec("orders", "s3://lake/orders"))
    assert summary.tasks[0].inlets == (AssetRefSpec(name="orders"),)


def test_an_asset_function_may_have_several_assets_and_spark(pipeline: Make) -> None:
    (spec,) = pipeline(
        """
        from holdfast.sdk import Asset, asset, task

        @asset.multi(schedule=None, outlets=[Asset("a"), Asset("b")])
        @task.pyspark
        def both(spark): ...
        """
    ).specs

    assert (spec.dag_id, spec.tasks[0].spark) == ("both", True)
    assert spec.tasks[0].outlets == (AssetSpec("a", "a"), AssetSpec("b", "b"))


def test_arguments_without_effect_are_accepted() -> None:
    with DAG("d", dag_display_name="D", owner_links={}, render_template_as_native_obj=True) as made:
        Step(
            task_id="a",
            owner="me",
            email=["x"],
            email_on_failure=True,
            pool="p",
            queue="q",
            priority_weight=3,
            depends_on_past=False,
            doc_rst="x",
            trigger_rule="all_done",
        )

    assert made.spec(FILE).tasks[0].trigger_rule is TriggerRule.ALL_DONE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("S3://bucket/path/", "s3://bucket/path"),
        ("s3://bucket/path#part", "s3://bucket/path"),
        ("db://host/t?b=2&a=1", "db://host/t?a=1&b=2"),
    ],
)
def test_two_spellings_of_a_uri_are_one_asset(one: str, other: str) -> None:
    assert Asset(uri=one).uri == Asset(uri=other).uri


def test_a_password_is_removed_from_the_uri_of_an_asset() -> None:
    with pytest.warns(UserWarning, match="password"):
        asset = Asset("db", "postgres://me:secret@host/db")

    assert asset.uri == "postgres://host/db"


def test_a_file_contains_the_dags_that_it_creates_and_those_that_it_imports(tmp_path: Path) -> None:
    write_file(
        tmp_path,
        """
        from holdfast.sdk import DAG
        def make(dag_id):
            return DAG(dag_id)
        theirs = DAG("theirs")
        other = DAG("other")
        """,
        "neighbour.py",
    )
    file = write_file(
        tmp_path,
        """
        from neighbour import make, theirs
        from holdfast.sdk import DAG, dag
        for number in range(2):
            make(f"made_{number}")
        with DAG("entered"):
            pass
        @dag
        def called(): ...
        @dag
        def not_called(): ...
        called()
        """,
    )

    found = {one.dag_id for one in load_file(file)}

    assert found == {"made_0", "made_1", "entered", "called", "theirs"}


def test_a_file_is_imported_anew_each_time(tmp_path: Path) -> None:
    file = write_file(tmp_path, "from holdfast.sdk import DAG\nDAG('a')\n")
    first = [one.dag_id for one in load_file(file)]
    write_file(tmp_path, "from holdfast.sdk import DAG\nDAG('b')\n")

    second = [one.dag_id for one in load_file(file)]

    assert (first, second) == (["a"], ["b"])


class Days(NamedTuple):
    first: Any
    last: Any


def test_references_in_collections_of_any_type_are_resolved() -> None:
    given = {"days": Days(DagParam("day"), 31), "list": [(DagParam("day"),)]}
    context: Any = {"params": {"day": 1}}

    assert resolve(given, context) == {"days": Days(1, 31), "list": [(1,)]}
