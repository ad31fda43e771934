"""A field as a file has it, and what it is in SQL as text and as number.

Parquet has columns with types of their own. Texts, numbers, truths, dates and timestamps have values; lists,
structs, maps, times of day and intervals have none, whatever is in them: they are never read.

Promise
    Total: a field that has no text or no number is NULL there. Timestamps have a text in years 1 to 9999:
    measured, a cast to text of the least of them not only raises but shuts the database, even in a branch
    of CASE that is not taken.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NUMBER = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|DOUBLE|FLOAT|DECIMAL\(\d+, ?\d+\)")
FIRST = -62_135_596_800_000_000  # year 1, in microseconds since 1970
LAST = 253_402_300_799_999_999  # year 9999
NAIVE = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE")
ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS")
VALUE = re.compile(rf'VARCHAR|BLOB|JSON|UUID|BOOLEAN|"NULL"|{"|".join(NAIVE + ZONED)}|{NUMBER.pattern}')


@dataclass(frozen=True)
class Raw:
    """Text, or a column of Parquet with a type of its own."""

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
        return f"TRY_CAST(CASE WHEN {self.moment} BETWEEN {FIRST} AND {LAST} THEN {self.sql} END AS VARCHAR)"

    @property
    def moment(self) -> str | None:
        """The microseconds of a timestamp or date, by its own clock."""
        if self.kind in ZONED:
            return f"epoch_us(TRY_CAST({self.sql} AS TIMESTAMPTZ))"
        return f"epoch_us(TRY_CAST({self.sql} AS TIMESTAMP))" if self.kind in NAIVE else None

    @property
    def number(self) -> str:
        """What is cast to numbers: a number, or else text."""
        return self.sql if NUMBER.fullmatch(self.kind) else self.text


MISSING = Raw("NULL::VARCHAR")  # a declared column that the file does not have


def parquet_columns(names: Sequence[str], kinds: Mapping[str, str]) -> dict[str, Raw]:
    """The columns of a file that have values, of those that are asked for.

    >>> parquet_columns(["ts", "tags"], {"ts": "TIMESTAMP", "tags": "VARCHAR[]"})
    {'ts': Raw(sql='"ts"', kind='TIMESTAMP')}
    """
    return {
        name: Raw('"' + name.replace('"', '""') + '"', kinds[name])
        for name in names
        if VALUE.fullmatch(kinds.get(name, ""))
    }
