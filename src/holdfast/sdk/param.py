"""Parameters of a DAG: defaults that a run's `conf` may replace."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.errors import InvalidDag, InvalidInput, InvalidType
from holdfast.model.value import encode

REQUIRED: Final = object()
"""In place of a default: the value has to be given when a run is started."""

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, dict),
}

_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, wanted: any(
        _TYPES[kind](value) for kind in ([wanted] if isinstance(wanted, str) else wanted)
    ),
    "enum": lambda value, wanted: value in wanted,
    "const": lambda value, wanted: value == wanted,
    "minimum": lambda value, wanted: value >= wanted,
    "maximum": lambda value, wanted: value <= wanted,
    "exclusiveMinimum": lambda value, wanted: value > wanted,
    "exclusiveMaximum": lambda value, wanted: value < wanted,
    "minLength": lambda value, wanted: len(value) >= wanted,
    "maxLength": lambda value, wanted: len(value) <= wanted,
    "minItems": lambda value, wanted: len(value) >= wanted,
    "maxItems": lambda value, wanted: len(value) <= wanted,
    "pattern": lambda value, wanted: re.search(wanted, value) is not None,
}

_ONLY_SHOWN = {"title", "section", "format", "examples", "values_display", "description_md"}


class Param:
    """A parameter with a default, and with rules of JSON Schema for its value."""

    def __init__(
        self, default: Any = REQUIRED, description: str | None = None, **rules: Any
    ) -> None:
        rules = {**rules.pop("schema", {}), **rules}
        unknown = sorted(set(rules) - set(_RULES) - _ONLY_SHOWN)
        if unknown:
            raise InvalidDag(
                f"Param() has no rule `{unknown[0]}`", hint=f"it has {', '.join(_RULES)}"
            )
        kinds = rules.get("type", ())
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind not in _TYPES:
                raise InvalidDag(
                    f"Param() has no type {kind!r}", hint=f"it has {', '.join(_TYPES)}"
                )
        self.default = default
        self.description = description
        self.rules = {name: wanted for name, wanted in rules.items() if name in _RULES}

    def __repr__(self) -> str:
        return f"Param({'' if self.default is REQUIRED else repr(self.default)})"

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidInput for a value that breaks a rule."""
        for rule, wanted in self.rules.items():
            try:
                kept = _RULES[rule](value, wanted)
            except TypeError:
                kept = False
            if not kept:
                raise InvalidInput(f"param `{name}` is {value!r}, but its {rule} is {wanted!r}")


def as_params(where: str, params: Mapping[str, Any] | None) -> dict[str, Param]:
    """Return an author's params and plain defaults as params.

    Raise InvalidDag for a default that breaks a rule or is not JSON.
    """
    found: dict[str, Param] = {}
    for name, value in (params or {}).items():
        param = value if isinstance(value, Param) else Param(value)
        if param.default not in (REQUIRED, None):
            try:
                encode(param.default)
                param.check(name, param.default)
            except (InvalidInput, InvalidType) as error:
                message = error.message.replace("value", f"param `{name}`", 1)
                raise InvalidDag(f"{where}: {message}", hint=error.hint) from None
        found[name] = param
    return found


def defaults(params: Mapping[str, Param]) -> dict[str, Any]:
    """Return the defaults of the params that have one."""
    return {name: one.default for name, one in params.items() if one.default is not REQUIRED}


def overlay(params: Mapping[str, Param], conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a run: its `conf` over the defaults."""
    return {**defaults(params), **conf}


def check_values(params: Mapping[str, Param], values: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a value that breaks a rule, and for a param without a value."""
    for name, param in params.items():
        if name not in values:
            raise InvalidInput(
                f"param `{name}` has no default, and the run was started without it",
                hint=f"start it with --conf '{{\"{name}\": …}}'",
            )
        param.check(name, values[name])
