"""Watchers: their writes commit with the events that they report."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from task_runs import Pipeline

from holdfast.model.entry import WatcherWriter
from holdfast.model.run import EmittedEvent

Make = Callable[[str], Pipeline]

HEAD = """
from holdfast.sdk import *

class Poll(BaseEventTrigger):
    def __init__(self, upto):
        super().__init__()
        self.upto = upto

    async def run(self):
{body}

landing = Asset("landing", "s3://lake/landing", watchers=[AssetWatcher("poll", Poll(3))])

@task(inlets=[landing])
def consume(asset_store):
    return asset_store.get("cursor")

with DAG("d", schedule=[landing]):
    consume()
"""


@pytest.fixture
def watcher(pipeline: Make) -> Make:
    """Return a function that creates a pipeline whose watcher has the given body."""
    return lambda body: pipeline(
        HEAD.format(body="".join(f"        {line}\n" for line in body.strip().splitlines()))
    )


def test_a_cursor_commits_with_its_event(watcher: Make) -> None:
    pipeline = watcher("""
for n in range(self.asset_store.get("cursor", 0), self.upto):
    self.asset_store.set("cursor", n + 1)
    yield TriggerEvent({"file": n})
""")

    pipeline.watch("landing", "poll")
    pipeline.watch("landing", "poll")

    assert [emit.event for emit in pipeline.store.emits] == [
        EmittedEvent("landing", "s3://lake/landing", f'{{"payload":{{"file":{n}}}}}')
        for n in range(3)
    ]
    assert all(len(emit.writes) == 1 for emit in pipeline.store.emits)
    assert pipeline.asset_value("landing", "cursor") == 3
    assert pipeline.result("consume") == 3


def test_nothing_is_visible_before_the_event(watcher: Make) -> None:
    pipeline = watcher("""
self.asset_store.set("cursor", 1)
raise RuntimeError("crash")
yield
""")

    with pytest.raises(RuntimeError, match="crash"):
        pipeline.watch("landing", "poll")

    assert pipeline.store.emits == []
    assert pipeline.asset_value("landing", "cursor") is None


def test_writes_after_the_last_event_commit_at_the_end(watcher: Make) -> None:
    pipeline = watcher("""
yield TriggerEvent("x")
self.asset_store.set("ended", True)
""")

    pipeline.watch("landing", "poll")

    assert [emit.event is None for emit in pipeline.store.emits] == [False, True]
    assert pipeline.asset_value("landing", "ended") is True


def test_sync_and_async_calls_and_every_spelling_work(watcher: Make) -> None:
    pipeline = watcher("""
self.asset_store.set("a", 1)
await self.asset_state.aset("b", 2)
await self.asset_state_store.aset_many({"c": 3, "d": 4})
await self.asset_store.adelete("d")
yield TriggerEvent([self.asset_store.get("b"), await self.asset_store.aget("a"),
                    self.asset_store.keys(), await self.asset_store.aitems()])
""")

    pipeline.watch("landing", "poll")

    event = pipeline.store.emits[0].event
    assert event is not None
    assert event.extra == '{"payload":[2,1,["a","b","c"],[["a",1],["b",2],["c",3]]]}'
    assert pipeline.asset_value("landing", "d") is None


def test_the_store_is_found_by_the_asset_its_name_and_its_uri(watcher: Make) -> None:
    pipeline = watcher("""
store = self.asset_store
found = [store[landing], store[Asset.ref(name="landing")], store[Asset.ref(uri="s3://lake/landing")]]
assert len({id(one) for one in found}) == 1
found[0].set("k", 1)
yield TriggerEvent()
""")

    pipeline.watch("landing", "poll")

    assert pipeline.asset_value("landing", "k") == 1


def test_another_asset_is_not_accessible(watcher: Make) -> None:
    pipeline = watcher("""
self.asset_store[Asset("other")]
yield
""")

    with pytest.raises(KeyError, match="watcher `poll` does not declare asset `other`"):
        pipeline.watch("landing", "poll")


@pytest.mark.parametrize("uri", ["s3://lake/landing", "S3://lake/landing/"])
def test_the_store_of_a_watcher_is_found_by_the_uri_alone(watcher: Make, uri: str) -> None:
    pipeline = watcher(f"""
self.asset_store[Asset(uri="{uri}")].set("k", 1)
yield TriggerEvent()
""")

    pipeline.watch("landing", "poll")

    assert pipeline.asset_value("landing", "k") == 1


def test_the_writer_of_the_entries_is_the_watcher(watcher: Make) -> None:
    pipeline = watcher("""
self.asset_store.set("k", 1)
yield TriggerEvent()
""")

    pipeline.watch("landing", "poll")

    assert pipeline.store.emits[0].writes[0].writer == WatcherWriter()


def test_a_trigger_that_does_not_call_the_base_works_too(pipeline: Make) -> None:
    made = pipeline("""
from holdfast.sdk import *

class Poll(BaseEventTrigger):
    def __init__(self):
        self.done = False

    async def run(self):
        self.asset_store.set("k", 1)
        yield TriggerEvent()

    async def cleanup(self):
        self.asset_store.set("never", 1)

with DAG("d", schedule=[Asset("a", watchers=[AssetWatcher("w", Poll())])]):
    pass
""")

    made.watch("a", "w")

    assert made.asset_value("a", "k") == 1
    assert made.asset_value("a", "never") is None


@pytest.mark.parametrize(
    ("yielded", "message"),
    [("3", "yielded 3"), ("TriggerEvent({1})", "the event of asset `landing`: value")],
)
def test_an_invalid_event_is_refused(watcher: Make, yielded: str, message: str) -> None:
    pipeline = watcher(f"yield {yielded}")

    with pytest.raises(TypeError, match=message):
        pipeline.watch("landing", "poll")


def test_a_trigger_may_return_anything_that_has_events(pipeline: Make) -> None:
    made = pipeline("""
from holdfast.sdk import *

class Events:
    async def __aiter__(self):
        yield TriggerEvent(1)

class Poll(BaseEventTrigger):
    def run(self):
        return Events()

with DAG("d", schedule=[Asset("a", watchers=[AssetWatcher("w", Poll())])]):
    pass
""")

    made.watch("a", "w")

    assert len(made.store.emits) == 1


def test_a_trigger_that_does_not_yield_is_an_error_with_a_hint(watcher: Make) -> None:
    pipeline = watcher('self.asset_store.set("k", 1)')

    with pytest.raises(TypeError, match="`run` of Poll is not an async generator") as refused:
        pipeline.watch("landing", "poll")

    assert "yield TriggerEvent(payload)" in str(refused.value)


def test_a_watcher_removed_from_the_file_is_an_error_that_says_so(watcher: Make) -> None:
    pipeline = watcher("yield")

    with pytest.raises(ValueError, match="has no watcher `gone` of asset `landing`"):
        pipeline.watch("landing", "gone")
