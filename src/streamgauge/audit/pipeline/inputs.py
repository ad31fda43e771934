"""Synthetic inputs of a pipeline: a few records made of declarations, in the format of its source.

    InputRecord(tick=1, columns=(("region", "north"),))    a record in the middle of a tick
    InputRecord(tick=1, raw=b'{"region": "no')             bytes that are no record

Candidates may move a release: they come from declarations, from public tables, and from the literals of the SQL.
Nothing here is read from the pipeline's own source.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import Any

from sqlglot import exp

from streamgauge.config.mapper import MapperSettings
from streamgauge.config.paths import find_format
from streamgauge.config.settings import Column, PipelineFile, Stream
from streamgauge.mapreduce.memory_layout import iterate_constants
from streamgauge.plan.planner import ReleasePlan
from streamgauge.records.fields import quote_text
from streamgauge.releases.release import format_utc_time
from streamgauge.sql.dialect import parse_select
from streamgauge.sql.functions import load_functions

MICROSECONDS_BY_FORMAT = {"epoch s": 1_000_000, "epoch ms": 1_000, "epoch us": 1}
ONE_TEXT = "a"  # of columns that are hashed, or whose groups are discovered
COMPRESSION_SUFFIXES = {"gzip": ".gz", "zstd": ".zst"}


@dataclass(frozen=True)
class InputRecord:
    """One record: when in its tick, what its columns hold, whose it is; or bytes that cannot be read."""

    tick: int
    columns: tuple[tuple[str, Any], ...] = ()
    user: int | None = 0  # None: a record without user
    tick_fraction: float = 0.5  # of the tick
    raw: bytes | None = None


InputRecords = tuple[InputRecord, ...]
PlacedRecord = tuple[InputRecord, str, Mapping[str, Any]]  # a line, what its user is called after, and columns besides


def build_fields(stream: Stream, line: InputRecord, world: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of a record; users of another `world` are other people."""
    user = {} if stream.user is None or line.user is None else {stream.user: f"{world}{line.user}"}
    return {stream.time: format_record_time(stream, line), **dict(line.columns), **user, **more}


def format_record_time(stream: Stream, line: InputRecord) -> Any:
    """Format the time of a record as the stream does."""
    microseconds = stream.tick_start(line.tick) + int(stream.tick * line.tick_fraction)
    if stream.time_format == "iso":
        return format_utc_time(microseconds)
    if stream.time_format == "epoch ns":
        return microseconds * 1000
    whole, rest = divmod(microseconds, MICROSECONDS_BY_FORMAT[stream.time_format])
    return whole + rest / MICROSECONDS_BY_FORMAT[stream.time_format] if rest else whole


def write_source(folder: Path, stream: Stream, lines: Iterable[PlacedRecord]) -> Path:
    """Write a source of the stream's format and return its path. A folder has one file."""
    suffix = f".{stream.format}{COMPRESSION_SUFFIXES.get(stream.compression or '', '')}"
    is_folder = not stream.source_facts.is_console and find_format(stream.source) is None
    source = folder / "source" if is_folder else folder / f"source{suffix}"
    if is_folder:
        source.mkdir()
    file = source / f"part{suffix}" if is_folder else source
    if stream.format == "parquet":
        _write_parquet(file, _write_jsonl(stream, lines), stream)
    else:
        file.write_bytes(COMPRESSORS[stream.compression](WRITERS[stream.format](stream, lines)))
    return source


def _write_jsonl(stream: Stream, lines: Iterable[PlacedRecord]) -> bytes:
    return b"".join(
        (json.dumps(build_fields(stream, *each)).encode() if each[0].raw is None else each[0].raw) + b"\n"
        for each in lines
    )


def _write_csv(stream: Stream, lines: Iterable[PlacedRecord]) -> bytes:
    chosen = list(lines)
    declared = [stream.time, *filter(None, [stream.user]), *stream.columns]  # a header has all of them
    names = list(dict.fromkeys([*declared, *(name for each in chosen for name in build_fields(stream, *each))]))
    out = io.BytesIO()
    out.write(_format_row(names))
    for each in chosen:
        fields = build_fields(stream, *each)
        raw = each[0].raw
        cells = [str(cell).lower() if isinstance(cell, bool) else cell for cell in map(fields.get, names)]
        out.write(_format_row(cells) if raw is None else raw + b"\n")
    return out.getvalue()


