"""First and last records of a source, for `streamgauge init`.

A value is its text, as in the engine. Unreadable records and nested values are skipped.

Privacy
    A sample is private, for the curator alone. Nothing of it may get out but in a draft that states so. Refusals here
    name the file and the rule, never the data.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamgauge.config.endpoints import Format
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.paths import Compression, find_compression, find_format
from streamgauge.config.toml_table import escape_line

Record = dict[str, str]  # without missing values

HEAD_BYTES = 2**24
TAIL_BYTES = 2**20
MAX_COLUMNS = 50
NESTED_TYPES = ("STRUCT", "MAP", "UNION", "BLOB", "BIT", "VARIANT", "GEOMETRY")


@dataclass(frozen=True)
class SourceSample:
    """Some records, and the names of their columns in the order of appearance."""

    format: Format
    records: list[Record] = field(repr=False)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for record in self.records for name in record))[:MAX_COLUMNS]

    def get_cells(self, name: str) -> list[str]:
        """Return the values of a column."""
        return [record[name] for record in self.records if name in record]


def load_sample(source: Path, lines: int) -> SourceSample:
    """Return the first `lines` records of a file, and some of the last.

    For a folder, its first file is read.
    """
    file = _find_first_file(source)
    try:
        found = _sample_parquet(file, lines) if find_format(file.name) == "parquet" else _sample_text(file, lines)
    except OSError:
        raise build_source_error(source, "a file that can be read") from None
    if not found.records:
        raise build_source_error(source, "JSON lines, CSV or Parquet with at least one record")
    return found


def build_source_error(source: Path, rule: str) -> PipelineFileError:
    return PipelineFileError(f"{escape_line(source.name)}: the source must be {rule}, got none")


def _find_first_file(source: Path) -> Path:
    try:
        inside = sorted(source.iterdir()) if source.is_dir() else [source]
        files = [path for path in inside if path.is_file() and not path.name.startswith(".")]
    except (OSError, ValueError):
        files = []
    if not files:
        raise build_source_error(source, "a file that is there")
    return files[0]


def _sample_text(file: Path, lines: int) -> SourceSample:
    known = find_format(file.name)
    head = list(_read_lines(file, lines))
    if known == "csv" or (known is None and not any(map(_parse_json, head[:100]))):
        return SourceSample("csv", list(_parse_csv(head)))
    return SourceSample("jsonl", [record for record in map(_parse_json, head) if record])


def _read_lines(file: Path, most: int) -> Iterator[str]:
    """Yield whole lines of UTF-8 from the beginning and, if possible, from the end."""
    data, rest = _read_ends(file, most)
    for part in (data.split(b"\n")[:most], rest.split(b"\n")):
        for line in part:
            try:
                text = line.decode("utf-8-sig").rstrip("\r")
            except UnicodeDecodeError:
                continue
            if text.strip():
                yield text


def _read_ends(file: Path, most: int) -> tuple[bytes, bytes]:
    compression = find_compression(file.name)
    if compression is not None:
        return _DECOMPRESSORS[compression](file), b""
    with file.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        first = b"\n".join(head.split(b"\n")[:most])
        last = stream.seek(max(len(first), stream.seek(0, 2) - TAIL_BYTES))
        tail = stream.read(TAIL_BYTES)
    return first, tail if last == len(first) else tail.partition(b"\n")[2]


def _read_gzip(file: Path) -> bytes:
    try:
        with gzip.open(file) as stream:
            return stream.read(HEAD_BYTES)
    except (EOFError, zlib.error):
        raise build_source_error(file, "a whole gzip file") from None


def _read_zstd(file: Path) -> bytes:
    import zstandard

    try:
        with file.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            return bytes(stream.read(HEAD_BYTES))
    except zstandard.ZstdError:
        raise build_source_error(file, "a whole zstd file") from None


_DECOMPRESSORS: dict[Compression, Callable[[Path], bytes]] = {"gzip": _read_gzip, "zstd": _read_zstd}


def _parse_json(line: str) -> Record:
    try:
        value = json.loads(line, parse_int=str, parse_float=str, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    pairs = value.items() if isinstance(value, dict) else ()
    texts = {name: str(cell).lower() if isinstance(cell, bool) else cell for name, cell in pairs}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _parse_csv(lines: Iterable[str]) -> Iterator[Record]:
    """Yield records under the names of the first line. Skip rows of another length."""
    rows = (row for line in lines if (row := _parse_row(line)))
    header = next(rows, [])
    if len(set(header)) < len(header) or not all(name.isprintable() and name for name in header):
        return
    for row in rows:
        if len(row) == len(header):
            yield {name: cell for name, cell in zip(header, row, strict=True) if cell}


def _parse_row(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _sample_parquet(file: Path, lines: int) -> SourceSample:
    import duckdb

    try:
        with duckdb.connect(config={"autoload_known_extensions": "false", "temp_directory": ""}) as engine:
            engine.execute("SET TimeZone = 'UTC'")
            return SourceSample("parquet", _fetch_rows(engine.read_parquet(str(file)), lines))
    except duckdb.Error:
        raise build_source_error(file, "a whole Parquet file") from None


def _fetch_rows(table: Any, lines: int) -> list[Record]:
    """Return the first and last rows of a relation as text, without nested columns."""
    kinds = zip(table.columns, map(str, table.types), strict=True)
    names = [name for name, kind in kinds if not kind.startswith(NESTED_TYPES) and not kind.endswith("]")]
    names = [name for name in names if '"' not in name]
    texts = table.project(", ".join(f'CAST("{name}" AS VARCHAR)' for name in names))
    tail = max(lines, len(table) - 1000)
    rows = texts.limit(lines).fetchall() + texts.limit(1000, tail).fetchall()
    return [{name: cell for name, cell in zip(names, row, strict=True) if cell is not None} for row in rows]
