"""Text formats: the options with which Spark reads back the rows that it writes.

Spark's defaults silently lose data: CSV trims text, ends rows at line breaks and reads empty text
as null; all text formats truncate microseconds, and read values that they cannot parse as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_NULL: Final = "__HOLDFAST_NULL__"
"""The text that a CSV reader takes for null, besides an empty field, which stands only for null."""
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
"""Options with which values are written and read unchanged."""
_STRICT: Final = {
    "mode": "FAILFAST",
    "columnnameofcorruptrecord": "_holdfast_corrupt_record",
    "enabledatetimeparsingfallback": "true",
}
"""Options of readers: an error instead of null, and no column that the reader's session names.
Times that an author wrote in another form of ISO 8601 are read as well."""
_ALIASES: Final = {"delimiter": "sep", "charset": "encoding", "codec": "compression"}


class TextFormat(NamedTuple):
    """A text format, and the author's options under canonical names."""

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
    """Return the options of a text format under the names that `TextFormat` uses."""
    lower = {name.lower(): str(value) for name, value in options.items()}
    return {_ALIASES.get(name, name): value for name, value in lower.items()}
