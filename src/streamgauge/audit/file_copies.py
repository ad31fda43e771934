"""Copies of a pipeline file in which one real run is many runs that know nothing of each other.

    Widened     one more public column, by which everything is grouped first: each of its values is a world of
                its own, with its own records and its own noise. Thousands of runs in one.
    Repeated    every release again and again under other names: each draws its own noise from the same
                records. For files that cannot be widened (groups that are discovered); tens of runs in one.
    Alone       as it is written.

In all of them budget, store, key, source and sinks are the copy's own.

Promise
    A widened copy is used only if its plan is that of the file: every part has the same statistic, which is
    the same mechanism under the same noise, and answers the same measures; and if no mechanism decides on its
    groups together, so that worlds of one run would depend on each other. All other groups share nothing but
    their code, nor do releases; the one thing that a store draws once for all of them, the secret under which
    users and hashed columns are hashed, decides nothing in these records: all hashed texts of a world are the
    same.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from sqlglot import exp

from streamgauge.adaptive import Adaptive
from streamgauge.audit.input_records import Input, Written
from streamgauge.privacy import Approx, Loss, Pure, Zcdp
from streamgauge.query.canonical import blocks_of
from streamgauge.query.planner import Planned, planned
from streamgauge.query.query import Refused
from streamgauge.query.settings import Column, PipelineFile, Release, SinkSettings, Stream
from streamgauge.query.sql.dialect import read

WORLD = "audited_world"
ROOMY = 10**9  # groups that a copy may have, epsilon or rho that it may spend

Group = tuple[tuple[str, Any], ...]  # columns and labels
Place = tuple[int, str, Group]  # the copy, the release as the file calls it, the group


class Copies(Protocol):
    """A copy of a file that has several runs in one."""

    @property
    def count(self) -> int:
        """Runs in one."""
        ...

    @property
    def file(self) -> PipelineFile: ...

    def lines(self, inputs: Sequence[Input]) -> Iterator[Written]:
        """The records of all copies: one input for each, or one for all."""
        ...

    def place(self, release: str, group: Group) -> Place: ...

    def unmarked(self, text: bytes) -> bytes:
        """The text of a row without what tells copies apart."""
        ...


@dataclass(frozen=True)
class Alone:
    """The file as it is written."""

    file: PipelineFile
    count: int = 1

    def lines(self, inputs: Sequence[Input]) -> Iterator[Written]:
        return ((line, "", {}) for line in inputs[0])

    def place(self, release: str, group: Group) -> Place:
        return 0, release, group

    def unmarked(self, text: bytes) -> bytes:
        return text


@dataclass(frozen=True)
class Repeated:
    """Every release under several names."""

    original: PipelineFile
    count: int

    @cached_property
    def _known(self) -> dict[str, tuple[int, str]]:
        releases = self.original.releases
        return {
            f"copy{copy}-{number}": (copy, release.name)
            for copy in range(self.count)
            for number, release in enumerate(releases)
        }

    @cached_property
    def file(self) -> PipelineFile:
        by_name = {release.name: release for release in self.original.releases}
        releases = [replace(by_name[own], name=name) for name, (_, own) in self._known.items()]
        stream = replace(self.original.stream, budget=raised(self.original.stream.budget))
        sinks = tuple(replace(sink, releases=self._called(sink)) for sink in self.original.sinks)
        return replace(with_releases(self.original, stream, releases), sinks=sinks)

    def _called(self, sink: SinkSettings) -> tuple[str, ...]:
        return tuple(name for name, (_, own) in self._known.items() if own in sink.releases)

    def lines(self, inputs: Sequence[Input]) -> Iterator[Written]:
        return ((line, "", {}) for line in inputs[0])

    def place(self, release: str, group: Group) -> Place:
        return *self._known[release], group

    def unmarked(self, text: bytes) -> bytes:
        return re.sub(rb"copy\d+-", b"", text, count=1)


@dataclass(frozen=True)
class Widened:
    """All groups within groups of one more column."""

    original: PipelineFile
    count: int

    @cached_property
    def column(self) -> str:
        """A name that no other column has."""
        stream, lookups = self.original.stream, self.original.lookups.values()
        known = {
            *stream.columns,
            stream.time,
            stream.user or "",
            *(c for each in lookups for c in each.columns),
        }
        taken, name = {each.casefold() for each in known}, WORLD
        while name in taken:
            name += "_"
        return name

    @cached_property
    def file(self) -> PipelineFile:
        stream, worlds = self.original.stream, tuple(map(str, range(self.count)))
        column = Column(self.column, values=worlds)
        users = stream.max_users and stream.max_users * self.count
        wide = replace(stream, columns={**stream.columns, self.column: column}, max_users=users)
        return with_releases(self.original, wide, [self._release(each) for each in self.original.releases])

    def _release(self, release: Release) -> Release:
        return replace(release, sql=grouped_first(release.sql, self.column), max_groups=ROOMY)

    def lines(self, inputs: Sequence[Input]) -> Iterator[Written]:
        for world in range(self.count):
            for line in inputs[world % len(inputs)]:
                yield line, f"{world}-", {self.column: str(world)}

    def place(self, release: str, group: Group) -> Place:
        return int(group[0][1]), release, group[1:]

    def unmarked(self, text: bytes) -> bytes:
        return self._label.sub(b"", text, count=1)

    @cached_property
    def _label(self) -> re.Pattern[bytes]:
        """The world, first of all groups, however its quotes are written."""
        quote = rb'\\?"+'
        return re.compile(quote + self.column.encode() + quote + rb": ?" + quote + rb"\d+" + quote + rb",?")


def grouped_first(sql: str, column: str) -> str:
    """The same SELECT, by one more column: the first, which every level of a ROLLUP keeps.

    >>> grouped_first("SELECT region, COUNT(*) FROM visits GROUP BY region", "world")
    'SELECT region, COUNT(*) FROM visits GROUP BY "world", region'
    """
    select, more = read(sql), exp.column(column, quoted=True)
    group = select.args.get("group")
    if group is None:
        return select.group_by(more).sql(dialect="duckdb")
    rolled = bool(group.args.get("rollup"))
    rest = [exp.Rollup(expressions=group.expressions)] if rolled else group.expressions
    group.set("rollup", None)
    group.set("expressions", [more, *rest])
    return select.sql(dialect="duckdb")


def with_releases(file: PipelineFile, stream: Stream, releases: Sequence[Release]) -> PipelineFile:
    blocks = blocks_of(stream, file.lookups, releases)
    return replace(file, stream=stream, releases=tuple(releases), blocks=blocks)


def raised(budget: Loss) -> Loss:
    """A budget of the same kind that many times as much fits into."""
    if isinstance(budget, Approx):
        return Approx(ROOMY, max(budget.delta, 1 - (1 - budget.delta) / 1000))
    return Pure(ROOMY) if isinstance(budget, Pure) else Zcdp(ROOMY)


def widened(file: PipelineFile, count: int) -> Widened | None:
    """A widened copy, if its plan is the file's and its worlds have nothing in common."""
    copies = Widened(file, count)
    try:
        plans = [planned(copies.file, release) for release in copies.file.releases]
    except (Refused, ValueError):
        return None
    own = [planned(file, release) for release in file.releases]
    return copies if not any(map(is_joint, own)) and all(map(alike, own, plans)) else None


def is_joint(plan: Planned) -> bool:
    """Whether groups are decided on together, by some mechanism that adapts to its data."""
    counters = (part.statistic.counter for part in plan.parts)
    return any(isinstance(counter, Adaptive) and counter.JOINT for counter in counters)


def alike(one: Planned, other: Planned) -> bool:
    """Whether two plans have the same noise and tell the same measures."""
    parts = [[(part.statistic, part.outputs, part.codes) for part in plan.parts] for plan in (one, other)]
    return parts[0] == parts[1] and one.layout["measures"] == other.layout["measures"]
