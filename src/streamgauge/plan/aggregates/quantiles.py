"""MEDIAN, QUANTILE and PERCENTILE: one tree answers all quantiles of an expression.

    QUANTILE(x, 0.9)    PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)    PERCENTILE_DISC    APPROX_QUANTILE(x, 0.9)

All spellings of a quantile mean the same: noise hides how a quantile between two events is interpolated.
Errors are in ranks: the maximum number of events between the answer and the truth.
"""

from fractions import Fraction

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Release, Stream
from streamgauge.plan.aggregates.function import (
    LEAVE_OUT_HINT,
    AdaptiveClaim,
    AggregateFunction,
    AggregateGroup,
    Output,
    PartDraft,
    PartSettings,
)
from streamgauge.plan.aggregates.grids import build_axis, build_cell
from streamgauge.plan.aggregates.prediction import ErrorPrediction, PredictionRequest
from streamgauge.sql.arguments import build_value, read_bounded, read_constant, to_fraction
from streamgauge.sql.dialect import Node
from streamgauge.sql.functions import to_function_name
from streamgauge.sql.grouping import build_name, format_expression
from streamgauge.sql.query import Aggregate
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics import Quantile

PERCENTILE_FORM = "{}(q) WITHIN GROUP (ORDER BY x)"


def read_quantile(call: Node, read: ExpressionReader) -> Aggregate:
    if isinstance(call, exp.WithinGroup):
        return _read_percentile(call, read)
    if isinstance(call, exp.Median):
        return _build_quantile(call.this, None, read, "MEDIAN")
    called, q = to_function_name(call).upper(), call.args.get("quantile") or call.args.get("expression")
    if isinstance(q, exp.Order):  # the canonical text of WITHIN GROUP
        return _read_ordered(q.this, q, read, called, argument=call.this)
    return _build_quantile(call.this, q, read, called)


def _read_percentile(call: exp.WithinGroup, read: ExpressionReader) -> Aggregate:
    """Read PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""
    called = to_function_name(call.this).upper()
    if call.this.args.get("expression") is not None:
        raise InvalidReleaseError(f"{called} needs the form {PERCENTILE_FORM.format(called)}")
    return _read_ordered(call.this.this, call.expression, read, called)


def _read_ordered(
    q: Node, order: exp.Order, read: ExpressionReader, called: str, argument: Node | None = None
) -> Aggregate:
    """Read a quantile of the one expression that is ordered. Under DESC, q counts from the largest."""
    ordered = order.expressions
    if len(ordered) != 1 or argument not in (None, ordered[0].this):
        raise InvalidReleaseError(f"{called} needs the form {PERCENTILE_FORM.format(called)}")
    return _build_quantile(ordered[0].this, q, read, called, is_falling=bool(ordered[0].args.get("desc")))


def _build_quantile(
    argument: Node, q_node: Node | None, read: ExpressionReader, called: str, *, is_falling: bool = False
) -> Aggregate:
    value, text = build_value(read_bounded(argument, called, read)), format_expression(argument)
    if called == "MEDIAN":
        return Aggregate(build_name("median", text), "quantile", value, arguments=(Fraction(1, 2),))
    q = read_constant(q_node, read)
    if q is None or not 0 < q < 1:
        form = PERCENTILE_FORM.format(called) if called.startswith("PERCENTILE") else f"{called}(expression, q)"
        raise InvalidReleaseError(f"{form} needs a number q between 0 and 1")
    part = 1 - to_fraction(q) if is_falling else to_fraction(q)
    return Aggregate(build_name("quantile", text, str(float(part))), "quantile", value, arguments=(part,))


def build_quantiles(group: AggregateGroup, settings: PartSettings, stream: Stream) -> PartDraft:
    axis, parts = build_axis(group.value), tuple(each.arguments[0] for each in group.aggregates)
    quantiles = Quantile(
        settings.loss, q=parts, lower=axis.lower, upper=axis.upper, step=axis.step, **settings.to_settings()
    )
    outputs = tuple(Output(place, str(number)) for number, (place, _) in enumerate(group.members))
    return PartDraft(quantiles, outputs, cell=build_cell(group.value, axis), predict=predict_ranks)


def reject_quantile_adaptive(group: AggregateGroup, release: Release, claim: AdaptiveClaim) -> None:
    raise InvalidReleaseError(f"MEDIAN or QUANTILE cannot use {release.mechanism}: {LEAVE_OUT_HINT}")


def predict_ranks(request: PredictionRequest) -> ErrorPrediction:
    spread = request.statistic.max_rank_stddev(request.tick)
    return request.build_normal(spread, request.events, "events at most between it and the true one, beside its cell's")


FUNCTION = AggregateFunction(
    names=("median", "quantile", "approx_quantile", "percentile_cont", "percentile_disc"),
    read=read_quantile,
    build=build_quantiles,
    find_run=lambda aggregate, aggregates: ("quantiles", aggregate.value and aggregate.value.sql),
    check_adaptive=reject_quantile_adaptive,
    parts=frozenset({"this", "quantile", "expression"}),
)
