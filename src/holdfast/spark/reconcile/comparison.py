"""Comparison of objects and references, with a report in Parquet.

| table | one row for |
| --- | --- |
| `listing` | each file that the storage listed |
| `references` | each reference to an object, read after the listing |
| `compared` | each file, and each reference to an unlisted object, with its state |
| `orphans` | each object without a reference |
| `missing` | each reference whose object is missing |
| `totals` | the objects of each dag and asset, by state |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.model.scope import StoreScope
from holdfast.spark.error_translation import translated
from holdfast.spark.reconcile import listing, references
from holdfast.spark.reconcile.summary import Part, Size, Summary
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.sql.rows import micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGEST: Final = 20
"""Number of dags and of assets in the summary."""

# Joined by a hash first: references share prefixes, so that sorting them takes longer.
_COMPARED: Final = """
SELECT coalesce(o.reference, r.reference) AS reference, o.size, o.last_modified,
       CASE WHEN o.reference IS NULL THEN
                CASE WHEN startswith(r.reference, :root) THEN 'unlisted' ELSE 'elsewhere' END
            WHEN NOT o.ours THEN 'foreign'
            WHEN r.named THEN 'named'
            WHEN r.named IS NOT NULL THEN 'queued'
            WHEN o.last_modified > timestamp_micros(:youngest) THEN 'young'
            ELSE 'orphan' END AS state
FROM (SELECT *, xxhash64(reference) AS hash FROM {listing}) o
FULL JOIN (SELECT xxhash64(reference) AS hash, reference, bool_or(kind <> 'queued') AS named
           FROM {references} GROUP BY ALL) r
ON o.hash = r.hash AND o.reference = r.reference
WHERE o.reference IS NOT NULL OR r.named
"""
_ORPHANS: Final = """
SELECT reference, size, last_modified, state = 'young' AS young,
       CAST(timestamp_micros(:now) AS double) - CAST(last_modified AS double) AS age_seconds
FROM {compared} WHERE state IN ('orphan', 'young')
"""
_TOTALS: Final = """
SELECT if(parts[0] = 'task', 'dag', 'asset') AS owner,
       coalesce(try_url_decode(replace(parts[1], '+', '%2B')), parts[1]) AS name,
       state, count(*) AS objects, sum(size) AS bytes
FROM (SELECT split(substr(reference, :start), '/') AS parts, state, size
      FROM {compared} WHERE size IS NOT NULL)
GROUP BY ALL
"""
_NUMBERS: Final = """
SELECT 'state' AS part, state AS name, sum(objects) AS objects, sum(bytes) AS bytes
FROM {totals} GROUP BY state
UNION ALL
SELECT 'state', state, count(*), 0 FROM {compared} WHERE size IS NULL GROUP BY state
UNION ALL
SELECT owner, name, objects, bytes FROM (
    SELECT owner, name, sum(objects) AS objects, sum(bytes) AS bytes,
           row_number() OVER (PARTITION BY owner ORDER BY sum(bytes) DESC, name) AS place
    FROM {totals} WHERE state <> 'foreign' GROUP BY owner, name
) WHERE place <= :largest
ORDER BY part, bytes DESC, name
"""
_UNLISTED: Final = "SELECT reference FROM {compared} WHERE state = 'unlisted'"
_MISSING: Final = "SELECT * FROM {named} LEFT SEMI JOIN {absent} USING (reference)"


class Comparison:
    """One comparison, in three steps: objects are listed before references are read, so that a
    reference added meanwhile is found."""

    def __init__(
        self,
        spark: SparkSession,
        backend: ObjectStoreBackend,
        directory: str,
        grace: timedelta,
        scope: StoreScope | None = None,
    ) -> None:
        """`scope`: a task instance, or an asset by name; None for all."""
        self._spark = spark
        self._scope = scope
        self._backend = backend
        self._directory = directory
        self._now = datetime.now(UTC)
        self._youngest = self._now - grace

    def list_objects(self) -> None:
        with translated("list the storage"):
            self._write("listing", listing.objects(self._spark, self._backend, self._scope))

    def read_references(self) -> None:
        with translated("read the references"):
            for kind in references.kinds_of(self._scope):
                self._write("references", references.read(self._spark, kind, scope=self._scope))

    def compare(self) -> Summary:
        """Write the rest of the report, and return its summary."""
        root = f"{self._backend.url}/"
        with translated("compare them"):
            self._write(
                "compared", self._found(_COMPARED, root=root, youngest=micros(self._youngest))
            )
            self._write("orphans", self._found(_ORPHANS, now=micros(self._now)))
            self._write("totals", self._found(_TOTALS, start=len(root) + 1))
            rows = self._found(_NUMBERS, largest=LARGEST).collect()
            found = {name: Size(*size) for part, name, *size in rows if part == "state"}
            sizes = defaultdict(Size, found)
            return Summary(
                named=sizes["named"],
                queued=sizes["queued"],
                orphan=sizes["orphan"],
                young=sizes["young"],
                foreign=sizes["foreign"],
                missing=self._look_for_missing(sizes["unlisted"]),
                elsewhere=sizes["elsewhere"].objects,
                dags=tuple(Part(*row[1:]) for row in rows if row[0] == "dag"),
                assets=tuple(Part(*row[1:]) for row in rows if row[0] == "asset"),
            )

    def orphans(self) -> Iterator[str]:
        """Yield references to the orphans to delete, one by one: they may not all fit into
        memory."""
        with translated("read the orphans"):
            found = self._read("orphans").filter("NOT young").select("reference")
            for (reference,) in found.toLocalIterator():
                yield reference

    def _look_for_missing(self, unlisted: Size) -> int:
        """Return how many references have no object, not even one that was written after the
        listing, and still exist after that check."""
        if not unlisted.objects:
            self._write("missing", self._spark.createDataFrame([], references.OWNED))
            return 0
        absent = listing.absent(self._found(_UNLISTED), self._backend)
        self._write("absent", absent)
        named = references.read_with_owners(self._spark, self._scope)
        self._write("missing", self._found(_MISSING, named=named).select(*named.columns))
        return self._read("missing").count()

    def _found(self, query: str, named: DataFrame | None = None, **args: Any) -> DataFrame:
        """Return the result of a query on the tables of the report that it names."""
        tables = ("listing", "references", "compared", "totals", "absent")
        frames = {name: self._read(name) for name in tables if f"{{{name}}}" in query}
        if named is not None:
            frames["named"] = named
        return self._spark.sql(query, args=args, **frames)

    def _read(self, table: str) -> DataFrame:
        return self._spark.read.parquet(f"{self._directory}/{table}")

    def _write(self, table: str, rows: DataFrame) -> None:
        rows.write.mode("append").parquet(f"{self._directory}/{table}")
