"""The files of deploy/ as values: units, manifests, commands and settings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml

from holdfast.cli import cli

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SERVICES = [unit for unit in UNITS if "Restart=always" in unit.read_text()]
MANIFESTS = sorted(
    file for file in (DEPLOY / "kubernetes").rglob("*.yaml") if file.name != "kustomization.yaml"
)
PROGRAM = "/opt/holdfast/current/bin/holdfast"
HOME = "/var/lib/holdfast"


class Unit(NamedTuple):
    """The options of a unit, each with its last value."""

    path: Path
    options: dict[str, str]

    @property
    def command(self) -> list[str]:
        """The arguments of `holdfast`."""
        program, *arguments = self.options["ExecStart"].split()
        assert program == PROGRAM
        return arguments


def unit(path: Path) -> Unit:
    lines = [line.partition("=") for line in path.read_text().splitlines()]
    pairs = {name: value for name, sign, value in lines if sign and not name.startswith("#")}
    return Unit(path, pairs)


def environment(file: Path) -> dict[str, str]:
    """Return the variables of an environment file."""
    lines = [line.partition("=") for line in file.read_text().splitlines()]
    return {name: value for name, sign, value in lines if sign and not name.startswith("#")}


def documents(file: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(file.read_text()) if one is not None]


def compose() -> dict[str, Any]:
    [document] = documents(DEPLOY / "compose.yaml")
    return document


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the specification of every pod of the manifests."""
    for file in MANIFESTS:
        for document in documents(file):
            template = document.get("spec", {}).get("template")
            if template is not None:
                yield document["metadata"]["name"], template["spec"]


def parse_command(arguments: Sequence[str]) -> click.Context:
    """Parse the arguments of `holdfast`, and return the context of the command; run nothing.

    Raise click.UsageError for what the command line does not know.
    """
    context = cli.make_context("holdfast", list(arguments))
    while isinstance(group := context.command, click.Group):
        name, command, rest = group.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def tool(name: str) -> str:
    """Return the path of a program that tests/install_tools.sh installs; skip without it."""
    beside = ROOT / ".venv" / "bin" / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing; tests/install_tools.sh unpacks it on Debian")
    return found
