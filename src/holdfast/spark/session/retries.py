"""How long a session tries to reach a server that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.connect.client.retries import DefaultPolicy

from holdfast.spark.session.address import SparkAddress
from holdfast.spark.session.check import answers

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_HERE: Final = ("localhost", "127.0.0.1", "::1")


class _Brief(DefaultPolicy):
    """Six seconds, where PySpark has ten minutes."""

    def __init__(self) -> None:
        super().__init__(max_retries=8, max_backoff=1000)


class _WhileItListens(_Brief):
    """On this machine, a server that is gone stays gone."""

    def __init__(self, address: SparkAddress) -> None:
        super().__init__()
        self._address = address

    def can_retry(self, e: BaseException) -> bool:
        return super().can_retry(e) and answers(self._address.host, self._address.port)


def be_patient(session: SparkSession, address: SparkAddress) -> None:
    """For as long as PySpark has it, where the server is elsewhere and may come back."""
    if address.host in _HERE:
        session.client.set_retry_policies([_WhileItListens(address)])


def be_brief(session: SparkSession, address: SparkAddress) -> None:
    """For the end of a session, which need not succeed."""
    here = address.host in _HERE
    session.client.set_retry_policies([_WhileItListens(address) if here else _Brief()])
