"""Writing of rows into Parquet files, in front of an S3 that loses requests and answers."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from lossy import ANSWER, REQUEST, UNAVAILABLE, losing
from objectserver import ObjectServer, object_server

from holdfast.errors import BackendFailed
from holdfast.portable.lake import storage, writing
from holdfast.portable.lake.reading import Piece, Reading, pack_pieces, read
from holdfast.portable.lake.storage import open_files
from holdfast.portable.lake.writing import Target, write

NUMBERS = Random(7).sample(range(2**60), 900_000)
"""Which no encoding makes smaller: more than one part of an upload."""
ROWS = [pa.record_batch({"a": NUMBERS[first::3]}) for first in range(3)]


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


def target(server: ObjectServer, **changed: Any) -> Target:
    return Target(
        f"{server.make_bucket()}/table", {**server.environment}, "place", ("a",), (), False
    )._replace(**changed)


def read_back(target: Target, paths: list[str], sizes: list[int]) -> list[int]:
    pieces = [Piece(path, size) for path, size in zip(paths, sizes, strict=True)]
    schema = pa.schema({"a": pa.int64()})
    reading = Reading(target.location, target.options, (pack_pieces(pieces),), schema)
    tasks = pa.RecordBatch.from_pydict({"id": [0]})
    return [number for rows in read(reading, [tasks]) for number in rows["a"].to_pylist()]


@pytest.mark.parametrize("loss", [REQUEST, ANSWER, UNAVAILABLE])
@pytest.mark.parametrize("part_size", [storage.PART_SIZE, 5 * 2**20])
def test_lost_requests_are_sent_again(
    s3: ObjectServer, loss: str, part_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "PART_SIZE", part_size)
    monkeypatch.setattr(writing, "GROUP_ROWS", 300_000)
    with losing(s3.endpoint) as proxy:
        to = target(s3)
        # The proxy keeps a connection that this server closes.
        to.options.update({"AWS_ENDPOINT_URL": proxy.url, "read_timeout": "1s"})
        proxy.about = b"/table/place/"
        proxy.losses = [loss, "", loss, loss]
        written = [one for batch in write(to, ROWS) for one in batch.to_pylist()]
        proxy.losses = [loss, "", loss]
        found = read_back(to, [one["path"] for one in written], [one["size"] for one in written])
        stored = {each.path: each.size for each in open_files(*to[:2]).list("")}

    assert found == [number for batch in ROWS for number in batch["a"].to_pylist()]
    assert stored == {one["path"]: one["size"] for one in written}


@pytest.mark.parametrize("loss", [REQUEST, ANSWER, UNAVAILABLE])
def test_the_end_of_an_upload_may_be_lost(
    s3: ObjectServer, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "PART_SIZE", 5 * 2**20)
    with losing(s3.endpoint) as proxy:
        to = target(s3)
        to.options.update({"AWS_ENDPOINT_URL": proxy.url, "read_timeout": "1s"})
        proxy.about = b"POST /"
        proxy.losses = ["", loss]
        [written] = [one for batch in write(to, ROWS) for one in batch.to_pylist()]
        found = read_back(to, [written["path"]], [written["size"]])

    assert len(found) == 900_000
    assert proxy.losses == []


def failing() -> Iterator[pa.RecordBatch]:
    yield from ROWS
    raise RuntimeError("the source has failed")


def test_a_failure_of_the_source_leaves_no_object(
    s3: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 300_000)
    to = target(s3)

    with pytest.raises(RuntimeError, match="the source has failed"):
        list(write(to, failing()))

    assert list(open_files(*to[:2]).list("")) == []


def test_a_missing_bucket_is_named_without_the_secret(s3: ObjectServer) -> None:
    to = target(s3)._replace(location="s3://absent-bucket/table")

    with pytest.raises(
        BackendFailed, match="cannot write s3://absent-bucket/table/place/"
    ) as caught:
        list(write(to, ROWS))

    assert "testing" not in str(caught.value)
