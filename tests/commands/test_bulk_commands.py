"""Validation and permissions of bulk loads."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from holdfast.access.identity import Identity, TaskIdentity, UserIdentity
from holdfast.access.permissions import authorized
from holdfast.commands import AddToLoad, FinishLoad, ScopeEntries, StartLoad
from holdfast.errors import Forbidden, InvalidInput, ValueTooLarge
from holdfast.model.entry import ApiWriter
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.server.execution.content import decode_command
from holdfast.wire.codec import JSON

ANN = UserIdentity("ann", Role.EDITOR)
TASK = TaskScope("sales", "monday", "load")
OTHER = TaskScope("sales", "monday", "extract")
ORDERS = AssetScope(name="orders")
ATTEMPT = TaskIdentity(TASK, 1, (("orders", None),))


def adding(scope: StoreScope, value: str = "1") -> AddToLoad:
    return AddToLoad("one", 0, 0, (ScopeEntries(scope, (("k", value, None),)),), ApiWriter(""))


def received(command: AddToLoad, identity: Identity, limit: int = 100) -> AddToLoad:
    """Return the command as a server receives it."""
    found = decode_command(JSON.encode(command), identity, limit)
    assert isinstance(found, AddToLoad)
    return found


def test_a_bad_key_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"key .* for task sales/monday/load has the control"):
        ScopeEntries(TASK, (("a\n", "1", None),))


def test_entries_of_assets_do_not_expire() -> None:
    with pytest.raises(InvalidInput, match=r"`k` of asset `orders`: .* do not expire"):
        ScopeEntries(ORDERS, (("k", "1", datetime(2999, 1, 1, tzinfo=UTC)),))


def test_the_error_for_a_bad_key_over_the_wire_names_it() -> None:
    body = JSON.encode(adding(TASK)).replace(b'"k"', b'""')

    with pytest.raises(InvalidInput, match="the key is empty for task sales/monday/load"):
        decode_command(body, ANN, 0)


def test_a_person_may_not_load_a_value_that_is_too_large() -> None:
    command = received(adding(TASK, f'"{"x" * 99}"'), ANN)

    with pytest.raises(ValueTooLarge, match=r"`k` of task sales/monday/load: .* 101 bytes"):
        list(command.checked())


def test_a_task_may_load_a_large_value_and_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    command = received(adding(TASK, f'"{"x" * 99}"'), ATTEMPT)

    with caplog.at_level(logging.WARNING):
        list(command.checked())

    assert "`k` of task sales/monday/load: the value has 101 bytes" in caplog.text


@pytest.mark.parametrize("scope", [TASK, ORDERS])
def test_a_task_may_load_into_its_own_stores(scope: StoreScope) -> None:
    command = authorized(ATTEMPT, adding(scope))

    assert isinstance(command, AddToLoad)
    assert command.writer == ATTEMPT.writer


@pytest.mark.parametrize("scope", [OTHER, AssetScope(name="customers")])
def test_a_task_may_load_nothing_else(scope: StoreScope) -> None:
    with pytest.raises(Forbidden, match=rf"AddToLoad of {scope}: attempt 1 of .* may not do this"):
        authorized(ATTEMPT, adding(scope))


@pytest.mark.parametrize(
    "command", [StartLoad("one", ApiWriter("")), FinishLoad("one", (), ApiWriter(""))]
)
def test_a_viewer_may_not_load(command: StartLoad | FinishLoad) -> None:
    with pytest.raises(Forbidden, match="may not do this"):
        authorized(UserIdentity("eve", Role.VIEWER), command)
