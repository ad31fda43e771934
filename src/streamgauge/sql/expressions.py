"""Typed expressions: SQL text on which the engine cannot fail, with known bounds.

Promise
    For any record, `sql` gives NULL or a value of its kind: numbers are finite doubles in `span`,
    texts are at most 1024 characters. It cannot raise, loop, read or draw anything, under any setting of
    the engine. Divisors become NULL if they are 0 *before* they divide. Results that could overflow
    become NULL if they are not finite. Proof: by induction, each constructor of this package preserves it.

Guards mention their operand once, through a list of one element: `CASE WHEN isfinite(x) THEN x END` would
double the text at each level of nesting (measured: 16 nested NULLIFs take the engine 7 seconds to plan).

**Intervals** of doubles contain the possible values of an expression, before any record is read.

Promise
    If the operands lie in their intervals, the double that the engine computes lies in the result, with not
    an ulp to spare. Ends are computed by the engine's own IEEE operations at the corners. Each operation is
    monotone in each operand between corners, and so is rounding. So nothing needs to be rounded outwards.
    Exact fractions would promise less: 0.1 * 3 is 3/10 to them, and 0.30000000000000004 to the engine.

An infinite end means "any finite number": the expressions of this package convert nonfinite values into NULL.

**Grids** are the multiples of a step on which the values of an expression lie, or will be put.

The engine puts a column with a declared `grid` on it, after the expression was computed: its grid is
natural, not `is_exact`. Whole numbers made by FLOOR, a date part or a literal lie on theirs to the bit.
"""

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Label
from streamgauge.sql.calendar import Calendar

MAX_BOUND = 1e300  # ends beyond this count as infinite: sums of squares would overflow


@dataclass(frozen=True)
class Interval:
    """All doubles from `lower` to `upper`.

    >>> Interval(-1.0, 2.0) * Interval(3.0, 4.0)
    Interval(lower=-4.0, upper=8.0)
    >>> (Interval(35.0, 42.0) / Interval(0.0, 2.0)).is_bounded
    False
    """

    lower: float = -math.inf
    upper: float = math.inf

    @property
    def is_bounded(self) -> bool:
        return self.lower >= -MAX_BOUND and self.upper <= MAX_BOUND

    @property
    def is_finite(self) -> bool:
        """True if every result is a finite number, for any operand."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    @property
    def max_abs(self) -> float:
        return max(abs(self.lower), abs(self.upper))

    def contains(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __neg__(self) -> "Interval":
        return Interval(-self.upper, -self.lower)

    def __add__(self, other: "Interval") -> "Interval":
        return hull((self.lower + other.lower, self.upper + other.upper))

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval") -> "Interval":
        return hull(a * b for a in (self.lower, self.upper) for b in (other.lower, other.upper))

    def __truediv__(self, other: "Interval") -> "Interval":
        """Divide. Division by 0 is NULL; a divisor near 0 gives unbounded results."""
        if other.contains(0.0):
            return Interval()
        return hull(a / b for a in (self.lower, self.upper) for b in (other.lower, other.upper))

    def __mod__(self, other: "Interval") -> "Interval":
        """Return the remainder of division towards zero.

        It is smaller than the divisor, with the sign of the dividend.
        """
        most = min(self.max_abs, other.max_abs)
        return Interval(-most if self.lower < 0 else 0.0, most if self.upper > 0 else 0.0)

    def __abs__(self) -> "Interval":
        return Interval(0.0 if self.contains(0.0) else min(abs(self.lower), abs(self.upper)), self.max_abs)

    def floor(self) -> "Interval":
        return Interval(round_end(self.lower, math.floor), round_end(self.upper, math.floor))

    def ceil(self) -> "Interval":
        return Interval(round_end(self.lower, math.ceil), round_end(self.upper, math.ceil))

    def round(self) -> "Interval":
        return Interval(round_end(self.lower, round_half_away), round_end(self.upper, round_half_away))

    def __or__(self, other: "Interval") -> "Interval":
        return Interval(min(self.lower, other.lower), max(self.upper, other.upper))

    def __and__(self, other: "Interval") -> "Interval | None":
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        return Interval(lower, upper) if lower <= upper else None


UNBOUNDED_INTERVAL = Interval()


def hull(ends: Iterable[float]) -> Interval:
    """Return the interval of some corners.

    0 times infinity is 0, since a factor is only arbitrarily large.
    """
    known = [0.0 if math.isnan(end) else end for end in ends]
    return Interval(min(*known, sys.float_info.max), max(*known, -sys.float_info.max))


def point(value: float) -> Interval:
    return Interval(value, value)


def round_half_away(value: float) -> float:
    """Return SQL's ROUND: the nearest whole number, halves away from zero."""
    below = math.floor(abs(value))
    return math.copysign(below + (abs(value) - below >= 0.5), value)


