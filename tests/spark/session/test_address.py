"""Connection strings of Spark Connect."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidSettings
from holdfast.spark.session.address import SparkAddress
from holdfast.spark.session.session import address_of, connection_string


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("sc://spark.example", SparkAddress("spark.example", 15002)),
        ("sc://localhost:15003/", SparkAddress("localhost", 15003)),
        ("sc://[::1]:7", SparkAddress("::1", 7)),
        (
            "sc://h:1/;token=a%3Bb%3D;use_ssl=true;x-team=data",
            SparkAddress("h", 1, "a;b=", options="use_ssl=true;x-team=data"),
        ),
    ],
)
def test_a_connection_string_keeps_its_parameters(remote: str, address: SparkAddress) -> None:
    assert address_of(remote) == address


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (SparkAddress("h", 1), "sc://h:1/;user_id=holdfast;session_id=S"),
        (SparkAddress("::1", 1), "sc://[::1]:1/;user_id=holdfast;session_id=S"),
        (SparkAddress("h", 1, "a;b="), "sc://h:1/;token=a%3Bb%3D;user_id=holdfast;session_id=S"),
        (
            SparkAddress("h", 1, options="user_id=ann;use_ssl=true"),
            "sc://h:1/;user_id=ann;use_ssl=true;session_id=S",
        ),
    ],
)
def test_a_session_is_requested_by_its_id(address: SparkAddress, expected: str) -> None:
    assert connection_string(address, "S") == expected


def test_pyspark_reads_the_users_connection_string() -> None:
    from pyspark.sql.connect.client import DefaultChannelBuilder

    remote = "sc://h:1/;token=a%3Bb%3D;use_ssl=true;user_id=ann;x-team=data%20eng"
    session = "00112233-4455-4677-8899-aabbccddeeff"

    read = DefaultChannelBuilder(connection_string(address_of(remote), session))

    assert (read.endpoint, read.token, read.use_ssl) == ("h:1", "a;b=", True)
    assert (read.userId, read.session_id) == ("ann", session)
    assert list(read.metadata()) == [("x-team", "data eng")]


@pytest.mark.parametrize(
    "remote",
    [
        "spark://h:7077",
        "localhost:15002",
        "sc://",
        "sc://h:port",
        "sc://h:99999",
        "sc://h/path",
        "sc://h/;token",
        "sc://h/;a=b=c",
        "sc://ann:pw@h",
        "sc://h/?token=x",
        "sc://[::1",
    ],
)
def test_another_connection_string_is_refused(remote: str) -> None:
    with pytest.raises(InvalidSettings, match="spark.remote") as raised:
        address_of(remote)

    assert "sc://host:port" in raised.value.hint


def test_a_session_id_of_the_users_own_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="session_id"):
        address_of("sc://h/;session_id=00112233-4455-4677-8899-aabbccddeeff")
