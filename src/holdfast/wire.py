"""Commands and their answers as bytes, for stores that are in another process."""

from __future__ import annotations

import inspect
from functools import cache
from types import ModuleType
from typing import Any, TypeVar, Union, cast, get_args

import msgspec

from holdfast import command, errors, run_command
from holdfast.command import Command
from holdfast.errors import HoldfastError, InvalidInput

A = TypeVar("A")

_encode = msgspec.msgpack.Encoder().encode


class Refusal(msgspec.Struct, frozen=True):
    """An error of ours, on its way to whoever asked."""

    code: str
    message: str
    hint: str


def encode_command(command: Command[Any]) -> bytes:
    return _encode(command)


def decode_command(data: bytes) -> Command[Any]:
    try:
        return cast(Command[Any], _command_decoder().decode(data))
    except msgspec.DecodeError as error:
        raise InvalidInput(f"this is no command: {error}") from None


def encode_answer(answer: Any) -> bytes:
    return _encode(answer)


def decode_answer(command: Command[A], data: bytes) -> A:
    return cast(A, _answer_decoder(type(command)).decode(data))


def encode_error(error: HoldfastError) -> bytes:
    return _encode(Refusal(error.code, error.message, error.hint))


def decode_error(data: bytes) -> HoldfastError:
    """The error as it was raised on the other side."""
    refusal = msgspec.msgpack.decode(data, type=Refusal)
    return _errors().get(refusal.code, HoldfastError)(refusal.message, hint=refusal.hint)


@cache
def _command_decoder() -> msgspec.msgpack.Decoder[Any]:
    kinds = [*_commands(command), *_commands(run_command)]
    return msgspec.msgpack.Decoder(Union[tuple(kinds)])  # noqa: UP007  (made from a list)


@cache
def _answer_decoder(kind: type[Command[Any]]) -> msgspec.msgpack.Decoder[Any]:
    base = kind.__orig_bases__[0]  # type: ignore[attr-defined]
    return msgspec.msgpack.Decoder(get_args(base)[0])


def _commands(module: ModuleType) -> list[type[Command[Any]]]:
    """The commands that a module defines: those that are not generic themselves."""
    return [
        found
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Command)
        and found.__module__ == module.__name__
        and not getattr(found, "__parameters__", ())
    ]


@cache
def _errors() -> dict[str, type[HoldfastError]]:
    found = {HoldfastError.code: HoldfastError}
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, HoldfastError):
            found[kind.code] = kind
    return found
