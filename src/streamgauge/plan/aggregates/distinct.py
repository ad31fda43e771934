"""COUNT(DISTINCT column): the codes of a column, counted once each.

The error is exact. For a hashed column it is that of noise and shared cells at the expected number of values, or at
1,000. In a pan-private pipeline with users as the unit, a table of users answers it.
"""

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import HIERARCHY_MECHANISM
from streamgauge.config.settings import Release, Stream
from streamgauge.config.stream import PAN_PRIVATE_CLAUSE
from streamgauge.plan.aggregates.function import (
    LEAVE_OUT_HINT,
    AdaptiveClaim,
    AggregateFunction,
    AggregateGroup,
    PartDraft,
    PartSettings,
    weight_sql,
)
from streamgauge.plan.aggregates.prediction import predict_counter, predict_hash_cells
from streamgauge.plan.aggregates.user_tables import build_density_table, find_density_run
from streamgauge.plan.measure import Cell, GridValue
from streamgauge.privacy import Event, User, WEvent, XAdjacent
from streamgauge.sql.arguments import read_codes
from streamgauge.sql.dialect import Node
from streamgauge.sql.grouping import build_name
from streamgauge.sql.query import Aggregate, Codes
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics import Count, Distinct
from streamgauge.statistics.user_table import COUNT_MEASURE

NAME = "COUNT(DISTINCT ...)"


def read_distinct(node: exp.Distinct, read: ExpressionReader) -> Aggregate:
    if len(node.expressions) > 1:
        raise InvalidReleaseError(f"{NAME} needs one column: declare a column that combines them, with hash_cells")
    return read_distinct_column(node.expressions[0], read)


def read_distinct_column(column: Node, read: ExpressionReader) -> Aggregate:
    """Read the column of COUNT(DISTINCT column) or APPROX_COUNT_DISTINCT(column), which mean the same."""
    if not isinstance(column, exp.Column):
        raise InvalidReleaseError(f"{NAME} needs one column, not an expression")
    name = build_name("count_distinct", column.name)
    return Aggregate(name, "distinct", codes=read_codes(column, read), function=FUNCTION)


def build_distinct_part(group: AggregateGroup, settings: PartSettings, stream: Stream) -> PartDraft:
    if isinstance(stream.unit, XAdjacent):
        return build_density_table(group, settings, stream)
    codes = group.aggregates[0].codes
    if codes is None:
        raise InvalidReleaseError("COUNT(DISTINCT ...) must be of a column, got an expression")
    if stream.pan_private:
        rule = (
            f"COUNT(DISTINCT column) must be of the users' column, with unit = {{ user = ... }}, {PAN_PRIVATE_CLAUSE}"
        )
        raise InvalidReleaseError(f"{rule}, got {codes.column}: users of an open tick would be remembered")
    if isinstance(stream.unit, User) and codes.column != stream.user:
        rule = f"COUNT(DISTINCT column) must be of the users' column {stream.user} where users are the unit"
        raise InvalidReleaseError(f"{rule}, got {codes.column}: one user may bring in any number of others")
    cell = Cell(codes.sql, codes.universe)
    if stream.weight is not None:
        return build_departures(group, settings, stream, cell)
    statistic = build_distinct(codes, settings)
    predict = predict_counter if statistic.hash_cells is None else predict_hash_cells
    return PartDraft(statistic, group.read_off("value"), cell=cell, predict=predict, is_code_count=True)


def build_departures(group: AggregateGroup, settings: PartSettings, stream: Stream, cell: Cell) -> PartDraft:
    """Return the part that counts the codes that are there, of a stream whose events have weights.

    A user is one code, if codes are users and no two share one. Else a unit changes the history of a code. Users
    differ by their texts, and "1" and "1.0" are one number: only declared texts are codes of their own.
    """
    codes, weight = group.aggregates[0].codes, weight_sql(stream)
    column = stream.columns.get(codes.column) if codes is not None else None
    if codes is None or weight is None or column is None or column.max_changes is None:
        rule = "COUNT(DISTINCT column) must be of a column with max_changes where events have weights"
        raise InvalidReleaseError(f"{rule}, got {codes.column if codes else 'another'}: declare max_changes")
    if settings.window != "running":
        raise InvalidReleaseError(
            f'window must be "running" for COUNT(DISTINCT ...) where events have weights, got "{settings.window}"'
        )
    given = settings.to_settings()
    renews = isinstance(settings.unit, User) and settings.unit.per is not None  # a part of a history changes
    is_shared = codes.is_hashed or column.other or column.kind != "text"
    if isinstance(settings.unit, User) and (is_shared or renews):
        given["unit"] = Event()
    statistic = Distinct(
        settings.loss, universe=codes.universe, hashed=codes.is_hashed, max_changes=column.max_changes, **given
    )
    predict = predict_counter if statistic.hash_cells is None else predict_hash_cells
    weights = (GridValue(weight, -1, 1, Fraction(1), 1),)
    return PartDraft(statistic, group.read_off("value"), weights, cell, predict=predict)


def build_distinct(codes: Codes, settings: PartSettings) -> Count | Distinct:
    """Return the statistic that counts codes, of each tick or at first appearance.

    Users may share a code: a hash, or "other". So codes are never bounded as if they were users: the engine has
    bounded the users. One user is in a bounded number of groups. Each of those gets one more code at the user's ticks.
    In a running window, one code's first appearance moves to another tick, as by one event, in each of the groups that
    the user's changed ticks can have. Estimates of hashed
    columns are of the values, corrected for those that share a code.
    """
    given, unit = settings.to_settings(), settings.unit
    if settings.window == "each":
        if isinstance(unit, User):
            given["unit"] = replace(unit, max_events_per_tick=min(settings.width, unit.max_events_per_tick))
        return Count(settings.loss, cells=codes.universe if codes.is_hashed else None, **given)
    if isinstance(unit, User):
        given["unit"] = WEvent(min(settings.width, unit.events * unit.ticks))
    return Distinct(settings.loss, universe=codes.universe, hashed=codes.is_hashed, **given)


def check_distinct_adaptive(group: AggregateGroup, release: Release, claim: AdaptiveClaim) -> None:
    """Allow an adaptive mechanism to count the codes of each tick, without levels."""
    if claim.__name__ == HIERARCHY_MECHANISM:
        rule = f"{NAME} cannot use {release.mechanism} under ROLLUP, since levels do not add up"
        raise InvalidReleaseError(f"{rule}: {LEAVE_OUT_HINT}")
    if release.window != "each":
        way = f'ask for window = "each", or {LEAVE_OUT_HINT}' if "each" in claim.WINDOWS else LEAVE_OUT_HINT
        raise InvalidReleaseError(f"{NAME} of more than one tick cannot use {release.mechanism}: {way}")


FUNCTION = AggregateFunction(
    names=("approx_distinct",),  # or called as COUNT
    read=lambda call, read: read_distinct_column(call.this, read),
    build=build_distinct_part,
    find_run=find_density_run,
    check_adaptive=check_distinct_adaptive,
    count_kinds=frozenset({"distinct"}),
    reads_weights=True,
    user_column=COUNT_MEASURE,
)
