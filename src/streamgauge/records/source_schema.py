"""Headers and schemas of sources, compared with the columns that a pipeline file declares.

The names of the columns of a CSV or Parquet file are public, as the pipeline file is. A declared column that
a file lacks is refused before a charge: all that could be published of it is noise. JSON lines have no
schema, and which keys their records have is private.

**Privacy.** A message shows declared names, and names of a file that resemble them. It never shows a whole
header: the first line of a file without one is a record. So where no declared column is in that line, nothing
of it is shown but a declared name in other case.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from streamgauge.config.settings import Stream
from streamgauge.records.fields import VALUE_TYPES

TEXT_TYPE = "VARCHAR"
MAX_MESSAGES = 3  # files that are named one by one


@dataclass(frozen=True)
class SourceSchema:
    """Columns of one file of a source, and the type of each."""

    file: str
    kinds: Mapping[str, str]
    is_first_line: bool = False  # whether the names are a first line, which may be a record

    @classmethod
    def from_header(cls, file: str, header: Iterable[str]) -> "SourceSchema":
        """Build the schema of a CSV file."""
        return cls(file, dict.fromkeys((name for name in header if name), TEXT_TYPE), is_first_line=True)


def select_unread(schemas: Iterable[SourceSchema], *, has_read: bool) -> Iterable[SourceSchema]:
    """Return the schemas to check: the last one of a live source that was read, whose earlier files may be older."""
    return deque(schemas, maxlen=1) if has_read else schemas


def find_refusals(stream: Stream, schemas: Iterable[SourceSchema]) -> list[str]:
    """Return one message for each file that lacks a declared column, and a last one if there are many."""
    found = [message for schema in schemas if (message := find_refusal(stream, schema))]
    left = len(found) - MAX_MESSAGES
    return [*found[:MAX_MESSAGES], *([f"and {left:,} more files"] if left > 0 else [])]


def find_refusal(stream: Stream, schema: SourceSchema) -> str | None:
    """Return a message if a file lacks a declared column.

    >>> from streamgauge.config.settings import Column
    >>> from types import SimpleNamespace
    >>> stream = SimpleNamespace(time="ts", user=None, columns={"delay": Column("delay")})
    >>> find_refusal(stream, SourceSchema.from_header("flights.csv", ["ts", "Delay"]))
    'source must have every declared column, got flights.csv without delay (did you mean Delay?)'
    """
    if not schema.kinds:
        return f"source must begin with a line that names its columns, got {schema.file} without one"
    lacking = [
        f"{name}{role}{_build_hint(name, stream, schema)}"
        for name, role in list_declared_columns(stream).items()
        if VALUE_TYPES.fullmatch(schema.kinds.get(name, "")) is None
    ]
    if not lacking:
        return None
    hint = "" if _is_header(stream, schema) else "; is its first line a header, with commas between the names?"
    return f"source must have every declared column, got {schema.file} without {', '.join(lacking)}{hint}"


def list_declared_columns(stream: Stream) -> dict[str, str]:
    """Return all columns that a source must have, and the role of each."""
    roles = {stream.time: " (time)", **({stream.user: " (user)"} if stream.user else {})}
    return dict.fromkeys(stream.columns, "") | roles


def _build_hint(name: str, stream: Stream, schema: SourceSchema) -> str:
    """Return the nearest name of the file, or the type of a column that is never read."""
    if name in schema.kinds:
        return f" (its type {schema.kinds[name]} is not read)"
    near = _find_nearest(name, schema, is_time=name == stream.time)
    if near is None or not (_is_header(stream, schema) or near.casefold() == name.casefold()):
        return ""
    return f" (did you mean {near}?)"


def _find_nearest(name: str, schema: SourceSchema, *, is_time: bool) -> str | None:
    """Return the name of a file's column that is most like a declared one, or that speaks of time."""
    folded = {each.casefold(): each for each in reversed(list(schema.kinds))}
    near = get_close_matches(name.casefold(), folded, 1)
    if not near and is_time:
        near = [each for each in folded if "time" in each or "date" in each][-1:]
    return folded[near[0]] if near else None


def _is_header(stream: Stream, schema: SourceSchema) -> bool:
    return not schema.is_first_line or bool(schema.kinds.keys() & list_declared_columns(stream))
