"""A declared clinic: streams and measures for tests of the engine, and the sums that plain Python computes."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from streamgauge.config.settings import Column, Lookup, Stream
from streamgauge.engines import DuckEngine
from streamgauge.engines.duckdb.scan_files import FileScan
from streamgauge.plan.measure import GridValue, Measure, Pass, Tally
from streamgauge.privacy import Event, Pure, Unit
from streamgauge.records.blocks import Block
from streamgauge.records.parquet import read_parquet_batches
from streamgauge.sql.query import GroupColumn

SECRET = bytes(range(32))
START = 1_767_571_200_000_000  # 2026-01-05T00:00:00Z
HOUR = 3_600_000_000
TICKS = 24
REGIONS = ("north", "south", "it's", 'q"uote')
HEADER = ("ts", "region", "temperature", "note", "who")
COLUMNS = {
    "region": Column("region", values=REGIONS),
    "temperature": Column("temperature", "number", bounds=(Fraction(35), Fraction(42)), grid=Fraction(1, 10)),
    "note": Column("note"),
    "any": Column("any", "number"),
    "flag": Column("flag", "boolean"),
    "code": Column("code", hash_cells=97),
    "kind": Column("kind", values=("a", "b"), other=True),
}


def stream(file_format: Any = "jsonl", unit: Unit | None = None, **changes: Any) -> Stream:
    made = Stream(
        name="visits",
        source="visits",
        format=file_format,
        compression=None,
        mode="batch",
        time="ts",
        time_format="iso",
        timezone="UTC",
        tick=HOUR,
        start=START,
        end=START + TICKS * HOUR,
        unit=unit or Event(),
        budget=Pure(1),
        user="who",
        columns=COLUMNS,
    )
    return replace(made, **changes)


def listed(labels: Sequence[str], column: str) -> GroupColumn:
    texts = ", ".join("'" + label.replace("'", "''") + "'" for label in labels)
    return GroupColumn(column, tuple(labels), f'list_position([{texts}], "{column}") - 1')


BY_REGION = Measure(
    where=None,
    groups=(listed(REGIONS, "region"),),
    values=(GridValue('"temperature"', 350, 420, Fraction(1, 10), 2),),
    columns=frozenset({"region", "temperature"}),
)
ALL = Measure(None, ())


def engine(
    of: Stream,
    measures: Sequence[Measure] = (BY_REGION,),
    lookups: Iterable[Lookup] = (),
    kind: type[DuckEngine] = DuckEngine,
    **settings: Any,
) -> DuckEngine:
    return kind(of, {lookup.name: lookup for lookup in lookups}, measures, secret=SECRET, **settings)


def engine_with(**components: Any) -> type[DuckEngine]:
    """Return a kind of engine with some components replaced, such as `FILE_SCAN`."""
    return type("ChangedEngine", (DuckEngine,), components)


class CountingScan(FileScan):
    """A scan that counts how often it reduced its load."""

    reductions = 0

    def reduce_load(self) -> bool:
        CountingScan.reductions += 1
        return super().reduce_load()


@dataclass(frozen=True)
class Part:
    """A range with blocks of its own."""

    path: Path
    is_clean: bool
    header: tuple[str, ...] | None
    blocks: Callable[[], Any]

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def tables(self, columns: Sequence[str]) -> Any:
        return read_parquet_batches(self.path, columns)

    def split(self, size: int) -> "list[Part]":
        return [self]


def part(path: Path, *, clean: bool = True, header: tuple[str, ...] | None = None) -> Part:
    """A file; read block by block it has twelve blocks."""

    def blocks() -> Any:
        lines = path.read_bytes().split(b"\n")[1 if header else 0 :]
        size = len(lines) // 12 + 1
        for begin in range(0, len(lines), size):
            yield Block(b"\n".join(lines[begin : begin + size]) + b"\n", 0)

    return Part(path, clean, header, blocks)


def write_parquet(path: Path, select: str) -> None:
    with duckdb.connect() as database:
        database.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")


def at(hours: float) -> str:
    """A time so many hours after the start, as the files have it."""
    whole = int(hours * 3600)
    return f"2026-01-{5 + whole // 86400:02d}T{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}Z"


def sums(passes: Iterable[Pass], measure: int = 0) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """All tallies of a measure, added up."""
    added: dict[tuple[int, int, int], tuple[int, ...]] = {}
    for one in passes:
        for key, row in items(one.tallies[measure]):
            assert one.first <= key[0] <= one.last
            added[key] = tuple(a + b for a, b in zip(added.get(key, (0,) * len(row)), row, strict=True))
    return added


def items(tally: Tally) -> Iterable[tuple[tuple[int, int, int], tuple[int, ...]]]:
    keys = zip(tally.ticks.tolist(), tally.groups.tolist(), tally.cells.tolist(), strict=True)
    return zip(keys, map(tuple, tally.sums.T.tolist()), strict=True)


def expected(records: Iterable[dict[str, Any]]) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """Return the sums of BY_REGION for records whose `hours` are their times."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for record in records:
        tick = math.floor(record["hours"]) + 1
        if not 1 <= tick <= TICKS or record.get("region") not in REGIONS:
            continue
        row = found.setdefault((tick, REGIONS.index(record["region"]), 0), [0, 0, 0, 0])
        row[0] += 1
        value = number(record.get("temperature"))
        if value is not None:
            i = math.floor(min(max(value, 35.0), 42.0) / 1 * 10 + 0.5)
            row[1:] = row[1] + 1, row[2] + i, row[3] + i * i
    return {key: tuple(row) for key, row in found.items()}


def number(value: Any) -> float | None:
    """Return the number that a cast reads."""
    try:
        read = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(read) else read


def json_line(record: dict[str, Any]) -> str:
    fields = {"ts": at(record["hours"])} | {name: value for name, value in record.items() if name != "hours"}
    return json.dumps(fields)


def csv_line(record: dict[str, Any]) -> str:
    fields = {"ts": at(record["hours"])} | record
    return ",".join(csv_field(fields.get(name)) for name in HEADER)


def csv_field(value: Any) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",') else text


def counted(passes: Iterable[Pass]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in passes:
        total.update(one.counts)
    return total
