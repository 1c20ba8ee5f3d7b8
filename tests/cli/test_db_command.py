"""`holdfast db`: migrations."""

from __future__ import annotations

import sqlite3

import pytest


@pytest.mark.full
def test_migrate_then_check_then_downgrade(program):
    missing = program("db", "check")
    migrated = program("db", "migrate")
    again = program("db", "migrate")
    checked = program("db", "check")
    refused = program("db", "downgrade", "base")
    taken_back = program("db", "downgrade", "base", "--yes")

    assert missing.status == 1
    assert missing.err.endswith("hint: run `holdfast db migrate`\n")
    assert migrated.err.startswith("Migrated the database from nothing to revision ")
    assert again.err.startswith("The database is up to date")
    assert (checked.status, checked.err) == (0, again.err)
    assert refused.status == 2
    assert taken_back.status == 0
    assert taken_back.err.endswith("to nothing.\n")


def test_an_unknown_revision_is_named(program):
    program("db", "migrate")

    result = program("db", "downgrade", "9999", "--yes")

    assert result.status == 1
    assert "9999" in result.err


def test_a_database_of_a_newer_version_is_not_to_be_migrated(program, project):
    program("db", "migrate")
    with sqlite3.connect(project / ".holdfast" / "holdfast.db") as database:
        database.execute("UPDATE hf_schema_version SET version_num = '9999'")
    database.close()

    result = program("db", "check")

    assert result.status == 1
    assert "9999, which this version of Holdfast does not know" in result.err
    assert result.err.endswith("upgrade Holdfast here too\n")
