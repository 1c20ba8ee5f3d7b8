"""Delta tables, read and committed to with the package deltalake."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import (
    BackendFailed,
    InvalidInput,
    InvalidType,
    MissingDependency,
    NotSupported,
)
from holdfast.portable.lake.partitions import partition_text
from holdfast.spark.lake.delta_stats import statistics
from holdfast.spark.lake.table import (
    CommitConflict,
    DataFile,
    Found,
    Identity,
    LakeTable,
    OpenTable,
    PartitionColumn,
    Stamp,
    Storage,
    UnknownOutcome,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FIELD: Final = "holdfast"
"""The field of a commit's metadata that holds its stamp."""
_FEATURES: Final = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features of tables that a plain append respects, or that are checked where they are used."""
_FORGETS: Final = "delta.setTransactionRetentionDuration"
_COLUMN_RULES: Final = ("delta.generationExpression", "delta.identity.start", "delta.invariants")
_URL: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_FIRST_PART: Final = 8
"""Number of commits that are looked through first."""


def delta(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    create: bool = False,
    partition_by: str | Sequence[str] | None = None,
    evolve: bool = False,
    replace: Mapping[str, Any] | None = None,
) -> DeltaLake:
    """Return the Delta table at a path or URL, for `append` and `incremental`.

    `storage_options` are those of the package deltalake. With `create`, the first append creates
    the table, partitioned by the columns `partition_by`; with `evolve`, columns that the rows have
    and the table has not are added to it. With `replace`, values of partition columns, the rows of
    an `append` replace those of that partition in the same commit. Raise InvalidType or
    InvalidInput for invalid arguments.
    """
    if not isinstance(uri, str | os.PathLike) or not isinstance(os.fspath(uri), str):
        raise InvalidType(f"the Delta table is {uri!r}", hint='delta("s3://lake/orders")')
    names = (partition_by,) if isinstance(partition_by, str) else partition_by
    if names is not None and not (
        isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    ):
        raise InvalidType(
            f"partition_by is {partition_by!r}", hint='partition_by=["day", "country"]'
        )
    options = {} if storage_options is None else storage_options
    if not isinstance(options, Mapping) or not all(
        isinstance(part, str) for item in options.items() for part in item
    ):
        raise InvalidType("storage_options is not a mapping of texts", hint='{"AWS_REGION": "…"}')
    columns = None if names is None else tuple(PartitionColumn(name) for name in names)
    if replace is not None and (not isinstance(replace, Mapping) or not replace):
        raise InvalidType(f"replace is {replace!r}", hint='replace={"day": date(2026, 1, 31)}')
    replaced = dict(replace or {})
    return DeltaLake(_location(os.fspath(uri)), dict(options), create, columns, evolve, replaced)


class DeltaLake(LakeTable):
    """A Delta table at a location."""

    def __init__(
        self,
        location: str,
        options: dict[str, str],
        creates: bool,
        partition_by: tuple[PartitionColumn, ...] | None,
        evolves: bool,
        replaced: dict[str, Any],
    ) -> None:
        self.location = location
        self.creates = creates
        self.partition_by = partition_by
        self.evolves = evolves
        self.replaced = replaced
        self.replaces = bool(replaced)
        self._given = options
        self._options = _safe(location, options)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        return f"the Delta table {self.location}"

    @property
    def storage(self) -> Storage:
        return Storage(self.location, self._given)

    def open(self) -> OpenDelta | None:
        table = self.open_library(None)
        return None if table is None else OpenDelta(self, table)

    def open_library(self, version: int | None) -> Any:
        """Return the table at a version as deltalake's `DeltaTable`; None if there is no table."""
        deltalake = _library()
        with translated(self.name):
            try:
                return deltalake.DeltaTable(
                    self.location, version=version, storage_options=self._options or None
                )
            except deltalake.exceptions.TableNotFoundError as error:
                if "PermissionDenied" in str(error) or "Unknown scheme" in str(error):
                    raise InvalidInput(
                        f"cannot open {self.name}: {_reason(error)}",
                        hint="check the path or URL, and who may read it",
                    ) from None
        self._check_free()
        return None

    def create(self, schema: StructType, partition_by: Sequence[PartitionColumn]) -> OpenDelta:
        from pyspark.sql.types import BinaryType

        from holdfast.spark.lake.schema import nullable

        deltalake = _library()
        for column in partition_by:
            if column.transform != "identity" or column.name not in schema.names:
                raise InvalidInput(
                    f"partition_by of {self.name} is `{column.name}`, which is not a column of the "
                    f"rows: {', '.join(schema.names)}",
                    hint="Delta partitions by columns; add one with withColumn",
                )
            if isinstance(schema[column.name].dataType, BinaryType):
                raise InvalidInput(f"partition_by of {self.name} is the binary `{column.name}`")
        if len({column.name for column in partition_by}) >= len(schema.names):
            raise InvalidInput(
                f"partition_by of {self.name} names all columns of the rows",
                hint="leave at least one for the files",
            )
        with translated(self.name):
            try:
                deltalake.DeltaTable.create(
                    self.location,
                    deltalake.Schema.from_json(nullable(schema).json()),
                    partition_by=[column.name for column in partition_by],
                    storage_options=self._options or None,
                )
            except (deltalake.exceptions.DeltaError, OSError):
                if (opened := self.open()) is None:
                    raise
                return opened  # another process has created it
        opened = self.open()
        assert opened is not None
        return opened

    def _check_free(self) -> None:
        """Raise InvalidInput if a local directory contains something else than a table."""
        if _URL.match(self.location) or not os.path.exists(self.location):
            return
        other = "is a file"
        if os.path.isdir(self.location):
            names = set(os.listdir(self.location)) - {"_delta_log", "data-holdfast"}
            other = f"contains {min(names)}, and no table" if names else ""
        if other:
            raise InvalidInput(
                f"{self.name} does not exist: {self.location} {other}",
                hint="give the directory of a Delta table, or one that does not exist",
            )


