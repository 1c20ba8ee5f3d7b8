"""Settings from files and the environment."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from holdfast.errors import InvalidSettings
from holdfast.model.duration import duration, duration_text
from holdfast.settings import declared, load, rows, without_password


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def refusal(directory: Path, environ: dict[str, str] | None = None) -> InvalidSettings:
    with pytest.raises(InvalidSettings) as raised:
        load(directory, environ or {})
    return raised.value


def test_without_configuration_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path, {})

    assert settings.core.retry_window == timedelta(seconds=60)
    assert settings.state_store.default_retention_days == 30
    assert settings.state_store.clear_on_success is False
    assert settings.state_store.cleanup_interval == timedelta(hours=1)
    assert settings.home == tmp_path / ".holdfast"
    assert settings.database_url == f"sqlite:///{tmp_path}/.holdfast/holdfast.db"


def test_the_nearest_parent_file_is_used_and_home_is_relative_to_it(tmp_path: Path) -> None:
    write(tmp_path / "holdfast.toml", '[core]\nhome = "far"')
    write(tmp_path / "project" / "holdfast.toml", '[core]\nhome = "state"')
    deep = tmp_path / "project" / "dags" / "daily"
    deep.mkdir(parents=True)

    assert load(deep, {}).home == tmp_path / "project" / "state"


def test_a_pyproject_is_used_only_with_its_own_section(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.holdfast.core]\nhome = "state"')
    write(tmp_path / "inner" / "pyproject.toml", '[project]\nname = "x"')

    assert load(tmp_path / "inner", {}).home == tmp_path / "state"


def test_an_absolute_home_is_unchanged(tmp_path: Path) -> None:
    write(tmp_path / "holdfast.toml", f'[core]\nhome = "{tmp_path}/elsewhere"')

    assert load(tmp_path, {}).home == tmp_path / "elsewhere"


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    write(
        tmp_path / "holdfast.toml",
        '[state_store]\ndefault_retention_days = 3\ncleanup_interval = "5m"\n',
    )

    settings = load(
        tmp_path,
        {
            "HOLDFAST__STATE_STORE__DEFAULT_RETENTION_DAYS": "9",
            "HOLDFAST__STATE_STORE__CLEAR_ON_SUCCESS": "true",
            "HOLDFAST_TRACEBACK": "1",
        },
    )

    assert settings.state_store.default_retention_days == 9
    assert settings.state_store.clear_on_success is True
    assert settings.state_store.cleanup_interval == timedelta(minutes=5)


def test_settings_of_spark_may_be_written_with_dots_and_without_quotes(tmp_path: Path) -> None:
    write(
        tmp_path / "holdfast.toml",
        """
        [spark]
        master = "local[2]"
        [spark.conf]
        spark.driver.memory = "2g"
        "spark.sql.shuffle.partitions" = 8
        spark.sql.ansi.enabled = false
        """,
    )

    spark = load(tmp_path, {}).spark

    assert (spark.master, spark.remote) == ("local[2]", "")
    assert spark.conf == {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.ansi.enabled": "false",
    }


def test_settings_of_spark_are_json_in_the_environment(tmp_path: Path) -> None:
    write(tmp_path / "holdfast.toml", '[spark]\nconf = {"spark.driver.memory" = "2g"}')

    settings = load(tmp_path, {"HOLDFAST__SPARK__CONF": '{"spark.executor.cores": 2}'})

    assert settings.spark.conf == {"spark.executor.cores": "2"}
    assert load(tmp_path, {"HOLDFAST__SPARK__CONF": ""}).spark.conf == {}


@pytest.mark.parametrize(
    "text", ["{", "[]", "7", '{"driver.memory": "2g"}', '{"spark.a": ["s3cret"]}', "s3cret"]
)
def test_bad_settings_of_spark_are_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    error = refusal(tmp_path, {"HOLDFAST__SPARK__CONF": text})

    assert error.message.startswith("spark.conf: ")
    assert "HOLDFAST__SPARK__CONF" in error.message
    assert "begin with `spark.`" in error.hint
    assert "s3cret" not in str(error)


def test_secrets_of_spark_are_not_shown(tmp_path: Path) -> None:
    write(
        tmp_path / "holdfast.toml",
        """
        [spark]
        remote = "sc://host:15002/;token=s3cret"
        conf = {"spark.hadoop.fs.s3a.secret.key" = "s3cret", "spark.driver.memory" = "2g"}
        """,
    )

    shown = {row.name: row.value for row in rows(load(tmp_path, {}))}

    assert shown["spark.remote"] == "sc://host:15002/;token=***"
    assert shown["spark.conf"] == (
        '{"spark.hadoop.fs.s3a.secret.key":"***","spark.driver.memory":"2g"}'
    )


def test_zero_may_be_written_as_a_number(tmp_path: Path) -> None:
    write(tmp_path / "holdfast.toml", "[state_store]\ncleanup_interval = 0")

    assert load(tmp_path, {}).state_store.cleanup_interval == timedelta(0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[state_stor]\nbackend = 'x'", "[state_stor]"),
        ("[state_store]\nretention = 3", "state_store.retention"),
        ("state_store = 3", "state_store"),
        ("[state_store", "is not TOML"),
        ("[state_store]\nbackend = my.Backend", "is not TOML"),
        ("[state_store]\ndefault_retention_days = -1", "state_store.default_retention_days"),
        ("[state_store]\ndefault_retention_days = '30'", "state_store.default_retention_days"),
        ("[state_store]\ndefault_retention_days = 99999999", "state_store.default_retention_days"),
        ("[state_store]\nasset_history_limit = 0", "state_store.asset_history_limit"),
        ("[state_store]\nclear_on_success = 'yes'", "state_store.clear_on_success"),
        ("[state_store]\ncleanup_interval = '1 hour'", "state_store.cleanup_interval"),
        ("[state_store]\ncleanup_interval = 60", "state_store.cleanup_interval"),
        ("[state_store]\nbackend = ''", "state_store.backend"),
        ("[core]\nretry_window = '-5s'", "core.retry_window"),
        ("[core]\nretry_window = '99999999999d'", "core.retry_window"),
        ("[core]\nretry_window = '36501d'", "core.retry_window"),
        ("[api]\ntoken_lifetime = '999999999d'", "api.token_lifetime"),
        ("[dags]\nstale_after = '999999999d'", "dags.stale_after"),
        ("[core]\nhome = 7", "core.home"),
        ("[spark]\nmaster = 7", "spark.master"),
        ("[spark]\nconf = 'x'", "spark.conf"),
        ("[spark.conf]\ndriver.memory = '2g'", "spark.conf"),
    ],
)
def test_the_error_for_a_bad_file_names_key_and_file(tmp_path: Path, text: str, named: str) -> None:
    file = write(tmp_path / "holdfast.toml", text)

    error = refusal(tmp_path)

    assert named in error.message
    assert str(file) in error.message
    assert error.hint


def test_a_bad_value_is_shown_with_what_is_allowed(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"HOLDFAST__STATE_STORE__ORPHAN_GRACE_DAYS": "-2"})

    assert error.message == (
        "state_store.orphan_grace_days may not be '-2', "
        "found in HOLDFAST__STATE_STORE__ORPHAN_GRACE_DAYS"
    )
    assert error.hint == "give a whole number from 0 to 36500"


def test_an_unknown_variable_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"HOLDFAST__DATABASE__URI": "sqlite://"})

    assert "HOLDFAST__DATABASE__URI" in error.message
    assert "HOLDFAST__DATABASE__URL" in error.hint


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("pyproject.toml", "[tool]\nholdfast = 3", "holdfast"),
        ("holdfast.toml", "[database]\nurl = ['postgresql://ann:s3cret@host/db']", "database.url"),
    ],
)
def test_an_error_never_shows_a_password(tmp_path: Path, name: str, text: str, named: str) -> None:
    write(tmp_path / name, text)

    error = refusal(tmp_path)

    assert named in error.message
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////data/holdfast.db", "sqlite:////data/holdfast.db"),
        ("postgresql://ann@host:5432/db", "postgresql://ann@host:5432/db"),
        ("postgresql://ann:pw@host/db", "postgresql://ann:***@host/db"),
        ("postgresql://ann:p@w/:d@host/db", "postgresql://ann:***@host/db"),
        ("mysql://:pw@host/db", "mysql://:***@host/db"),
        ("postgresql:///db?user=ann&password=pw&x=1", "postgresql:///db?user=ann&password=***&x=1"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_rows_have_value_origin_and_meaning(tmp_path: Path) -> None:
    file = write(tmp_path / "holdfast.toml", '[core]\nretry_window = "120s"')
    environ = {"HOLDFAST__DATABASE__URL": "postgresql://ann:pw@host/db"}

    shown = {row.name: row for row in rows(load(tmp_path, environ))}

    assert (shown["core.retry_window"].value, shown["core.retry_window"].origin) == (
        "2m",
        str(file),
    )
    assert shown["database.url"].value == "postgresql://ann:***@host/db"
    assert shown["database.url"].origin == "HOLDFAST__DATABASE__URL"
    assert shown["state_store.asset_history_limit"].origin == "default"
    assert list(shown) == [setting.name for setting in declared()]
    assert all(row.description for row in shown.values())


def test_the_repr_of_settings_shows_no_secrets(tmp_path: Path) -> None:
    environ = {
        "HOLDFAST__DATABASE__URL": "postgresql://ann:secret-1@host/db",
        "HOLDFAST__API__SIGNING_KEY": "secret-2" * 8,
        "HOLDFAST__SPARK__REMOTE": "sc://host:1/;token=secret-3",
        "HOLDFAST__SPARK__CONF": '{"spark.hadoop.fs.s3a.secret.key": "secret-4"}',
    }
    settings = load(tmp_path, environ)

    for shown in (repr(settings), str(settings.api), pretty_repr(settings)):
        assert "secret-" not in shown
    assert "url='postgresql://ann:***@host/db'" in repr(settings)
    assert "port=8793" in repr(settings.api)


def test_the_default_database_is_shown_as_its_url(tmp_path: Path) -> None:
    settings = load(tmp_path, {})

    assert settings.database_url in {row.value for row in rows(settings)}


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h", timedelta(hours=1)),
        ("7d", timedelta(days=7)),
        ("0", timedelta(0)),
    ],
)
def test_durations_round_trip(text: str, length: timedelta) -> None:
    assert duration(text) == length
    assert duration_text(length) == text


@pytest.mark.parametrize("text", ["", "5", "5 m", "1.5h", "m", "7w", "1h30m", "٣s", "-1s"])
def test_another_text_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration(text)
