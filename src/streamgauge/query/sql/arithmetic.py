"""Arithmetic that is total: all in doubles, NULL where SQL would raise, overflow or divide by zero."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from streamgauge.query.query import Refused
from streamgauge.query.sql import grids
from streamgauge.query.sql.expressions import (
    IT,
    Expression,
    all_needs,
    double,
    expect,
    kept,
    number,
    shared_needs,
)
from streamgauge.query.sql.grids import Grid, joint
from streamgauge.query.sql.intervals import Interval

MOST_DIGITS = 15


def _of(operands: tuple[Expression, ...], sql: str, span: Interval, grid: Grid | None) -> Expression:
    """A number that is NULL where an operand is, or where it would not be finite."""
    sure = grid and replace(grid, sure=grid.sure and span.largest <= grids.SURE)
    nullable = any(operand.nullable for operand in operands)
    always = all(operand.always for operand in operands)
    return Expression(
        "number", sql, nullable, all_needs(operands), span=span, always=always, grid=sure or None
    ).finite()


def _numbers(sign: str, *operands: Expression) -> tuple[Expression, ...]:
    return tuple(expect("number", operand, sign) for operand in operands)


def add(left: Expression, right: Expression) -> Expression:
    a, b = _numbers("+", left, right)
    return _of((a, b), f"({a.sql} + {b.sql})", a.span + b.span, joint((a.grid, b.grid)))


def subtract(left: Expression, right: Expression) -> Expression:
    a, b = _numbers("-", left, right)
    return _of((a, b), f"({a.sql} - {b.sql})", a.span - b.span, joint((a.grid, b.grid)))


def multiply(left: Expression, right: Expression) -> Expression:
    a, b = _numbers("*", left, right)
    grid = _times(a, b) or _times(b, a)
    return _of((a, b), f"({a.sql} * {b.sql})", a.span * b.span, grid)


def _times(a: Expression, b: Expression) -> Grid | None:
    """The grid of a multiple: of products of two columns nothing is said, their grid is too fine to use."""
    factor = _factor(b)
    return a.grid.scaled(factor) if a.grid and factor is not None else None


def _factor(operand: Expression) -> Fraction | None:
    """The number that an operand always is, if it is one."""
    if operand.span.lower != operand.span.upper or operand.nullable:
        return None
    return Fraction(repr(operand.span.lower))


def divide(left: Expression, right: Expression) -> Expression:
    a, b = _numbers("/", left, right)
    divisor = nonzero(b)
    factor = _factor(b)
    grid = a.grid.scaled(1 / factor) if a.grid and factor else None
    return _of((a, divisor), f"({a.sql} / {divisor.sql})", a.span / b.span, grid)


def remainder(left: Expression, right: Expression) -> Expression:
    """The remainder of division towards zero, as in SQL. Whole numbers stay below their divisor."""
    a, b = _numbers("%", left, right)
    divisor = nonzero(b)
    span, grid = a.span % b.span, joint((a.grid, b.grid))
    if grid is None or not (grid.sure and grid.whole):
        return _of((a, divisor), f"({a.sql} % {divisor.sql})", span, None)
    most = max(b.span.largest - float(grid.step), 0.0)
    span = span & Interval(-most, most) or span
    return _of((a, divisor), f"({a.sql} % {divisor.sql})", span, grid)


def nonzero(divisor: Expression) -> Expression:
    """The divisor, or NULL where it is 0: some settings of the engine raise, and print what was divided."""
    possible = divisor.span.holds(0.0)
    if not possible and divisor.always:
        return divisor
    return replace(divisor, sql=kept(divisor.sql, f"{IT} <> 0e0"), nullable=divisor.nullable or possible)


def negate(operand: Expression) -> Expression:
    (a,) = _numbers("-", operand)
    if a.constant is not None:
        return number(-a.span.lower)
    return _of((a,), f"(-{a.sql})", -a.span, a.grid)


def absolute(operand: Expression) -> Expression:
    (a,) = _numbers("ABS", operand)
    return _of((a,), f"abs({a.sql})", abs(a.span), a.grid)


def floor(operand: Expression) -> Expression:
    (a,) = _numbers("FLOOR", operand)
    return _of((a,), f"floor({a.sql})", a.span.floor(), _coarser(a.grid, Fraction(1)))


def ceil(operand: Expression) -> Expression:
    (a,) = _numbers("CEIL", operand)
    return _of((a,), f"ceil({a.sql})", a.span.ceil(), _coarser(a.grid, Fraction(1)))


def rounded(operand: Expression, digits: int = 0) -> Expression:
    """ROUND, halves away from zero; the engine's own ROUND to digits is this product and quotient."""
    if abs(digits) > MOST_DIGITS:
        raise Refused(f"the digits of ROUND must be at most {MOST_DIGITS}, got {digits}")
    (a,) = _numbers("ROUND", operand)
    scale = Interval(10.0 ** abs(digits), 10.0 ** abs(digits))
    unit = Fraction(10) ** -digits
    if digits > 0:
        sql, span = f"(round(({a.sql} * {double(scale.lower)})) / {double(scale.lower)})", a.span * scale
        span = span.round() / scale
    elif digits < 0:
        sql, span = f"(round(({a.sql} / {double(scale.lower)})) * {double(scale.lower)})", a.span / scale
        span = span.round() * scale
    else:
        sql, span = f"round({a.sql})", a.span.round()
    return _of((a,), sql, span, _coarser(a.grid, unit))


def _coarser(grid: Grid | None, unit: Fraction) -> Grid:
    """Where rounding to a unit leaves numbers: on their own grid, if that is coarser."""
    if grid and grid.step and (grid.step / unit).denominator == 1:
        return replace(grid, sure=grid.sure or grid.step == unit == 1)
    return Grid(unit, sure=unit.denominator == 1)


def least(operands: tuple[Expression, ...]) -> Expression:
    return _extreme("LEAST", operands, _lowest)


def greatest(operands: tuple[Expression, ...]) -> Expression:
    return _extreme(
        "GREATEST", operands, lambda spans, always: -_lowest([-s for s in spans], [-s for s in always])
    )


def _lowest(spans: list[Interval], always: list[Interval]) -> Interval:
    """Where the least of some numbers lies: what is never NULL keeps it down."""
    upper = min(s.upper for s in always) if always else max(s.upper for s in spans)
    return Interval(min(s.lower for s in spans), upper)


def _extreme(
    name: str, operands: tuple[Expression, ...], where: Callable[[list[Interval], list[Interval]], Interval]
) -> Expression:
    """LEAST and GREATEST ignore NULLs, as the engine's do."""
    numbers = _numbers(name, *operands)
    span = where([n.span for n in numbers], [n.span for n in numbers if not n.nullable])
    return Expression(
        "number",
        f"{name.lower()}({', '.join(n.sql for n in numbers)})",
        all(n.nullable for n in numbers),
        shared_needs(numbers),
        span=span,
        always=all(n.always for n in numbers),
        grid=joint(n.grid for n in numbers),
    )
