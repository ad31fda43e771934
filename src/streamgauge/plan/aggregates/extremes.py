"""MIN and MAX: one run answers both ends of an expression.

Errors are in ranks: the number of events that may lie beyond the answer.
"""

from math import nan

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
from streamgauge.sql.arguments import build_value, read_bounded
from streamgauge.sql.dialect import Node
from streamgauge.sql.grouping import build_name, format_expression
from streamgauge.sql.query import Aggregate
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics import Extremes


def read_extreme(call: Node, read: ExpressionReader) -> Aggregate:
    value = build_value(read_bounded(call.this, call.key.upper(), read))
    return Aggregate(build_name(call.key, format_expression(call.this)), call.key, value)


def build_extremes(group: AggregateGroup, settings: PartSettings, stream: Stream) -> PartDraft:
    axis = build_axis(group.value)
    extremes = Extremes(settings.loss, lower=axis.lower, upper=axis.upper, step=axis.step, **settings.to_settings())
    outputs = tuple(Output(place, aggregate.kind) for place, aggregate in group.members)
    return PartDraft(extremes, outputs, cell=build_cell(group.value, axis), predict=predict_extremes)


def reject_extreme_adaptive(group: AggregateGroup, release: Release, claim: AdaptiveClaim) -> None:
    names = " and ".join(kind.upper() for kind in ("min", "max") if kind in group.kinds)
    raise InvalidReleaseError(f"{names} cannot use {release.mechanism}: {LEAVE_OUT_HINT}")


def predict_extremes(request: PredictionRequest) -> ErrorPrediction:
    half_width = request.statistic.max_rank_error(request.tick)
    return request.build(nan, half_width, request.events, "events that may lie beyond it")


FUNCTION = AggregateFunction(
    names=("min", "max"),
    read=read_extreme,
    build=build_extremes,
    find_run=lambda aggregate, aggregates: ("extremes", aggregate.value and aggregate.value.sql),
    check_adaptive=reject_extreme_adaptive,
)
