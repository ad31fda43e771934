"""Reader from the parsed tree to typed expressions: one rule for each node.

Arithmetic is total, in doubles: NULL for errors, overflow and division by zero.

The normalised spelling of a query identifies its release, and is shown. It is the parser's, and another version of the
parser may have another. So a pinned query is normalised again before it is compared: queries of equal meaning are
equal.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql import conditions, expressions
from streamgauge.sql.calendar import build_calendar
from streamgauge.sql.dialect import DATE_PARTS, Node, parse_select
from streamgauge.sql.expressions import (
    LAMBDA_ARGUMENT,
    NULL,
    Expression,
    ExpressionGrid,
    Interval,
    Type,
    build_boolean,
    build_number,
    build_text,
    expect,
    format_double,
    intersect_needs,
    merge_grids,
    null_unless,
    unite_needs,
)
from streamgauge.sql.functions import find_function
from streamgauge.sql.refusals import CAST_HINT, explain_node
from streamgauge.sql.scope import Scope

MAX_ROUND_DIGITS = 15


def _build_result(
    operands: tuple[Expression, ...], sql: str, span: Interval, grid: ExpressionGrid | None
) -> Expression:
    """Return a number that is NULL if an operand is, or if it would not be finite."""
    sure = grid and replace(grid, is_exact=grid.is_exact and span.max_abs <= expressions.MAX_EXACT_INT)
    nullable = any(operand.nullable for operand in operands)
    always = all(operand.is_unconditional for operand in operands)
    return Expression(
        "number", sql, nullable, unite_needs(operands), span=span, is_unconditional=always, grid=sure or None
    ).to_finite()


def _expect_numbers(sign: str, *operands: Expression) -> tuple[Expression, ...]:
    return tuple(expect("number", operand, sign) for operand in operands)


def add(left: Expression, right: Expression) -> Expression:
    a, b = _expect_numbers("+", left, right)
    return _build_result((a, b), f"({a.sql} + {b.sql})", a.span + b.span, merge_grids((a.grid, b.grid)))


def subtract(left: Expression, right: Expression) -> Expression:
    a, b = _expect_numbers("-", left, right)
    return _build_result((a, b), f"({a.sql} - {b.sql})", a.span - b.span, merge_grids((a.grid, b.grid)))


def multiply(left: Expression, right: Expression) -> Expression:
    a, b = _expect_numbers("*", left, right)
    grid = _scale_grid(a, b) or _scale_grid(b, a)
    return _build_result((a, b), f"({a.sql} * {b.sql})", a.span * b.span, grid)


def _scale_grid(a: Expression, b: Expression) -> ExpressionGrid | None:
    """Return the grid of a multiple. Products of two columns have no usable grid."""
    factor = _find_factor(b)
    return a.grid.scale(factor) if a.grid and factor is not None else None


def _find_factor(operand: Expression) -> Fraction | None:
    """Return the constant value of an operand, or None."""
    if operand.span.lower != operand.span.upper or operand.nullable:
        return None
    return Fraction(repr(operand.span.lower))


def divide(left: Expression, right: Expression) -> Expression:
    a, b = _expect_numbers("/", left, right)
    divisor = null_if_zero(b)
    factor = _find_factor(b)
    grid = a.grid.scale(1 / factor) if a.grid and factor else None
    return _build_result((a, divisor), f"({a.sql} / {divisor.sql})", a.span / b.span, grid)


def remainder(left: Expression, right: Expression) -> Expression:
    """Return the remainder of division towards zero, as in SQL.

    Whole numbers stay below their divisor.
    """
    a, b = _expect_numbers("%", left, right)
    divisor = null_if_zero(b)
    span, grid = a.span % b.span, merge_grids((a.grid, b.grid))
    if grid is None or not (grid.is_exact and grid.is_integer):
        return _build_result((a, divisor), f"({a.sql} % {divisor.sql})", span, None)
    most = max(b.span.max_abs - float(grid.step), 0.0)
    span = span & Interval(-most, most) or span
    return _build_result((a, divisor), f"({a.sql} % {divisor.sql})", span, grid)


def null_if_zero(divisor: Expression) -> Expression:
    """Return the divisor, or NULL if it is 0.

    Some settings of the engine raise at 0, and print the dividend.
    """
    possible = divisor.span.contains(0.0)
    if not possible and divisor.is_unconditional:
        return divisor
    return replace(
        divisor, sql=null_unless(divisor.sql, f"{LAMBDA_ARGUMENT} <> 0e0"), nullable=divisor.nullable or possible
    )


def negate(operand: Expression) -> Expression:
    (a,) = _expect_numbers("-", operand)
    if a.constant is not None:
        return build_number(-a.span.lower)
    return _build_result((a,), f"(-{a.sql})", -a.span, a.grid)


def absolute(operand: Expression) -> Expression:
    (a,) = _expect_numbers("ABS", operand)
    return _build_result((a,), f"abs({a.sql})", abs(a.span), a.grid)


def floor(operand: Expression) -> Expression:
    (a,) = _expect_numbers("FLOOR", operand)
    return _build_result((a,), f"floor({a.sql})", a.span.floor(), _round_grid(a.grid, Fraction(1)))


def ceil(operand: Expression) -> Expression:
    (a,) = _expect_numbers("CEIL", operand)
    return _build_result((a,), f"ceil({a.sql})", a.span.ceil(), _round_grid(a.grid, Fraction(1)))


def round_digits(operand: Expression, digits: int = 0) -> Expression:
    """Return ROUND, halves away from zero.

    The engine's own ROUND to digits is this product and quotient.
    """
    if abs(digits) > MAX_ROUND_DIGITS:
        raise InvalidReleaseError(f"the digits of ROUND must be at most {MAX_ROUND_DIGITS}, got {digits}")
    (a,) = _expect_numbers("ROUND", operand)
    scale = Interval(10.0 ** abs(digits), 10.0 ** abs(digits))
    unit = Fraction(10) ** -digits
    if digits > 0:
        sql, span = (
            f"(round(({a.sql} * {format_double(scale.lower)})) / {format_double(scale.lower)})",
            a.span * scale,
        )
        span = span.round() / scale
    elif digits < 0:
        sql, span = (
            f"(round(({a.sql} / {format_double(scale.lower)})) * {format_double(scale.lower)})",
            a.span / scale,
        )
        span = span.round() * scale
    else:
        sql, span = f"round({a.sql})", a.span.round()
    return _build_result((a,), sql, span, _round_grid(a.grid, unit))


def _round_grid(grid: ExpressionGrid | None, unit: Fraction) -> ExpressionGrid:
    """Return the grid of rounded numbers: their own, if that is coarser."""
    if grid and grid.step and (grid.step / unit).denominator == 1:
        return replace(grid, is_exact=grid.is_exact or grid.step == unit == 1)
    return ExpressionGrid(unit, is_exact=unit.denominator == 1)


def least(operands: tuple[Expression, ...]) -> Expression:
    return _build_extreme("LEAST", operands, _find_least_interval)


def greatest(operands: tuple[Expression, ...]) -> Expression:
    return _build_extreme(
        "GREATEST", operands, lambda spans, always: -_find_least_interval([-s for s in spans], [-s for s in always])
    )


def _find_least_interval(spans: list[Interval], always: list[Interval]) -> Interval:
    """Return the interval of the least of some numbers.

    It is at most the upper end of every operand that is never NULL.
    """
    upper = min(s.upper for s in always) if always else max(s.upper for s in spans)
    return Interval(min(s.lower for s in spans), upper)


def _build_extreme(
    name: str, operands: tuple[Expression, ...], where: Callable[[list[Interval], list[Interval]], Interval]
) -> Expression:
    """Return LEAST or GREATEST, which ignore NULLs, as the engine's do."""
    numbers = _expect_numbers(name, *operands)
    span = where([n.span for n in numbers], [n.span for n in numbers if not n.nullable])
    return Expression(
        "number",
        f"{name.lower()}({', '.join(n.sql for n in numbers)})",
        all(n.nullable for n in numbers),
        intersect_needs(numbers),
        span=span,
        is_unconditional=all(n.is_unconditional for n in numbers),
        grid=merge_grids(n.grid for n in numbers),
    )


