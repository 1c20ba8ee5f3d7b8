"""The Spark server that the tasks of a supervisor share."""

from __future__ import annotations

import socket
from typing import Any

from holdfast.runner.supervisor.spark_server import SparkServer
from holdfast.settings import Settings
from holdfast.spark.session.address import SparkAddress


def test_a_server_that_ended_is_lost_though_another_program_has_its_port() -> None:
    launcher: Any = None
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = SparkAddress("localhost", other.getsockname()[1], "token")

        assert SparkServer(Settings(), launcher).is_lost(address)
