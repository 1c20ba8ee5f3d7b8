"""What was measured: as tables on the terminal, and as a RESULTS.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from bench.size import SIZE, Size


@dataclass(frozen=True)
class Table:
    """Rows of cells; all columns but the first are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def as_rich(self) -> RichTable:
        table = RichTable(title=self.title, title_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def as_markdown(self) -> str:
        rule = ("---", *("---:" for _ in self.columns[1:]))
        lines = (f"| {' | '.join(cells)} |" for cells in (self.columns, rule, *self.rows))
        return f"## {self.title}\n\n" + "\n".join(lines) + "\n"


def crossed(title: str, corner: str, cells: Mapping[str, Mapping[str, str]]) -> Table:
    """A table of what is given by column and by row."""
    names = next(iter(cells.values()))
    rows = [(name, *(column[name] for column in cells.values())) for name in names]
    return Table(title, (corner, *cells), rows)


@dataclass(frozen=True)
class Claim:
    """A figure that should be reached: at least, or at most, what is required."""

    what: str
    measured: float
    required: float
    why_short: str
    """The reason to give where it does not."""
    unit: str = ""
    at_most: bool = False

    @property
    def holds(self) -> bool:
        return self.measured <= self.required if self.at_most else self.measured >= self.required

    def cells(self) -> tuple[str, ...]:
        sign = "≤" if self.at_most else "≥"
        return (
            self.what,
            f"{self.measured:.2f}{self.unit}",
            f"{sign} {self.required:g}{self.unit}",
            "ok" if self.holds else "short",
        )


@dataclass
class Report:
    """All of one run."""

    facts: list[tuple[str, str]]
    claims: list[Claim] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def at_least(self, required: float, what: str, measured: float, why_short: str) -> None:
        self.claims.append(Claim(what, measured, required, why_short))

    def at_most(
        self, required: float, what: str, measured: float, why_short: str, unit: str = ""
    ) -> None:
        self.claims.append(Claim(what, measured, required, why_short, unit, at_most=True))

    def all_notes(self) -> list[str]:
        """With the reason for each figure that is short."""
        short = [claim for claim in self.claims if not claim.holds]
        return [*self.notes, *(f"{claim.what}: {claim.why_short}" for claim in short)]

    def print(self, console: Console) -> None:
        for table in (self._verdict(), *self.tables):
            console.print(table.as_rich())
        for note in self.all_notes():
            console.print(f"- {note}")

    def write(self, directory: Path) -> None:
        """As RESULTS.md of the benchmarks in that directory, unless it says nothing of speed."""
        if SIZE is Size.TINY:
            return
        parts = [
            f"# Results of `bench/{directory.name}`\n",
            "Written by `make bench`; [README.md](../README.md) says what each figure is.\n",
            "\n".join(f"- {name}: {value}" for name, value in self.facts) + "\n",
            *(table.as_markdown() for table in (self._verdict(), *self.tables)),
        ]
        if notes := self.all_notes():
            parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in notes) + "\n")
        (directory / "RESULTS.md").write_text("\n".join(parts))

    def _verdict(self) -> Table:
        columns = ("What is asked for", "Measured", "Required", "")
        return Table("Verdict", columns, [claim.cells() for claim in self.claims])