CASTS: dict[str, Type] = {"DOUBLE": "number", "TEXT": "text", "VARCHAR": "text", "BOOLEAN": "boolean"}
NUMBER_PATTERN = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TIME_TYPES = {"TIMESTAMP", "TIMESTAMPNTZ", "DATE"}


@dataclass(frozen=True)
class ExpressionReader:
    """Reader of the expressions of one query."""

    scope: Scope

    def __call__(self, node: Node) -> Expression:
        if find_function(node, self.scope.functions) is not None:
            raise InvalidReleaseError(NESTED_AGGREGATE_MESSAGE)
        rule = RULES.get(type(node))
        if rule is None:
            raise InvalidReleaseError(explain_node(node))
        return rule(node, self)


NESTED_AGGREGATE_MESSAGE = "an aggregate must stand alone in SELECT: release both and combine the releases"
NodeRule = Callable[[Node, ExpressionReader], Expression]


def _build_unary_rule(build: Callable[[Expression], Expression]) -> NodeRule:
    return lambda node, of: build(of(node.this))


def _build_binary_rule(build: Callable[[Expression, Expression], Expression]) -> NodeRule:
    return lambda node, of: build(of(node.this), of(node.expression))


def _build_comparison_rule(sign: str) -> NodeRule:
    return _build_binary_rule(lambda a, b: conditions.compare(sign, a, b))


