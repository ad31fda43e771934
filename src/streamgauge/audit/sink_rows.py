"""What readers find in the sinks of a run, as numbers at fixed places: one row for each run of a copy.

    place of a number      sink, release, tick, group, measure, then value, stddev, low, high and enough
    NaN                    what is null, or not there
    two numbers besides    how many measures a release has, whichever they are: presence tells as well; and
                           a code of its rows' text, in order, all of it that is not measured (`sink_forms`)

Texts are the same in almost all runs: where everything lies is worked out once for each of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from streamgauge.audit.file_copies import Copies, Group
from streamgauge.audit.input_records import ONE_TEXT
from streamgauge.audit.outputs import code
from streamgauge.audit.sink_forms import PARTS, Found, Row
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.query.planner import Planned, shape_of
from streamgauge.query.shapes import text

BESIDES = 2  # numbers of a release that were not measured: how much there is, and its text
MOST_TEXTS = 32  # that are remembered


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
        """Its numbers, and what is there besides."""
        return int(np.prod(self.shape)) + BESIDES

    @property
    def places(self) -> slice:
        return slice(self.first, self.first + self.size)

    def numbers(self, views: Floats) -> Floats:
        """(runs, ticks, groups, measures, parts)."""
        return views[:, self.first : self.places.stop - BESIDES].reshape(len(views), *self.shape)


def groups_of(plan: Planned) -> tuple[Group, ...]:
    """All groups of a release; where they are discovered, the one that its records have."""
    found = plan.layout.get("discovered")
    if found is not None:
        return (((found, ONE_TEXT),),)
    return tuple(place.labels for place in shape_of(plan.name, plan.layout).places)


def spelled(group: Iterable[tuple[str, Any]]) -> Group:
    """Return labels as wide CSV has them, texts all, in the order of their columns."""
    return tuple(sorted((name, label if type(label) is str else text(label)) for name, label in group))


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
            (part.sink, part.plan.name, tick + 1, spelled(group), measure): part.first
            + len(PARTS) * ((tick * len(part.groups) + place) * len(part.measures) + column)
            for part in self.parts
            for tick in range(part.ticks)
            for place, group in enumerate(part.groups)
            for column, measure in enumerate(part.measures)
        }

    def find(self, sink: int, name: str, tick: int, group: Group, measure: str) -> int | None:
        """Return where an entry begins; a level in its group is no label, unless a column has that name."""
        for labels in (group, [pair for pair in group if pair[0] != "level"]):
            place = self.index.get((sink, name, tick, spelled(labels), measure))
            if place is not None:
                return place
        return None

    @cached_property
    def known(self) -> dict[bytes, "Laid"]:
        """Where everything lies, by copies, sink and text."""
        return {}

    def laid(self, copies: Copies, sink: int, found: Found) -> "Laid":
        told = f"{type(copies).__name__} {copies.count} {sink} ".encode()
        key = blake2b(told + found.text, digest_size=16).digest()
        if key not in self.known:
            if len(self.known) >= MOST_TEXTS:
                self.known.clear()
            self.known[key] = laid_out(self, copies, sink, found)
        return self.known[key]

    def read(self, copies: Copies, sinks: Sequence[Found]) -> Floats:
        """The views of all runs of a copy, from what each sink has."""
        views = np.full((copies.count, self.size), np.nan)
        for sink, found in enumerate(sinks):
            laid = self.laid(copies, sink, found)
            views[:, laid.columns] = laid.besides
            places = laid.at[:, None] + np.arange(len(PARTS))
            views.reshape(-1)[places] = found.numbers[laid.entries]
        return views

    def numbers(self, views: Floats) -> Floats:
        """What was measured, of all releases."""
        return np.concatenate([part.numbers(views).reshape(len(views), -1) for part in self.parts], axis=1)


@dataclass(frozen=True, eq=False)
class Laid:
    """Where the numbers of a sink lie, and what is there besides them."""

    at: Ints  # in all views, flat
    entries: Ints  # which of the sink's measures these are
    columns: Ints
    besides: Floats


def laid_out(view: View, copies: Copies, sink: int, found: Found) -> Laid:
    rows = found.rows()[0]
    owners = [copies.place(row.release, row.group) for row in rows]
    places = [
        (copy * view.size, view.find(sink, name, row.tick, group, measure))
        for row, (copy, name, group) in zip(rows, owners, strict=True)
        for measure in row.measures
    ]
    whole = len(places) == len(found.numbers)  # else something stands where no number should
    kept = [
        (entry, first + place) for entry, (first, place) in enumerate(places) if whole and place is not None
    ]
    entries, at = np.array(kept, np.int64).reshape(-1, 2).T
    firsts = [part.places.stop - BESIDES for part in view.parts if part.sink == sink]
    columns = np.array([first + more for first in firsts for more in range(BESIDES)], np.int64)
    return Laid(at, entries, columns, besides(view, copies, sink, rows))


def besides(view: View, copies: Copies, sink: int, rows: Sequence[Row]) -> Floats:
    """How many measures each release has, and a code of its text: a row for each copy."""
    names = {part.plan.name: number for number, part in enumerate(p for p in view.parts if p.sink == sink)}
    told: list[list[list[Row]]] = [[[] for _ in names] for _ in range(copies.count)]
    for row in rows:
        copy, name, _ = copies.place(row.release, row.group)
        told[copy][names[name]].append(row)
    numbers = [[(_count(own), _code(copies, own)) for own in releases] for releases in told]
    return np.array(numbers, np.float64).reshape(copies.count, BESIDES * len(names))


def _count(rows: Sequence[Row]) -> int:
    return sum(len(row.measures) for row in rows)


def _code(copies: Copies, rows: Sequence[Row]) -> float:
    return code(b"\n".join(copies.unmarked(row.text) for row in rows))
