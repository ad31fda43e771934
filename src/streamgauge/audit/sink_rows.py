"""What readers find in the sinks of a run, as numbers at fixed places: one row for each run of a copy.

    place of a number      sink, release, tick, group, measure, then value, stddev, low, high and enough
    NaN                    what is null, or not there
    one number besides     how many rows a release has, whichever they are: presence tells as well

The chain of a row is left out: a hash of all that was published, which tells nothing else.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.audit.file_copies import Copies, Group
from streamgauge.audit.input_records import ONE_TEXT
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.query.planner import Planned, shape_of
from streamgauge.query.settings import SinkSettings

PARTS = ("value", "stddev", "low", "high", "enough")
Entry = tuple[str, int, Group, str, Sequence[Any]]  # release, tick, group, measure, five numbers


@dataclass(frozen=True)
class Seen:
    """What is looked at of one release in one sink: so many ticks, these groups."""

    sink: int
    plan: Planned
    ticks: int
    groups: tuple[Group, ...]
    first: int = 0  # its place in a view

    @cached_property
    def measures(self) -> list[str]:
        return self.plan.layout["measures"]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.ticks, len(self.groups), len(self.measures), len(PARTS)

    @property
    def size(self) -> int:
        """Its numbers, and how many rows there are."""
        return int(np.prod(self.shape)) + 1

    @property
    def places(self) -> slice:
        return slice(self.first, self.first + self.size)

    def numbers(self, views: Floats) -> Floats:
        """(runs, ticks, groups, measures, parts)."""
        return views[:, self.first : self.first + self.size - 1].reshape(len(views), *self.shape)


def groups_of(plan: Planned) -> tuple[Group, ...]:
    """All groups of a release; where they are discovered, the one that its records have."""
    found = plan.layout.get("discovered")
    if found is not None:
        return (((found, ONE_TEXT),),)
    return tuple(place.labels for place in shape_of(plan.name, plan.layout).places)


@dataclass(frozen=True)
class View:
    """All that is looked at."""

    parts: tuple[Seen, ...]

    @classmethod
    def of(cls, parts: Sequence[Seen]) -> "View":
        placed, first = [], 0
        for part in parts:
            placed.append(replace(part, first=first))
            first += part.size
        return cls(tuple(placed))

    @cached_property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def firsts(self) -> list[Seen]:
        """Each release in the first sink that has it."""
        return list({part.plan.name: part for part in reversed(self.parts)}.values())[::-1]

    def only(self, releases: set[str]) -> tuple["View", Ints]:
        """The view of those who look at some releases, and where its numbers are in this one."""
        kept = [part for part in self.parts if part.plan.name in releases]
        return View.of(kept), np.concatenate([np.arange(*part.places.indices(self.size)) for part in kept])

    @cached_property
    def index(self) -> dict[tuple[int, str, int, Group, str], int]:
        """Where the five numbers of an entry begin."""
        return {
            (part.sink, part.plan.name, tick + 1, group, measure): part.first
            + len(PARTS) * ((tick * len(part.groups) + place) * len(part.measures) + column)
            for part in self.parts
            for tick in range(part.ticks)
            for place, group in enumerate(part.groups)
            for column, measure in enumerate(part.measures)
        }

    @cached_property
    def counts(self) -> dict[tuple[int, str], int]:
        """Where the number of rows is."""
        return {(part.sink, part.plan.name): part.places.stop - 1 for part in self.parts}

    def read(self, copies: Copies, found: Sequence[Iterator[Entry]]) -> Floats:
        """The views of all runs of a copy, from what each sink has."""
        views = np.full((copies.count, self.size), np.nan)
        views[:, list(self.counts.values())] = 0.0
        size, index, counts = self.size, self.index, self.counts
        there: list[int] = []  # rows, by where they are counted
        at: list[int] = []
        numbers: list[Sequence[Any]] = []
        for sink, entries in enumerate(found):
            for release, tick, group, measure, five in entries:
                copy, name, own = copies.place(release, group)
                there.append(copy * size + counts[sink, name])
                place = index.get((sink, name, tick, own, measure))
                if place is not None:
                    at.append(copy * size + place)
                    numbers.append(five)
        if there:
            flat = views.reshape(-1)
            np.add.at(flat, there, 1.0)
            flat[np.array(at, np.int64)[:, None] + np.arange(len(PARTS))] = np.array(numbers, np.float64)
        return views


def entries_of(sink: SinkSettings, where: Path, printed: bytes) -> Iterator[Entry]:
    """What a sink has: a file, a folder of parts, or what was printed."""
    if sink.format == "parquet":
        return _parquet(where)
    data = printed if sink.to == "-" else where.read_bytes() if where.exists() else b""
    return FORMS[sink.format](data)


def _jsonl(data: bytes) -> Iterator[Entry]:
    lines = [line for line in data.splitlines() if line.startswith(b'{"release":')]
    for row in json.loads(b"[" + b",".join(lines) + b"]"):
        release, tick, group = row["release"], row["tick"], tuple(row["group"].items())
        for measure, told in row.items():
            if type(told) is dict and measure != "group":
                yield release, tick, group, measure, [*told.values()]


def _csv(data: bytes) -> Iterator[Entry]:
    for row in csv.DictReader(io.StringIO(data.decode())):
        told = [float(row[part]) if row[part] else None for part in PARTS[:-1]]
        group = tuple(json.loads(row["group"]).items())
        yield row["release"], int(row["tick"]), group, row["measure"], [*told, row["enough"] == "true"]


def _parquet(folder: Path) -> Iterator[Entry]:
    import duckdb

    if not any(folder.glob("*.parquet")):
        return
    asked = f'SELECT release, tick, "group", measure, {", ".join(PARTS)} FROM read_parquet(?)'
    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        rows = engine.execute(asked, [f"{folder}/*.parquet"]).fetchall()
    for release, tick, group, measure, *told in rows:
        yield release, tick, tuple(json.loads(group).items()), measure, told


FORMS: dict[str, Callable[[bytes], Iterator[Entry]]] = {"jsonl": _jsonl, "csv": _csv}
