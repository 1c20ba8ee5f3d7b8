"""Signing keys: created once, private, and rotated without loss of a token."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.access.identity import UserIdentity
from holdfast.errors import Forbidden, InvalidSettings
from holdfast.model.role import Role
from holdfast.server import keys as module
from holdfast.server.keys import FILE_NAME, open_keys, rotate
from holdfast.server.tokens import open_tokens
from holdfast.settings import Settings, load

ANN = UserIdentity("ann", Role.VIEWER)


@pytest.fixture
def file(settings: Settings) -> Path:
    """Create and return the file with the keys."""
    open_keys(settings)
    return settings.home / FILE_NAME


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a change of the file be seen at once."""
    monkeypatch.setattr(module, "CHECK_INTERVAL", 0.0)


def test_a_key_is_created_on_first_use_and_readable_only_by_its_owner(
    settings: Settings, file: Path
) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(open_keys(settings).signing().secret) >= 32
    assert os.listdir(settings.home) == [FILE_NAME]


@pytest.mark.parametrize("use", [open_keys, lambda settings: rotate(settings, timedelta())])
def test_a_home_that_is_no_directory_is_an_error(
    tmp_path: Path, use: Callable[[Settings], object]
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InvalidSettings, match="the signing keys in .*file/") as caught:
        use(load(tmp_path, {"HOLDFAST__CORE__HOME": "file"}))

    assert "[core] home" in caught.value.hint


def test_every_process_reads_the_same_key(settings: Settings) -> None:
    text = open_tokens(settings).issue(ANN)

    assert open_tokens(settings).verify(text).identity == ANN


def _make(path: Path, begin: float, made: multiprocessing.Queue[str]) -> None:
    time.sleep(max(0.0, begin - time.time()))
    made.put(open_keys(load(path, {})).signing().secret)


def test_processes_that_create_the_file_concurrently_have_one_key(settings: Settings) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(5):
        place = settings.directory / str(number)
        place.mkdir()
        made: multiprocessing.Queue[str] = context.Queue()
        begin = time.time() + 0.1
        makers = [context.Process(target=_make, args=(place, begin, made)) for _ in range(4)]
        for maker in makers:
            maker.start()
        secrets = {made.get(timeout=20) for _ in makers}
        for maker in makers:
            maker.join()

        assert len(secrets) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666])
def test_a_file_that_others_can_read_is_refused(settings: Settings, file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(InvalidSettings, match="other users can read it") as caught:
        open_keys(settings)

    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"keys": []}', '{"keys": [{"secret": "x"}]}'])
def test_a_broken_file_is_refused_with_a_hint(settings: Settings, file: Path, content: str) -> None:
    file.write_text(content)

    with pytest.raises(InvalidSettings, match=FILE_NAME) as caught:
        open_keys(settings)

    assert "delete" in caught.value.hint


def test_after_a_rotation_old_tokens_are_valid_for_the_overlap(settings: Settings) -> None:
    tokens = open_tokens(settings)
    old = tokens.issue(ANN)

    rotate(settings, timedelta(hours=1))
    new = open_tokens(settings).issue(ANN)

    assert tokens.verify(old).identity == ANN
    assert tokens.verify(new).identity == ANN
    assert tokens.issue(ANN).split(".")[0] == new.split(".")[0] != old.split(".")[0]


def test_without_overlap_old_tokens_are_invalid_at_once(settings: Settings) -> None:
    tokens = open_tokens(settings)
    old = tokens.issue(ANN)
    tokens.verify(old)

    rotate(settings, timedelta(0))

    with pytest.raises(Forbidden, match="key that this server does not have"):
        tokens.verify(old)


def test_a_token_of_a_new_key_is_accepted_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_INTERVAL", 3600.0)
    tokens = open_tokens(settings)

    rotate(settings, timedelta(days=1))

    assert tokens.verify(open_tokens(settings).issue(ANN)).identity == ANN


def test_unknown_key_ids_do_not_cause_the_file_to_be_read_each_time(
    settings: Settings,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "CHECK_INTERVAL", 3600.0)
    keys = open_keys(settings)
    file.write_text("broken")

    found = [keys.find(f"unknown-{number}") for number in range(10)]

    assert set(found) == {None}
    assert caplog.text.count("the signing keys were not reloaded") == 1


def test_expired_keys_are_removed_at_the_next_rotation(settings: Settings, file: Path) -> None:
    for overlap in (timedelta(0), timedelta(days=1), timedelta(days=2)):
        rotate(settings, overlap)

    kept = msgspec.json.decode(file.read_bytes())["keys"]
    days = [round((key["until"] - time.time()) / 86_400) for key in kept[1:]]

    assert days == [2, 1]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_server_keeps_its_keys_when_the_file_breaks(settings: Settings, file: Path) -> None:
    tokens = open_tokens(settings)
    text = tokens.issue(ANN)

    file.write_text("broken")

    assert tokens.verify(text).identity == ANN
    assert tokens.verify(tokens.issue(ANN)).identity == ANN


def test_all_configured_keys_are_accepted_and_the_first_signs(tmp_path: Path) -> None:
    old, new = "o" * 32, "n" * 32

    def tokens(given: str) -> object:
        return open_tokens(load(tmp_path, {"HOLDFAST__API__SIGNING_KEY": given}))

    before = open_tokens(load(tmp_path, {"HOLDFAST__API__SIGNING_KEY": old}))
    both = open_tokens(load(tmp_path, {"HOLDFAST__API__SIGNING_KEY": f"{new}, {old}"}))
    after = open_tokens(load(tmp_path, {"HOLDFAST__API__SIGNING_KEY": new}))

    assert both.verify(before.issue(ANN)).identity == ANN
    assert after.verify(both.issue(ANN)).identity == ANN
    with pytest.raises(Forbidden):
        after.verify(before.issue(ANN))
    assert not (tmp_path / ".holdfast").exists()


@pytest.mark.parametrize("given", ["short", "x" * 31, "x" * 32 + ",", "x" * 40 + ",short"])
def test_a_configured_key_that_is_too_short_is_refused_and_not_shown(
    tmp_path: Path, given: str
) -> None:
    with pytest.raises(InvalidSettings, match="less than 32") as caught:
        open_keys(load(tmp_path, {"HOLDFAST__API__SIGNING_KEY": given}))

    assert given not in str(caught.value)


def test_a_configured_key_is_rotated_where_it_is_configured(tmp_path: Path) -> None:
    settings = load(tmp_path, {"HOLDFAST__API__SIGNING_KEY": "x" * 32})

    with pytest.raises(InvalidSettings, match="is set in the settings") as caught:
        rotate(settings, timedelta(days=1))

    assert "HOLDFAST__API__SIGNING_KEY" in caught.value.hint
