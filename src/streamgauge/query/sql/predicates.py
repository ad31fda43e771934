"""Conditions: three-valued as in SQL, with what they say about NULLs.

An event is kept where its WHERE is true. So a column that a true condition needs cannot be NULL in an
aggregate, and nobody has to be told how many values were missing.
"""

from collections.abc import Sequence
from dataclasses import replace

from streamgauge.query.query import Refused
from streamgauge.query.sql.expressions import NOTHING, Expression, Type, expect, predicate, quoted
from streamgauge.query.sql.times import moment

ORDERED: tuple[Type, ...] = ("number", "text", "time")
LONGEST_PATTERN = 64  # the engine matches in (characters of the text) x (of the pattern): measured, 0.2 ms
MOST_WILDCARDS = 8
LONGEST_LIST = 1000


def compare(sign: str, left: Expression, right: Expression) -> Expression:
    a, b = aligned(sign, (left, right))
    if a.kind not in ORDERED and sign not in ("=", "<>"):
        raise Refused(f"{sign} needs numbers, texts or times: conditions have no order")
    return predicate(f"({a.sql} {sign} {b.sql})", (a, b))


def between(operand: Expression, low: Expression, high: Expression) -> Expression:
    """`x >= low AND x <= high`, which is false already where one side is."""
    a, b, c = aligned("BETWEEN", (operand, low, high))
    if a.kind not in ORDERED:
        raise Refused("BETWEEN needs numbers, texts or times")
    whole = predicate(f"({a.sql} BETWEEN {b.sql} AND {c.sql})", (a, b, c))
    return replace(whole, needs=a.needs, if_false=a.needs)


def member(operand: Expression, members: Sequence[Expression]) -> Expression:
    if not members or any(m.constant is None for m in members):
        raise Refused("IN needs a list of literals without NULL")
    if len(members) > LONGEST_LIST:
        raise Refused(f"the list of IN must be at most {LONGEST_LIST} long, got {len(members)}")
    a, *rest = aligned("IN", (operand, *members))
    return predicate(f"({a.sql} IN ({', '.join(m.sql for m in rest)}))", (a,))


def like(operand: Expression, pattern: Expression) -> Expression:
    """LIKE without an escape character: % is any text, _ any character."""
    a = expect("text", operand, "LIKE")
    if not isinstance(pattern.constant, str):
        raise Refused("LIKE needs a pattern that is a text literal")
    if len(pattern.constant) > LONGEST_PATTERN:
        raise Refused(
            f"a LIKE pattern must be at most {LONGEST_PATTERN} characters, got {len(pattern.constant)}"
        )
    if pattern.constant.count("%") > MOST_WILDCARDS:
        raise Refused(f"a LIKE pattern must have at most {MOST_WILDCARDS} wildcards %")
    return predicate(f"({a.sql} LIKE {quoted(pattern.constant)})", (a,))


def is_null(operand: Expression) -> Expression:
    """Where this is false, the operand is there."""
    whole = predicate(f"({operand.sql} IS NULL)", ())
    return replace(whole, if_false=operand.needs)


def is_truth(operand: Expression, truth: bool) -> Expression:
    """IS TRUE, IS FALSE: never NULL."""
    a = expect("boolean", operand, "IS")
    whole = predicate(f"({a.sql} IS {'TRUE' if truth else 'FALSE'})", ())
    return replace(whole, if_true=a.if_true if truth else a.if_false)


def negation(operand: Expression) -> Expression:
    a = expect("boolean", operand, "NOT")
    whole = predicate(f"(NOT {a.sql})", (a,))
    return replace(whole, if_true=a.if_false, if_false=a.if_true)


def both(left: Expression, right: Expression) -> Expression:
    a, b = expect("boolean", left, "AND"), expect("boolean", right, "AND")
    whole = predicate(f"({a.sql} AND {b.sql})", (a, b))
    return replace(whole, needs=NOTHING, if_true=a.if_true | b.if_true, if_false=a.if_false & b.if_false)


def either(left: Expression, right: Expression) -> Expression:
    a, b = expect("boolean", left, "OR"), expect("boolean", right, "OR")
    whole = predicate(f"({a.sql} OR {b.sql})", (a, b))
    return replace(whole, needs=NOTHING, if_true=a.if_true & b.if_true, if_false=a.if_false | b.if_false)


def aligned(where: str, operands: Sequence[Expression]) -> tuple[Expression, ...]:
    """Operands of one kind: a literal beside a time is read as one, NULL takes the kind of the others."""
    kinds = {operand.kind for operand in operands} - {"null"}
    if "time" in kinds:
        operands = [moment(operand) for operand in operands]
        kinds = {operand.kind for operand in operands} - {"null"}
    if not kinds or "code" in kinds:
        raise Refused(f"{where} needs a column that can be read: NULLs and hashed columns cannot")
    if len(kinds) > 1:
        raise Refused(f"{where} needs operands of one type, got {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    return tuple(expect(kind, operand, where) for operand in operands)
