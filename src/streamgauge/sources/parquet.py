"""Parquet files of a live folder, as JSON lines: one object a row, with the declared columns only.

A finished Parquet file needs none of this: the engine reads it by its path.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from streamgauge.query.blocks import Block
from streamgauge.query.settings import Stream
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


def declared(stream: Stream) -> frozenset[str]:
    """The columns that may be read."""
    return frozenset(stream.columns) | {stream.time} | ({stream.user} if stream.user else set())


@dataclass(frozen=True)
class ParquetFile:
    """A complete Parquet file, read row by row."""

    path: Path
    columns: frozenset[str]

    def header(self) -> None:
        """JSON lines have none. A name that cannot be read is refused here."""
        check_name(self.path)

    def blocks(self) -> Iterator[Block]:
        """All rows; a file that cannot be read (on) is noted where it failed."""
        import duckdb

        lines = Lines(Opening(str(self.path), has_header=False))
        fault = None
        with duckdb.connect(config=SETTINGS) as connection:
            try:
                for data in gathered(self._rows(connection)):
                    yield from lines.feed(data)
            except duckdb.Error:
                fault = UNREADABLE
        yield from lines.finish(fault)

    def _rows(self, connection: "DuckDBPyConnection") -> Iterator[bytes]:
        path = str(self.path)
        described = connection.execute("SELECT * FROM read_parquet($1) LIMIT 0", [path]).description
        names = sorted(self.columns & {name for name, *_ in described})
        found = connection.execute(f"SELECT {_as_json(names)} FROM read_parquet($1)", [path])
        while rows := found.fetchmany(ROWS):
            yield "\n".join(chain(*rows, ("",))).encode()


def _as_json(names: Iterable[str]) -> str:
    pairs = ", ".join(f"{_quoted(name, chr(39))}: {_quoted(name, chr(34))}" for name in names)
    return f"to_json({{{pairs}}})::VARCHAR" if pairs else "'{}'"


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, 2 * quote) + quote
