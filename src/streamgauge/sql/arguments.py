"""Arguments of aggregate functions: bounded numbers, codes of a column, constants.

An aggregate function reads its call with these. Each result is bounded before anything runs, or refused by the
text of the query and by declarations alone.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql.conditions import cast
from streamgauge.sql.dialect import Node
from streamgauge.sql.expressions import Expression, expect, find_usable_step, to_decimal_fraction
from streamgauge.sql.grouping import build_codes, build_name, format_expression
from streamgauge.sql.query import Aggregate, Codes, Value
from streamgauge.sql.reader import ExpressionReader


def read_bounded(argument: Node, called: str, read: ExpressionReader) -> Expression:
    """Return a number with bounds. `called` is the function's name for errors."""
    expression = read(argument)
    if expression.kind == "boolean":
        expression = cast(expression, "number")
    expression = expect("number", expression, called)
    if not expression.span.is_bounded:
        raise InvalidReleaseError(_explain_missing_bounds(argument, called, read))
    return expression


def build_value(expression: Expression) -> Value:
    """Return a bounded number as the value of an event."""
    lower, upper = to_decimal_fraction(expression.span.lower), to_decimal_fraction(expression.span.upper)
    return Value(expression.sql, lower, upper, find_usable_step(expression.grid, lower, upper), expression.nullable)


ONE = Value("1e0", Fraction(1), Fraction(1), Fraction(1), nullable=False)


def filter_value(value: Value, condition: Expression) -> Value:
    """Return the number of an event for which a condition is true; NULL for others."""
    return replace(value, sql=f"CASE WHEN {condition.sql} THEN {value.sql} END", filter=condition.sql)


def filter_aggregate(aggregate: Aggregate, condition: Expression, text: str) -> Aggregate:
    """Return an aggregate of the events for which a condition is true. `text` is the condition in the query.

    An aggregate without a number or a code counts events.
    """
    name = build_name(aggregate.name, "where", text)
    if aggregate.codes is not None:
        codes = replace(aggregate.codes, sql=f"CASE WHEN {condition.sql} THEN {aggregate.codes.sql} END")
        return replace(aggregate, name=name, codes=codes)
    if aggregate.value is not None and aggregate.value.filter is not None:
        raise InvalidReleaseError("FILTER must follow an aggregate without a condition: write one condition with AND")
    return replace(aggregate, name=name, value=filter_value(aggregate.value or ONE, condition))


def read_codes(column: Node, read: ExpressionReader) -> Codes:
    """Return the values of a column as integers: declared indices, or hashes."""
    declared = read.scope.stream.columns.get(column.name)
    expression = read(column)
    universe = declared.hash_cells if declared and expression.kind == "code" else None
    return build_codes(column.name, expression, universe)


def read_constant(argument: Node | None, read: ExpressionReader) -> Any:
    """Return the number that is written in the query; None if it is not one."""
    value = read(argument).constant if argument is not None else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def to_fraction(constant: float) -> Fraction:
    """Return a constant as an exact fraction of its text."""
    return Fraction(repr(constant))


def _explain_missing_bounds(argument: Node, called: str, read: ExpressionReader) -> str:
    columns = [(node.name, read(node)) for node in argument.find_all(exp.Column)]
    unbounded = {name for name, column in columns if column.kind == "number" and not column.span.is_bounded}
    if unbounded:
        names = " and ".join(sorted(unbounded))
        return f"{called} needs bounds: declare bounds = [lowest, highest] for column {names}"
    text = format_expression(argument)
    return f"{called} needs bounds: {text} has none, write LEAST(GREATEST({text}, lowest), highest)"
