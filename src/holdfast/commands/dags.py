"""DAG files, and the DAGs in them."""

from __future__ import annotations

from datetime import timedelta

from holdfast.commands.base import Category, Command
from holdfast.model.dag import DagSpec
from holdfast.model.role import Role
from holdfast.model.run import DagInfo, FileInfo
from holdfast.model.value import check_json_object


class SaveFile(Command[None], frozen=True):
    """What a DAG file holds, after it was imported.

    A file is known by its path inside its directory, so that the directory may move. The DAGs'
    assets are declared as `DeclareDagAssets` does. A DAG that is new on the schedule of an asset
    waits for that asset's next event; one that was known before is paused, scheduled and come as
    far with events as it was, whichever file held it.

    Conflict where another file holds one of them that a scheduler has seen in the last half
    minute. Run by hand, a file changes nothing of a DAG that a scheduler has had, and only adds
    its assets to those that the DAG declares.
    """

    file: str
    dags: tuple[DagSpec, ...]
    seen: bool = False
    """A scheduler has the file, and will go on telling so with `SeeDags`."""
    left: tuple[str, ...] = ()
    """DAGs that the scheduler has found in the file before: they are away now. They stay as they
    are, and any file may hold them next."""
    taken_from: tuple[str, ...] = ()
    """Files of the scheduler that have held one of the DAGs and no longer do."""

    def __post_init__(self) -> None:
        for dag in self.dags:
            check_json_object(f"params of DAG `{dag.dag_id}`", dag.params)


class SaveFileError(Command[None], frozen=True):
    """The file cannot be imported now; what it held before stays. Told again while it is so."""

    file: str
    error: str


class ForgetFile(Command[None], frozen=True):
    """The file is gone, and these DAGs that it held are away."""

    file: str
    dag_ids: tuple[str, ...] = ()


class SeeDags(Command[tuple[str, ...]], frozen=True):
    """A scheduler has files with these DAGs. Answers with those that are away, stale or not known:
    their files are to be saved again."""

    dag_ids: tuple[str, ...]


class RetireDags(Command[tuple[str, ...]], frozen=True):
    """Call DAGs stale that schedulers have had, and none for so long; answer with their ids.

    Those that are away no longer declare assets. All are otherwise as they were. Errors of files
    that nobody has told again for so long, or for an hour, are forgotten.
    """

    after: timedelta


class ListFiles(Command[tuple[FileInfo, ...]], frozen=True):
    """Every DAG file, ordered by name."""

    category = Category.READS


class ListDags(Command[tuple[DagInfo, ...]], frozen=True):
    """DAGs, ordered by id."""

    category = Category.READS
    paged = True

    limit: int | None = None
    offset: int = 0


class GetDag(Command[DagInfo], frozen=True):
    """One DAG; NotFound names those that there are."""

    category = Category.READS

    dag_id: str


class PauseDag(Command[None], frozen=True):
    """Let the schedule start no more runs of a DAG, or let it again."""

    role = Role.EDITOR

    dag_id: str
    paused: bool
