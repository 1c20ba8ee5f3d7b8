"""The compose file, against the schema of the Compose specification, and its health checks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from artefacts import DEPLOY, HOME, ROOT, compose

from holdfast.connection import open_store
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load

FILE = DEPLOY / "compose.yaml"
CHECK = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]


def test_the_file_follows_the_schema() -> None:
    done = subprocess.run(
        [sys.executable, *CHECK, str(FILE)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.full
def test_the_schema_refuses_a_misspelled_field(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("healthcheck:", "healthchek:", 1))
    done = subprocess.run([sys.executable, *CHECK, str(wrong)], capture_output=True, check=False)

    assert done.returncode == 1


def test_the_file_has_the_four_services_and_the_migration() -> None:
    services = compose()["services"]

    assert services.keys() == {"postgres", "migrate", "server", "scheduler", "triggerer"}
    for name in ("server", "scheduler", "triggerer"):
        after = services[name]["depends_on"]["migrate"]["condition"]
        assert after == "service_completed_successfully"
        assert f"home:{HOME}" in services[name]["volumes"]
    assert services["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert services["migrate"]["restart"] == "no"


def test_the_file_contains_no_secret() -> None:
    text = FILE.read_text()

    assert re.findall(r"(?i)(?:password|_key)\w*: *(?!/run/secrets/)\S+", text) == []
    assert "://" not in re.sub(r"http://127.0.0.1:8793", "", text)


def test_only_loopback_is_published() -> None:
    published = [port for one in compose()["services"].values() for port in one.get("ports", [])]

    assert published == ["127.0.0.1:8793:8793"]


@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
def test_the_health_check_of_the_server_says_whether_it_is_up(tmp_path: Path, up: bool) -> None:
    kind, python, *arguments = compose()["services"]["server"]["healthcheck"]["test"]
    assert (kind, python) == ("CMD", "python")
    settings = load(tmp_path, {})
    with open_store(settings) as store:
        server = EmbeddedServer(store, settings)
        address = server.url.removeprefix("http://")
        given = [part.replace("127.0.0.1:8793", address) for part in arguments]
        if not up:
            server.close()
        done = subprocess.run([sys.executable, *given], capture_output=True, check=False)
        if up:
            server.close()

    assert given != arguments
    assert (done.returncode == 0) is up


def test_secrets_are_ignored_by_git() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()

    assert "deploy/secrets/" in ignored
