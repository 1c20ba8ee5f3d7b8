"""Error classes: one base, unique codes, statuses, hints and pickling."""

from __future__ import annotations

import inspect
import pickle

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__ and not issubclass(kind, type)
]

BUILTINS = [
    (errors.InvalidInput, ValueError),
    (errors.InvalidType, TypeError),
    (errors.ValueTooLarge, ValueError),
    (errors.InvalidSettings, ValueError),
    (errors.InvalidUrl, ValueError),
    (errors.NotFound, LookupError),
    (errors.UnknownTaskInstance, LookupError),
    (errors.UnknownAsset, LookupError),
    (errors.NotSupported, NotImplementedError),
    (errors.InvalidBackend, TypeError),
    (errors.StoreUnavailable, ConnectionError),
    (errors.MissingDependency, ImportError),
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_the_same_base(kind: type[Exception]) -> None:
    assert issubclass(kind, HoldfastError)


@pytest.mark.parametrize(("kind", "builtin"), BUILTINS)
def test_an_error_is_also_the_matching_builtin_exception(
    kind: type[HoldfastError], builtin: type[Exception]
) -> None:
    assert issubclass(kind, builtin)


def test_every_error_has_a_unique_code() -> None:
    codes = [kind.code for kind in CLASSES]

    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_its_statuses(kind: type[HoldfastError]) -> None:
    assert 400 <= kind.status < 600
    assert kind.exit_status in (1, 2)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_has_a_message_and_a_hint(kind: type[HoldfastError]) -> None:
    error = kind("asset `orderz` is not known", hint="check the name")

    assert str(error) == "asset `orderz` is not known\nhint: check the name"
    assert (error.message, error.hint) == ("asset `orderz` is not known", "check the name")
    assert str(kind("no hint")) == "no hint"


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_can_be_pickled(kind: type[HoldfastError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what", hint="next")))

    assert type(error) is kind
    assert (error.message, error.hint) == ("what", "next")
