"""Aggregates: what each one adds up for an event, within bounds that are known before anything runs."""

from fractions import Fraction

from sqlglot import exp

from streamgauge.query.query import Aggregate, AggregateKind, Codes, Refused, Value
from streamgauge.query.sql import domains, naming, nodes
from streamgauge.query.sql.choices import cast
from streamgauge.query.sql.expressions import Expression, expect
from streamgauge.query.sql.grids import useful
from streamgauge.query.sql.intervals import decimal
from streamgauge.query.sql.nodes import Node
from streamgauge.query.sql.reading import Reader

KINDS: dict[type[Node], tuple[AggregateKind, str]] = {  # and how its column is called
    exp.Sum: ("sum", "sum"),
    exp.Avg: ("mean", "avg"),
    exp.Variance: ("variance", "variance"),
    exp.Stddev: ("stddev", "stddev"),
    exp.StddevSamp: ("stddev", "stddev"),
    exp.Min: ("min", "min"),
    exp.Max: ("max", "max"),
    exp.Median: ("quantile", "median"),
    exp.Quantile: ("quantile", "quantile"),
}

OF_USERS: dict[str, AggregateKind] = {
    "density": "density",
    "heavy_fraction": "heavy_fraction",
    "cropped_mean": "cropped_mean",
}


def aggregate(node: Node, read: Reader) -> Aggregate:
    """One output column, under the name it has if it is given none."""
    if isinstance(node, exp.Count):
        return _count(node, read)
    if isinstance(node, exp.Anonymous):
        return _of_users(node, read)
    kind, called = KINDS[type(node)]
    argument = naming.words(node.this)
    whole = Aggregate(naming.described(called, argument), kind, bounded(node, read))
    if isinstance(node, exp.Median):
        return Aggregate(whole.name, kind, whole.value, q=Fraction(1, 2))
    if isinstance(node, exp.Quantile):
        told, q = _quantile(node, read)
        return Aggregate(naming.described(called, argument, told), kind, whole.value, q=q)
    return whole


def _quantile(node: exp.Quantile, read: Reader) -> tuple[str, Fraction]:
    told = read(node.args["quantile"]).constant if node.args.get("quantile") else None
    if not isinstance(told, int | float) or isinstance(told, bool) or not 0 < told < 1:
        raise Refused("QUANTILE(expression, q) needs a number q between 0 and 1")
    return str(told), Fraction(repr(told))


def _count(node: exp.Count, read: Reader) -> Aggregate:
    if isinstance(node.this, exp.Star):
        return Aggregate("count", "count")
    if node.this is None:
        raise Refused("COUNT needs * or an expression")
    if isinstance(node.this, exp.Distinct):
        return _distinct(node.this, read)
    return Aggregate(naming.described("count", naming.words(node.this)), "count", presence(read(node.this)))


def _distinct(node: exp.Distinct, read: Reader) -> Aggregate:
    if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Column):
        raise Refused("COUNT(DISTINCT ...) needs one column")
    column = node.expressions[0]
    return Aggregate(naming.described("count_distinct", column.name), "distinct", codes=_codes(column, read))


def _codes(column: Node, read: Reader) -> Codes:
    declared = read.scope.stream.columns.get(column.name)
    expression = read(column)
    universe = declared.hashed if declared and expression.kind == "code" else None
    return domains.distinct(column.name, expression, universe)


def _of_users(node: Node, read: Reader) -> Aggregate:
    """DENSITY(user), HEAVY_FRACTION(user, k) and CROPPED_MEAN(user, t)."""
    kind, given = OF_USERS[nodes.called(node)], node.expressions
    wanted = 1 if kind == "density" else 2
    if len(given) != wanted or not isinstance(given[0], exp.Column):
        what = "the users' column" if wanted == 1 else "the users' column and a number of times"
        raise Refused(f"{kind.upper()} needs {what}")
    times = read(given[1]).constant if wanted == 2 else 1
    if isinstance(times, bool) or not isinstance(times, int | float) or times != int(times) or times < 1:
        raise Refused(f"{kind.upper()} needs a whole number of times, 1 or more")
    told = [given[0].name, *([str(int(times))] if wanted == 2 else [])]
    name = naming.described(kind, *told)
    return Aggregate(name, kind, codes=_codes(given[0], read), times=int(times))


def presence(expression: Expression) -> Value:
    """What COUNT(expression) counts: the expression itself, if others may share it, else that it is there."""
    if expression.kind == "number" and expression.span.bounded:
        return _value(expression)
    sql = f"CASE WHEN {expression.sql} IS NOT NULL THEN 1e0 END"
    return Value(sql, Fraction(1), Fraction(1), Fraction(1), expression.nullable)


def bounded(node: Node, read: Reader) -> Value:
    """The number that an aggregate adds up."""
    expression = read(node.this)
    if expression.kind == "boolean":
        expression = cast(expression, "number")
    expression = expect("number", expression, node.key.upper())
    if not expression.span.bounded:
        raise Refused(_what_to_declare(node, read))
    return _value(expression)


def _value(expression: Expression) -> Value:
    lower, upper = decimal(expression.span.lower), decimal(expression.span.upper)
    step = useful(expression.grid, lower, upper)
    return Value(expression.sql, lower, upper, step, expression.nullable)


def _what_to_declare(node: Node, read: Reader) -> str:
    unbounded = [c.name for c in node.this.find_all(exp.Column) if not _bounded_column(read(c))]
    if unbounded:
        names = " and ".join(sorted(set(unbounded)))
        return f"{node.key.upper()} needs bounds: declare bounds = [lowest, highest] for column {names}"
    asked = naming.words(node.this)
    return (
        f"{node.key.upper()} needs bounds: {asked} has none, write LEAST(GREATEST({asked}, lowest), highest)"
    )


def _bounded_column(column: Expression) -> bool:
    return column.kind != "number" or column.span.bounded
