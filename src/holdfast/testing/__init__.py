"""Conformance suites for authors of stores and backends.

A store's test file is a subclass of `StoreConformance` with one fixture:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self):
            return lambda clock: MyStore(clock=clock)

that of a store of runs also one of `RunConformance`, and that of a worker-side backend one of
`WorkerBackendConformance`.

`StoreConformance` includes `StoreMachine`, which sends random commands to the store and to a dict;
outside of the suite, `machine_for(make_store).TestCase` runs it.
"""

from __future__ import annotations

from holdfast.errors import MissingDependency

try:
    import hypothesis as _hypothesis  # noqa: F401
    import pytest
except ImportError as error:
    raise MissingDependency(
        f"holdfast.testing needs {error.name}, which is not installed",
        hint="pip install 'holdfast-state[testing]'",
    ) from error

for _module in ("conformance", "gaps", "machine", "runs", "worker_backend"):
    pytest.register_assert_rewrite(f"holdfast.testing.{_module}")

from holdfast.testing.client import MODES, Client, open_client  # noqa: E402
from holdfast.testing.clock import Clock  # noqa: E402
from holdfast.testing.conformance import (  # noqa: E402
    GatewayConformance,
    MakeStore,
    ObjectConformance,
    StateConformance,
    StoreConformance,
)
from holdfast.testing.machine import StoreMachine, machine_for  # noqa: E402
from holdfast.testing.runs import RunConformance  # noqa: E402
from holdfast.testing.worker_backend import WorkerBackendConformance  # noqa: E402

__all__ = [
    "MODES",
    "Client",
    "Clock",
    "GatewayConformance",
    "MakeStore",
    "ObjectConformance",
    "RunConformance",
    "StateConformance",
    "StoreConformance",
    "StoreMachine",
    "WorkerBackendConformance",
    "machine_for",
    "open_client",
]
