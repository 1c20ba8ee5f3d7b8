"""Results of tasks."""

from __future__ import annotations

from operator import itemgetter

from msgspec.structs import force_setattr

from holdfast.commands.base import Category, Command, RunCommand
from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter
from holdfast.model.run import RETURN_VALUE
from holdfast.model.scope import TaskScope
from holdfast.model.value import check_json, check_key


class PutResult(Command[None], frozen=True):
    """Store a value of the attempt for other tasks. A new attempt starts without any."""

    category = Category.WRITES_RESULTS

    writer: TaskWriter
    key: str
    value: str

    @property
    def subject(self) -> TaskScope:
        return self.writer.scope

    def __post_init__(self) -> None:
        if self.writer.attempt is None:
            raise InvalidInput(
                f"the result `{self.key:.80}` of {self.writer.scope}: the number of the attempt "
                "is missing",
                hint="give the number of the attempt that has the result",
            )
        force_setattr(self, "key", check_key(self.key, self.writer.scope))
        check_json(f"the result `{self.key}` of {self.writer.scope}", self.value)


class GetResults(RunCommand[tuple[tuple[int, str], ...]], frozen=True):
    """Return the results of a task's instances under a key: (map index, JSON), by map index."""

    category = Category.READS_RUN
    sized = True
    measured = itemgetter(1)
    goes_on = "after", itemgetter(0)

    task_id: str
    key: str = RETURN_VALUE
    map_index: int | None = None
    """None: all map indices."""
    after: int | None = None
    """Only those after that map index."""
    max_size: int | None = None
    """Limit in characters of results: the answer ends with the result that exceeds it."""
