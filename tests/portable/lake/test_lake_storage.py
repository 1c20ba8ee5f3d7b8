"""Files of lake tables in a local directory."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from objectserver import object_server

from holdfast.errors import BackendFailed, InvalidInput
from holdfast.portable.lake.storage import LocalFiles, is_absolute, open_files


@pytest.mark.parametrize("location", ["{}/a table", "file://{}/a table", "file:{}/a table"])
def test_a_location_is_a_path_or_its_url(location: str, tmp_path: Path) -> None:
    with open_files(location.format(tmp_path), {}).create("x/y.parquet") as file:
        file.write(b"content")

    assert (tmp_path / "a table/x/y.parquet").read_bytes() == b"content"


@pytest.mark.parametrize("location", ["{}", "file://{}", "s3"])
def test_escapes_in_a_path_stand_for_themselves(location: str, tmp_path: Path) -> None:
    with nullcontext() if location != "s3" else object_server() as server:
        options = {} if server is None else server.environment
        root = location.format(tmp_path) if server is None else server.make_bucket()
        files = open_files(f"{root}/a%20 b/p=c%2Fd", options)
        with files.create("e%20/x.parquet") as file:
            file.write(b"content")
        [found] = open_files(root, options).list("")
        read = open_files(f"{root}/a%20 b", options).tail("p=c%2Fd/e%20/x.parquet", 7, 3)
        [below] = files.list("e%20")

    assert (found.path, found.size) == ("a%20 b/p=c%2Fd/e%20/x.parquet", 7)
    assert (below.path, read) == ("e%20/x.parquet", b"ent")


def test_a_file_that_was_not_finished_is_removed(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))

    with pytest.raises(RuntimeError), files.create("x/y.parquet") as file:
        file.write(b"part")
        raise RuntimeError

    assert list(files.list("")) == []


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"first")

    with (
        pytest.raises(BackendFailed, match=r"cannot write .*/x\.parquet: .*File exists"),
        LocalFiles(str(tmp_path)).create("x.parquet"),
    ):
        pass

    assert (tmp_path / "x.parquet").read_bytes() == b"first"


def test_directories_that_become_empty_are_removed_up_to_the_table(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for path in ("data/load/one/a", "data/load/two/b", "data/other/c"):
        (table / path).parent.mkdir(parents=True)
        (table / path).touch()

    LocalFiles(str(table)).delete(["data/load/one/a", "data/load/two/b", "data/other/absent"])

    assert sorted(os.listdir(table / "data")) == ["other"]
    LocalFiles(str(table)).delete(["data/other/c"])
    assert os.listdir(table) == []


def test_files_of_another_machine_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"x\.parquet, and this process does not see it"):
        LocalFiles(str(tmp_path)).sync(["x.parquet"])


@pytest.mark.parametrize(
    ("path", "is_complete"),
    [("/a/b", True), ("s3://b/a", True), ("file:/a", True), ("a/b", False), ("a:b/c", False)],
)
def test_a_complete_path_is_told_from_a_relative_one(path: str, is_complete: bool) -> None:
    assert is_absolute(path) == is_complete
