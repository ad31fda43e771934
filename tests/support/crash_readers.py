"""The published values of a run that is killed and resumed, and the crash law about them.

**Law.** However often a run is killed: no (release, tick, group) is ever published with two values. At the end none is
missing and none is there twice. The ledger is that of an uninterrupted run. The store opens after every death. Without
noise the series is that of the uninterrupted run.
"""

import csv
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import pyarrow.parquet as pq

from streamgauge.releases.release import ReleaseSchema, TickRelease
from streamgauge.runtime.publisher import build_schemas
from streamgauge.store.keys import load_key
from streamgauge.store.store import Store, StoreReader
from tests.support.crash_streams import KINDS, MEASURES, PLACES
from tests.support.crash_zygote import End, zygote

Row = tuple[tuple[Any, ...], tuple[Any, ...]]  # (release, tick, group, measure), and what is said of it
SAID = ("value", "stddev", "low", "high", "reliable")


MEMORY = Path("/dev/shm")  # a kill takes nothing from a disk that it would leave there


def scratch() -> TemporaryDirectory[str]:
    """A folder of its own, in memory where there is such a place."""
    return TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)


def in_memory() -> Iterator[Path]:
    """The same, as the `tmp_path` of tests that are not about disks."""
    with scratch() as folder:
        yield Path(folder)


