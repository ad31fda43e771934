"""The pipeline file that `streamgauge init` drafts, with guesses from a sample.

The guesses are the column of times, the values and the bounds. The draft can be read and planned, and must be
confirmed.

Privacy
    The text has guesses from the data: values, bounds, first and last times. It is private until a person has checked
    it, and its first lines state that. Every guess is listed in `confirm`, and `run` refuses the file until that
    list is empty. Guesses are coarse all the same: bounds and times are rounded outward, and a value is listed only if
    three records have it.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor, log10
from pathlib import Path

from streamgauge.config.endpoints import STANDARD_STREAM
from streamgauge.config.paths import find_format
from streamgauge.config.rules import (
    COLUMN,
    DAY,
    EPOCH,
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    format_duration,
    is_line,
    parse_exact,
)
from streamgauge.config.toml_table import escape_line, join_key, quote_toml
from streamgauge.releases.release import format_utc_time
from streamgauge.runtime.draft.sample import SourceSample, build_source_error, load_sample

MAX_LISTED_VALUES = 20
MIN_VALUE_RECORDS = 3  # records that must have a value before it is listed
MAX_TICKS = 2500
TICK_LENGTHS = (SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY)
EPOCH_SCALES: dict[str, Fraction | int] = {
    "epoch s": 10**6,
    "epoch ms": 10**3,
    "epoch us": 1,
    "epoch ns": Fraction(1, 1000),
}
EARLIEST_TIME = 946684800 * SECOND  # 2000
LATEST_TIME = 4102444800 * SECOND  # 2100

_TIME_NAME = re.compile(r"^(ts|at|when)$|time|date|day|stamp|_at$", re.IGNORECASE)
_USER_NAME = re.compile(
    r"user|patient|customer|client|person|people|member|account|device|card|mail|phone|name$"
    r"|(^|[_ ])(uu|u)?id$|Id$"
)


@dataclass(frozen=True, repr=False)
class TimeGuess:
    """The column of times, its format, and its range."""

    name: str
    format: str
    is_naive: bool
    first: int
    last: int

    @property
    def tick(self) -> int:
        """Shortest usual length that gives at most MAX_TICKS ticks, for a person to view."""
        span = self.last - self.first
        return next((tick for tick in TICK_LENGTHS if span <= MAX_TICKS * tick), DAY)

    @property
    def start(self) -> int:
        return self.first // self._rounding * self._rounding

    @property
    def end(self) -> int:
        """End of the stream, after the last event: a tick does not contain its own end."""
        return (self.last // self._rounding + 1) * self._rounding

    @property
    def _rounding(self) -> int:
        return max(self.tick, DAY if self.last - self.first > DAY else HOUR)


@dataclass(frozen=True, repr=False)
class ColumnGuess:
    """A column that can be declared, by its values or by its bounds."""

    name: str
    key: str  # "values" or "bounds"
    items: tuple[str | bool | Fraction, ...]


@dataclass(frozen=True, repr=False)
class SchemaGuess:
    """All guesses of a draft."""

    time: TimeGuess
    columns: tuple[ColumnGuess, ...]
    user: str | None
    undeclared_columns: tuple[str, ...]  # columns without a guess


def guess_schema(sample: SourceSample) -> SchemaGuess | None:
    """Return the guessed schema of a sample, None if no column looks like a time."""
    names = _find_usable_names(sample)
    times = [time for name in names if (time := _guess_time(name, sample.get_cells(name)))]
    if not times:
        return None
    time = max(times, key=lambda time: (bool(_TIME_NAME.search(time.name)), time.format == "iso"))
    others = [name for name in names if name.casefold() != time.name.casefold()]
    user = next((name for name in others if _USER_NAME.search(name)), None)
    found = {name: _guess_column(name, sample.get_cells(name)) for name in others if name != user}
    left_out = tuple(name for name, column in found.items() if column is None)
    return SchemaGuess(time, tuple(column for column in found.values() if column), user, left_out)


def _find_usable_names(sample: SourceSample) -> list[str]:
    """Return names that can be declared; the first of those that differ only in case."""
    first: dict[str, str] = {}
    for name in sample.names:
        if COLUMN.parse(name) is not None:
            first.setdefault(name.casefold(), name)
    return list(first.values())


def _guess_time(name: str, cells: list[str]) -> TimeGuess | None:
    """Return a guess if nearly all cells are times.

    Numbers count as times only if the name of the column suggests it.
    """
    ways = ["iso", *EPOCH_SCALES] if _TIME_NAME.search(name) else ["iso"]
    for way in ways:
        read = [instant for cell in cells if (instant := _parse_instant(cell, way)) is not None]
        if read and len(read) >= 0.95 * len(cells):
            naive = way == "iso" and not all(re.search(r"(Z|[+-]\d\d(:?\d\d)?)$", c[10:]) for c in cells)
            return TimeGuess(name, way, naive, min(read), max(read))
    return None


def _parse_instant(cell: str, way: str) -> int | None:
    if way == "iso":
        instant = _parse_iso(cell)
    else:
        number = _parse_number(cell)
        instant = None if number is None else floor(number * EPOCH_SCALES[way])
    return instant if instant is not None and EARLIEST_TIME <= instant < LATEST_TIME else None


def _parse_iso(cell: str) -> int | None:
    if not re.match(r"\d{4}-\d\d-\d\d", cell, re.ASCII):
        return None
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def _parse_number(cell: str) -> Fraction | None:
    """Return a number. A code that begins with a zero is none."""
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", cell):
        return None
    return parse_exact(Decimal(cell))


def _guess_column(name: str, cells: list[str]) -> ColumnGuess | None:
    if bounds := _guess_bounds(cells):
        return ColumnGuess(name, "bounds", bounds)
    is_boolean = cells and {cell.lower() for cell in cells} <= {"true", "false"}
    values = (False, True) if is_boolean else _guess_values(cells)
    return ColumnGuess(name, "values", values) if values else None


def _guess_bounds(cells: list[str]) -> tuple[Fraction, ...]:
    """Return least and largest number, rounded outward to a digit of their distance."""
    numbers = [number for cell in cells if (number := _parse_number(cell)) is not None]
    if not numbers or len(numbers) < 0.95 * len(cells):
        return ()
    low, high = min(numbers), max(numbers)
    power = floor(log10(high - low)) if high > low else 0
    step = Fraction(10) ** power
    lower, upper = floor(low / step), -floor(-high / step)
    upper += lower == upper
    return lower * step, upper * step


def _guess_values(cells: list[str]) -> tuple[str, ...]:
    """Return the values if there are few, and those only that several records share."""
    counted = Counter(cells)
    if len(counted) > MAX_LISTED_VALUES or 2 * len(counted) > len(cells):
        return ()
    shared = [value for value, times in counted.items() if times >= MIN_VALUE_RECORDS and is_line(value, 100)]
    return tuple(sorted(shared))


HEADER_TEMPLATE = """\
# A first pipeline for {source}, drafted by `streamgauge init`.
#
# PRIVATE until you have confirmed it: the keys below were guessed from the data itself, and what is read off
# the data tells of the people in it. Check that each could be public (better: replace it by what you knew
# before you saw the data), then delete its line. `streamgauge run` refuses this file until the list is empty.
confirm = [
{confirm}
]
"""

STREAM_TEMPLATE = """
[stream]
name = "{name}"
source = {source}
{format}mode = "batch"
time = {time}
time_format = {time_format}
timezone = "UTC"{zone}
tick = {tick}
start = {start}
end = {end}    # of a sample: the source may go on
unit = "event"    # whom the promise is about
{user}budget = {{ epsilon = 1.0 }}    # what one unit may lose in all
# key = "file:~/keys/{name}.key"    # the store's key: never beside the data