def round_end(value: float, rounding: Callable[[float], float]) -> float:
    return float(rounding(value)) if math.isfinite(value) else value


def to_decimal_fraction(value: float) -> Fraction:
    """Return an end for people: 107.60000000000001 is 107.6 in 15 digits.

    The engine clamps, so ulps do not matter.
    """
    return Fraction(f"{value:.15g}")


MAX_GRID_POINTS = 2**31  # more points between the bounds are not a grid
MAX_GRID_STEPS = 2**52  # nor are points further from 0 than so many steps
MAX_EXACT_INT = 2**53  # whole numbers below this are doubles, and so are their sums


@dataclass(frozen=True)
class ExpressionGrid:
    """Multiples of `step`. A step of 0 is that of the constant 0, on every grid."""

    step: Fraction
    is_exact: bool = False

    def scale(self, factor: Fraction) -> "ExpressionGrid":
        step = self.step * abs(factor)
        return ExpressionGrid(step, self.is_exact and factor.denominator == 1)

    @property
    def is_integer(self) -> bool:
        return self.step.denominator == 1


INTEGER_GRID = ExpressionGrid(Fraction(1), is_exact=True)


def find_usable_step(grid: ExpressionGrid | None, lower: Fraction, upper: Fraction) -> Fraction | None:
    """Return the step of a grid that an engine can use in these bounds, or None."""
    if grid is None or grid.step == 0 or upper - lower > MAX_GRID_POINTS * grid.step:
        return None
    return grid.step if max(abs(lower), abs(upper)) <= MAX_GRID_STEPS * grid.step else None


def merge_grids(grids: Iterable[ExpressionGrid | None]) -> ExpressionGrid | None:
    """Return the coarsest grid that contains all of these.

    >>> merge_grids([ExpressionGrid(Fraction("0.1")), ExpressionGrid(Fraction("0.25"))]).step
    Fraction(1, 20)
    """
    step, sure = Fraction(0), True
    for grid in grids:
        if grid is None:
            return None
        step, sure = fraction_gcd(step, grid.step), sure and grid.is_exact
    return ExpressionGrid(step, sure)


def fraction_gcd(a: Fraction, b: Fraction) -> Fraction:
    """Return the greatest common divisor of two fractions.

    >>> fraction_gcd(Fraction(3, 2), Fraction(5, 4))
    Fraction(1, 4)
    """
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def build_constant_grid(value: float) -> ExpressionGrid:
    """Return the grid of one number. Whole numbers are exact to the bit."""
    exact = abs(Fraction(repr(value)))
    return ExpressionGrid(exact, is_exact=exact.denominator == 1 and exact <= MAX_EXACT_INT)


Type = Literal["number", "text", "boolean", "time", "code", "null"]
Names = frozenset[str]
NO_NAMES: Names = frozenset()
MAX_TEXT_CHARS = 1024
LAMBDA_ARGUMENT = '"$it"'  # not a possible name of a column


