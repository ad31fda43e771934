"""Parquet files of a live folder as JSON lines, with the declared columns only.

Each row becomes one object. A batch Parquet file does not need this module: the engine reads it by its path. Both
read a row alike. Here every value is written as a text that the engine reads as the same value. A time is
written in the stream's format, for any type, and a number as a double.

Promise
    A line is a function of its row. If DuckDB refuses the file for one value, the remaining rows are read
    in batches, through pyarrow (`streamgauge.records.parquet`), and give the same lines. If DuckDB
    quotes a text that is not UTF-8, its refusal comes as a UnicodeDecodeError (measured).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from streamgauge.config.settings import Column, Stream
from streamgauge.records import fields as event_times
from streamgauge.records.blocks import Block
from streamgauge.records.fields import RawField, find_parquet_columns, quote_text
from streamgauge.records.parquet import ParquetReadError, read_parquet_batches
from streamgauge.records.source_schema import list_declared_columns
from streamgauge.sources.line_reader import BLOCK_BYTES, FileHeader, LineSplitter, join_pieces
from streamgauge.sources.paths import check_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS = 10_000  # rows converted to lines at once
READABLE_RULE = "a Parquet file must be readable"
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "300MB",
    "temp_directory": "",  # no row may reach the disk
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@dataclass(frozen=True)
class ParquetFile:
    """Complete Parquet file, read row by row."""

    path: Path
    stream: Stream

    def header(self) -> None:
        """Return no header, as for JSON lines. Reject names that cannot be read."""
        check_name(self.path)

    def kinds(self) -> dict[str, str] | None:
        """Return the types of all columns by name, or None if the file cannot be read."""
        import duckdb

        check_name(self.path)
        try:
            with _open_database(self.stream) as connection:
                return self._kinds(connection, f"read_parquet({quote_text(str(self.path))})")
        except (duckdb.Error, UnicodeDecodeError):
            return None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows. A read failure is recorded at the row where it occurred."""
        import duckdb

        lines = LineSplitter(FileHeader(str(self.path), has_header=False))
        fault = None
        with _open_database(self.stream) as connection:
            try:
                for data in join_pieces(self._read_lines(connection), BLOCK_BYTES):
                    yield from lines.feed(data)
            except (duckdb.Error, UnicodeDecodeError, ParquetReadError):
                fault = READABLE_RULE
        yield from lines.finish(fault)

    def _read_lines(self, connection: "DuckDBPyConnection") -> Iterator[bytes]:
        """Yield lines from DuckDB, until it refuses the file."""
        import duckdb

        path, done = quote_text(str(self.path)), 0
        names = list(self._columns(connection, f"read_parquet({path})"))
        try:
            for rows in self._rows(connection, f"read_parquet({path})"):
                yield _join_rows(rows)
                done += len(rows)
        except (duckdb.Error, UnicodeDecodeError):
            yield from self._read_batches(names, done)

    def _read_batches(self, names: list[str], done: int) -> Iterator[bytes]:
        """Yield the rows after `done`, from a second database.

        A failure may have closed the first one.
        """
        with _open_database(self.stream) as connection:
            for batch in read_parquet_batches(self.path, names, BATCH_ROWS):
                connection.register("batch", batch.slice(done))
                done = max(0, done - len(batch))
                for rows in self._rows(connection, "batch"):
                    yield _join_rows(rows)

    def _rows(self, connection: "DuckDBPyConnection", relation: str) -> Iterator[list[tuple[str]]]:
        columns = self._columns(connection, relation)
        found = connection.execute(f"SELECT {_build_json_sql(columns, self.stream)} FROM {relation}")
        while rows := found.fetchmany(BATCH_ROWS):
            yield rows

    def _columns(self, connection: "DuckDBPyConnection", relation: str) -> dict[str, RawField]:
        return find_parquet_columns(sorted(list_declared_columns(self.stream)), self._kinds(connection, relation))

    def _kinds(self, connection: "DuckDBPyConnection", relation: str) -> dict[str, str]:
        described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        return {row[0]: row[1] for row in described}


@contextmanager
def _open_database(stream: Stream) -> "Iterator[DuckDBPyConnection]":
    import duckdb

    with duckdb.connect(config=SETTINGS) as connection:
        connection.execute(f"SET TimeZone = {quote_text(stream.timezone)}").fetchall()
        yield connection


def _join_rows(rows: list[tuple[str]]) -> bytes:
    return "\n".join(chain(*rows, ("",))).encode()


def _build_json_sql(columns: Mapping[str, RawField], stream: Stream) -> str:
    pairs = ", ".join(f"{quote_text(name)}: {_build_text_sql(name, raw, stream)}" for name, raw in columns.items())
    return f"to_json({{{pairs}}})::VARCHAR" if pairs else "'{}'"


def _build_text_sql(name: str, raw: RawField, stream: Stream) -> str:
    """Return SQL for the text that the engine parses back to the same value."""
    column = stream.columns.get(name, Column(name))
    if name == stream.time or column.kind == "time":
        time_range = event_times.MIN_TIME_MICROSECONDS, event_times.MAX_TIME_MICROSECONDS
        moment = event_times.to_microseconds(raw, stream, time_range)
        return event_times.build_time_text(moment, stream.time_format)
    return f"CAST(TRY_CAST({raw.number} AS DOUBLE) AS VARCHAR)" if column.kind == "number" else raw.text
