"""COUNT_IF(condition): COUNT(*) FILTER (WHERE condition), in another spelling."""

from streamgauge.plan.aggregates.function import AggregateFunction
from streamgauge.plan.aggregates.moments import FUNCTION as MOMENTS
from streamgauge.sql.arguments import ONE, filter_value
from streamgauge.sql.dialect import Node
from streamgauge.sql.expressions import expect
from streamgauge.sql.grouping import build_name, format_expression
from streamgauge.sql.query import Aggregate
from streamgauge.sql.reader import ExpressionReader


def read_count_if(call: Node, read: ExpressionReader) -> Aggregate:
    condition = expect("boolean", read(call.this), "COUNT_IF")
    name = build_name("count", "where", format_expression(call.this))
    return Aggregate(name, "count", filter_value(ONE, condition), function=MOMENTS)


FUNCTION = AggregateFunction(names=("count_if",), read=read_count_if, build=MOMENTS.build)