def _build_variadic_rule(build: Callable[[tuple[Expression, ...]], Expression]) -> NodeRule:
    return lambda node, of: build((of(node.this), *map(of, node.expressions)))


def _build_date_part_rule(part: str) -> NodeRule:
    return lambda node, of: conditions.extract_part(part, of(node.this), of.scope.stream)


def _read_literal(node: Node, read: ExpressionReader) -> Expression:
    if node.is_string:
        return build_text(node.this)
    if not NUMBER_PATTERN.fullmatch(node.this):
        raise InvalidReleaseError(f"a number must be like 12, 0.5 or 1e3 and stand apart, got {node.this[:20]}")
    value = float(node.this)
    if not math.isfinite(value):
        raise InvalidReleaseError(f"a number must be finite, got {node.this[:20]}")
    return build_number(value)


def _read_case(node: Node, read: ExpressionReader) -> Expression:
    default = node.args.get("default")
    branches = [(read(branch.this), read(branch.args["true"])) for branch in node.args["ifs"]]
    otherwise = read(default) if default else None
    return (
        conditions.simple_case(read(node.this), branches, otherwise)
        if node.this
        else conditions.case(branches, otherwise)
    )


def _read_if(node: Node, read: ExpressionReader) -> Expression:
    default = node.args.get("false")
    return conditions.case([(read(node.this), read(node.args["true"]))], read(default) if default else None)


def _read_is(node: Node, read: ExpressionReader) -> Expression:
    if isinstance(node.expression, exp.Null):
        return conditions.is_null(read(node.this))
    if isinstance(node.expression, exp.Boolean):
        return conditions.is_truth(read(node.this), node.expression.this)
    raise InvalidReleaseError("IS needs NULL, TRUE or FALSE")


def _read_like(node: Node, read: ExpressionReader) -> Expression:
    any_case = isinstance(node, exp.ILike)
    found = conditions.build_like(read(node.this), read(node.expression), any_case=any_case)
    return conditions.build_not(found) if node.args.get("negate") else found


def _read_round(node: Node, read: ExpressionReader) -> Expression:
    digits = read(node.args["decimals"]).constant if node.args.get("decimals") else 0
    if type(digits) is not int:
        raise InvalidReleaseError("the digits of ROUND must be a whole number")
    return round_digits(read(node.this), digits)


def _read_cast(node: Node, read: ExpressionReader) -> Expression:
    target = str(node.args["to"].this.value)
    operand = read(node.this)
    if target in TIME_TYPES and isinstance(operand.constant, str):
        return conditions.parse_time_literal(operand)
    if target == "DATE" and operand.kind == "time":
        return conditions.truncate_time("day", operand, read.scope.stream)
    if target in TIME_TYPES and operand.kind == "time":
        return operand
    if target not in CASTS:
        raise InvalidReleaseError(f"CAST to {node.args['to'].sql(dialect='duckdb')} is not in the dialect: {CAST_HINT}")
    return conditions.cast(operand, CASTS[target])