class Watched:
    """A run that is killed and resumed, and everything that its sinks and its store ever had."""

    def __init__(self, kind: str, **orders: Any) -> None:
        self.kind, self.orders = kind, orders  # orders for every child
        self.deaths: list[End] = []
        self.seen: dict[tuple[Any, ...], Any] = {}
        self.known: set[tuple[str, bytes]] = set()  # pieces that were looked at before
        self._scratch = scratch()
        self.folder = Path(self._scratch.name) / "pipeline"
        KINDS[kind].prepare(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._scratch.cleanup()

    def child(self, **order: Any) -> End:
        """Start the run once more, and compare its sinks and its store when it has ended."""
        end = zygote().child(self.kind, self.folder, **{**self.orders, **order})
        if end.code:
            self.deaths.append(end)
        self.look()
        return end

    def finish(self) -> End:
        """Run to the end without a kill."""
        end = self.child()
        assert end.code == 0, f"the run must come to its end, got {end.error or end.code}"
        return end

    def forget(self) -> None:
        """Compare nothing published so far with later values."""
        self.seen.clear()
        self.known.clear()

    @property
    def kills(self) -> int:
        return sum(end.killed for end in self.deaths)

    def look(self) -> None:
        """Compare the current content with all earlier content, in this sink or another."""
        for where, piece, rows in self._pieces():
            if (where, piece) not in self.known:
                for key, said in rows(piece):
                    before = self.seen.setdefault(key, said)
                    assert before == said, f"{key} must have one value, got another in {where}"
                self.known.add((where, piece))

    def _pieces(self) -> Iterator[tuple[str, bytes, Callable[[bytes], Iterable[Row]]]]:
        """All pieces of all sinks, each of which is whole or not there, and how it is read."""
        for sink in self.sinks:
            pieces, rows = FORMS[sink.rpartition(".")[2]]
            yield from ((sink, piece, rows) for piece in pieces(self.folder / sink))
        if (self.folder / "c.streamgauge" / "store.db").exists():
            yield from self._stored()

    def _stored(self) -> Iterator[tuple[str, bytes, Callable[[bytes], Iterable[Row]]]]:
        """Yield the content of a copy of the store. Opening repairs it, and the next start must meet the damage."""
        copy = self.folder.with_name(self.folder.name + ".copy")
        shutil.copytree(self.folder / "c.streamgauge", copy)
        with Store.open_writer(copy, load_key("file:c.key", self.folder), create=False) as store:
            shapes = build_schemas(store.ledger_entries())
            for name in store.release_names():
                rows = partial(of_store, shapes[name])
                yield from ((f"store {name}", payload, rows) for _, payload in store.releases(name))
        shutil.rmtree(copy)

    @property
    def sinks(self) -> list[str]:
        return [str(sink["to"]) for sink in KINDS[self.kind].sinks]

    def whole(self) -> None:
        """The law, at the end."""
        kind = KINDS[self.kind]
        for sink in kind.sinks:
            there = Counter(key for key, _ in self.published(str(sink["to"])))
            once = max(there.values()) == 1 or sink["to"] == "-"
            assert once, f"{sink['to']} must have each value once, got some twice"
            names = sink.get("releases") or [str(release["name"]) for release in kind.releases]
            places = sum(kind.of(name) * PLACES[name] * MEASURES[name] for name in names)
            assert len(there) == places, f"{sink['to']} must have {places} values, got {len(there)}"
            assert there.keys() <= unbroken(self.kind).series.keys()
        assert self.ledger() == unbroken(self.kind).ledger, "the ledger must be that of an unbroken run"

    def silent(self) -> None:
        """Assert the rules that hold without noise."""
        assert self.seen == unbroken(self.kind).series, "the series must be that of an unbroken run"

    def published(self, sink: str) -> list[Row]:
        """Return the rows that are in a sink now, in their order."""
        pieces, rows = FORMS[sink.rpartition(".")[2]]
        return [row for piece in pieces(self.folder / sink) for row in rows(piece)]

    def ledger(self) -> list[tuple[str, Any]]:
        """The acts, without their times."""
        with StoreReader.open(self.folder / "c.streamgauge") as store:
            return [(entry.kind, entry.body) for entry in store.ledger_entries()]

    @property
    def tick(self) -> int:
        with StoreReader.open(self.folder / "c.streamgauge") as store:
            return store.tick


def lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file: a reader passes over a torn one."""
    if path.exists():
        yield from (line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n"))


def parts(folder: Path) -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted(folder.glob("part-*.parquet")))


def of_json(line: bytes) -> Iterator[Row]:
    yield from of_row(json.loads(line))


def of_store(shape: ReleaseSchema, payload: bytes) -> Iterator[Row]:
    for row in TickRelease.unpack(shape, payload).rows():
        yield from of_row(row)


def of_row(row: Mapping[str, Any]) -> Iterator[Row]:
    group = json.dumps(row["group"])
    for name, said in row.items():
        if isinstance(said, dict) and name != "group":
            yield (row["release"], row["tick"], group, name), tuple(said[each] for each in SAID)


def records(path: Path) -> Iterator[bytes]:
    """The whole lines of CSV, each with its header before it."""
    header, *rest = list(lines(path)) or [b""]
    yield from (header + line for line in rest)


def of_csv(lines: bytes) -> Iterator[Row]:
    (record,) = csv.DictReader(io.StringIO(lines.decode(), newline=""))
    names = list(record)
    measures = [name for name in names if record.get(f"{name}_reliable")]
    keys = names[4 : min(names.index(name) for name in measures)]
    group = json.dumps({name: record[name] for name in keys})
    for name in measures:
        numbers = [record[name + ending] for ending in ("", "_stddev", "_low", "_high")]
        said = (*(known(float(number or "nan")) for number in numbers), record[f"{name}_reliable"] == "true")
        yield (record["release"], int(record["tick"]), group, name), said


def of_parquet(part: bytes) -> Iterator[Row]:
    for row in pq.read_table(io.BytesIO(part)).to_pylist():
        group = json.dumps(json.loads(row["group"]))
        said = tuple(known(row[name]) for name in SAID)
        yield (row["release"], row["tick"], group, row["measure"]), said


def known(number: float | None) -> float | None:
    """Return a number as JSON has it, which has finite numbers only."""
    return number if number is not None and isfinite(number) else None


FORMS: dict[str, tuple[Any, Any]] = {
    "jsonl": (lines, of_json),
    "-": (lines, of_json),
    "csv": (records, of_csv),
    "parquet": (parts, of_parquet),
}


@dataclass(frozen=True)
class Unbroken:
    """The result of a run without noise that nothing interrupts."""

    series: dict[tuple[Any, ...], tuple[Any, ...]]
    ledger: list[tuple[str, Any]]
    first: tuple[str, ...]  # the names of the steps of a first start, in their order
    often: tuple[str, ...]  # those that every start comes to more than once


@cache
def unbroken(kind: str) -> Unbroken:
    """The run that all others of its kind are compared with."""
    with Watched(kind) as run:
        steps = run.finish().steps
        names = tuple(dict.fromkeys(steps))
        times = Counter(steps[steps.index("block_read") :])
        return Unbroken(run.seen, run.ledger(), names, tuple(name for name in names if times[name] > 1))
