"""Files and blocks as relations with raw columns.

DuckDB reads clean files by their descriptors, many in one query if their columns have the same places (CSV) or the
same types (Parquet). It reads others block by block. A separate thread reads one block ahead.

Promise
    Every expression here is total and reads one record alone. A line of JSON that is not an object, or of CSV
    with unbalanced quotes, has no field at all. In CSV a field that is missing or empty is NULL, and fields
    beyond the header are ignored.

Physical lines
    One row for each line, for any content. The CSV reader is configured for no quotes, no escapes and one column:
    it only cuts at line feeds.

    Promise: a clean line (see `streamgauge.records.blocks.Block`) is read unchanged, up to a first byte 0x01. An empty
    one is NULL. No line changes how another is read. DuckDB cuts its buffers into four pieces, to be read in parallel,
    and follows a line into the next piece but not beyond. Measured: a remainder of a few bytes at the end of a buffer
    lost the line that crossed it. So BUFFER_BYTES is a multiple of 16, which leaves no remainder, and a piece
    (BUFFER_BYTES/4) is longer than any accepted line (MAX_LINE_BYTES). Errors are not ignored, since DuckDB would
    ignore such losses too.

Parquet that DuckDB refuses comes in batches (`streamgauge.records.parquet`), with the engine's error.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any, TypeVar

from streamgauge.config.settings import Stream
from streamgauge.engines.duckdb.connection import (
    DuckConnection,
    EngineError,
    has_memory_files,
    open_descriptors,
    open_memory_file,
    quote_name,
    quote_text,
    quote_texts,
)
from streamgauge.interfaces import Range
from streamgauge.records.blocks import MAX_RECORD_BYTES, Block
from streamgauge.records.fields import MISSING_FIELD, RawField, find_parquet_columns
from streamgauge.records.parquet import ParquetReadError

T = TypeVar("T")


def read_ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the same items, and prepare the next while one is used.

    Failures are raised at the item that caused them.
    """
    ready: Queue[tuple[T] | BaseException | None] = Queue(1)
    stopped = Event()

    def read() -> None:
        last: BaseException | None = None
        try:
            for item in items:
                ready.put((item,))
                if stopped.is_set():
                    return
        except BaseException as failure:  # raised again in the waiting thread
            last = failure
        ready.put(last)

    reader = Thread(target=read, daemon=True)
    reader.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        stopped.set()
        while reader.is_alive():
            if not ready.empty():  # a blocked reader thread can end once the queue is empty
                ready.get_nowait()
            reader.join(0.01)


MAX_LINE_BYTES = 2 * MAX_RECORD_BYTES  # longest line that DuckDB may accept
BUFFER_BYTES = 2**24
NUMBER_COLUMN = '"$number"'


def build_lines_sql(
    paths: Sequence[str], *, header: bool, longest: int = MAX_LINE_BYTES, buffer: int = BUFFER_BYTES
) -> str:
    """Return SQL of a relation with one column, `line`.

    The first line of each file is left out if it is a header.
    """
    return (
        f"read_csv([{quote_texts(list(paths))}], auto_detect = false, columns = {{'line': 'VARCHAR'}}, "
        f"delim = '\x01', quote = '', escape = '', header = {str(header).lower()}, strict_mode = false, "
        f"compression = 'none', hive_partitioning = false, max_line_size = {longest}, buffer_size = {buffer})"
    )


def number_lines_sql(lines: str) -> str:
    """Return SQL of the lines with NUMBER, from 1, in the order of the file.

    Without it no order survives a join.
    """
    return f"(SELECT *, row_number() OVER () AS {NUMBER_COLUMN} FROM {lines})"


CSV_FIELD_PATTERN = '"(?:[^"]|"")*"|[^",]*'  # quoted, with quotes doubled, or without any quote


@dataclass(frozen=True)
class Relation:
    """Records with their raw fields."""

    sql: str
    fields: Mapping[str, RawField]
    readable: str  # SQL: true if a record has fields at all
    record: str  # SQL: text that is equal only for equal records