def _read_date_trunc(node: Node, read: ExpressionReader) -> Expression:
    """Read date_trunc('day', ts)."""
    stream, unit = read.scope.stream, build_calendar(node.args["unit"].name, read.scope.stream).unit
    return conditions.truncate_time(unit, read(node.this), stream)


def _read_date(node: Node, read: ExpressionReader) -> Expression:
    return conditions.truncate_time("day", read(node.this), read.scope.stream)


def _read_extract(node: Node, read: ExpressionReader) -> Expression:
    """Read EXTRACT(part FROM ts); the date is the begin of the day."""
    if node.name.lower() == "date":
        return conditions.truncate_time("day", read(node.expression), read.scope.stream)
    return conditions.extract_part(node.name, read(node.expression), read.scope.stream)


def _read_function(node: Node, read: ExpressionReader) -> Expression:
    """Read dow(ts), weekday(ts) and date_part('hour', ts)."""
    called = str(node.this).lower()
    wanted, what = (2, "a date part and a time") if called == "date_part" else (1, "one time")
    operands = [read(operand) for operand in node.expressions]
    name = operands[0].constant if called == "date_part" and operands else called
    if len(operands) != wanted or not isinstance(name, str):
        raise InvalidReleaseError(f"{called} needs {what}")
    return conditions.extract_part(name, operands[-1], read.scope.stream)


RULES: dict[type[Node], NodeRule] = {
    exp.Column: lambda node, of: of.scope.resolve_column(node),  # type: ignore[arg-type]
    exp.Literal: _read_literal,
    exp.Boolean: lambda node, of: build_boolean(node.this),
    exp.Null: lambda node, of: NULL,
    exp.Paren: lambda node, of: of(node.this),
    exp.Neg: _build_unary_rule(negate),
    exp.Abs: _build_unary_rule(absolute),
    exp.Floor: _build_unary_rule(floor),
    exp.Ceil: _build_unary_rule(ceil),
    exp.Round: _read_round,
    exp.Add: _build_binary_rule(add),
    exp.Sub: _build_binary_rule(subtract),
    exp.Mul: _build_binary_rule(multiply),
    exp.Div: _build_binary_rule(divide),
    exp.Mod: _build_binary_rule(remainder),
    exp.Least: _build_variadic_rule(least),
    exp.Greatest: _build_variadic_rule(greatest),
    exp.Not: _build_unary_rule(conditions.build_not),
    exp.And: _build_binary_rule(conditions.build_and),
    exp.Or: _build_binary_rule(conditions.build_or),
    exp.EQ: _build_comparison_rule("="),
    exp.NEQ: _build_comparison_rule("<>"),
    exp.LT: _build_comparison_rule("<"),
    exp.LTE: _build_comparison_rule("<="),
    exp.GT: _build_comparison_rule(">"),
    exp.GTE: _build_comparison_rule(">="),
    exp.Between: lambda node, of: conditions.build_between(of(node.this), of(node.args["low"]), of(node.args["high"])),
    exp.In: lambda node, of: conditions.build_in(of(node.this), list(map(of, node.expressions))),
    exp.Like: _read_like,
    exp.ILike: _read_like,
    exp.Is: _read_is,
    exp.Case: _read_case,
    exp.If: _read_if,
    exp.Coalesce: _build_variadic_rule(conditions.coalesce),
    exp.Nullif: _build_binary_rule(conditions.nullif),
    exp.Lower: _build_unary_rule(lambda a: conditions.change_case("LOWER", a)),
    exp.Upper: _build_unary_rule(lambda a: conditions.change_case("UPPER", a)),
    exp.Cast: _read_cast,
    exp.TryCast: _read_cast,
    exp.Extract: _read_extract,
    exp.TimestampTrunc: _read_date_trunc,
    exp.DateTrunc: _read_date_trunc,
    exp.Date: _read_date,
    exp.Anonymous: _read_function,
    **{node: _build_date_part_rule(part) for node, part in DATE_PARTS.items()},
}


def format_query(select: exp.Select) -> str:
    return select.sql(dialect="duckdb", identify=True, comments=False)


def normalize_query(sql: str) -> str:
    """Return a query in the spelling of the current parser, or unchanged if it fails."""
    try:
        return format_query(parse_select(sql))
    except Exception:
        return sql
