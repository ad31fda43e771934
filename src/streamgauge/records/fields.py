"""The time of an event: whole microseconds since 1970 (UTC), or NULL if no time can be read.

Promise
    Total: measured, a cast from TIMESTAMP to TIMESTAMPTZ at the end of time not only raises but shuts the
    database. So every field that is not plain text is compared with the declared range before a time zone is applied.

A field in a file, and its value in SQL as text and as number.

Parquet has typed columns. Texts, numbers, truths, dates and timestamps have values; lists,
structs, maps, times of day and intervals have none and are never read.

Promise
    Total: a field that has no text or no number is NULL there. Timestamps have a text in years 1 to 9999:
    measured, a cast to text of the least of them not only raises but shuts the database, even in a branch
    of CASE that does not apply.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamgauge.config.settings import Stream

NUMBER_TYPES = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|DOUBLE|FLOAT|DECIMAL\(\d+, ?\d+\)")
MIN_TIME_MICROSECONDS = -62_135_596_800_000_000  # year 1, in microseconds since 1970
MAX_TIME_MICROSECONDS = 253_402_300_799_999_999  # year 9999
NAIVE_TYPES = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE")
ZONED_TYPES = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS")
VALUE_TYPES = re.compile(
    rf'VARCHAR|BLOB|JSON|UUID|BOOLEAN|"NULL"|{"|".join(NAIVE_TYPES + ZONED_TYPES)}|{NUMBER_TYPES.pattern}'
)


@dataclass(frozen=True)
class RawField:
    """Text, or a typed column of Parquet."""

    sql: str
    kind: str = "VARCHAR"

    @property
    def text(self) -> str:
        if self.kind == "VARCHAR":
            return self.sql
        if self.kind == "BLOB":
            return f"TRY(decode({self.sql}))"
        if self.moment is None:
            return f"TRY_CAST({self.sql} AS VARCHAR)"
        in_range = f"{self.moment} BETWEEN {MIN_TIME_MICROSECONDS} AND {MAX_TIME_MICROSECONDS}"
        return f"TRY_CAST(CASE WHEN {in_range} THEN {self.sql} END AS VARCHAR)"

    @property
    def moment(self) -> str | None:
        """The microseconds of a timestamp or date, by its own clock."""
        if self.kind in ZONED_TYPES:
            return f"epoch_us(TRY_CAST({self.sql} AS TIMESTAMPTZ))"
        return f"epoch_us(TRY_CAST({self.sql} AS TIMESTAMP))" if self.kind in NAIVE_TYPES else None

    @property
    def number(self) -> str:
        """The SQL that is cast to numbers: a number, or else text."""
        return self.sql if NUMBER_TYPES.fullmatch(self.kind) else self.text


MISSING_FIELD = RawField("NULL::VARCHAR")  # a declared column that the file does not have


def find_parquet_columns(names: Sequence[str], kinds: Mapping[str, str]) -> dict[str, RawField]:
    """The columns of a file that have values, of the requested ones.

    >>> find_parquet_columns(["ts", "tags"], {"ts": "TIMESTAMP", "tags": "VARCHAR[]"})
    {'ts': RawField(sql='"ts"', kind='TIMESTAMP')}
    """
    return {
        name: RawField('"' + name.replace('"', '""') + '"', kinds[name])
        for name in names
        if VALUE_TYPES.fullmatch(kinds.get(name, ""))
    }


DAY_MICROSECONDS = 86_400_000_000
MICROSECONDS_PER_UNIT = {"epoch s": 1_000_000, "epoch ms": 1_000, "epoch us": 1}
UNIT_FACTORS = {"epoch s": "0.000001", "epoch ms": "0.001", "epoch us": "1", "epoch ns": "1000"}
FLOOR_OFFSET = 10**30  # a multiple of 1000 beyond any number that is read


def find_span(stream: Stream) -> tuple[int, int]:
    """The first and the last microsecond of a stream."""
    return stream.start, MAX_TIME_MICROSECONDS if stream.end is None else stream.end - 1


def to_microseconds(raw: RawField, stream: Stream, time_range: tuple[int, int]) -> str:
    """BIGINT or NULL. Outside of `between` it may be off by a day, but stays outside."""
    if raw.moment is not None:
        return raw.moment if raw.kind in ZONED_TYPES else _local_to_utc(raw.moment, stream.timezone, time_range)
    if stream.time_format == "iso":
        return f"epoch_us(TRY_CAST({raw.text} AS TIMESTAMPTZ))"
    number = f"TRY_CAST({raw.number} AS DECIMAL(30, 9))"
    if stream.time_format == "epoch ns":
        whole = f"(TRY_CAST(floor({number}) AS HUGEINT) + {FLOOR_OFFSET}) // 1000 - {FLOOR_OFFSET // 1000}"
    else:
        whole = f"floor({number} * {MICROSECONDS_PER_UNIT[stream.time_format]}::DECIMAL(7, 0))"
    return f"TRY_CAST({whole} AS BIGINT)"


def build_time_text(moment: str, time_format: str) -> str:
    """The text that is read as microseconds, within the years that have a text."""
    inside = f"greatest({MIN_TIME_MICROSECONDS}, least({MAX_TIME_MICROSECONDS}, {moment}))"
    if time_format == "iso":
        text = f"CAST(make_timestamp({inside}) AS VARCHAR) || '+00'"
    else:
        text = f"CAST(CAST({inside} AS DECIMAL(30, 0)) * {UNIT_FACTORS[time_format]} AS VARCHAR)"  # exact
    return f"CASE WHEN {moment} IS NOT NULL THEN {text} END"


def to_timestamp(moment: str, timezone: str, time_range: tuple[int, int]) -> str:
    """A TIMESTAMP as clocks in the time zone show it, or NULL outside of `between`."""
    inside = f"{moment} BETWEEN {time_range[0]} AND {time_range[1]}"
    if timezone == "UTC":
        return f"CASE WHEN {inside} THEN make_timestamp({moment}) END"
    return f"CASE WHEN {inside} THEN timezone({quote_text(timezone)}, make_timestamptz({moment})) END"


def _local_to_utc(moment: str, timezone: str, time_range: tuple[int, int]) -> str:
    """From local time in the zone to microseconds, near the range; no zone is a day off."""
    if timezone == "UTC":
        return moment
    near = f"{moment} BETWEEN {time_range[0] - DAY_MICROSECONDS} AND {time_range[1] + DAY_MICROSECONDS}"
    zoned = f"timezone({quote_text(timezone)}, make_timestamp({moment}))"
    return f"CASE WHEN {near} THEN epoch_us({zoned}) ELSE {moment} END"


def quote_text(text: str) -> str:
    """Return SQL of a text."""
    return "'" + text.replace("'", "''") + "'"
