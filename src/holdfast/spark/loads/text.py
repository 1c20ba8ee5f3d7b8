"""Formats of text: the options with which Spark reads the rows again that it writes.

Spark's own defaults lose text without a word: CSV trims it, ends rows at line breaks and takes
empty text for null; all of them cut microseconds, and read what they cannot parse as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_NULL: Final = "__HOLDFAST_NULL__"
"""What a reader of CSV takes for null besides an empty field, which CSV has for nulls only."""
_TIMES: Final = {
    "timestampformat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampntzformat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_KEEPING: Final = {
    "csv": {
        **_TIMES,
        "linesep": "\n",
        "ignoreleadingwhitespace": "false",
        "ignoretrailingwhitespace": "false",
    },
    "json": _TIMES,
    "text": {"linesep": "\n"},
    "xml": {**_TIMES, "ignoresurroundingspaces": "false"},
}
"""Options with which values are written and read as they are."""
_STRICT: Final = {
    "mode": "FAILFAST",
    "columnnameofcorruptrecord": "_holdfast_corrupt_record",
    "enabledatetimeparsingfallback": "true",
}
"""Options of readers: an error instead of null, and no column that the reader's session names.
Times that an author wrote in another form of ISO 8601 are read as well."""
_ALIASES: Final = {"delimiter": "sep", "charset": "encoding", "codec": "compression"}


class TextFormat(NamedTuple):
    """A format of text, and the options of the author's, under one name each."""

    name: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, name: str, options: Mapping[str, str]) -> TextFormat:
        return cls(name, canonical(options))

    def for_writer(self) -> dict[str, str]:
        """Return the options to write with."""
        own: dict[str, str] = {}
        if self.name == "csv":
            quote = self.options.get("quote", '"')
            own = {"escape": quote, "emptyvalue": quote * 2}
        return {**_KEEPING[self.name], **own, **self.options}

    def for_reader(self) -> dict[str, str]:
        """Return the options to read with."""
        own = {} if self.name == "text" else dict(_STRICT)
        if self.name == "csv":
            own |= {"escape": self.options.get("quote", '"'), "multiline": "true"}
            # So that the names in a header are compared.
            own |= {"nullvalue": _NULL, "enforceschema": "false"}
        return {**_KEEPING[self.name], **own, **self.options}


def canonical(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a format of text by the names that `TextFormat` knows them by."""
    lower = {name.lower(): str(value) for name, value in options.items()}
    return {_ALIASES.get(name, name): value for name, value in lower.items()}
