"""Conformance suite of stores, by topic, each test sync and async."""

from __future__ import annotations

from holdfast.testing.conformance.assets import Declarations, Deletion
from holdfast.testing.conformance.asynchronous import Asynchronous
from holdfast.testing.conformance.attempts import Attempts
from holdfast.testing.conformance.barriers import Barriers
from holdfast.testing.conformance.bulk_loads import Loads
from holdfast.testing.conformance.cleanup import Cleanup
from holdfast.testing.conformance.content import Content
from holdfast.testing.conformance.declared_gaps import Gaps
from holdfast.testing.conformance.entries import Entries
from holdfast.testing.conformance.expiry import Expiry
from holdfast.testing.conformance.fixtures import MakeStore
from holdfast.testing.conformance.guards import Guards
from holdfast.testing.conformance.history import Histories, Rewinds
from holdfast.testing.conformance.inputs import Inputs
from holdfast.testing.conformance.listing import Listing
from holdfast.testing.conformance.pickling import Pickling
from holdfast.testing.conformance.purges_on_demand import Retries
from holdfast.testing.conformance.purging import Purging
from holdfast.testing.conformance.random_commands import RandomCommands
from holdfast.testing.conformance.requests import Requests
from holdfast.testing.conformance.staging import Staging
from holdfast.testing.conformance.versions import Versions
from holdfast.testing.conformance.watermarks import Watermarks

__all__ = [
    "GatewayConformance",
    "MakeStore",
    "ObjectConformance",
    "StateConformance",
    "StoreConformance",
]


class StateConformance(
    Gaps,
    Asynchronous,
    Entries,
    Content,
    Listing,
    Versions,
    Expiry,
    Cleanup,
    Watermarks,
    Histories,
    Rewinds,
    Attempts,
    Staging,
    Declarations,
    Deletion,
    Loads,
    Inputs,
    Pickling,
    RandomCommands,
):
    """Tests of the state of tasks and assets, for every store.

    A subclass is a store's test: its fixture `make_store` returns a function that takes a clock and
    returns an empty store. `gaps` are the commands that the store does not support: a test that
    needs one is expected to fail there, and every other NotSupported is a failure.
    """


class ObjectConformance(Purging, Barriers, Retries):
    """Tests of references to offloaded values, for the stores that hold them."""


class GatewayConformance(Requests, Guards):
    """Tests of commands that wrap others, for the stores behind a server."""


class StoreConformance(StateConformance, ObjectConformance, GatewayConformance):
    """All tests of state, for a store that holds the state itself."""