def build_json_relation(lines: str, names: Sequence[str]) -> Relation:
    """Return a relation of JSON objects, one a line. The first of equal names counts."""
    paths = ", ".join(quote_text(build_json_path(field)) for field in names)
    found = f"TRY(json_extract_string(line, [{paths}]::VARCHAR[]))"
    places = {field: place for place, field in enumerate(names, 1)}
    raws = _build_raws(names, places)
    sql = _build_list_sql(lines, found, {raws[field].sql: f"fields[{places[field]}]" for field in names})
    return Relation(sql, raws, "TRY(json_type(line)) = 'OBJECT'", "line")


def build_csv_relation(lines: str, names: Sequence[str], header: Sequence[str]) -> Relation:
    """Return a relation of comma-separated values, in the order of the header.

    Quotes are parsed only if the line has a double quote.
    """
    quoted = (
        f"CASE WHEN regexp_full_match(line, '(?:{CSV_FIELD_PATTERN})(?:,(?:{CSV_FIELD_PATTERN}))*') THEN "
        f"list_transform(regexp_extract_all(',' || line, ',({CSV_FIELD_PATTERN})', 1), lambda field: "
        "CASE WHEN starts_with(field, '\"') THEN replace(field[2:-2], '\"\"', '\"') ELSE field END) END"
    )
    found = f"CASE WHEN contains(line, '\"') THEN {quoted} ELSE string_split(line, ',') END"
    places = {field: place for place, field in reversed(list(enumerate(header, 1)))}
    raws = _build_raws(names, places)
    present = {raws[field].sql: places[field] for field in names if field in places}
    columns = {own: f"nullif(fields[{place}], '')" for own, place in present.items()}
    return Relation(_build_list_sql(lines, found, columns), raws, "fields IS NOT NULL", "line")


def build_parquet_relation(rows: str, names: Sequence[str], kinds: Mapping[str, str]) -> Relation:
    """Return a relation of the columns that have values, with their own types."""
    fields = find_parquet_columns(names, kinds)
    texts = ", ".join([*(fields[field].text for field in sorted(fields)), "NULL"])
    found = {field: fields.get(field, MISSING_FIELD) for field in names}
    return Relation(rows, found, "true", f"CAST(row({texts}) AS VARCHAR)")


def build_json_path(field: str) -> str:
    """Return a path to a member of the outermost object.

    `*` is not a wildcard in the second form.
    """
    if field and "*" not in field:
        return '$."' + field.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "/" + field.replace("~", "~0").replace("/", "~1")


def _build_raws(names: Sequence[str], places: Mapping[str, int]) -> dict[str, RawField]:
    return {field: RawField(quote_name(f"${places[field]}")) if field in places else MISSING_FIELD for field in names}


def _build_list_sql(lines: str, found: str, columns: Mapping[str, str]) -> str:
    """Return SQL of lines with columns made from a list of fields."""
    inner = f"SELECT *, {found} AS fields FROM {lines} WHERE line IS NOT NULL"
    return f"(SELECT {', '.join(['*', *(f'{sql} AS {own}' for own, sql in columns.items())])} FROM ({inner}))"


BATCH_RELATION = "$batch"


def read_tables(part: Range, names: Sequence[str]) -> Generator[Any, None, None]:
    """Return Arrow tables of the named columns. A failure is raised as the engine's."""
    try:
        yield from part.tables(names)
    except ParquetReadError as unreadable:
        failure = EngineError(str(unreadable))
    else:
        return
    raise failure


MAX_QUERY_FILES = 64  # of one query: each needs a descriptor
LINES_TABLE = '"$lines"'

Header = tuple[str, ...] | None


