"""COUNT, SUM, AVG, VARIANCE and STDDEV: sums of an expression and of its squares.

One summary answers all of one expression. A summary whose expression cannot be NULL also answers COUNT(*).
A count or a sum that stands alone has a separate run, which needs less noise.

    count, sum                 exact: the noise is known, and depends on no data
    mean, variance, stddev     depend on the data: at the expected number of events, or at 1,000, with
                               values that are spread evenly over their bounds
"""

from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import ceil, nan
from typing import Any

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Release, Stream
from streamgauge.plan.aggregates.distinct import read_distinct
from streamgauge.plan.aggregates.function import (
    LEAVE_OUT_HINT,
    AdaptiveClaim,
    AggregateFunction,
    AggregateGroup,
    Output,
    PartDraft,
    PartSettings,
    weight_sql,
)
from streamgauge.plan.aggregates.grids import build_grid_values, compute_bounds
from streamgauge.plan.aggregates.prediction import DEFAULT_EVENTS, ErrorPrediction, PredictionRequest
from streamgauge.plan.few_events import choose_counter
from streamgauge.plan.measure import GridValue
from streamgauge.sql.arguments import build_value, read_bounded
from streamgauge.sql.dialect import Node
from streamgauge.sql.expressions import Expression
from streamgauge.sql.functions import to_function_name
from streamgauge.sql.grouping import build_name, format_expression
from streamgauge.sql.query import Aggregate, Value
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics import Count, Sum, Summary
from streamgauge.statistics.moments.moments import MAX_SQUARED_PLACES

KINDS = {  # by name: the kind of the aggregate, which is the column of a summary, and the name of its column
    "sum": ("sum", "sum"),
    "avg": ("mean", "avg"),
    "variance": ("variance", "variance"),
    "stddev": ("stddev", "stddev"),
    "stddev_samp": ("stddev", "stddev"),
}
SUMMED, ONE = frozenset({"sum"}), Fraction(1)
RATIO_NAMES = {"mean": "AVG", "variance": "VAR_SAMP", "stddev": "STDDEV"}
SPREAD_KINDS = {"variance", "stddev"}
MIN_NOISE_SPREADS = {"mean": 5.0, "variance": 12.0, "stddev": 12.0}  # spreads of noise that a count must exceed
MIN_EVENTS = {"mean": 2, "variance": 30, "stddev": 30}  # events whose own spread is near the expected one


def read_moment(call: Node, read: ExpressionReader) -> Aggregate:
    if isinstance(call, exp.Count):
        return _read_count(call, read)
    kind, called = KINDS[to_function_name(call)]
    value = build_value(read_bounded(call.this, to_function_name(call).upper(), read))
    return Aggregate(build_name(called, format_expression(call.this)), kind, value)


def _read_count(call: exp.Count, read: ExpressionReader) -> Aggregate:
    if isinstance(call.this, exp.Star):
        return Aggregate("count", "count")
    if call.this is None:
        raise InvalidReleaseError("COUNT needs * or an expression")
    if isinstance(call.this, exp.Distinct):
        return read_distinct(call.this, read)
    name = build_name("count", format_expression(call.this))
    return Aggregate(name, "count", build_presence(read(call.this)))


def build_presence(expression: Expression) -> Value:
    """Return the argument that COUNT(expression) counts.

    It is the expression itself if others may share it, else its presence.
    """
    if expression.kind == "number" and expression.span.is_bounded:
        return build_value(expression)
    sql = f"CASE WHEN {expression.sql} IS NOT NULL THEN 1e0 END"
    return Value(sql, Fraction(1), Fraction(1), Fraction(1), expression.nullable)