# Only what is declared here is ever read.
[stream.columns]
"""

USER_TEMPLATE = """\
# unit = {{ user = {user}, max_events_per_tick = 1, max_ticks = 30 }}    # all that one of them does
"""

RELEASE_TEMPLATE = """
[[release]]
name = "{name}"
sql = {sql}
window = "{window}"
epsilon = 0.5
"""

SINK_TEMPLATE = """
[[sink]]
to = {to}
"""


def draft(source: Path, sample_lines: int = 10_000, folder: Path | None = None) -> str:
    """Return a pipeline file for a source, to be written into `folder`.

    The default is the folder of the source.
    """
    sample = load_sample(source, sample_lines)
    found = guess_schema(sample)
    if found is None:
        raise build_source_error(
            source, "records with a column of times (ISO 8601, or since 1970 in a column named so)"
        )
    path = os.path.relpath(source, source.parent if folder is None else folder)
    confirm = "\n".join(f"  {quote_toml(key)}," for key in _list_guessed_keys(found))
    return "".join(
        (
            HEADER_TEMPLATE.format(source=escape_line(source.name), confirm=confirm),
            _format_stream(found, sample, path),
            *_format_columns(found),
            *_format_releases(found, _build_stream_name(path)),
            SINK_TEMPLATE.format(to=quote_toml(_choose_sink(path))),
        )
    )


def _list_guessed_keys(found: SchemaGuess) -> Iterator[str]:
    """Yield the keys that a person must check: all from the data, and the promise."""
    yield from (f"stream.{key}" for key in ("time", "time_format", "timezone", "tick", "start", "end"))
    yield from ("stream.unit", "stream.budget")
    for column in found.columns:
        yield join_key(join_key("stream.columns", column.name), column.key)


def _format_stream(found: SchemaGuess, sample: SourceSample, path: str) -> str:
    time = found.time
    return STREAM_TEMPLATE.format(
        name=_build_stream_name(path),
        source=quote_toml(path),
        format="" if find_format(path) == sample.format else f"format = {quote_toml(sample.format)}\n",
        time=quote_toml(time.name),
        time_format=quote_toml(time.format),
        zone="    # of the times that name none" if time.is_naive else "",
        tick=quote_toml(format_duration(time.tick)),
        start=quote_toml(format_utc_time(time.start)),
        end=quote_toml(format_utc_time(time.end)),
        user=USER_TEMPLATE.format(user=quote_toml(found.user)) if found.user else "",
    )


def _format_columns(found: SchemaGuess) -> Iterator[str]:
    for column in found.columns:
        items = ", ".join(_format_item(item) for item in column.items)
        yield f"{join_key('', column.name)} = {{ {column.key} = [{items}] }}\n"
    for name in found.undeclared_columns:
        yield f"# {join_key('', name)} = {{ values = [...] }}    # or bounds, hash_cells, max_groups, type\n"


def _format_item(item: str | bool | Fraction) -> str:
    if isinstance(item, str):
        return quote_toml(item)
    if isinstance(item, bool):
        return str(item).lower()
    with localcontext(prec=300):
        return format(Decimal(item.numerator) / Decimal(item.denominator), "f")


def _format_releases(found: SchemaGuess, stream: str) -> Iterator[str]:
    """Yield counts by group, and averages of a number or else events per tick."""
    group = next((_quote_identifier(column.name) for column in found.columns if column.key == "values"), "")
    number = next((_quote_identifier(column.name) for column in found.columns if column.key == "bounds"), "")
    first, by = (f"{group}, ", f" GROUP BY {group}") if group else ("", "")
    counts = quote_toml(f"SELECT {first}COUNT(*) FROM {stream}{by}")
    yield RELEASE_TEMPLATE.format(name="counts", sql=counts, window="running")
    if number:
        averages = quote_toml(f"SELECT {first}AVG({number}) FROM {stream}{by}")
        yield RELEASE_TEMPLATE.format(name="averages", sql=averages, window="running")
    else:
        yield RELEASE_TEMPLATE.format(name="each_tick", sql=quote_toml(f"SELECT COUNT(*) FROM {stream}"), window="each")


def _quote_identifier(name: str) -> str:
    """Return the name of a column in SQL, quoted unless it is a plain word.

    Keywords of the language are quoted too.
    """
    from sqlglot.dialects.duckdb import DuckDB

    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in DuckDB.Tokenizer.KEYWORDS
    return name if plain else f'"{name}"'


def _build_stream_name(path: str) -> str:
    """Return the stream's name, from the name of its file."""
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", Path(path).name.split(".")[0])[:90].strip("_")
    name = stem if re.match(r"[A-Za-z_]", stem) else f"stream_{stem}".rstrip("_")
    return name if _quote_identifier(name) == name else f"{name}_stream"


def _choose_sink(path: str) -> str:
    """Return a file that is neither the source nor inside it."""
    if all(part == ".." for part in Path(path).parts):
        return STANDARD_STREAM
    return "releases.jsonl" if path != "releases.jsonl" else "released.jsonl"