@dataclass(frozen=True)
class RecordReader:
    """Reader of the fields of a stream's records."""

    stream: Stream
    fields: Sequence[str]
    connection: DuckConnection

    def build_pieces(self, files: Iterable[Range], untrusted_paths: frozenset[Path]) -> list["RecordPiece"]:
        """Return the files, merged into pieces if possible."""
        found = []
        together: dict[tuple[object, ...], list[Range]] = {}
        for file in files:
            if file.is_clean and file.path not in untrusted_paths:
                together.setdefault((file.header, self._kinds(file)), []).append(file)
            else:
                found.append(RecordPiece(self, (file,), is_trusted=False))
        for members in together.values():
            for begin in range(0, len(members), MAX_QUERY_FILES):
                found.append(RecordPiece(self, tuple(members[begin : begin + MAX_QUERY_FILES]), is_trusted=True))
        return found

    @contextmanager
    def open_block(self, data: bytes, header: Header, *, in_order: bool = False) -> Iterator[Relation]:
        """Open clean lines without a header. With a NUMBER if their order matters."""
        with open_memory_file(data) as path:
            lines = build_lines_sql([path], header=False)
            if not has_memory_files():
                self.connection.run(f"CREATE OR REPLACE TABLE {LINES_TABLE} AS SELECT line FROM {lines}")
                lines = LINES_TABLE
            yield self.read_lines(number_lines_sql(lines) if in_order else lines, header)

    def read_lines(self, lines: str, header: Header) -> Relation:
        if self.stream.format == "csv":
            return build_csv_relation(lines, self.fields, header or ())
        return build_json_relation(lines, self.fields)

    def read_parquet(self, rows: str) -> Relation:
        kinds = {row[0]: row[1] for row in self.connection.fetch_texts(f"DESCRIBE SELECT * FROM {rows}")}
        return build_parquet_relation(rows, self.fields, kinds)

    def list_parquet_columns(self, file: Range) -> list[str]:
        """Return the columns of a file that have values."""
        return [field for field, raw in self._raws(file) if raw != MISSING_FIELD]

    def _kinds(self, file: Range) -> object:
        return self._raws(file) if self.stream.format == "parquet" else None

    def _raws(self, file: Range) -> tuple[tuple[str, RawField], ...]:
        with open_descriptors([file.path]) as paths:
            return tuple(self.read_parquet(parquet_rows(paths)).fields.items())


@dataclass(frozen=True)
class RecordPiece:
    """Some records of a source: trusted files, or one file that is read block by block."""

    reader: RecordReader
    files: tuple[Range, ...]
    is_trusted: bool  # True if DuckDB reads the files directly

    @property
    def trusted_paths(self) -> frozenset[Path]:
        """Files that DuckDB reads directly. If that fails, they are read block by block."""
        return frozenset(file.path for file in self.files if self.is_trusted)

    @contextmanager
    def open_relations(self) -> Iterator[Iterator[Relation]]:
        """Yield all records, part by part. A part ends when the next one is requested."""
        reader, file = self.reader, self.files[0]
        if self.is_trusted:
            with open_descriptors([each.path for each in self.files]) as paths:
                if reader.stream.format == "parquet":
                    yield iter([reader.read_parquet(parquet_rows(paths))])
                else:
                    lines = build_lines_sql(paths, header=reader.stream.format == "csv")
                    yield iter([reader.read_lines(lines, file.header)])
        elif reader.stream.format == "parquet":
            names = reader.list_parquet_columns(file)
            with closing(read_ahead(read_tables(file, names))) as batches:
                yield map(self._open_batch, batches)
        else:
            with closing(read_ahead(file.blocks())) as blocks, closing(self._open_blocks(blocks)) as parts:
                yield parts

    def _open_blocks(self, blocks: Iterable[Block]) -> Generator[Relation, None, None]:
        for block in blocks:
            with self.reader.open_block(block.data, self.files[0].header) as relation:
                yield relation

    def _open_batch(self, batch: object) -> Relation:
        self.reader.connection.register(BATCH_RELATION, batch)
        return self.reader.read_parquet(quote_name(BATCH_RELATION))


def parquet_rows(paths: Sequence[str]) -> str:
    return f"read_parquet([{quote_texts(list(paths))}], hive_partitioning = false, union_by_name = false)"
