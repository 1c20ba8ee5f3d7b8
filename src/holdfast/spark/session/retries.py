"""Retry policy of a session for a server that does not respond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.connect.client.retries import DefaultPolicy

from holdfast.spark.session.address import SparkAddress
from holdfast.spark.session.check import answers

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_HERE: Final = ("localhost", "127.0.0.1", "::1")


class _Brief(DefaultPolicy):
    """Retries for six seconds, instead of PySpark's ten minutes."""

    def __init__(self) -> None:
        super().__init__(max_retries=8, max_backoff=1000)


class _WhileItListens(_Brief):
    """Retries only while the server listens: on this machine, a server that is gone stays gone."""

    def __init__(self, address: SparkAddress) -> None:
        super().__init__()
        self._address = address

    def can_retry(self, e: BaseException) -> bool:
        return super().can_retry(e) and answers(self._address.host, self._address.port)


def set_retry_policy(session: SparkSession, address: SparkAddress) -> None:
    """Keep PySpark's own policy for a remote server, which may come back; be brief for a local
    one."""
    if address.host in _HERE:
        session.client.set_retry_policies([_WhileItListens(address)])


def set_brief_retry_policy(session: SparkSession, address: SparkAddress) -> None:
    """Retry briefly, for the end of a session, which need not succeed."""
    here = address.host in _HERE
    session.client.set_retry_policies([_WhileItListens(address) if here else _Brief()])