class OpenDelta(OpenTable):
    """A version of a Delta table."""

    keeps_partition_columns = False

    def __init__(self, place: DeltaLake, table: Any) -> None:
        from pyspark.sql.types import StructType

        self._place = place
        self._table = table
        self._metadata = table.metadata()
        self.version = str(table.version())
        self.storage = place.storage
        self.schema = StructType.fromJson(json.loads(table.schema().to_json()))
        self.partition_by = tuple(map(PartitionColumn, self._metadata.partition_columns))
        self._commits: list[dict[str, Any]] = []
        self._has_all = False

    def check_appendable(self) -> None:
        names = [column.name for column in self.partition_by]
        if unknown := self._place.replaced.keys() - set(names):
            raise InvalidInput(
                f"replace= names `{min(unknown)}`, by which {self._place.name} is not partitioned",
                hint=f"name partition columns: {', '.join(names) or 'there are none'}",
            )
        self._replaced()
        properties = self._metadata.configuration
        protocol = self._table.protocol()
        problems = [
            f"the feature {name}"
            for name in (protocol.writer_features or [])
            if name not in _FEATURES
        ]
        problems += [
            f"the property {name}={value}"
            for name, value in properties.items()
            if name == _FORGETS
            or name.startswith("delta.constraints.")
            or (name == "delta.columnMapping.mode" and value != "none")
            or (name == "delta.enableRowTracking" and value == "true")
        ]
        problems += [
            f"the rule {name} of `{field.name}`"
            for field in self.schema
            for name in _COLUMN_RULES
            if name in field.metadata
        ]
        if problems:
            raise NotSupported(
                f"{self._place.name} has {', '.join(problems)}, with which an append cannot be "
                "exact here",
                hint="append with Delta's own writer, or to a table without it",
            )

    def _replaced(self) -> dict[str, str | None]:
        """Return the texts of the values of `replace=` in the types of their columns. Raise
        InvalidInput for a value that a column cannot have."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        texts = {}
        for name, value in self._place.replaced.items():
            kind = to_arrow_type(self.schema[name].dataType, timezone="UTC")
            if pa.types.is_decimal(kind) and type(value) is int:
                value = Decimal(value)
            try:
                texts[name] = partition_text(pa.scalar(value).cast(kind).as_py())
            except (pa.ArrowException, ValueError, TypeError, NotImplementedError) as error:
                raise InvalidInput(
                    f"replace= says {value!r} for `{name}` of {self._place.name}, which is of type "
                    f"{kind}: {error}",
                    hint="give a value of that type",
                ) from error
        return texts

    def newest(self, sequence: str) -> int | None:
        with translated(self._place.name):
            found: int | None = self._table.transaction_version(sequence)
        return found

    def commit_of(self, identity: Identity) -> Found | None:
        for commit in self._history():
            stamp = stamp_of(commit)
            if stamp and (stamp.sequence, stamp.number) == identity[:2]:
                version = commit["version"]
                return Found(str(version), stamp, self._is_undone(version))
        newest = self.newest(identity.sequence)
        is_complete = bool(self._commits) and self._commits[-1]["version"] == 0
        return (
            None if is_complete or newest is None or newest < identity.number else Found("", None)
        )

    def append(self, files: Sequence[DataFile], stamp: Stamp) -> str:
        from deltalake.transaction import AddAction, CommitProperties, Transaction

        most = int(self._metadata.configuration.get("delta.dataSkippingNumIndexedCols", "32"))
        now = time.time_ns() // 1_000_000
        names = [column.name for column in self.partition_by]
        replaced = self._replaced()
        decimals = {name for name in names if self.schema[name].dataType.typeName() == "decimal"}
        adds = []
        for file in files:
            values = dict(zip(names, file.partition, strict=True))
            if "" in values.values():
                raise InvalidInput(
                    f"a row for {self._place.name} has an empty text in a partition column, which "
                    "Delta reads as null; nothing was committed",
                    hint="replace it: nullif(…, '')",
                )
            for name in decimals:
                if (text := values[name] or "").startswith("-") and "." in text:
                    raise InvalidInput(
                        f"a row for {self._place.name} has {text} in the partition column "
                        f"`{name}`: deltalake cannot read a table with such a partition; nothing "
                        "was committed",
                        hint="partition by another column, such as floor(…)",
                    )
            for name, value in replaced.items():
                if values[name] != value:
                    raise InvalidInput(
                        f"a row for {self._place.name} has the {name} {values[name]}, but "
                        f"replace= says {value}; nothing was committed",
                        hint="append only rows of the partition that they replace",
                    )
            stats = statistics(file.footer, self.schema, most)
            adds.append(AddAction(file.path, file.size, values, now, True, stats))
        # deltalake does not notice that the files to replace were compacted meanwhile.
        retries = {"max_commit_retries": 0} if self._place.replaces else {}
        properties = CommitProperties(
            custom_metadata={_FIELD: msgspec.to_builtins(stamp)},
            app_transactions=[Transaction(stamp.sequence, stamp.number)],
            **retries,
        )
        filters = [(name, "=", value or "") for name, value in replaced.items()]
        with _committing(self._place.name):
            self._table.create_write_transaction(
                adds,
                "overwrite" if filters else "append",
                self._table.schema(),
                names,
                filters or None,
                commit_properties=properties,
            )
        with suppress(BackendFailed):  # it is committed: the version is only for people
            opened = self._place.open()
            if opened is not None and (found := opened.commit_of(stamp.identity)) is not None:
                return found.version
        return ""

    def add_columns(self, columns: StructType) -> None:
        deltalake = _library()
        fields = deltalake.Schema.from_json(columns.json()).fields
        with _committing(self._place.name):
            self._table.alter.add_columns(fields)

    def _history(self) -> Iterator[dict[str, Any]]:
        """Yield the commits up to this version, newest first, as far as the log has them."""
        yield from self._commits
        known, limit = len(self._commits), max(_FIRST_PART, 4 * len(self._commits))
        while not self._has_all:
            with translated(self._place.name):
                self._commits = self._table.history(limit)
            self._has_all = len(self._commits) < limit
            yield from self._commits[known:]
            known, limit = len(self._commits), 4 * limit

    def _is_undone(self, version: int) -> bool:
        """Return whether a restore has taken back a commit, and no later one has brought it
        back."""
        state = int(self.version)
        for commit in self._history():
            if commit["version"] > state:
                continue
            if commit["version"] <= version:
                return False
            if commit.get("operation") != "RESTORE":
                continue
            state = self._restored_to(commit)
            if state < version:
                return True
        return False

    def _restored_to(self, commit: dict[str, Any]) -> int:
        parameters = commit.get("operationParameters") or {}
        if parameters.get("version") is not None:
            return int(parameters["version"])
        moment = _milliseconds(parameters.get("datetime") or parameters.get("timestamp"))
        earlier = (
            other["version"]
            for other in self._history()
            if other["version"] < commit["version"] and other["timestamp"] <= moment
        )
        return next(earlier, 0)


def stamp_of(commit: Mapping[str, Any]) -> Stamp | None:
    """Return the stamp in a commit's metadata; None if another writer made the commit."""
    try:
        return msgspec.convert(commit[_FIELD], Stamp)
    except (KeyError, msgspec.ValidationError):
        return None


