"""`holdfast config list`: settings with value and origin."""

from __future__ import annotations

import json


def test_config_list_shows_value_origin_and_meaning(holdfast, project, monkeypatch):
    (project / "holdfast.toml").write_text("[state_store]\nclear_on_success = true")
    monkeypatch.setenv("HOLDFAST__DATABASE__URL", "postgresql://ann:s3cret@host/db")

    result = holdfast("config", "list")

    rows = dict(line.split("\t", 1) for line in result.out.splitlines())
    assert rows["setting"] == "value\torigin\tmeaning"
    assert rows["state_store.clear_on_success"].startswith(f"true\t{project}/holdfast.toml\t")
    assert rows["database.url"].startswith(
        "postgresql://ann:***@host/db\tHOLDFAST__DATABASE__URL\t"
    )
    assert "s3cret" not in result.out


def test_config_get_prints_one_value(holdfast, project):
    (project / "holdfast.toml").write_text("[state_store]\nclear_on_success = true")

    assert holdfast("config", "get", "state_store.clear_on_success").out == "true\n"
    unknown = holdfast("config", "get", "state_store.clear_on_sucess")
    assert (unknown.status, unknown.out) == (1, "")
    assert "known: state_store.clear_on_success" in unknown.err


def test_config_list_as_json(holdfast):
    rows = {row["name"]: row for row in json.loads(holdfast("config", "list", "--json").out)}

    assert rows["state_store.default_retention_days"]["value"] == 30
    assert rows["state_store.default_retention_days"]["origin"] == "default"
    assert rows["state_store.cleanup_interval"]["value"] == "1h"


def test_config_list_refuses_bad_settings(holdfast, monkeypatch):
    monkeypatch.setenv("HOLDFAST__STATE_STORE__DEFAULT_RETENTION_DAYS", "soon")

    result = holdfast("config", "list")

    assert (result.status, result.out) == (2, "")
    assert "'soon'" in result.err
