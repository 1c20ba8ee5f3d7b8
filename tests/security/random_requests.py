"""Random requests: commands from their own classes, requests of the public API from its
description, and variants with a part replaced."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import inspect

from holdfast.wire.codec import command_types

KEYS = ("k", "spark_job.intent", "a/b", "ü", "k" * 512)
DIGITS = "9" * 400
DEEP = 100_000
ODD: Sequence[Any] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 1e308),
    *(
        "",
        "x",
        "\0",
        "\U0001f600",
        "a" * 300,
        "a" * 2000,
        "~",
        "%",
        "' OR 1=1 --",
        "NaN",
        "[",
        "null",
    ),
    *([], {}, [[]], [None], {"type": "task"}, {"type": "asset"}),
    *("P1D", "PT0S", "-P1D", "P99999999D", "2020-01-01", "2020-01-01T00:00:00Z"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
    *('{"__holdfast_ref__":"x"}', '{"__holdfast_held__":true}', '"\\ud800"', "[" * 2000),
)
CONTENT_TYPES = ("text/plain", "application/xml", "application/msgpack", "json", ";", "a" * 500)


class Requests:
    """Generator of requests from one seed, with existing values for commands, and texts for fields
    and parameters by their name."""

    def __init__(
        self, seed: str, values: Sequence[Any], parameters: Mapping[str, Sequence[str]]
    ) -> None:
        self.draw = random.Random(seed)
        self._values = values
        self._parameters = parameters
        self._texts = [*(text for texts in parameters.values() for text in texts), *KEYS]

    def command(self) -> Any:
        """Return a command that the server can read, more often than not."""
        return self._of(self.draw.choice(_commands()))

    def altered_command(self) -> Any:
        """Return a command with a field replaced or omitted."""
        return self.altered(self.command())

    def altered(self, document: Any) -> Any:
        document = copy.deepcopy(document)
        holder, name = self.draw.choice(list(_places(document)) or [([document], 0)])
        if isinstance(holder, dict) and self.draw.random() < 0.2:
            del holder[name]
        else:
            holder[name] = self.draw.choice(ODD)
        return document

    def corrupted(self, body: bytes) -> bytes:
        """Return bytes that are no longer JSON, or unusual JSON."""
        place = self.draw.randrange(len(body))
        return self.draw.choice(
            (
                body[:place],
                body[:place] + b"\0" + body[place:],
                body[:place] + b"\xff\xfe" + body[place:],
                body + body,
                b"\xef\xbb\xbf" + body,
                body.replace(b'"', b'"\\ud800', 1),
                body.replace(b":", b":" + b"[" * DEEP, 1),
                b'{"a":' * DEEP + b"1" + b"}" * DEEP,
                body.replace(b":", b":" + DIGITS.encode() + b",", 1),
                body.replace(b":", b":1e400,", 1),
                body.replace(b"{", b'{"command":"Get","command":', 1),
                b"",
            )
        )

    def public(self, description: dict[str, Any]) -> tuple[str, str, Any]:
        """Return method, path and body, or None, of an operation of the description."""
        path = self.draw.choice(sorted(description["paths"]))
        operations = description["paths"][path]
        method = self.draw.choice(sorted(operations))
        query = []
        for parameter in operations[method].get("parameters", ()):
            text = self._parameter(parameter, description)
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(text, safe=""))
            elif parameter["in"] == "query" and self.draw.random() < 0.5:
                query.append((parameter["name"], text))
        asked = f"?{urlencode(query)}" if query else ""
        content = operations[method].get("requestBody", {}).get("content", {})
        schemas = [one["schema"] for one in content.values()]
        body = self._fitting(schemas[0], description) if schemas else None
        if body is not None and self.draw.random() < 0.5:
            body = self.altered(body)
        return method.upper(), path + asked, body

    def _parameter(self, parameter: Any, description: Any) -> str:
        likely = self._parameters.get(parameter["name"])
        if likely and self.draw.random() < 0.8:
            return self.draw.choice(likely)
        odd = self.draw.random() < 0.2
        found = self.draw.choice(ODD) if odd else self._fitting(parameter["schema"], description)
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()

    def _fitting(self, schema: Any, description: Any) -> Any:
        """Return a document that matches a JSON schema, as far as its types go."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._fitting(description["components"]["schemas"][name], description)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._fitting(self.draw.choice(schema[several]), description)
        if "enum" in schema:
            return self.draw.choice(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.draw.choice(kind)
        if kind == "object" or "properties" in schema:
            fields = schema.get("properties", {})
            return {name: self._fitting(one, description) for name, one in fields.items()}
        if kind == "array":
            items = range(self.draw.randrange(3))
            return [self._fitting(schema.get("items", {}), description) for _ in items]
        if kind == "string" and schema.get("format") == "date-time":
            return self._moment()
        makers = {
            "string": self._text,
            "integer": self._number,
            "number": self.draw.random,
            "boolean": lambda: self.draw.random() < 0.5,
            "null": lambda: None,
        }
        return makers[kind]() if kind in makers else self.draw.choice(ODD)

    def _of(self, kind: inspect.Type) -> Any:
        """Return a document that msgspec would decode to the type, as far as types go."""
        draw = self.draw
        if isinstance(kind, inspect.StructType):
            return self._struct(kind)
        if isinstance(kind, inspect.UnionType):
            return self._of(draw.choice(kind.types))
        if isinstance(kind, inspect.VarTupleType | inspect.ListType | inspect.FrozenSetType):
            return [self._of(kind.item_type) for _ in range(draw.randrange(4))]
        if isinstance(kind, inspect.TupleType):
            return [self._of(item) for item in kind.item_types]
        if isinstance(kind, inspect.DictType):
            return {self._text(): self._of(kind.value_type) for _ in range(draw.randrange(3))}
        if isinstance(kind, inspect.EnumType):
            return draw.choice([one.value for one in kind.cls])
        if isinstance(kind, inspect.LiteralType):
            return draw.choice(kind.values)
        if isinstance(kind, inspect.DateTimeType):
            return self._moment()
        if isinstance(kind, inspect.TimeDeltaType):
            return draw.choice(("PT0S", "PT30S", "P7D", "-PT5S"))
        if isinstance(kind, inspect.StrType):
            return self._text()
        if isinstance(kind, inspect.IntType):
            return self._number()
        if isinstance(kind, inspect.FloatType):
            return draw.random()
        if isinstance(kind, inspect.BoolType):
            return draw.random() < 0.5
        if isinstance(kind, inspect.NoneType):
            return None
        return draw.choice(ODD)

    def _struct(self, kind: inspect.StructType) -> Any:
        known = [value for value in self._values if isinstance(value, kind.cls)]
        if known and self.draw.random() < 0.9:
            return msgspec.to_builtins(self.draw.choice(known))
        fields = {
            field.encode_name: self._field(field)
            for field in kind.fields
            if field.required or self.draw.random() < 0.4
        }
        if kind.tag_field is not None:
            fields[kind.tag_field] = kind.tag
        return list(fields.values()) if kind.array_like else fields

    def _field(self, field: inspect.Field) -> Any:
        likely = self._parameters.get(field.name)
        if likely and isinstance(field.type, inspect.StrType) and self.draw.random() < 0.8:
            return self.draw.choice(likely)
        return self._of(field.type)

    def _text(self) -> str:
        return self.draw.choice(self._texts) if self.draw.random() < 0.8 else self._value()

    def _value(self) -> str:
        """Return the JSON text of an entry's value."""
        return self.draw.choice(("1", '"text"', "[1,2]", '{"a":null}', "null", "NaN", "no json"))

    def _number(self) -> int:
        return self.draw.choice((-1, 0, 1, 1, 2, 3, 100, 2**40))

    def _moment(self) -> str:
        when = datetime.now(UTC) + timedelta(seconds=self.draw.choice((-(10**6), -1, 0, 60, 10**8)))
        return when.isoformat()


@cache
def _commands() -> list[inspect.Type]:
    return [inspect.type_info(kind) for kind in command_types()]


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each dict and list in a document, with each of its names or indices."""
    if isinstance(document, dict | list):
        names = document if isinstance(document, dict) else range(len(document))
        for name in names:
            yield document, name
            yield from _places(document[name])
