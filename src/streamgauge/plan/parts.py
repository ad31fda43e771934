"""Parts of a release: the runs that answer a SELECT, and their input.

Aggregates that share a run (`AggregateFunction.find_run`) are one part. So as few runs as possible share the loss
of a release. The parts share it evenly, and each level of a ROLLUP has all of them. If one run answers all levels
(see `rollups`), they share its loss.

Privacy
    One unit moves the vector of each part by at most the part's `tick_sensitivity`. Each part of each level has an
    even share of the release's loss, and losses of the same events add up to the release's.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import AUTO, HIERARCHY_MECHANISM, find_mechanism
from streamgauge.config.settings import Release, Stream
from streamgauge.config.stream import PAN_PRIVATE_CLAUSE, check_pan_private_release
from streamgauge.plan.aggregates.function import AggregateGroup, Output, PartSettings
from streamgauge.plan.aggregates.prediction import Predict, predict_counter
from streamgauge.plan.aggregates.user_tables import check_user_release
from streamgauge.plan.few_events import compute_expected
from streamgauge.plan.fitting import check_fit, find_part_loss
from streamgauge.plan.measure import Measure
from streamgauge.plan.rollups import build_hierarchy, compute_width, find_run_levels, resolve_mechanism
from streamgauge.privacy import IntegerZcdp, Loss
from streamgauge.sql.query import Aggregate, Query
from streamgauge.statistics import Statistic
from streamgauge.statistics.mechanism_config import MechanismConfig

CONFIDENCE = 0.95  # of the bounds of a group that was named beforehand


@dataclass(frozen=True)
class CounterPart:
    """One run of a release: a statistic, its sums from the engine, and its outputs."""

    level: int  # number of its group columns, the finest of several
    statistic: Statistic[Any]
    measure: Measure
    outputs: tuple[Output, ...]
    is_code_count: bool = False  # true if the cells that occur are counted, not their events
    max_groups: int = 1  # maximum of released groups, if they are discovered
    predict: Predict = predict_counter
    confidence: float = CONFIDENCE  # of the bounds of each group

    @property
    def width(self) -> int:
        return self.measure.width

    @property
    def charged_loss(self) -> Loss:
        """Loss of its statistic, at integer orders only if its counter needs that."""
        loss = self.statistic.loss
        if isinstance(loss, IntegerZcdp) and not isinstance(self.statistic.counter.charged_loss, IntegerZcdp):
            return loss.sufficient_loss
        return loss

    @property
    def windows(self) -> int:
        """Number of windows, which one run answers."""
        return len(getattr(self.statistic, "windows", ())) or 1

    @property
    def value_count(self) -> int:
        """Numbers of a tick if known beforehand, else of the released groups."""
        return self.max_groups if self.measure.key is not None else self.width * self.statistic.channels


def build_parts(release: Release, query: Query, stream: Stream) -> tuple[CounterPart, ...]:
    """Return the parts of a release whose groups are declared, level by level."""
    check_delta(release, query)
    check_pan_private_release(release, stream)
    shares = stream.weight is None and not release.shorter_windows
    groups = list(group_aggregates(query.aggregates, shares=shares))
    check_fit(release, query, stream, groups)
    spread = 1 if query.mapper is None else query.mapper.max_groups
    for aggregate in query.aggregates:
        if not aggregate.function.reads_events:
            rule = f"{aggregate.kind.upper()} must be used under unit = {{ user = ... }} {PAN_PRIVATE_CLAUSE}"
            raise InvalidReleaseError(f"{rule}, got another unit")
        if stream.weight is not None and not aggregate.function.reads_weights:
            rule = f"{aggregate.kind.upper()} must be used on a stream without a weight"
            raise InvalidReleaseError(f"{rule}, got {stream.weight}")
    levels = find_run_levels(release.mechanism, query)
    loss: Loss = find_part_loss(release, stream).part(Fraction(1, len(groups) * len(levels)))
    chosen = build_mechanism(release, query)
    found = []
    for level in levels:
        width = check_width(release, query, level)
        few = None if stream.pan_private or spread > 1 else compute_expected(release, query, level)
        settings = PartSettings(
            *(loss, release.horizon, release.window, chosen, stream.unit, width, few, stream.pan_private),
            shorter_windows=release.shorter_windows,
            groups_per_event=spread,
        )
        found += [_build_part(group, query, level, settings, stream) for group in groups]
    return tuple(found)


def build_user_parts(release: Release, query: Query, stream: Stream) -> tuple[CounterPart, ...]:
    """Return the parts of a release over tables of users, one table each."""
    check_user_release(release, query, stream)
    groups = list(group_aggregates(query.aggregates))
    horizon = release.horizon if release.horizon is not None else stream.ticks
    if horizon is None:
        raise InvalidReleaseError(
            f"horizon must be given, or stream.end, {PAN_PRIVATE_CLAUSE}: every estimate costs, got neither"
        )
    loss = release.loss.part(Fraction(1, len(groups)))
    settings = PartSettings(loss, horizon, release.window, None, stream.unit, 1, is_pan_private=True)
    return tuple(_build_part(group, query, 0, settings, stream) for group in groups)


def group_aggregates(aggregates: tuple[Aggregate, ...], *, shares: bool = True) -> Iterator[AggregateGroup]:
    """Yield the aggregates that share a run, in the order of the SELECT; of one kind each unless it `shares`."""
    found: dict[Hashable, list[tuple[int, Aggregate]]] = {}
    for place, aggregate in enumerate(aggregates):
        key = aggregate.function.find_run(aggregate, aggregates)
        found.setdefault(key if shares else (key, aggregate.kind), []).append((place, aggregate))
    return (AggregateGroup(tuple(members)) for members in found.values())


def _build_part(group: AggregateGroup, query: Query, level: int, settings: PartSettings, stream: Stream) -> CounterPart:
    draft = group.function.build(group, settings, stream)
    measure = Measure(
        *(query.where, query.groups[:level], draft.values, draft.cell, query.lookups, query.columns),
        mapper=query.mapper,
    )
    return CounterPart(level, draft.statistic, measure, draft.outputs, draft.is_code_count, predict=draft.predict)


def check_delta(release: Release, query: Query) -> None:
    """Reject a delta, unless groups are discovered: they need one."""
    if query.key is None and release.delta is not None:
        raise InvalidReleaseError(f"delta must be left out unless groups are discovered, got {float(release.delta):g}")
    if query.key is not None and release.delta is None:
        raise InvalidReleaseError(f"delta must be given, the groups of {query.key.name} are discovered, got none")


def check_width(release: Release, query: Query, level: int) -> int:
    """Return the number of groups of a level; reject more than are allowed."""
    width = compute_width(query, level)
    if width > release.max_groups:
        names = " x ".join(f"{len(group.labels)} {group.name}" for group in query.groups[:level])
        rule = f"groups must be at most max_groups = {release.max_groups}"
        raise InvalidReleaseError(f"{rule}, got {names} = {width}: group by less, or declare a larger max_groups")
    return width


def build_mechanism(release: Release, query: Query) -> MechanismConfig | None:
    """Return the mechanism that a release names, with settings; None if automatic."""
    if release.mechanism == AUTO:
        return None
    name = resolve_mechanism(release.mechanism, query)
    levels = {"hierarchy": build_hierarchy(query)} if name == HIERARCHY_MECHANISM else {}
    return MechanismConfig.build(find_mechanism(name), **release.settings, **levels)
