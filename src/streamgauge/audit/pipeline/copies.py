"""Copies of a pipeline file in which one real run is many independent runs.

    WidenedGroups       one more public column, by which everything is grouped first: each of its values is a world with
                        its own records and its own noise. Thousands of runs in one.
    RepeatedReleases    every release many times under other names: each draws its own noise from the same records. For
                        files that cannot be widened (discovered or ranked groups). Tens of runs in one.
    SingleCopy          as it is written.

In all of them budget, store, key, source and sinks are the copy's own. `LouderNoise` multiplies the noise of a run by
k, so that a few runs can show a large loss.

Promise
    A widened copy is used only if its plan is that of the file: every part has the same statistic, which is the same
    mechanism under the same noise, and has the same measures; and if nothing makes worlds of one run depend on each
    other: no mechanism decides on its groups together, and no tick admits so many events of all groups. All other
    groups share only code, and so do releases. A store draws one secret for all of them, under which users and hashed
    columns are hashed. It decides nothing in these records: all hashed texts of a world are the same.
    Noise of k times the scale loses 1/k of the epsilon and 1/k^2 of the rho, and changes nothing else. Functions of
    noisy numbers keep the smaller claim, so a larger difference is not a function of them, and breaks every claim.
    (Discrete noise: a shift by s under Laplace noise of scale b costs s/b, under Gaussian noise of parameter v
    s^2/(2v).)
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil, sqrt
from typing import Any

from sqlglot import exp

from streamgauge.adaptive import AdaptiveMechanism
from streamgauge.audit.pipeline.inputs import InputRecords, PlacedRecord
from streamgauge.config.canonical import build_blocks
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Column, PipelineFile, Release, Stream
from streamgauge.noise import Ints, Noise
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.privacy import Approx, IntegerZcdp, Loss, Pure, Tick, Zcdp
from streamgauge.sql.dialect import parse_select

WORLD_COLUMN = "audited_world"
UNLIMITED = 10**9  # groups that a copy may have, epsilon or rho that it may spend

Group = tuple[tuple[str, Any], ...]  # columns and labels
CopyGroup = tuple[int, str, Group]  # the copy, the release as the file calls it, the group


@dataclass(frozen=True)
class SingleCopy:
    """The file as it is written."""

    file: PipelineFile
    count: int = 1

    def build_records(self, inputs: Sequence[InputRecords]) -> Iterator[PlacedRecord]:
        return ((line, "", {}) for line in inputs[0])

    def locate(self, release: str, group: Group) -> CopyGroup:
        return 0, release, group

    def strip_marks(self, text: bytes) -> bytes:
        return text


@dataclass(frozen=True)
class RepeatedReleases:
    """Every release under several names."""

    original: PipelineFile
    count: int

    @cached_property
    def _copies_by_name(self) -> dict[str, tuple[int, str]]:
        releases = self.original.releases
        named = product(range(self.count), enumerate(releases))
        return {f"copy{copy}-{number}": (copy, release.name) for copy, (number, release) in named}

    @cached_property
    def file(self) -> PipelineFile:
        by_name = {release.name: release for release in self.original.releases}
        owners = {name: own for name, (_, own) in self._copies_by_name.items()}
        releases = [replace(by_name[own], name=name) for name, own in owners.items()]
        stream = replace(self.original.stream, budget=raise_budget(self.original.stream.budget))
        sinks = (
            replace(sink, releases=tuple(name for name, own in owners.items() if own in sink.releases))
            for sink in self.original.sinks
        )
        return replace(replace_releases(self.original, stream, releases), sinks=tuple(sinks))

    def build_records(self, inputs: Sequence[InputRecords]) -> Iterator[PlacedRecord]:
        return ((line, "", {}) for line in inputs[0])

    def locate(self, release: str, group: Group) -> CopyGroup:
        return *self._copies_by_name[release], group

    def strip_marks(self, text: bytes) -> bytes:
        return re.sub(rb"copy\d+-", b"", text, count=1)


@dataclass(frozen=True)
class WidenedGroups:
    """All groups within groups of one more column."""

    original: PipelineFile
    count: int

    @cached_property
    def column(self) -> str:
        """A name that no other column has."""
        stream, lookups = self.original.stream, self.original.lookups.values()
        known = {*stream.columns, stream.time, stream.user or "", *(c for each in lookups for c in each.columns)}
        used_names, name = {each.casefold() for each in known}, WORLD_COLUMN
        while name in used_names:
            name += "_"
        return name

    @cached_property
    def file(self) -> PipelineFile:
        stream, worlds = self.original.stream, tuple(map(str, range(self.count)))
        column = Column(self.column, values=worlds)
        users = stream.max_users and stream.max_users * self.count
        wide = replace(stream, columns={**stream.columns, self.column: column}, max_users=users)
        releases = [
            replace(release, sql=prepend_group(release.sql, self.column), max_groups=UNLIMITED)
            for release in self.original.releases
        ]
        return replace_releases(self.original, wide, releases)

    def build_records(self, inputs: Sequence[InputRecords]) -> Iterator[PlacedRecord]:
        for world in range(self.count):
            for line in inputs[world % len(inputs)]:
                yield line, f"{world}-", {self.column: str(world)}

    def locate(self, release: str, group: Group) -> CopyGroup:
        return int(group[0][1]), release, group[1:]

    def strip_marks(self, text: bytes) -> bytes:
        return self._label_pattern.sub(b"", text, count=1)

    @cached_property
    def _label_pattern(self) -> re.Pattern[bytes]:
        """The world, first of all groups, however its quotes are written."""
        quote = rb'\\?"+'
        return re.compile(quote + self.column.encode() + quote + rb": ?" + quote + rb"\d+" + quote + rb",?")


Copies = SingleCopy | RepeatedReleases | WidenedGroups  # a copy of a file that has `count` runs in one


def prepend_group(sql: str, column: str) -> str:
    """Add a first GROUP BY column, which every level of a ROLLUP has.

    >>> prepend_group("SELECT region, COUNT(*) FROM visits GROUP BY region", "world")
    'SELECT region, COUNT(*) FROM visits GROUP BY "world", region'
    """
    select, more = parse_select(sql), exp.column(column, quoted=True)
    group = select.args.get("group")
    if group is None:
        return select.group_by(more).sql(dialect="duckdb")
    rolled = bool(group.args.get("rollup"))
    rest = [exp.Rollup(expressions=group.expressions)] if rolled else group.expressions
    group.set("rollup", None)
    group.set("expressions", [more, *rest])
    return select.sql(dialect="duckdb")


def replace_releases(file: PipelineFile, stream: Stream, releases: Sequence[Release]) -> PipelineFile:
    blocks = build_blocks(stream, file.lookups, releases)
    return replace(file, stream=stream, releases=tuple(releases), blocks=blocks)


def raise_budget(budget: Loss) -> Loss:
    """Return a budget of the same kind that has capacity for all copies."""
    if isinstance(budget, Approx):
        return Approx(UNLIMITED, max(budget.delta, 1 - (1 - budget.delta) / 1000))
    return Pure(UNLIMITED) if isinstance(budget, Pure) else Zcdp(UNLIMITED)


def widen(file: PipelineFile, count: int) -> WidenedGroups | None:
    """Return a widened copy, if its plan is the file's and its worlds are independent."""
    if isinstance(file.stream.unit, Tick):
        return None  # the events of all worlds would be bounded together, and those of most be dropped
    copies = WidenedGroups(file, count)
    try:
        plans = [plan_release(copies.file, release) for release in copies.file.releases]
    except (InvalidReleaseError, ValueError):
        return None
    own = [plan_release(file, release) for release in file.releases]
    if any(plan.query.top is not None for plan in own):
        return None  # the largest groups of all worlds would be ranked together
    counters = [part.statistic.counter for plan in own for part in plan.parts]
    if any(isinstance(counter, AdaptiveMechanism) and counter.HAS_JOINT_GROUPS for counter in counters):
        return None
    return copies if all(map(are_alike, own, plans)) else None