def _milliseconds(moment: Any) -> int:
    if isinstance(moment, int) or str(moment).isdigit():
        return int(moment)
    return int(datetime.fromisoformat(str(moment)).timestamp() * 1000)


def _location(uri: str) -> str:
    """Return a URL without a trailing slash, or the absolute path of a local directory."""
    if not uri.strip():
        raise InvalidInput("the Delta table is at an empty path", hint='delta("/lake/orders")')
    found = _URL.match(uri)
    if found is None or found[1].lower() == "file":
        return os.path.abspath(uri[found.end() :] if found else uri)
    if found[1] in ("s3a", "s3n"):
        uri = f"s3://{uri[found.end() :]}"
    return uri.rstrip("/")


def _safe(location: str, options: dict[str, str]) -> dict[str, str]:
    """Return options with which of two commits at once only one can succeed. Raise InvalidInput if
    they do not allow that."""
    if not location.startswith("s3://"):
        return options
    lower = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    unsafe = lower.get("s3_allow_unsafe_rename", "").lower() == "true"
    if unsafe or lower.get("conditional_put", "etag") not in ("etag",):
        raise InvalidInput(
            f"storage_options of {location} allow one commit to overwrite another",
            hint="remove AWS_S3_ALLOW_UNSAFE_RENAME and aws_conditional_put",
        )
    added = {} if "s3_locking_provider" in lower else {"aws_conditional_put": "etag"}
    endpoint = lower.get("endpoint_url") or lower.get("endpoint") or ""
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint.startswith("http://"):
        added["allow_http"] = "true"
    return {**added, **options}


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise errors of deltalake as BackendFailed."""
    deltalake = _library()
    try:
        yield
    except (deltalake.exceptions.DeltaError, OSError) as error:
        raise BackendFailed(
            f"cannot use {name}: {_reason(error)}",
            hint="check the URL, storage_options and credentials",
        ) from error


@contextmanager
def _committing(name: str) -> Iterator[None]:
    """Raise errors of deltalake in a commit as CommitConflict or UnknownOutcome."""
    deltalake = _library()
    try:
        yield
    except deltalake.exceptions.CommitFailedError as error:
        raise CommitConflict(
            f"{name} has changed: {_reason(error)}", hint="run this again"
        ) from error
    except (deltalake.exceptions.DeltaError, OSError) as error:
        raise UnknownOutcome(
            f"the commit to {name} has failed: {_reason(error)}",
            hint="check that the table can be written to, and run this again: it looks first",
        ) from error


def _reason(error: BaseException) -> str:
    """Return an error's message in one line, without addresses, which may contain signatures."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return " ".join(re.sub(r"https?://\S+", "…", text).split())[:400]


def _library() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError:
        raise MissingDependency(
            "Delta tables need the package deltalake, which is not installed",
            hint='pip install "holdfast-state[delta]"',
        ) from None
    return deltalake
