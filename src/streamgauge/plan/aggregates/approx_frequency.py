"""APPROX_FREQUENCY(x, 'item'): the number of events whose text x is an item, of a domain too large to declare.

All items of one expression are read off one sketch, so that further ones cost nothing. A third argument is the number
of columns of the sketch. Events that are taken back, in a stream with a weight, count -1.
"""

from collections.abc import Hashable, Sequence
from fractions import Fraction

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Stream
from streamgauge.noise.tail_bounds import normal_point
from streamgauge.plan.aggregates.function import (
    AggregateFunction,
    AggregateGroup,
    Output,
    PartDraft,
    PartSettings,
    weight_sql,
)
from streamgauge.plan.aggregates.prediction import ErrorPrediction, PredictionRequest
from streamgauge.plan.measure import ASSUMED_KEYS, Cell, GridValue
from streamgauge.sketches.count_sketch import find_order, median_factor
from streamgauge.sql.arguments import read_constant
from streamgauge.sql.dialect import Node
from streamgauge.sql.expressions import expect
from streamgauge.sql.grouping import build_name, format_expression
from streamgauge.sql.query import Aggregate, Codes
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics import ApproxFrequency
from streamgauge.statistics.keys.approx_frequency import DEFAULT_COLUMNS, NAME_BYTES, NAME_LIMIT

NAME = "APPROX_FREQUENCY"
FORM = f"{NAME}(x, 'item') or {NAME}(x, 'item', columns)"
MAX_COLUMNS = 2**16


def read_frequency(call: Node, read: ExpressionReader) -> Aggregate:
    given = call.expressions
    if not 2 <= len(given) <= 3:
        raise InvalidReleaseError(f"{NAME} must be {FORM}, got {len(given)} arguments")
    text, item = expect("text", read(given[0]), NAME), read(given[1]).constant
    if not isinstance(item, str):
        raise InvalidReleaseError(f"{NAME} must be {FORM}, got no text as the item")
    columns = read_constant(given[2], read) if len(given) == 3 else DEFAULT_COLUMNS
    if type(columns) is not int or not 2 <= columns <= MAX_COLUMNS or columns & (columns - 1):
        raise InvalidReleaseError(f"columns of {NAME} must be a power of 2 between 2 and {MAX_COLUMNS}")
    names = build_name("approx_frequency", format_expression(given[0]), item)
    codes = Codes(name_sql(text.sql), NAME_LIMIT, getattr(given[0], "name", ""))
    return Aggregate(names, "approx_frequency", codes=codes, arguments=(Fraction(columns),), item=item)


def name_sql(text: str) -> str:
    """Return SQL of the name of a text (`statistics.keys.approx_frequency.name_text`); NULL for NULL."""
    digits = f"CAST('0x' || substr(sha256({text}), 1, {2 * NAME_BYTES}) AS UBIGINT)"
    return f"CAST({digits} % {NAME_LIMIT} AS BIGINT)"


def find_sketch_run(aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> Hashable:
    return aggregate.kind, aggregate.codes and aggregate.codes.sql, aggregate.arguments


def build_frequency(group: AggregateGroup, settings: PartSettings, stream: Stream) -> PartDraft:
    first = group.aggregates[0]
    if first.codes is None:
        raise InvalidReleaseError(f"{NAME} must be {FORM}, got no text")
    items = tuple(dict.fromkeys(each.item for each in group.aggregates))
    given = settings.to_settings()
    statistic = ApproxFrequency(settings.loss, items=items, hash_columns=int(first.arguments[0]), **given)
    outputs = tuple(Output(place, statistic.measures[items.index(each.item)]) for place, each in group.members)
    weight = weight_sql(stream)
    values = () if weight is None else (GridValue(weight, -1, 1, Fraction(1), 1),)
    cell = Cell(first.codes.sql, NAME_LIMIT, assumed=max(ASSUMED_KEYS, statistic.channels))
    return PartDraft(statistic, outputs, values, cell, predict=predict_frequency)


def predict_frequency(request: PredictionRequest) -> ErrorPrediction:
    """Predict the error of noise. That of shared cells depends on the data."""
    statistic = request.statistic
    noise, rows, columns = statistic.stddev(request.tick), statistic.rows, statistic.hash_columns
    note = (
        f"by noise; texts that share cells add up to {median_factor(rows):.2g} sqrt(sum of squared counts/{columns:,})"
    )
    if request.confidence > 1 - 2.0 ** (1 - rows):
        return request.build(median_factor(rows) * noise, float("inf"), None, note)
    rank = (rows - find_order(rows, request.confidence) - 3 / 8) / (rows + 1 / 4)  # of the upper bound, by Blom
    return request.build(median_factor(rows) * noise, normal_point(1 - rank) * noise, None, note)


FUNCTION = AggregateFunction(
    names=("approx_frequency",),
    read=read_frequency,
    build=build_frequency,
    find_run=find_sketch_run,
    reads_weights=True,
)
