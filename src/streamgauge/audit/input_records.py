"""Inputs of a pipeline that nobody lived: a few records made of declarations, written as its source has them.

    Line(tick=1, columns=(("region", "north"),))     a record in the middle of a tick
    Line(tick=1, raw=b'{"region": "no')              bytes that are none

Nothing here is read from the pipeline's own source.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamgauge.query.formats import STANDARD, format_of
from streamgauge.query.released import moment
from streamgauge.query.settings import Stream

SCALES = {"epoch s": 1_000_000, "epoch ms": 1_000, "epoch us": 1}
ONE_TEXT = "a"  # of columns that are hashed, or whose groups are discovered
SUFFIXES = {"gzip": ".gz", "zstd": ".zst"}


@dataclass(frozen=True)
class Line:
    """One record: when in its tick, what its columns hold, whose it is; or bytes that cannot be read."""

    tick: int
    columns: tuple[tuple[str, Any], ...] = ()
    user: int | None = 0  # nobody, if there is none
    at: float = 0.5  # of the tick
    raw: bytes | None = None


Input = tuple[Line, ...]
Written = tuple[Line, str, Mapping[str, Any]]  # a line, what its user is called after, and columns besides


def record(stream: Stream, line: Line, world: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a record; users of another `world` are other people."""
    user = {} if stream.user is None or line.user is None else {stream.user: f"{world}{line.user}"}
    return {stream.time: time_of(stream, line), **dict(line.columns), **user, **more}


def time_of(stream: Stream, line: Line) -> Any:
    """When it happened, as the stream's times are written."""
    microseconds = stream.begins(line.tick) + int(stream.tick * line.at)
    if stream.time_format == "iso":
        return moment(microseconds)
    if stream.time_format == "epoch ns":
        return microseconds * 1000
    whole, rest = divmod(microseconds, SCALES[stream.time_format])
    return whole + rest / SCALES[stream.time_format] if rest else whole


def written(folder: Path, stream: Stream, lines: Iterable[Written]) -> Path:
    """Writes a source of the stream's format; one that is a folder has one file. Returns its place."""
    suffix = f".{stream.format}{SUFFIXES.get(stream.compression or '', '')}"
    is_folder = stream.source != STANDARD and format_of(stream.source) is None
    source = folder / "source" if is_folder else folder / f"source{suffix}"
    if is_folder:
        source.mkdir()
    file = source / f"part{suffix}" if is_folder else source
    if stream.format == "parquet":
        _parquet(file, _jsonl(stream, lines), stream)
    else:
        file.write_bytes(_packed(WRITERS[stream.format](stream, lines), stream.compression))
    return source


def _jsonl(stream: Stream, lines: Iterable[Written]) -> bytes:
    return b"".join(
        (json.dumps(record(stream, *each)).encode() if each[0].raw is None else each[0].raw) + b"\n"
        for each in lines
    )


def _csv(stream: Stream, lines: Iterable[Written]) -> bytes:
    kept = list(lines)
    declared = [stream.time, *filter(None, [stream.user]), *stream.columns]  # a header has all of them
    names = list(dict.fromkeys([*declared, *(name for each in kept for name in record(stream, *each))]))
    out = io.BytesIO()
    out.write(_row(names))
    for each in kept:
        fields = record(stream, *each)
        raw = each[0].raw
        out.write(_row([_cell(fields.get(name)) for name in names]) if raw is None else raw + b"\n")
    return out.getvalue()


def _row(cells: Sequence[Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(file: Path, lines: bytes, stream: Stream) -> None:
    """By DuckDB, from JSON lines; bytes that cannot be read have no place in Parquet."""
    import duckdb

    kinds = {"number": "DOUBLE", "boolean": "BOOLEAN"}
    time = "VARCHAR" if stream.time_format == "iso" else "DECIMAL(30, 9)"
    names = {stream.time: time} | ({stream.user: "VARCHAR"} if stream.user else {})
    names |= {name: kinds.get(column.kind, "VARCHAR") for name, column in stream.columns.items()}
    plain = file.with_suffix(".lines")
    plain.write_bytes(lines)
    columns = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in names.items())
    read = f"read_json({_text(str(plain))}, format = 'newline_delimited', columns = {{{columns}}})"
    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        engine.execute(f"COPY (SELECT * FROM {read}) TO {_text(str(file))} (FORMAT parquet)")
    plain.unlink()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _packed(data: bytes, compression: str | None) -> bytes:
    return PACKERS[compression](data)


def _zstd(data: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        import zstandard

        return bytes(zstandard.ZstdCompressor().compress(data))
    return bytes(zstd.compress(data))


PACKERS: dict[str | None, Callable[[bytes], bytes]] = {
    None: lambda data: data,
    "gzip": gzip.compress,
    "zstd": _zstd,
}
WRITERS: dict[str, Callable[[Stream, Iterable[Written]], bytes]] = {"jsonl": _jsonl, "csv": _csv}
