"""Generator of the pages in docs/reference from the code: `python docs/generate.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from holdfast import errors
from holdfast.cli import cli
from holdfast.errors import HoldfastError
from holdfast.model.duration import duration_text
from holdfast.server.app import make_app
from holdfast.server.keys import SigningKeys
from holdfast.server.tokens import Tokens
from holdfast.settings import Declared, Settings, declared
from holdfast.testing.memory_store import MemoryStore

REFERENCE = Path(__file__).parent / "reference"
CLI_INTRODUCTION = (
    "Data goes to stdout, messages to stderr. The exit status is 0, 1 (not found, conflict, "
    "failed) or 2 (bad usage), and 130 after Ctrl-C. `HOLDFAST_TRACEBACK=1` shows the traceback "
    "of an unexpected error."
)
SETTINGS_INTRODUCTION = (
    "Settings are in `holdfast.toml`, or under `[tool.holdfast]` in `pyproject.toml`, in the "
    "current directory or the nearest parent that has one. `core.home` below is `home` in the "
    "section `[core]`. The environment variable `HOLDFAST__CORE__HOME` overrides the file. "
    "`holdfast config list` shows the effective settings."
)
HTTP_INTRODUCTION = (
    "The routes of `holdfast server`, generated from its description at `/openapi.json`. "
    "[The guide](../guides/http-api.md) shows how to use them. Every error is "
    '`{"detail": {"reason": …, "message": …, "hint": …}}`, whose reasons are the codes of '
    "[the errors](errors.md). `/execution/state` is another name of `/execution/store`. The "
    "commands of `/execution/commands` are described in `/openapi.json` alone."
)
ERRORS_INTRODUCTION = (
    "All errors are in `holdfast.errors`, and are a `HoldfastError`. `message` says what failed "
    "and where, `hint` what to do next; `str(error)` has both. Some are also a builtin of Python, "
    "so a caller can catch that instead. `exit` is the exit status of the command line."
)

COMMANDS = "Wire"
"""The prefix of the schema names of commands."""
BOUNDS = (("minimum", "maximum"), ("minLength", "maxLength"))


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        "http-api.md": http_page(),
        "settings.md": settings_page(),
    }


def cli_page() -> str:
    parts = ["# Command line", CLI_INTRODUCTION]
    for context in contexts(
        cli.make_context("holdfast", [], resilient_parsing=True, terminal_width=80)
    ):
        level = "#" * (2 + len(context.command_path.split()) - 1)
        parts.append(f"{level} {context.command_path}")
        parts.append(f"```text\n{context.command.get_help(context)}\n```")
    return "\n\n".join(parts) + "\n"


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command and of all its subcommands, in the order of the help."""
    yield context
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if not command.hidden:
                yield from contexts(click.Context(command, parent=context, info_name=name))


def errors_page() -> str:
    rows = [
        "| error | is also | code | HTTP | exit | meaning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| `{kind.__name__}` | {also(kind)} | `{kind.code}` | {kind.status} | {kind.exit_status} "
        f"| {' '.join((kind.__doc__ or '').split())} |"
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, HoldfastError)
    ]
    return "\n\n".join(("# Errors", ERRORS_INTRODUCTION, "\n".join(rows))) + "\n"


def also(kind: type[HoldfastError]) -> str:
    """Return the other classes that an error can be caught as."""
    above = kind.__mro__[1 : kind.__mro__.index(Exception)]
    return ", ".join(f"`{one.__name__}`" for one in above if one is not HoldfastError)


def http_page() -> str:
    tokens = Tokens(SigningKeys(()), timedelta())
    description = make_app(MemoryStore(), tokens, Settings()).openapi()
    parts = ["# HTTP API", HTTP_INTRODUCTION]
    tag = None
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                parts.append(f"## {tag}")
            parts += operation_parts(method, path, operation)
    parts.append("## Models")
    for name, schema in description["components"]["schemas"].items():
        if not name.startswith(COMMANDS):
            parts += [f"### {name}", schema.get("description", ""), model_text(schema)]
    return "\n\n".join(part for part in parts if part) + "\n"


def operation_parts(method: str, path: str, operation: Any) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    yield f"{operation['description']} (`{operation['operationId']}`)"
    rows = [
        (one["name"], one["in"], one["schema"], one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    if rows:
        lines = ["| parameter | in | type | meaning |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{name}` | {place} | {type_text(schema)} | {cell(meaning)}{default_text(schema)} |"
            for name, place, schema, meaning in rows
        ]
        yield "\n".join(lines)
    if "requestBody" in operation:
        yield f"Body: {content_text(operation['requestBody'])}."
    answers = [
        f"{status} {content_text(response)}".rstrip()
        for status, response in operation["responses"].items()
        if int(status) < 400
    ]
    errors = [status for status in operation["responses"] if int(status) >= 400]
    refusals = f" Errors: {', '.join(sorted(errors))}." if errors else ""
    yield f"Answer: {' or '.join(answers)}.{refusals}"


def content_text(described: Any) -> str:
    """Describe the content of a request body or a response."""
    kinds = described.get("content", {})
    schema = kinds.get("application/json", {}).get("schema")
    if schema is None:
        return f"`{next(iter(kinds))}`" if kinds else ""
    if "properties" in schema:
        fields = [f"`{name}`: {type_text(one)}" for name, one in schema["properties"].items()]
        return f"an object with {', '.join(fields)}"
    return type_text(schema)


def model_text(schema: Any) -> str:
    if "enum" in schema:
        return f"One of {type_text(schema)}."
    required = schema.get("required", ())
    rows = ["| field | type | meaning |", "| --- | --- | --- |"]
    rows += [
        f"| `{name}`{'' if name in required else ' (optional)'} | {type_text(field)} "
        f"| {cell(field.get('description', ''))}{default_text(field)} |"
        for name, field in schema["properties"].items()
    ]
    return "\n".join(rows)


def type_text(schema: Any) -> str:
    """Describe a schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "a command" if name.startswith(COMMANDS) else f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(type_text(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{one}`" for one in schema.get("enum", [schema.get("const")]))
    if "prefixItems" in schema:
        return f"pair of {' and '.join(type_text(one) for one in schema['prefixItems'])}"
    kind = schema.get("type", "any JSON value")
    if isinstance(kind, list):
        return " or ".join(type_text({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of {type_text(schema['items'])}"
    if kind == "string" and schema.get("format") == "date-time":
        return "time"
    bounds = [
        f"{schema.get(low, '')} to {schema.get(high, '')}"
        for low, high in BOUNDS
        if low in schema or high in schema
    ]
    return " ".join((kind, *(f"({one.strip()})" for one in bounds)))


def default_text(schema: Any) -> str:
    value = schema.get("default")
    return "" if value in (None, "", []) else f" Default: `{json.dumps(value)}`."


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def settings_page() -> str:
    rows = ["| setting | default | may be | meaning |", "| --- | --- | --- | --- |"]
    rows += [
        f"| `{setting.name}` | {default(setting)} | {setting.allowed} | {setting.description} |"
        for setting in declared()
    ]
    return "\n\n".join(("# Settings", SETTINGS_INTRODUCTION, "\n".join(rows))) + "\n"


def default(setting: Declared) -> str:
    value = setting.default
    if isinstance(value, timedelta):
        value = duration_text(value)
    elif isinstance(value, bool):
        value = str(value).lower()
    return "" if value in ("", ()) else f"`{value}`"


if __name__ == "__main__":
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
