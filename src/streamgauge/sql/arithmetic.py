"""Total arithmetic in doubles: NULL for errors, overflow and division by zero."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql import expressions as grids
from streamgauge.sql.expressions import (
    LAMBDA_ARGUMENT,
    Expression,
    ExpressionGrid,
    Interval,
    build_number,
    expect,
    format_double,
    intersect_needs,
    merge_grids,
    null_unless,
    unite_needs,
)

MAX_ROUND_DIGITS = 15


def _build_result(
    operands: tuple[Expression, ...], sql: str, span: Interval, grid: ExpressionGrid | None
) -> Expression:
    """Return a number that is NULL if an operand is, or if it would not be finite."""
    sure = grid and replace(grid, is_exact=grid.is_exact and span.max_abs <= grids.MAX_EXACT_INT)
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
