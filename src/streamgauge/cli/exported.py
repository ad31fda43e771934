"""Releases as one file, in the forms of the sinks.

    .csv      wide: a line per tick and group; or long: a line per tick, group and measure
    .jsonl    an object per tick and group, one a line; .json is the same as one array
    .parquet  the long form

Ticks are written as they are read, so that any number of them fits into memory. The file is written beside
its place and renamed.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from streamgauge.cli.failures import BadArgument
from streamgauge.query.released import Released, Shape
from streamgauge.sinks import CsvLines, JsonLines, ParquetParts, WideCsv

AT_ONCE = 256  # ticks that are in memory when Parquet is written


def write(ticks: Iterable[Released], to: Path, wide: Sequence[Shape] | None = None) -> int:
    """Write all ticks and return their number; CSV is wide if shapes are given."""
    unfinished = to.with_name(f".{to.name}.unfinished")
    counted = Counted(ticks)
    try:
        if to.suffix == ".csv":
            _csv(counted, unfinished, CsvLines() if wide is None else build_wide(wide))
        else:
            WRITERS[to.suffix](counted, unfinished)
        os.replace(unfinished, to)
    finally:
        unfinished.unlink(missing_ok=True)
    return counted.count


class Counted:
    """Counts what goes by."""

    def __init__(self, ticks: Iterable[Released]) -> None:
        self._ticks = ticks
        self.count = 0

    def __iter__(self) -> Iterator[Released]:
        for item in self._ticks:
            self.count += 1
            yield item


def build_wide(shapes: Sequence[Shape]) -> WideCsv:
    """Return the wide form of some releases; refuse column names with two meanings."""
    try:
        return WideCsv(shapes)
    except ValueError as refusal:
        raise BadArgument(f"--shape: {refusal}") from None


def _csv(ticks: Iterable[Released], path: Path, form: CsvLines | WideCsv) -> None:
    with path.open("wb") as file:
        file.write(form.header)
        file.writelines(form.lines(item, None) for item in ticks)


def _json_lines(ticks: Iterable[Released], path: Path) -> None:
    form = JsonLines()
    with path.open("wb") as file:
        file.writelines(form.lines(item, None) for item in ticks)


def _json(ticks: Iterable[Released], path: Path) -> None:
    form, between = JsonLines(), b"[\n"
    with path.open("wb") as file:
        for lines in filter(None, (form.lines(item, None) for item in ticks)):
            file.write(between + lines.rstrip(b"\n").replace(b"\n", b",\n"))
            between = b",\n"
        file.write(b"[]\n" if between == b"[\n" else b"\n]\n")


def _parquet(ticks: Iterable[Released], path: Path) -> None:
    """Parts first, then one file of all of them: neither step holds more than a part in memory."""
    with TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        parts = ParquetParts(path.name, Path(folder, "parts"))
        rest = iter(ticks)
        try:
            while some := list(islice(rest, AT_ONCE)):
                parts.write(some, some[-1].tick, "")
        finally:
            parts.close()
        _joined(Path(folder, "parts"), path)


def _joined(parts: Path, path: Path) -> None:
    import duckdb

    from streamgauge.sinks.parquet_parts import literal

    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        found = (
            f"SELECT * REPLACE (NULL::VARCHAR AS chain) FROM read_parquet({literal(f'{parts}/*.parquet')})"
        )
        engine.execute(f"COPY ({found}) TO {literal(str(path))} (FORMAT parquet)")


WRITERS: dict[str, Callable[[Iterable[Released], Path], None]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
