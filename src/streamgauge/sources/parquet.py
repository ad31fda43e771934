"""Parquet files of a live folder, as JSON lines: one object a row, with the declared columns only.

A finished Parquet file needs none of this: the engine reads it by its path. Both read a row alike: here every
value is written as the text that the engine reads as what it would have made of the value itself. A time is
written in the stream's format, whatever its type, and a number as a double.

Promise
    A line is a function of its row: if DuckDB refuses the file for one value, the rows that are left are read
    in batches, through pyarrow (`streamgauge.query.parquet_batches`), and give the same lines. Where DuckDB
    quotes a text that is not UTF-8, its refusal comes as a UnicodeDecodeError (measured).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from streamgauge.query import event_times
from streamgauge.query.blocks import Block
from streamgauge.query.parquet_batches import Unreadable, parquet_batches
from streamgauge.query.raw_field import FIRST, LAST, Raw, parquet_columns
from streamgauge.query.settings import Column, Stream
from streamgauge.sources.lines import Lines
from streamgauge.sources.opening import Opening
from streamgauge.sources.places import check_name
from streamgauge.sources.whole import gathered

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = 10_000  # that are turned into lines at once
UNREADABLE = "a Parquet file must be readable"
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "300MB",
    "temp_directory": "",  # no row may reach the disk
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@dataclass(frozen=True)
class ParquetFile:
    """A complete Parquet file, read row by row."""

    path: Path
    stream: Stream

    def header(self) -> None:
        """JSON lines have none. A name that cannot be read is refused here."""
        check_name(self.path)

    def kinds(self) -> dict[str, str] | None:
        """Return the types of all columns by name, or None if the file cannot be read."""
        import duckdb

        check_name(self.path)
        try:
            with _database(self.stream) as connection:
                return self._kinds(connection, f"read_parquet({_quoted(str(self.path), chr(39))})")
        except (duckdb.Error, UnicodeDecodeError):
            return None

    def blocks(self) -> Iterator[Block]:
        """All rows; a file that cannot be read (on) is noted where it failed."""
        import duckdb

        lines = Lines(Opening(str(self.path), has_header=False))
        fault = None
        with _database(self.stream) as connection:
            try:
                for data in gathered(self._data(connection)):
                    yield from lines.feed(data)
            except (duckdb.Error, UnicodeDecodeError, Unreadable):
                fault = UNREADABLE
        yield from lines.finish(fault)

    def _data(self, connection: "DuckDBPyConnection") -> Iterator[bytes]:
        """Lines, as DuckDB reads them by itself for as long as it does."""
        import duckdb

        path, done = _quoted(str(self.path), "'"), 0
        names = list(self._columns(connection, f"read_parquet({path})"))
        try:
            for rows in self._rows(connection, f"read_parquet({path})"):
                yield _joined(rows)
                done += len(rows)
        except (duckdb.Error, UnicodeDecodeError):
            yield from self._in_batches(names, done)

    def _in_batches(self, names: list[str], done: int) -> Iterator[bytes]:
        """The rows after so many, in another database: a failure may have shut the first."""
        with _database(self.stream) as connection:
            for batch in parquet_batches(self.path, names, ROWS):
                connection.register("batch", batch.slice(done))
                done = max(0, done - len(batch))
                for rows in self._rows(connection, "batch"):
                    yield _joined(rows)

    def _rows(self, connection: "DuckDBPyConnection", relation: str) -> Iterator[list[tuple[str]]]:
        columns = self._columns(connection, relation)
        found = connection.execute(f"SELECT {_as_json(columns, self.stream)} FROM {relation}")
        while rows := found.fetchmany(ROWS):
            yield rows

    def _columns(self, connection: "DuckDBPyConnection", relation: str) -> dict[str, Raw]:
        return parquet_columns(sorted(declared(self.stream)), self._kinds(connection, relation))

    def _kinds(self, connection: "DuckDBPyConnection", relation: str) -> dict[str, str]:
        described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        return {row[0]: row[1] for row in described}


@contextmanager
def _database(stream: Stream) -> "Iterator[DuckDBPyConnection]":
    import duckdb

    with duckdb.connect(config=SETTINGS) as connection:
        connection.execute(f"SET TimeZone = {_quoted(stream.timezone, chr(39))}").fetchall()
        yield connection


def declared(stream: Stream) -> frozenset[str]:
    """The columns that may be read."""
    return frozenset(stream.columns) | {stream.time} | ({stream.user} if stream.user else set())


def _joined(rows: list[tuple[str]]) -> bytes:
    return "\n".join(chain(*rows, ("",))).encode()


def _as_json(columns: Mapping[str, Raw], stream: Stream) -> str:
    pairs = ", ".join(
        f"{_quoted(name, chr(39))}: {_text(name, raw, stream)}" for name, raw in columns.items()
    )
    return f"to_json({{{pairs}}})::VARCHAR" if pairs else "'{}'"


def _text(name: str, raw: Raw, stream: Stream) -> str:
    """The text of a value, in which the engine finds the value again."""
    column = stream.columns.get(name, Column(name))
    if name == stream.time or column.kind == "time":
        moment = event_times.microseconds(raw, stream, (FIRST, LAST))
        return event_times.told(moment, stream.time_format)
    return f"CAST(TRY_CAST({raw.number} AS DOUBLE) AS VARCHAR)" if column.kind == "number" else raw.text


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, 2 * quote) + quote
