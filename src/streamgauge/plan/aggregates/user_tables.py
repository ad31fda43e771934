"""DENSITY, HEAVY_FRACTION and CROPPED_MEAN: tables of users, pan-private.

They need a pan-private pipeline with users as the unit. Each query has its own table, but one table answers
COUNT(DISTINCT user) and DENSITY(user). Users who may share a hash are counted as such. The tables of a release share
its loss evenly. One part of each share hides who is in the table. Estimates spend the other, one a tick: so the last
tick must be known.
"""

from collections.abc import Hashable, Sequence
from fractions import Fraction

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import AUTO
from streamgauge.config.settings import Release, Stream
from streamgauge.config.stream import PAN_PRIVATE_CLAUSE
from streamgauge.plan.aggregates.function import (
    AdaptiveClaim,
    AggregateFunction,
    AggregateGroup,
    Output,
    PartDraft,
    PartSettings,
)
from streamgauge.plan.aggregates.prediction import ErrorPrediction, PredictionRequest
from streamgauge.plan.measure import Cell
from streamgauge.sql.arguments import read_codes, read_constant
from streamgauge.sql.dialect import Node
from streamgauge.sql.functions import to_function_name
from streamgauge.sql.grouping import build_name
from streamgauge.sql.query import Aggregate, Query
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics.user_table import SHARE_MEASURE, UserMeasure, UserTableStatistic

MEASURES: dict[str, UserMeasure] = {
    "density": "density",
    "heavy_fraction": "heavy_fraction",
    "cropped_mean": "cropped_mean",
}
FORMS = "COUNT(DISTINCT user), DENSITY(user), HEAVY_FRACTION(user, k) or CROPPED_MEAN(user, t)"


def read_user_aggregate(call: Node, read: ExpressionReader) -> Aggregate:
    kind, given = to_function_name(call), call.expressions
    wanted = 1 if kind == "density" else 2
    if len(given) != wanted or not isinstance(given[0], exp.Column):
        what = "the users' column" if wanted == 1 else "the users' column and a number of times"
        raise InvalidReleaseError(f"{kind.upper()} needs {what}")
    times = read_constant(given[1], read) if wanted == 2 else 1
    if times is None or times != int(times) or times < 1:
        raise InvalidReleaseError(f"{kind.upper()} needs a whole number of times, 1 or more")
    name = build_name(kind, given[0].name, *([str(int(times))] if wanted == 2 else []))
    return Aggregate(name, kind, codes=read_codes(given[0], read), arguments=(Fraction(int(times)),))


def find_density_run(aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> Hashable:
    """Return the key of a table that shows which users came."""
    return "density", aggregate.codes and aggregate.codes.sql


def find_user_run(aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> Hashable:
    if aggregate.kind == "density":
        return find_density_run(aggregate, aggregates)
    return aggregate.kind, aggregate.codes and aggregate.codes.sql, aggregate.arguments


def build_user_part(group: AggregateGroup, settings: PartSettings, stream: Stream) -> PartDraft:
    first = group.aggregates[0]
    return build_table(group, MEASURES[first.kind], int(first.arguments[0]), settings, stream)


def build_density_table(group: AggregateGroup, settings: PartSettings, stream: Stream) -> PartDraft:
    return build_table(group, "density", 1, settings, stream)


def build_table(
    group: AggregateGroup, kind: UserMeasure, visits: int, settings: PartSettings, stream: Stream
) -> PartDraft:
    codes, column = group.aggregates[0].codes, stream.columns.get(stream.user or "")
    if codes is None or settings.horizon is None:
        raise InvalidReleaseError("a table of users must have a column and a last tick, got neither")
    table = UserTableStatistic(
        settings.loss,
        kind=kind,
        universe=codes.universe,
        visits=visits,
        horizon=settings.horizon,
        intrusions=stream.reserved_intrusions,
        hashed=column is not None and column.hash_cells is not None,
    )
    outputs = tuple(Output(place, aggregate.function.user_column) for place, aggregate in group.members)
    return PartDraft(table, outputs, cell=Cell(codes.sql, codes.universe), predict=predict_users)


def predict_users(request: PredictionRequest) -> ErrorPrediction:
    table, events = request.statistic, request.events
    if request.distinct is not None:  # no more events count than this number of users needs
        enough = request.distinct * table.visits_to_count
        events = enough if events is None else min(events, enough)
    return request.build_normal(table.stddev(request.column, events), None, table.describe_users(events))


def check_user_release(release: Release, query: Query, stream: Stream) -> None:
    """Reject a query that tables of users cannot answer."""
    for aggregate in query.aggregates:
        if aggregate.codes is None or aggregate.function.user_column is None:
            raise InvalidReleaseError(
                f"aggregates must be {FORMS} where users are the unit {PAN_PRIVATE_CLAUSE}, got {aggregate.name}"
            )
        if aggregate.codes.column != stream.user:
            got = aggregate.codes.column
            raise InvalidReleaseError(f"{aggregate.kind.upper()} must be of the users' column {stream.user}, got {got}")
    if query.groups or query.key is not None:
        raise InvalidReleaseError(
            f"GROUP BY must be left out where users are the unit {PAN_PRIVATE_CLAUSE}: release each group by WHERE"
        )
    for name, value, only in (("window", release.window, "running"), ("mechanism", release.mechanism, AUTO)):
        if value != only:
            raise InvalidReleaseError(
                f'{name} must be "{only}" where users are the unit {PAN_PRIVATE_CLAUSE}, got "{value}"'
            )


def allow_adaptive(group: AggregateGroup, release: Release, claim: AdaptiveClaim) -> None:
    """Accept: the unit of privacy rejects a table of users here with its own message."""


FUNCTION = AggregateFunction(
    names=tuple(MEASURES),
    read=read_user_aggregate,
    build=build_user_part,
    find_run=find_user_run,
    check_adaptive=allow_adaptive,
    reads_events=False,
    user_column=SHARE_MEASURE,
)
