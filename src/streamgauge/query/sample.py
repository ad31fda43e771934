"""A look at the first and last records of a source, for `streamgauge init` and its curator alone.

Privacy
    A sample is private. Nothing of it may leave but in a draft that says so; refusals here name the file and
    the rule, never what was read.

A value is its text, as it is to the engine. Records that cannot be read are passed over, and so are nested
values.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamgauge.query.formats import Compression, Format, compression_of, format_of
from streamgauge.query.toml_keys import BadFile, one_line

Record = dict[str, str]  # what is missing is left out

HEAD = 2**24  # bytes
TAIL = 2**20
MOST_COLUMNS = 50
NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "BIT", "VARIANT", "GEOMETRY")


@dataclass(frozen=True)
class Sample:
    """Some records, and the names of their columns in the order of appearance."""

    format: Format
    records: list[Record] = field(repr=False)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for record in self.records for name in record))[:MOST_COLUMNS]

    def cells(self, name: str) -> list[str]:
        """What is there of a column."""
        return [record[name] for record in self.records if name in record]


def sample_of(source: Path, lines: int) -> Sample:
    """The first `lines` records of a file, and some of the last; of a folder, those of its first file."""
    file = _first_file(source)
    try:
        found = _parquet(file, lines) if format_of(file.name) == "parquet" else _text(file, lines)
    except OSError:
        raise refusal(source, "a file that can be read") from None
    if not found.records:
        raise refusal(source, "JSON lines, CSV or Parquet with at least one record")
    return found


def refusal(source: Path, rule: str) -> BadFile:
    return BadFile(f"{one_line(source.name)}: the source must be {rule}, got none")


def _first_file(source: Path) -> Path:
    try:
        inside = sorted(source.iterdir()) if source.is_dir() else [source]
        files = [path for path in inside if path.is_file() and not path.name.startswith(".")]
    except (OSError, ValueError):
        files = []
    if not files:
        raise refusal(source, "a file that is there")
    return files[0]


def _text(file: Path, lines: int) -> Sample:
    known = format_of(file.name)
    head = list(_lines(file, lines))
    if known == "csv" or (known is None and not any(map(_json, head[:100]))):
        return Sample("csv", list(_csv(head)))
    return Sample("jsonl", [record for record in map(_json, head) if record])


def _lines(file: Path, most: int) -> Iterator[str]:
    """Whole lines of UTF-8 from the beginning, and from the end where the file can be read there."""
    data, rest = _ends(file, most)
    for part in (data.split(b"\n")[:most], rest.split(b"\n")):
        for line in part:
            try:
                text = line.decode("utf-8-sig").rstrip("\r")
            except UnicodeDecodeError:
                continue
            if text.strip():
                yield text


def _ends(file: Path, most: int) -> tuple[bytes, bytes]:
    compression = compression_of(file.name)
    if compression is not None:
        return _OPEN[compression](file), b""
    with file.open("rb") as stream:
        head = stream.read(HEAD)
        kept = b"\n".join(head.split(b"\n")[:most])
        last = stream.seek(max(len(kept), stream.seek(0, 2) - TAIL))
        tail = stream.read(TAIL)
    return kept, tail if last == len(kept) else tail.partition(b"\n")[2]


def _gzip(file: Path) -> bytes:
    try:
        with gzip.open(file) as stream:
            return stream.read(HEAD)
    except (EOFError, zlib.error):
        raise refusal(file, "a whole gzip file") from None


def _zstd(file: Path) -> bytes:
    import zstandard

    try:
        with file.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            return bytes(stream.read(HEAD))
    except zstandard.ZstdError:
        raise refusal(file, "a whole zstd file") from None


_OPEN: dict[Compression, Callable[[Path], bytes]] = {"gzip": _gzip, "zstd": _zstd}


def _json(line: str) -> Record:
    try:
        value = json.loads(line, parse_int=str, parse_float=str, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    pairs = value.items() if isinstance(value, dict) else ()
    texts = {name: str(cell).lower() if isinstance(cell, bool) else cell for name, cell in pairs}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _csv(lines: Iterable[str]) -> Iterator[Record]:
    """Records under the names of the first line; lines with more or fewer cells are passed over."""
    rows = (row for line in lines if (row := _row(line)))
    header = next(rows, [])
    if len(set(header)) < len(header) or not all(name.isprintable() and name for name in header):
        return
    for row in rows:
        if len(row) == len(header):
            yield {name: cell for name, cell in zip(header, row, strict=True) if cell}


def _row(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _parquet(file: Path, lines: int) -> Sample:
    import duckdb

    try:
        with duckdb.connect(config={"autoload_known_extensions": "false", "temp_directory": ""}) as engine:
            engine.execute("SET TimeZone = 'UTC'")
            return Sample("parquet", _rows(engine.read_parquet(str(file)), lines))
    except duckdb.Error:
        raise refusal(file, "a whole Parquet file") from None


def _rows(table: Any, lines: int) -> list[Record]:
    """The first and last rows of a relation, of plain columns only, as text."""
    kinds = zip(table.columns, map(str, table.types), strict=True)
    names = [name for name, kind in kinds if not kind.startswith(NESTED) and not kind.endswith("]")]
    names = [name for name in names if '"' not in name]
    texts = table.project(", ".join(f'CAST("{name}" AS VARCHAR)' for name in names))
    tail = max(lines, len(table) - 1000)
    rows = texts.limit(lines).fetchall() + texts.limit(1000, tail).fetchall()
    return [{name: cell for name, cell in zip(names, row, strict=True) if cell is not None} for row in rows]
