"""Encoding of commands and their answers as bytes, for stores in another process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any, TypeVar, Union, cast, get_args

import msgspec

from holdfast.commands import Command, Guarded, Once
from holdfast.errors import KINDS, HoldfastError, InvalidInput
from holdfast.model.plain_types import base_value

A = TypeVar("A")


class Refusal(msgspec.Struct, frozen=True):
    """An error of ours, as it is sent to the caller."""

    reason: str
    message: str
    hint: str = ""


class Wire:
    """One encoding of commands and answers."""

    def __init__(self, encoder: Any, decoder: Any) -> None:
        self.encode = encoder(enc_hook=base_value).encode
        self._decoder = decoder
        self._answer_decoders: dict[type[Command[Any]], Any] = {}

    def decode_command(self, data: bytes) -> Command[Any]:
        """Decode a command. Raise InvalidInput where it is not one, or an invalid one."""
        try:
            return cast(Command[Any], self._command_decoder.decode(data))
        except msgspec.DecodeError as error:
            if isinstance(error.__cause__, HoldfastError):
                raise error.__cause__ from None
            raise InvalidInput(f"not a command: {error}") from None
        except (RecursionError, UnicodeDecodeError):
            raise InvalidInput("not a command: it is nested too deeply, or is not text") from None

    def decode_answer(self, command: Command[A], data: bytes) -> A:
        kind = type(command)
        decoder = self._answer_decoders.get(kind)
        if decoder is None:
            decoder = self._answer_decoders[kind] = self._decoder(answer_type(kind))
        return cast(A, decoder.decode(data))

    def encode_error(self, error: HoldfastError) -> bytes:
        return cast(bytes, self.encode(Refusal(error.code, error.message, error.hint)))

    def decode_error(self, data: bytes) -> HoldfastError:
        """Return the error as it was raised on the other side."""
        return raised(self._decoder(Refusal).decode(data))

    @cached_property
    def _command_decoder(self) -> Any:
        return self._decoder(Union[tuple(command_types())])  # noqa: UP007  (made from a list)


MSGPACK = Wire(msgspec.msgpack.Encoder, msgspec.msgpack.Decoder)
"""The encoding between processes of one machine."""
JSON = Wire(msgspec.json.Encoder, msgspec.json.Decoder)
"""The encoding over HTTP."""


def raised(refusal: Refusal) -> HoldfastError:
    """Return the error that a refusal describes."""
    return KINDS.get(refusal.reason, HoldfastError)(refusal.message, hint=refusal.hint)


@cache
def command_types() -> tuple[type[Command[Any]], ...]:
    """Return every command that can be sent to a store."""
    return tuple(sorted(_commands(Command), key=lambda found: found.__name__))


def answer_type(kind: type[Command[Any]]) -> Any:
    """Return the type of the command's answer."""
    base = kind.__orig_bases__[0]  # type: ignore[attr-defined]
    return get_args(base)[0]


def _commands(base: type[Command[Any]]) -> Iterator[type[Command[Any]]]:
    """Yield the commands that clients send: those that are neither generic nor wrap others."""
    for found in base.__subclasses__():
        if not getattr(found, "__parameters__", ()) and not issubclass(found, Guarded | Once):
            yield found
        yield from _commands(found)