def are_alike(one: ReleasePlan, other: ReleasePlan) -> bool:
    """Return whether two plans have the same noise and the same measures."""
    parts = [[(part.statistic, part.outputs, part.is_code_count) for part in plan.parts] for plan in (one, other)]
    return parts[0] == parts[1] and one.layout["measures"] == other.layout["measures"]


TARGET_EPSILON, TARGET_RHO = Fraction(1, 2), Fraction(1, 100)  # that a hundred runs can refute
REFUTATION_DELTA = Fraction(1, 10)  # the delta at which a small rho is refuted


@dataclass(frozen=True)
class LouderNoise:
    """`inner`, so many times."""

    inner: Noise
    times: int

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self.inner.laplace(scale * self.times, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self.inner.gaussian(variance * self.times**2, size)


@dataclass(frozen=True)
class NoiseScaling:
    """A factor of the noise, and the claim under it."""

    times: int
    loss: Loss

    @classmethod
    def from_plans(cls, plans: Sequence[ReleasePlan], loss: Loss) -> "NoiseScaling":
        """Choose the factor. Thresholds of discovered groups do not grow with the noise: the factor is 1 there."""
        if any(plan.query.key is not None for plan in plans):
            return cls(1, loss)
        if isinstance(loss, Pure):
            times = max(1, ceil(loss.epsilon / TARGET_EPSILON))
            return cls(times, Pure(loss.epsilon / times))
        counters = [part.statistic.counter for plan in plans for part in plan.parts]
        lost = [counter.charged_loss.as_integer_zcdp().rho for counter in counters]
        rho = loss.rho if isinstance(loss, Zcdp | IntegerZcdp) else sum(lost, Fraction(0))
        times = max(1, ceil(sqrt(rho / TARGET_RHO)))
        louder: Zcdp | IntegerZcdp = Zcdp(rho / times**2)
        if any(isinstance(counter.charged_loss, IntegerZcdp) for counter in counters):
            louder = louder.as_integer_zcdp()
        return cls(times, louder.as_approx(REFUTATION_DELTA))