def _format_row(cells: Sequence[Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue().encode()


def _write_parquet(file: Path, lines: bytes, stream: Stream) -> None:
    """Write Parquet by DuckDB from JSON lines. Unreadable bytes have no place in Parquet."""
    import duckdb

    kinds = {"number": "DOUBLE", "boolean": "BOOLEAN"}
    time = "VARCHAR" if stream.time_format == "iso" else "DECIMAL(30, 9)"
    names = {stream.time: time} | ({stream.user: "VARCHAR"} if stream.user else {})
    names |= {name: kinds.get(column.kind, "VARCHAR") for name, column in stream.columns.items()}
    plain = file.with_suffix(".lines")
    plain.write_bytes(lines)
    columns = ", ".join(f"{quote_text(name)}: {quote_text(kind)}" for name, kind in names.items())
    read = f"read_json({quote_text(str(plain))}, format = 'newline_delimited', columns = {{{columns}}})"
    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        engine.execute(f"COPY (SELECT * FROM {read}) TO {quote_text(str(file))} (FORMAT parquet)")
    plain.unlink()


def _compress_zstd(data: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        import zstandard

        return bytes(zstandard.ZstdCompressor().compress(data))
    return bytes(zstd.compress(data))


COMPRESSORS: dict[str | None, Callable[[bytes], bytes]] = {
    None: lambda data: data,
    "gzip": gzip.compress,
    "zstd": _compress_zstd,
}
WRITERS: dict[str, Callable[[Stream, Iterable[PlacedRecord]], bytes]] = {"jsonl": _write_jsonl, "csv": _write_csv}


MAX_LABELS = 3  # labels of a column that are tried


@dataclass(frozen=True)
class CandidateRecords:
    """Records that may move a release, for a file whose releases are planned."""

    file: PipelineFile
    plans: Sequence[ReleasePlan]
    ticks: int

    def list_records(self, max_records: int) -> list[InputRecord]:
        """List at most so many records, spread over all combinations."""
        values = [list(dict.fromkeys(self._list_values(column))) for column in self._columns]
        has_times = any(self.file.stream.time in plan.query.columns for plan in self.plans)
        parts, ticks = ((0.5, 0.0, 0.99), range(1, self.ticks + 1)) if has_times else ((0.5,), range(1, 2))
        sides: list[Sequence[Any]] = [*values, parts, ticks]
        total = prod(map(len, sides))
        count, names, found = min(max_records, total), [column.name for column in self._columns], []
        for number in dict.fromkeys(number * total // count for number in range(count)):
            steps = accumulate(map(len, sides), mul, initial=1)  # of each side, in the numbering of combinations
            *chosen, part, tick = (side[number // step % len(side)] for side, step in zip(sides, steps, strict=False))
            found.append(InputRecord(tick, tuple(zip(names, chosen, strict=True)), tick_fraction=part))
        return found

    @property
    def _columns(self) -> list[Column]:
        used = {name for plan in self.plans for name in plan.query.columns}
        return [column for name, column in self.file.stream.columns.items() if name in used]

    def _list_values(self, column: Column) -> list[Any]:
        """Return values of a column that are worth a try."""
        kind = find_kind(column)
        if kind == "values":
            return list(column.values or ())[:MAX_LABELS]
        if kind == "number":
            return self.list_numbers(column)
        if kind == "text":
            return self.list_texts(column)
        return [True, False] if kind == "boolean" else [ONE_TEXT]

    def list_numbers(self, column: Column) -> list[Any]:
        grid = column.grid or 1
        near = [value + move for value in self._list_literals(False) for move in (0, grid, -grid)]
        if column.bounds is None:
            return [to_plain_number(number) for number in [*near[: 4 * MAX_LABELS], Fraction(1)]]
        low, high = column.bounds
        inside = [number for number in near if low < number < high]
        return [to_plain_number(number) for number in [high, low, *inside[: 2 * MAX_LABELS], (low + high) / 2]]

    def list_texts(self, column: Column) -> list[Any]:
        keys = [lookup.keys[:MAX_LABELS] for lookup in self.file.lookups.values() if lookup.on == column.name]
        if keys:
            return [key for some in keys for key in some]
        return [text.strip("%") for text in self._list_literals(True)[: 2 * MAX_LABELS]] + [ONE_TEXT]

    def _list_literals(self, texts: bool) -> list[Any]:
        """List the literals that the SQL and the mappers of the releases compare with."""
        selects = [parse_select(plan.release.sql, load_functions(plan.stream.plugins)) for plan in self.plans]
        found = [node for select in selects for node in select.find_all(exp.Literal)]
        literals = [node.this if texts else Fraction(node.this) for node in found if node.is_string == texts]
        mappers = dict.fromkeys(plan.release.mapper for plan in self.plans if plan.release.mapper is not None)
        return [*literals, *(each for mapper in mappers for each in list_mapper_literals(mapper, texts))]


def list_mapper_literals(mapper: MapperSettings, texts: bool) -> list[Any]:
    """List the constants of a mapper; of texts, first all of its keys joined by each separator, so that many come out.

    >>> source = "def mapper(s):\\n    for word in s.split(','):\\n        emit(word, 7)\\n"
    >>> settings = MapperSettings("m", source, (("s", "text"),), ("a", "b"))
    >>> list_mapper_literals(settings, True), list_mapper_literals(settings, False)
    (['a,b', 'a b', ',', 'a', 'b'], [Fraction(7, 1)])
    """
    constants = list(dict.fromkeys(iterate_constants(mapper.program)))
    if not texts:
        return [Fraction(each) for each in constants if isinstance(each, float)]
    words = [each.decode() for each in constants if isinstance(each, bytes)]
    keys = [str(key) for key in mapper.keys]
    separators = [word for word in words if 0 < len(word) <= 2 and word not in keys]
    few = keys[: mapper.max_pairs + MAX_LABELS]  # more than can come out
    listed = [separator.join(few) for separator in separators[:2]]
    return [text for text in dict.fromkeys([*listed, " ".join(few), *words, *few]) if text]


def find_kind(column: Column) -> str:
    if column.values is not None:
        return "values"
    return "hashed" if column.hash_cells is not None or column.max_groups is not None else column.kind


def to_plain_number(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)
