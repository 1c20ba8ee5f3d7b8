"""DAG files, and the DAGs in them."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter

from holdfast.commands.base import Category, Command
from holdfast.model.dag import DagSpec
from holdfast.model.role import Role
from holdfast.model.run import DagInfo, FileInfo
from holdfast.model.value import check_json_object


class SaveFile(Command[None], frozen=True):
    """Save the DAGs of a file, after it was imported.

    A file is identified by its path inside its directory, so that the directory may move. The DAGs'
    assets are declared as by `DeclareDagAssets`. A new DAG that is scheduled on an asset waits for
    that asset's next event; a known one keeps its pause, its schedule and its position in the
    events, whichever file held it before.

    Raises Conflict where another file holds one of the DAGs and a scheduler has seen that one in
    the last half minute. Run by hand, a file changes nothing of a DAG that a scheduler has had, and
    only adds its assets to those that the DAG declares.
    """

    file: str
    dags: tuple[DagSpec, ...]
    seen: bool = False
    """A scheduler has the file, and will keep reporting it with `SeeDags`."""
    left: tuple[str, ...] = ()
    """DAGs that the scheduler has found in the file before and that are missing now. They stay
    unchanged, and any file may hold them next."""
    taken_from: tuple[str, ...] = ()
    """Files of the scheduler that held one of the DAGs and no longer do."""

    def __post_init__(self) -> None:
        for dag in self.dags:
            check_json_object(f"params of DAG `{dag.dag_id}`", dag.params)


class SaveFileError(Command[None], frozen=True):
    """Report that a file cannot be imported, repeatedly while it is so; its previous DAGs stay."""

    file: str
    error: str


class ForgetFile(Command[None], frozen=True):
    """Report that the file is gone, and that these DAGs that it held are missing."""

    file: str
    dag_ids: tuple[str, ...] = ()
    unless_seen: bool = False
    """Leave DAGs alone that a scheduler has seen in the last half minute: it may have the file in
    another directory."""


class SeeDags(Command[tuple[str, ...]], frozen=True):
    """Report that a scheduler has files with these DAGs. Returns those that are missing, stale or
    unknown: their files are to be saved again."""

    dag_ids: tuple[str, ...]


class RetireDags(Command[tuple[str, ...]], frozen=True):
    """Mark DAGs stale that schedulers have had, and none for `after`; return their ids.

    Missing DAGs no longer declare assets. All are otherwise unchanged. Errors of files that were
    not reported again for that long, or for an hour, are deleted.
    """

    after: timedelta


class ListFiles(Command[tuple[FileInfo, ...]], frozen=True):
    """List DAG files, ordered by name."""

    category = Category.READS
    paged = True
    sized = True
    measured = attrgetter("error")
    identity = attrgetter("file")

    broken: bool = False
    """Only those that cannot be imported."""
    limit: int | None = None
    offset: int = 0
    max_size: int | None = None
    """Limit in characters of errors: the answer ends with the file that exceeds it."""


class ListDags(Command[tuple[DagInfo, ...]], frozen=True):
    """List DAGs, ordered by id."""

    category = Category.READS
    paged = True
    identity = attrgetter("dag_id")

    limit: int | None = None
    offset: int = 0
    specs: bool = True
    """False: with empty specs, which are long."""


class GetDag(Command[DagInfo], frozen=True):
    """Return one DAG. Raises NotFound, which names the DAGs that exist."""

    category = Category.READS

    dag_id: str


class DeleteDag(Command[None], frozen=True):
    """Delete a DAG, its pause, its progress in its schedule and its declarations of assets. Its
    runs stay.

    Raises NotFound for an unknown DAG, and Conflict where a scheduler has seen its file in the last
    half minute, or where runs of it have not ended.
    """

    dag_id: str
    dry_run: bool = False


class PauseDag(Command[None], frozen=True):
    """Pause or resume the schedule of a DAG."""

    role = Role.EDITOR

    dag_id: str
    paused: bool