def find_moment_run(aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> Hashable:
    value = aggregate.value
    if aggregate.kind == "count" and (value is None or not value.nullable):
        return "moments", _find_count_host(aggregates, None if value is None else value.filter)
    return "moments", value and value.sql


def _find_count_host(aggregates: Sequence[Aggregate], condition: str | None) -> Hashable:
    """Return the expression whose summary also counts the events of a filter, as it is never NULL for them."""
    values = [each.value for each in aggregates if each.function is FUNCTION and each.kind != "count"]
    hosts = (value.sql for value in values if value and not value.nullable and value.filter == condition)
    return next(hosts, condition and ("filter", condition))


def check_moment_adaptive(group: AggregateGroup, release: Release, claim: AdaptiveClaim) -> None:
    """Allow an adaptive mechanism to count or to add up, each as a separate run."""
    if other := [name for kind, name in RATIO_NAMES.items() if kind in group.kinds]:
        raise InvalidReleaseError(f"{' and '.join(other)} cannot use {release.mechanism}: {LEAVE_OUT_HINT}")
    if len(group.kinds) > 1:
        rule = f"COUNT and SUM, which share a run, cannot use {release.mechanism}"
        raise InvalidReleaseError(f"{rule}: ask for them in two releases, or {LEAVE_OUT_HINT}")


def build_moments(group: AggregateGroup, settings: PartSettings, stream: Stream) -> PartDraft:
    kinds, value = group.kinds, _find_shared_value(group)
    weight = weight_sql(stream)
    if weight is not None:
        kinds, value = _weigh(kinds, value, weight)
    if kinds == {"count"}:
        count = choose_counter(Count(settings.loss, **settings.to_settings()), settings.expected)
        present = () if value is None or not value.is_partial else (GridValue(value.sql, 0, 0, Fraction(1), 0),)
        return PartDraft(count, group.read_off("value"), present)
    if value is None:
        raise InvalidReleaseError("an aggregate must have an expression, got none")
    squares = bool(kinds & SPREAD_KINDS)
    bounds = compute_bounds(value, MAX_SQUARED_PLACES if squares else None)
    if kinds == {"sum"}:
        total = Sum(settings.loss, **bounds, **settings.to_settings())
        return PartDraft(total, group.read_off("value"), build_grid_values(value, total.grid, 1))
    summary = Summary(settings.loss, **bounds, squares=squares, **settings.to_settings())
    values = build_grid_values(value, summary.moments.grid, 2 if squares else 1)
    outputs = tuple(Output(place, aggregate.kind) for place, aggregate in group.members)
    return PartDraft(summary, outputs, values, predict=predict_summary)


def _weigh(kinds: frozenset[str], value: Value | None, weight: str) -> tuple[frozenset[str], Value]:
    """Return a count or a sum as the sum of weights, or of weighted values."""
    if other := sorted(kinds - {"count", "sum"}):
        names = " and ".join(RATIO_NAMES[kind] for kind in other)
        raise InvalidReleaseError(f"{names} must be used on a stream without a weight, got {weight}")
    if kinds == {"count"} or value is None or value.lower is None or value.upper is None:
        present = "" if value is None else f"CASE WHEN ({value.sql}) IS NOT NULL THEN "
        return SUMMED, Value(f"{present}{weight}{' END' if present else ''}", -ONE, ONE, ONE, nullable=True)
    most = max(abs(value.lower), abs(value.upper))
    return SUMMED, Value(f"({value.sql}) * {weight}", -most, most, value.step, nullable=True)


def _find_shared_value(group: AggregateGroup) -> Value | None:
    """Return the expression whose run answers other counts too; None for events alone."""
    values = [each.value for each in group.aggregates if each.kind != "count"]
    values += [each.value for each in group.aggregates]
    return next((value for value in values if value is not None), None)


def predict_summary(request: PredictionRequest) -> ErrorPrediction:
    statistic, column, events = request.statistic, request.column, request.events
    if column in ("count", "sum"):
        noise = statistic.measure_noise_at(column, request.tick)
        return request.build(noise.stddev, noise.half_width(request.confidence), events if column == "count" else None)
    count = DEFAULT_EVENTS if events is None else events
    needed = compute_min_events(statistic, column, request.tick)
    if count < needed:
        return request.build(nan, nan, None, f"not known at {count:,.0f} events: takes {needed:,}")
    spread = statistic.predict_stddev(column, request.tick, count=count, mean=statistic.moments.middle_value)
    low, high = (f"{float(end):,.6g}" for end in (statistic.grid.lower, statistic.grid.upper))
    return request.build_normal(spread, None, f"at {count:,.0f} events, spread evenly over {low} to {high}")


def compute_min_events(statistic: Any, column: str, tick: int) -> int:
    """Return the least number of events for a predicted error of a mean or a spread."""
    noise = statistic.moments.predict_sums(statistic.counter.stddev(tick), 0.0, 0.0)
    spread = max(float(noise.count_stddev[0]), float(noise.total_stddev[0]))
    return max(MIN_EVENTS[column], ceil(MIN_NOISE_SPREADS[column] * spread))


FUNCTION = AggregateFunction(
    names=("count", *KINDS),
    read=read_moment,
    build=build_moments,
    find_run=find_moment_run,
    check_adaptive=check_moment_adaptive,
    window_kinds=frozenset({"count", "sum"}),
    count_kinds=frozenset({"count"}),
    additive_kinds=frozenset({"count", "sum"}),
    reads_weights=True,
    parts=frozenset({"this", "big_int"}),
)
