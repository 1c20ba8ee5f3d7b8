"""Settings, variables and commands that the files of deploy/ name: each exists."""

from __future__ import annotations

import re
import shlex
import tomllib
from contextlib import suppress
from pathlib import Path

import click
import pytest
from artefacts import (
    DEPLOY,
    ROOT,
    SERVICES,
    UNITS,
    compose,
    documents,
    environment,
    parse_command,
    pods,
    unit,
)

from holdfast.cli import COMMANDS
from holdfast.settings import declared, load
from holdfast.version import __version__

FILES = [*sorted(file for file in DEPLOY.rglob("*") if file.is_file())]
GUIDE = ROOT / "docs" / "guides" / "production.md"


@pytest.mark.parametrize("file", [*FILES, GUIDE], ids=lambda file: file.name)
def test_every_variable_is_that_of_a_setting(file: Path) -> None:
    known = {setting.variable for setting in declared()}

    assert set(re.findall(r"HOLDFAST__[A-Z0-9_]+", file.read_text())) <= known


def test_the_environment_file_has_valid_values(tmp_path: Path) -> None:
    given = environment(DEPLOY / "systemd" / "holdfast.env.example")

    settings = load(tmp_path, given)

    assert settings.retention.runs.days == 90
    assert settings.home == Path(given["HOLDFAST__CORE__HOME"])


def test_the_settings_of_the_config_map_are_valid(tmp_path: Path) -> None:
    [settings] = documents(DEPLOY / "kubernetes" / "config" / "settings.yaml")
    text = settings["data"]["holdfast.toml"].replace("CHANGE-ME", "bucket")
    (tmp_path / "holdfast.toml").write_text(text)

    found = load(tmp_path, {})

    given = {f"{one}.{key}" for one, keys in tomllib.loads(text).items() for key in keys}
    assert given == {name for name, at in found.origins.items() if at.endswith("holdfast.toml")}


def test_the_settings_of_the_containers_are_valid(tmp_path: Path) -> None:
    for service in compose()["services"].values():
        given = service.get("environment", {})
        load(tmp_path, {name: text for name, text in given.items() if name.startswith("HOLDFAST")})


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_commands_of_units_parse(path: Path) -> None:
    arguments = [part.replace("%i", "scheduler") for part in unit(path).command]

    assert parse_command(arguments).command.name in " ".join(arguments)


def test_the_commands_of_compose_parse() -> None:
    services = compose()["services"]
    del services["postgres"]

    assert {name: parse_command(one["command"]).info_name for name, one in services.items()} == {
        "migrate": "migrate",
        "server": "server",
        "scheduler": "scheduler",
        "triggerer": "triggerer",
    }


def test_the_commands_of_pods_parse() -> None:
    found = {name: parse_command(one["containers"][0]["args"]).info_name for name, one in pods()}

    assert found == {
        "holdfast-migrate": "migrate",
        "holdfast-server": "server",
        "holdfast-scheduler": "scheduler",
        "holdfast-triggerer": "triggerer",
    }


@pytest.mark.parametrize(
    "file",
    [DEPLOY / "compose.yaml", *sorted((DEPLOY / "kubernetes" / "services").glob("*.yaml"))],
    ids=lambda file: file.name,
)
def test_the_probes_that_are_commands_parse(file: Path) -> None:
    for line in re.findall(r"\[(?:CMD, )?holdfast, ([^]]* check, [^]]*)\]", file.read_text()):
        assert parse_command(line.split(", ")).params["here"]


def test_the_commands_that_alerts_and_panels_name_parse() -> None:
    text = "".join(file.read_text() for file in FILES if file.suffix in {".yaml", ".json"})
    named = set(re.findall(r"`holdfast ([^`]+)`", text))

    assert len(named) >= 3
    for line in named:
        arguments = line.replace("{{ $labels.dag_id }}", "sales").split()
        with suppress(click.MissingParameter):  # a name that the reader has to give
            parse_command(arguments)


def test_the_commands_of_the_guide_parse() -> None:
    blocks = re.findall(r"^ *```(?:sh|console)[^\n]*\n(.*?)^ *```$", GUIDE.read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`(holdfast [^`]+)`", GUIDE.read_text())
    shown = [
        found[1].partition("  #")[0]
        for line in [*lines, *spans]
        if (found := re.search(r"(?:^|[ /])(?:holdfast|hf) ([a-z-]+ ?[^;&|]*)", line))
        and found[1].split()[0] in COMMANDS
    ]

    assert len(shown) >= 20
    for line in shown:
        with suppress(click.MissingParameter):  # such as the DAG, in the text
            arguments = [word for word in shlex.split(line) if word != "…"]
            parse_command(arguments)


def test_the_images_have_the_version_of_this_checkout() -> None:
    release = re.match(r"\d+\.\d+\.\d+", __version__)
    assert release is not None
    text = "".join(file.read_text() for file in FILES)

    assert set(re.findall(r"holdfast:(\d[\w.]*)|newTag: (\S+)", text)) == {
        (release[0], ""),
        ("", release[0]),
    }


def test_the_services_share_their_settings_and_directory() -> None:
    shared = [
        {name: unit(path).options[name] for name in ("EnvironmentFile", "StateDirectory", "User")}
        for path in UNITS
    ]

    assert len(SERVICES) == 3
    assert all(one == shared[0] for one in shared)
