"""MEDIAN and QUANTILE: one tree answers all quantiles of an expression.

Errors are in ranks: the maximum number of events between the answer and the truth.
"""

from fractions import Fraction

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
from streamgauge.sql.grouping import build_name, format_expression
from streamgauge.sql.query import Aggregate
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics import Quantile


def read_quantile(call: Node, read: ExpressionReader) -> Aggregate:
    value = build_value(read_bounded(call.this, call.key.upper(), read))
    argument = format_expression(call.this)
    if "quantile" not in call.arg_types:
        return Aggregate(build_name("median", argument), "quantile", value, arguments=(Fraction(1, 2),))
    q = read_constant(call.args.get("quantile"), read)
    if q is None or not 0 < q < 1:
        raise InvalidReleaseError("QUANTILE(expression, q) needs a number q between 0 and 1")
    return Aggregate(build_name("quantile", argument, str(q)), "quantile", value, arguments=(to_fraction(q),))


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
    names=("median", "quantile"),
    read=read_quantile,
    build=build_quantiles,
    find_run=lambda aggregate, aggregates: ("quantiles", aggregate.value and aggregate.value.sql),
    check_adaptive=reject_quantile_adaptive,
    parts=frozenset({"this", "quantile"}),
)
