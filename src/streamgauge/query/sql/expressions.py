"""Typed expressions: SQL text that the engine cannot fail on, with all that is known before it runs.

Promise
    Whatever the record, `sql` gives NULL or a value of its kind: numbers are finite doubles within `span`,
    texts are at most 1024 characters. It cannot raise, loop, read or draw anything, under any setting of
    the engine: divisors are made NULL where they are 0 *before* they divide, results that could overflow are
    made NULL where they are not finite. Proof: by induction, each constructor of this room keeps it.

Guards mention their operand once, through a list of one element: `CASE WHEN isfinite(x) THEN x END` would
double the text at each level of nesting (measured: 16 nested NULLIFs take the engine 7 seconds to plan).
"""

from dataclasses import dataclass, replace
from typing import Literal

from streamgauge.query.query import Refused
from streamgauge.query.settings import Label
from streamgauge.query.sql import grids
from streamgauge.query.sql.grids import Grid
from streamgauge.query.sql.intervals import ANYWHERE, Interval, point

Type = Literal["number", "text", "boolean", "time", "code", "null"]
Names = frozenset[str]
NOTHING: Names = frozenset()
LONGEST_TEXT = 1024
IT = '"$it"'  # a name that no column can have


@dataclass(frozen=True)
class Expression:
    """One expression. `needs` are the columns that cannot be NULL where this is not."""

    kind: Type
    sql: str
    nullable: bool = True
    needs: Names = NOTHING
    if_true: Names = NOTHING  # columns that cannot be NULL where this is true
    if_false: Names = NOTHING
    span: Interval = ANYWHERE
    always: bool = True  # whether `span` and `nullable` hold for all events, or for those that WHERE keeps
    grid: Grid | None = None
    labels: tuple[Label, ...] | None = None  # all its values, where they are known and few
    constant: Label | None = None

    def finite(self) -> "Expression":
        """This, or NULL where it could be infinite or not a number, even for an event that WHERE drops."""
        if self.span.finite and self.always:
            return self
        nullable = self.nullable or not self.span.finite
        return replace(self, sql=kept(self.sql, f"isfinite({IT})"), nullable=nullable)


def kept(sql: str, condition: str) -> str:
    """The value of some SQL, or NULL where a condition on it, called `IT`, is not true."""
    return f"list_filter([{sql}], lambda {IT}: {condition})[1]"


def predicate(sql: str, operands: tuple[Expression, ...]) -> Expression:
    """A boolean that is NULL exactly where an operand is."""
    needs = all_needs(operands)
    nullable = any(operand.nullable for operand in operands)
    return Expression("boolean", sql, nullable, needs, needs, needs, labels=(False, True))


def all_needs(operands: tuple[Expression, ...]) -> Names:
    return NOTHING.union(*(operand.needs for operand in operands))


def shared_needs(operands: tuple[Expression, ...]) -> Names:
    return operands[0].needs.intersection(*(operand.needs for operand in operands))


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted(text: str) -> str:
    """A text literal; the engine knows no escape but the doubled quote."""
    if "\0" in text:
        raise Refused("text must be without the character NUL")
    return "'" + text.replace("'", "''") + "'"


def double(value: float) -> str:
    """A literal that the engine reads as this very double: without an exponent it would be a DECIMAL."""
    digits = repr(value)
    return f"({digits})" if "e" in digits else f"({digits}e0)"


def number(value: float) -> Expression:
    label = int(value) if value.is_integer() and abs(value) <= grids.SURE else value
    return Expression(
        "number",
        double(value),
        nullable=False,
        span=point(value),
        grid=grids.constant(value),
        labels=(label,),
        constant=label,
    )


def text(value: str) -> Expression:
    if len(value) > LONGEST_TEXT:
        raise Refused(f"text must be at most {LONGEST_TEXT} characters, got {len(value)}")
    return Expression("text", quoted(value), nullable=False, labels=(value,), constant=value)


def boolean(value: bool) -> Expression:
    sql = "TRUE" if value else "FALSE"
    return Expression("boolean", sql, nullable=False, labels=(value,), constant=value)


NULL = Expression("null", "NULL", labels=())


def expect(kind: Type, operand: Expression, where: str) -> Expression:
    if operand.kind not in (kind, "null"):
        raise Refused(f"{where} needs {ARTICLE[kind]}, got {ARTICLE[operand.kind]}")
    return replace(operand, kind=kind, sql=TYPED_NULL[kind]) if operand.kind == "null" else operand


ARTICLE: dict[Type, str] = {
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