@dataclass(frozen=True)
class Expression:
    """One expression. If it is not NULL, the columns `needs` are not NULL either."""

    kind: Type
    sql: str
    nullable: bool = True
    needs: Names = NO_NAMES
    if_true: Names = NO_NAMES  # columns that cannot be NULL if this is true
    if_false: Names = NO_NAMES
    span: Interval = UNBOUNDED_INTERVAL
    is_unconditional: bool = True  # true if `span` and `nullable` apply to all events, not only after WHERE
    grid: ExpressionGrid | None = None
    labels: tuple[Label, ...] | None = None  # all its values, if they are known and few
    constant: Label | None = None
    calendar: Calendar | None = None  # units on which a time of the stream begins

    def to_finite(self) -> "Expression":
        """Return this, or NULL if it is not finite, even for an event that WHERE drops."""
        if self.span.is_finite and self.is_unconditional:
            return self
        nullable = self.nullable or not self.span.is_finite
        return replace(self, sql=null_unless(self.sql, f"isfinite({LAMBDA_ARGUMENT})"), nullable=nullable)


def null_unless(sql: str, condition: str) -> str:
    """Return the value of some SQL, or NULL unless a condition on it is true.

    The condition names the value `LAMBDA_ARGUMENT`.
    """
    return f"list_filter([{sql}], lambda {LAMBDA_ARGUMENT}: {condition})[1]"


def build_predicate(sql: str, operands: tuple[Expression, ...]) -> Expression:
    """Return a boolean that is NULL exactly if an operand is."""
    needs = unite_needs(operands)
    nullable = any(operand.nullable for operand in operands)
    return Expression("boolean", sql, nullable, needs, needs, needs, labels=(False, True))


def unite_needs(operands: tuple[Expression, ...]) -> Names:
    return NO_NAMES.union(*(operand.needs for operand in operands))


def intersect_needs(operands: tuple[Expression, ...]) -> Names:
    return operands[0].needs.intersection(*(operand.needs for operand in operands))


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a text literal. The engine's only escape is the doubled quote."""
    if "\0" in text:
        raise InvalidReleaseError("text must be without the character NUL")
    return "'" + text.replace("'", "''") + "'"


def format_double(value: float) -> str:
    """Return a literal of exactly this double: without an exponent it is a DECIMAL."""
    digits = repr(value)
    return f"({digits})" if "e" in digits else f"({digits}e0)"


def build_number(value: float) -> Expression:
    label = int(value) if value.is_integer() and abs(value) <= MAX_EXACT_INT else value
    return Expression(
        "number",
        format_double(value),
        nullable=False,
        span=point(value),
        grid=build_constant_grid(value),
        labels=(label,),
        constant=label,
    )


def build_text(value: str) -> Expression:
    if len(value) > MAX_TEXT_CHARS:
        raise InvalidReleaseError(f"text must be at most {MAX_TEXT_CHARS} characters, got {len(value)}")
    return Expression("text", quote_text(value), nullable=False, labels=(value,), constant=value)


def build_boolean(value: bool) -> Expression:
    sql = "TRUE" if value else "FALSE"
    return Expression("boolean", sql, nullable=False, labels=(value,), constant=value)


NULL = Expression("null", "NULL", labels=())


def expect(kind: Type, operand: Expression, where: str) -> Expression:
    if operand.kind not in (kind, "null"):
        raise InvalidReleaseError(f"{where} needs {TYPE_PHRASES[kind]}, got {TYPE_PHRASES[operand.kind]}")
    return replace(operand, kind=kind, sql=TYPED_NULL[kind]) if operand.kind == "null" else operand


TYPE_PHRASES: dict[Type, str] = {
    "number": "a number",
    "text": "a text",
    "boolean": "a condition",
    "time": "a time",
    "code": "a hashed column, which can only be counted",
    "null": "NULL",
}
TYPED_NULL: dict[Type, str] = {
    "number": "CAST(NULL AS DOUBLE)",
    "text": "CAST(NULL AS VARCHAR)",
    "boolean": "CAST(NULL AS BOOLEAN)",
    "time": "CAST(NULL AS TIMESTAMP)",
}
