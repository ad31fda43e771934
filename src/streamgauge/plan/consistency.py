"""`consistent = true`: rules of the truth that the published numbers of a release obey.

    COUNT                    never negative; never falls in a running window
    COUNT(DISTINCT column)   the same, and at most the number of declared values
    COUNT, SUM by ROLLUP     levels add up

Each is decided by declarations alone, and refused if the truth need not obey it.
"""

from collections.abc import Iterator
from math import prod

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import HIERARCHY_MECHANISM
from streamgauge.config.settings import Release, Stream
from streamgauge.plan.rollups import build_hierarchy, compute_width, resolve_mechanism
from streamgauge.postprocess.adjustment import Adjustment
from streamgauge.sql.query import Aggregate, Query

Adjustments = tuple[Adjustment | None, ...]  # of each aggregate


def build_adjustments(release: Release, query: Query, stream: Stream) -> Adjustments:
    """Return the adjustment of each aggregate; none unless the release is consistent.

    Raises:
        InvalidReleaseError: The release is consistent, and cannot be.
    """
    if not release.consistent:
        return ()
    if (unfit := next(_list_unfit(release, query, stream), None)) is not None:
        raise InvalidReleaseError(f"consistent must be left out {unfit}")
    found = tuple(_build_adjustment(aggregate, release, query) for aggregate in query.aggregates)
    if not any(found):
        names = ", ".join(aggregate.name for aggregate in query.aggregates)
        rule = "consistent must be left out unless the query has a COUNT, or a SUM under ROLLUP"
        raise InvalidReleaseError(f"{rule}, got {names}: no rule is known that its true numbers obey")
    return found


def _list_unfit(release: Release, query: Query, stream: Stream) -> Iterator[str]:
    if query.key is not None:
        yield f"where groups are discovered, as those of {query.key.name}: a new group has no earlier number"
    if query.report is not None:
        yield f"for reports, as those of {query.report.column}: take `streamgauge.postprocess` to their releases"
    if stream.weight is not None:
        yield f"where events have weights, as {stream.weight}: true counts may fall, and be negative"
    missing = [group.name for group in query.groups[min(query.levels) :] if group.nullable]
    is_one_run = resolve_mechanism(release.mechanism, query) == HIERARCHY_MECHANISM
    if missing and not is_one_run and any(_adds_up(aggregate) for aggregate in query.aggregates):
        names = " and ".join(missing)
        way = "declare other = true, or ask WHERE they are NOT NULL"
        yield f"under ROLLUP of {names}: an event without one counts above only, so true levels do not add up; {way}"


def _build_adjustment(aggregate: Aggregate, release: Release, query: Query) -> Adjustment | None:
    is_count = aggregate.kind in aggregate.function.count_kinds
    has_levels = len(query.levels) > 1 and _adds_up(aggregate)
    if not is_count and not has_levels:
        return None
    codes = aggregate.codes
    return Adjustment(
        is_count=is_count,
        never_falls=is_count and release.window == "running",
        upper=None if codes is None or codes.is_hashed else codes.universe,
        widths=tuple(compute_width(query, level) for level in query.levels) if has_levels else (),
        hierarchy=build_hierarchy(query) if has_levels else None,
    )


def _adds_up(aggregate: Aggregate) -> bool:
    return aggregate.kind in aggregate.function.additive_kinds


def count_remembered(adjustments: Adjustments, query: Query) -> int:
    """Return the numbers of a tick that the next tick needs."""
    places = sum(prod(len(group.labels) for group in query.groups[:level]) for level in query.levels)
    return places * sum(each is not None and each.never_falls for each in adjustments)
