"""How files reach DuckDB: clean ones by their descriptors, many in one query; others block by block.

Files go into one query if their columns have the same places (CSV) or the same types (Parquet).
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from streamgauge.engines.ahead import read_ahead
from streamgauge.engines.connection import Connection
from streamgauge.engines.fields import Relation, csv_fields, json_fields, parquet_fields
from streamgauge.engines.lines import can_be_read_again, in_memory, lines_of, numbered, opened
from streamgauge.engines.parquet_batches import BATCH, parquet_batches
from streamgauge.engines.quoting import name, texts
from streamgauge.query.blocks import Block, FilePart
from streamgauge.query.raw_field import MISSING, Raw
from streamgauge.query.settings import Stream

MOST_FILES = 64  # of one query: each holds a descriptor
HELD = '"$lines"'

Header = tuple[str, ...] | None


class Piece(Protocol):
    """Some of the records of a source."""

    @property
    def trusted(self) -> frozenset[Path]:
        """The files that DuckDB is trusted to read by itself; if it fails there is another way."""
        ...

    def relations(self) -> AbstractContextManager[Iterator[Relation]]:
        """All its records, part by part; a part is gone when the next one is asked for."""
        ...


@dataclass(frozen=True)
class Reading:
    """The fields of a stream's records."""

    stream: Stream
    fields: Sequence[str]
    connection: Connection

    def pieces(self, files: Iterable[FilePart], distrusted: frozenset[Path]) -> list["Piece"]:
        """The files, put together where that can be."""
        found: list[Piece] = []
        together: dict[tuple[object, ...], list[FilePart]] = {}
        for file in files:
            if file.clean and file.path not in distrusted:
                together.setdefault((file.header, self._kinds(file)), []).append(file)
            else:
                found.append(Cut(self, file))
        for members in together.values():
            for begin in range(0, len(members), MOST_FILES):
                found.append(Whole(self, tuple(members[begin : begin + MOST_FILES])))
        return found

    @contextmanager
    def block(self, data: bytes, header: Header, *, in_order: bool = False) -> Iterator[Relation]:
        """Clean lines without a header; with a NUMBER if their order matters."""
        with in_memory(data) as path:
            lines = lines_of([path], header=False)
            if not can_be_read_again():
                self.connection.run(f"CREATE OR REPLACE TABLE {HELD} AS SELECT line FROM {lines}")
                lines = HELD
            yield self.lines(numbered(lines) if in_order else lines, header)

    def lines(self, lines: str, header: Header) -> Relation:
        if self.stream.format == "csv":
            return csv_fields(lines, self.fields, header or ())
        return json_fields(lines, self.fields)

    def parquet(self, rows: str) -> Relation:
        kinds = {row[0]: row[1] for row in self.connection.texts(f"DESCRIBE SELECT * FROM {rows}")}
        return parquet_fields(rows, self.fields, kinds)

    def parquet_names(self, file: FilePart) -> list[str]:
        """The columns of a file that have values."""
        return [field for field, raw in self._raws(file) if raw != MISSING]

    def _kinds(self, file: FilePart) -> object:
        return self._raws(file) if self.stream.format == "parquet" else None

    def _raws(self, file: FilePart) -> tuple[tuple[str, Raw], ...]:
        with opened([file.path]) as paths:
            return tuple(self.parquet(parquet_rows(paths)).fields.items())


@dataclass(frozen=True)
class Whole:
    """Clean files that DuckDB reads by itself."""

    reading: Reading
    files: tuple[FilePart, ...]

    @property
    def trusted(self) -> frozenset[Path]:
        return frozenset(file.path for file in self.files)

    @contextmanager
    def relations(self) -> Iterator[Iterator[Relation]]:
        with opened([file.path for file in self.files]) as paths:
            if self.reading.stream.format == "parquet":
                yield iter([self.reading.parquet(parquet_rows(paths))])
            else:
                lines = lines_of(paths, header=self.reading.stream.format == "csv")
                yield iter([self.reading.lines(lines, self.files[0].header)])


@dataclass(frozen=True)
class Cut:
    """A file that is read piece by piece."""

    reading: Reading
    file: FilePart

    @property
    def trusted(self) -> frozenset[Path]:
        return frozenset()

    @contextmanager
    def relations(self) -> Iterator[Iterator[Relation]]:
        if self.reading.stream.format == "parquet":
            names = self.reading.parquet_names(self.file)
            with closing(read_ahead(parquet_batches(self.file.path, names))) as batches:
                yield map(self._batch, batches)
        else:
            with closing(read_ahead(self.file.blocks())) as blocks, closing(self._entered(blocks)) as parts:
                yield parts

    def _entered(self, blocks: Iterable[Block]) -> Generator[Relation, None, None]:
        for block in blocks:
            with self.reading.block(block.data, self.file.header) as relation:
                yield relation

    def _batch(self, batch: object) -> Relation:
        self.reading.connection.show(BATCH, batch)
        return self.reading.parquet(name(BATCH))


def parquet_rows(paths: Sequence[str]) -> str:
    return f"read_parquet([{texts(list(paths))}], hive_partitioning = false, union_by_name = false)"
