"""Expressions that choose between others: CASE, COALESCE, NULLIF; and casts between kinds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from streamgauge.query.query import Refused
from streamgauge.query.settings import Label
from streamgauge.query.sql.expressions import (
    IT,
    NULL,
    TYPED_NULL,
    Expression,
    Type,
    expect,
    kept,
    predicate,
    shared_needs,
)
from streamgauge.query.sql.grids import WHOLE, joint
from streamgauge.query.sql.intervals import Interval
from streamgauge.query.sql.predicates import aligned, compare

LONGEST_OPERAND = 256


def case(branches: Sequence[tuple[Expression, Expression]], default: Expression | None) -> Expression:
    """The value of the first branch whose condition is true, else the default or NULL."""
    values = aligned("CASE", [value for _, value in branches] + [default or NULL])
    tests = [expect("boolean", test, "WHEN") for test, _ in branches]
    whens = " ".join(f"WHEN {test.sql} THEN {value.sql}" for test, value in zip(tests, values, strict=False))
    return chosen(values, f"CASE {whens} ELSE {values[-1].sql} END", any(v.nullable for v in values))


def matched(
    operand: Expression, branches: Sequence[tuple[Expression, Expression]], default: Expression | None
) -> Expression:
    """CASE operand WHEN value: the operand is written out for each value, and must be short."""
    if len(operand.sql) > LONGEST_OPERAND:
        raise Refused("CASE operand WHEN ... needs a short operand: write CASE WHEN condition instead")
    return case([(compare("=", operand, value), result) for value, result in branches], default)


def chosen(values: Sequence[Expression], sql: str, nullable: bool) -> Expression:
    """One of some values of one kind: bounds, grids and labels of all of them."""
    there = [value for value in values if value.sql != TYPED_NULL[value.kind]]
    if not there:
        raise Refused("CASE and COALESCE need a value that is not NULL")
    return Expression(
        values[0].kind,
        sql,
        nullable,
        span=reduce(or_, (value.span for value in there)),
        always=all(value.always for value in there),
        grid=joint(value.grid for value in there),
        labels=joined(there),
    )


def joined(values: Sequence[Expression]) -> tuple[Label, ...] | None:
    """All labels of some values: numbers in their order, others as they come."""
    labels: dict[Label, None] = {}
    for value in values:
        if value.labels is None:
            return None
        labels |= dict.fromkeys(value.labels)
    return tuple(sorted(labels) if values[0].kind == "number" else labels)


def coalesce(operands: Sequence[Expression]) -> Expression:
    """The first that is not NULL."""
    values = aligned("COALESCE", operands)
    first = next((i for i, value in enumerate(values) if not value.nullable), len(values) - 1)
    whole = chosen(
        values[: first + 1], f"COALESCE({', '.join(v.sql for v in values)})", values[first].nullable
    )
    return replace(whole, needs=shared_needs(values))


def nullif(operand: Expression, value: Expression) -> Expression:
    """The operand, or NULL where it is a literal."""
    a, b = aligned("NULLIF", (operand, value))
    if b.constant is None:
        raise Refused("NULLIF needs a literal to compare with")
    labels = None if a.labels is None else tuple(label for label in a.labels if label != b.constant)
    sql = kept(a.sql, f"{IT} IS DISTINCT FROM {b.sql}")
    return replace(a, sql=sql, nullable=True, labels=labels, constant=None, if_true=a.needs, if_false=a.needs)


def letters(function: str, operand: Expression) -> Expression:
    """LOWER and UPPER. Labels are followed through where they are ASCII."""
    a = expect("text", operand, function)
    plain = a.labels is not None and all(str(label).isascii() for label in a.labels)
    changed = tuple(dict.fromkeys(getattr(str(label), function.lower())() for label in a.labels or ()))
    return replace(a, sql=f"{function.lower()}({a.sql})", labels=changed if plain else None, constant=None)


def cast(operand: Expression, kind: Type) -> Expression:
    """A value as another kind, or NULL where it has none."""
    if operand.kind == "null":
        return expect(kind, operand, "CAST")
    if operand.kind == kind and kind != "time":
        return operand
    if (operand.kind, kind) not in CASTS:
        raise Refused(f"a {operand.kind} cannot be cast to {kind}")
    return CASTS[operand.kind, kind](operand)


def _read_number(operand: Expression) -> Expression:
    sql = f"TRY_CAST({operand.sql} AS DOUBLE)"
    return Expression("number", sql, True, operand.needs).finite()


def _number_of_truth(operand: Expression) -> Expression:
    sql = f"CAST({operand.sql} AS DOUBLE)"
    return Expression("number", sql, operand.nullable, operand.needs, span=Interval(0.0, 1.0), grid=WHOLE)


def _read_truth(operand: Expression) -> Expression:
    whole = predicate(f"TRY_CAST({operand.sql} AS BOOLEAN)", (operand,))
    return replace(whole, nullable=True)


def _truth_of_number(operand: Expression) -> Expression:
    return predicate(f"({operand.sql} <> 0e0)", (operand,))


def _text(operand: Expression) -> Expression:
    labels = ("false", "true") if operand.kind == "boolean" else None
    sql = f"CAST({operand.sql} AS VARCHAR)"
    return Expression("text", sql, operand.nullable, operand.needs, labels=labels)


CASTS = {
    ("text", "number"): _read_number,
    ("boolean", "number"): _number_of_truth,
    ("text", "boolean"): _read_truth,
    ("number", "boolean"): _truth_of_number,
    ("number", "text"): _text,
    ("boolean", "text"): _text,
}
