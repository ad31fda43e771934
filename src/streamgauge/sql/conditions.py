"""Three-valued conditions, choices between expressions, casts, and times.

An event counts if its WHERE is true. So a column that a true condition needs cannot be NULL in an
aggregate, and the number of missing values need not be released.

Choices are CASE, COALESCE and NULLIF. A time is a local timestamp in the stream's time zone. It has parts, and
a literal compared with it is parsed as a time.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from zoneinfo import ZoneInfo

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Label, Stream
from streamgauge.sql.calendar import build_calendar
from streamgauge.sql.expressions import (
    INTEGER_GRID,
    LAMBDA_ARGUMENT,
    NO_NAMES,
    NULL,
    TYPED_NULL,
    Expression,
    Interval,
    Type,
    build_predicate,
    expect,
    intersect_needs,
    merge_grids,
    null_unless,
    quote_text,
)

DATE_PART_RANGES = {
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "day": (1, 31),
    "month": (1, 12),
    "quarter": (1, 4),
    "dow": (0, 6),
    "isodow": (1, 7),
    "week": (1, 53),
    "doy": (1, 366),
}
DATE_PART_ALIASES = {
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "dayofmonth": "day",
    "weekofyear": "week",
}


def extract_part(name: str, time: Expression, stream: Stream) -> Expression:
    """Return a part of a time, a whole number. Parts of infinite times are NULL."""
    name = DATE_PART_ALIASES.get(name.lower(), name.lower())
    operand = expect("time", time, f"the date part {name}")
    if name != "year" and name not in DATE_PART_RANGES:
        raise InvalidReleaseError(
            f"the date part {name} is not in the dialect: use year, {', '.join(DATE_PART_RANGES)}"
        )
    years = Interval() if stream.time not in operand.needs else _find_year_interval(stream)
    span = years if name == "year" else Interval(*map(float, DATE_PART_RANGES[name]))
    sql = f"CAST(date_part('{name}', {operand.sql}) AS DOUBLE)"
    return Expression("number", sql, operand.nullable, operand.needs, span=span, grid=INTEGER_GRID)


def truncate_time(unit: str, time: Expression, stream: Stream) -> Expression:
    """Return the begin of the unit that contains a time: a local time, as its clocks show it."""
    calendar = build_calendar(unit, stream)
    operand = expect("time", parse_time_literal(time), f"date_trunc('{calendar.unit}', ...)")
    sql = f"CAST(date_trunc('{calendar.unit}', {operand.sql}) AS TIMESTAMP)"
    known = calendar if stream.time in operand.needs else None
    return Expression("time", sql, operand.nullable, operand.needs, calendar=known)


def _find_year_interval(stream: Stream) -> Interval:
    """Return the years of a stream. Without an end, years are unbounded."""
    if stream.end is None:
        return Interval()
    zone = ZoneInfo(stream.timezone)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    moments = (epoch + timedelta(microseconds=moment) for moment in (stream.start, stream.end - 1))
    first, last = (moment.astimezone(zone).year for moment in moments)
    return Interval(float(first), float(last))


def parse_time_literal(operand: Expression) -> Expression:
    """Return a text literal as a time; any other operand unchanged."""
    if not isinstance(operand.constant, str):
        return operand
    try:
        moment = datetime.fromisoformat(operand.constant)
    except ValueError:
        raise InvalidReleaseError(f"a time must be like '2026-01-05 00:00:00', got {operand.constant!r}") from None
    if moment.tzinfo is not None:
        raise InvalidReleaseError("a time in SQL must be without an offset: it is in the time zone of the stream")
    sql = f"CAST({quote_text(moment.isoformat(sep=' '))} AS TIMESTAMP)"
    return replace(operand, kind="time", sql=sql, labels=None, constant=None)


ORDERED_TYPES: tuple[Type, ...] = ("number", "text", "time")
MAX_PATTERN_CHARS = 64  # matching takes (characters of the text) x (of the pattern): measured, 0.2 ms
MAX_WILDCARDS = 8
MAX_LIST_ITEMS = 1000


def compare(sign: str, left: Expression, right: Expression) -> Expression:
    a, b = unify_types(sign, (left, right))
    if a.kind not in ORDERED_TYPES and sign not in ("=", "<>"):
        raise InvalidReleaseError(f"{sign} needs numbers, texts or times: conditions have no order")
    return build_predicate(f"({a.sql} {sign} {b.sql})", (a, b))


def build_between(operand: Expression, low: Expression, high: Expression) -> Expression:
    """Return `x >= low AND x <= high`, which is false as soon as one side is."""
    a, b, c = unify_types("BETWEEN", (operand, low, high))
    if a.kind not in ORDERED_TYPES:
        raise InvalidReleaseError("BETWEEN needs numbers, texts or times")
    whole = build_predicate(f"({a.sql} BETWEEN {b.sql} AND {c.sql})", (a, b, c))
    return replace(whole, needs=a.needs, if_false=a.needs)


def build_in(operand: Expression, members: Sequence[Expression]) -> Expression:
    if not members or any(m.constant is None for m in members):
        raise InvalidReleaseError("IN needs a list of literals without NULL")
    if len(members) > MAX_LIST_ITEMS:
        raise InvalidReleaseError(f"the list of IN must be at most {MAX_LIST_ITEMS} long, got {len(members)}")
    a, *rest = unify_types("IN", (operand, *members))
    return build_predicate(f"({a.sql} IN ({', '.join(m.sql for m in rest)}))", (a,))


def build_like(operand: Expression, pattern: Expression, *, any_case: bool = False) -> Expression:
    """Return LIKE without an escape character: % is any text, _ any character. ILIKE compares lower cases."""
    called = "ILIKE" if any_case else "LIKE"
    a = expect("text", operand, called)
    if not isinstance(pattern.constant, str):
        raise InvalidReleaseError(f"{called} needs a pattern that is a text literal")
    if len(pattern.constant) > MAX_PATTERN_CHARS:
        raise InvalidReleaseError(
            f"a {called} pattern must be at most {MAX_PATTERN_CHARS} characters, got {len(pattern.constant)}"
        )
    if pattern.constant.count("%") > MAX_WILDCARDS:
        raise InvalidReleaseError(f"a {called} pattern must have at most {MAX_WILDCARDS} wildcards %")
    text, like = a.sql, quote_text(pattern.constant)
    if any_case:
        text, like = f"lower({text})", f"lower({like})"
    return build_predicate(f"({text} LIKE {like})", (a,))


def is_null(operand: Expression) -> Expression:
    """Return a condition that is false only if the operand is not NULL."""
    whole = build_predicate(f"({operand.sql} IS NULL)", ())
    return replace(whole, if_false=operand.needs)


def is_truth(operand: Expression, truth: bool) -> Expression:
    """Return IS TRUE or IS FALSE, which are never NULL."""
    a = expect("boolean", operand, "IS")
    whole = build_predicate(f"({a.sql} IS {'TRUE' if truth else 'FALSE'})", ())
    return replace(whole, if_true=a.if_true if truth else a.if_false)


def build_not(operand: Expression) -> Expression:
    a = expect("boolean", operand, "NOT")
    whole = build_predicate(f"(NOT {a.sql})", (a,))
    return replace(whole, if_true=a.if_false, if_false=a.if_true)


def build_and(left: Expression, right: Expression) -> Expression:
    a, b = expect("boolean", left, "AND"), expect("boolean", right, "AND")
    whole = build_predicate(f"({a.sql} AND {b.sql})", (a, b))
    return replace(whole, needs=NO_NAMES, if_true=a.if_true | b.if_true, if_false=a.if_false & b.if_false)


def build_or(left: Expression, right: Expression) -> Expression:
    a, b = expect("boolean", left, "OR"), expect("boolean", right, "OR")
    whole = build_predicate(f"({a.sql} OR {b.sql})", (a, b))
    return replace(whole, needs=NO_NAMES, if_true=a.if_true & b.if_true, if_false=a.if_false | b.if_false)


def unify_types(where: str, operands: Sequence[Expression]) -> tuple[Expression, ...]:
    """Return operands of one kind.

    A literal compared with a time becomes a time, and NULL gets the kind of the others.
    """
    kinds = {operand.kind for operand in operands} - {"null"}
    if "time" in kinds:
        operands = [parse_time_literal(operand) for operand in operands]
        kinds = {operand.kind for operand in operands} - {"null"}
    if not kinds or "code" in kinds:
        raise InvalidReleaseError(f"{where} needs a column that can be read: NULLs and hashed columns cannot")
    if len(kinds) > 1:
        raise InvalidReleaseError(f"{where} needs operands of one type, got {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    return tuple(expect(kind, operand, where) for operand in operands)


MAX_OPERAND_CHARS = 256


def case(branches: Sequence[tuple[Expression, Expression]], default: Expression | None) -> Expression:
    """Return the value of the first branch whose condition is true, else the default."""
    values = unify_types("CASE", [value for _, value in branches] + [default or NULL])
    tests = [expect("boolean", test, "WHEN") for test, _ in branches]
    whens = " ".join(f"WHEN {test.sql} THEN {value.sql}" for test, value in zip(tests, values, strict=False))
    return build_choice(values, f"CASE {whens} ELSE {values[-1].sql} END", any(v.nullable for v in values))


def simple_case(
    operand: Expression, branches: Sequence[tuple[Expression, Expression]], default: Expression | None
) -> Expression:
    """Return CASE operand WHEN value.

    The operand is repeated for each value, and must be short.
    """
    if len(operand.sql) > MAX_OPERAND_CHARS:
        raise InvalidReleaseError("CASE operand WHEN ... needs a short operand: write CASE WHEN condition instead")
    return case([(compare("=", operand, value), result) for value, result in branches], default)


def build_choice(values: Sequence[Expression], sql: str, nullable: bool) -> Expression:
    """Return one of some values of one kind, with the bounds, grids and labels of all."""
    there = [value for value in values if value.sql != TYPED_NULL[value.kind]]
    if not there:
        raise InvalidReleaseError("CASE and COALESCE need a value that is not NULL")
    return Expression(
        values[0].kind,
        sql,
        nullable,
        span=reduce(or_, (value.span for value in there)),
        is_unconditional=all(value.is_unconditional for value in there),
        grid=merge_grids(value.grid for value in there),
        labels=merge_labels(there),
    )


def merge_labels(values: Sequence[Expression]) -> tuple[Label, ...] | None:
    """Return all labels of some values: numbers in their order, others as they come."""
    labels: dict[Label, None] = {}
    for value in values:
        if value.labels is None:
            return None
        labels |= dict.fromkeys(value.labels)
    return tuple(sorted(labels) if values[0].kind == "number" else labels)


def coalesce(operands: Sequence[Expression]) -> Expression:
    """Return the first operand that is not NULL."""
    values = unify_types("COALESCE", operands)
    first = next((i for i, value in enumerate(values) if not value.nullable), len(values) - 1)
    whole = build_choice(values[: first + 1], f"COALESCE({', '.join(v.sql for v in values)})", values[first].nullable)
    return replace(whole, needs=intersect_needs(values))


def nullif(operand: Expression, value: Expression) -> Expression:
    """Return the operand, or NULL if it equals a literal."""
    a, b = unify_types("NULLIF", (operand, value))
    if b.constant is None:
        raise InvalidReleaseError("NULLIF needs a literal to compare with")
    labels = None if a.labels is None else tuple(label for label in a.labels if label != b.constant)
    sql = null_unless(a.sql, f"{LAMBDA_ARGUMENT} IS DISTINCT FROM {b.sql}")
    return replace(a, sql=sql, nullable=True, labels=labels, constant=None, if_true=a.needs, if_false=a.needs)


def change_case(function: str, operand: Expression) -> Expression:
    """Return LOWER or UPPER. Labels are converted if they are ASCII."""
    a = expect("text", operand, function)
    plain = a.labels is not None and all(str(label).isascii() for label in a.labels)
    changed = tuple(dict.fromkeys(getattr(str(label), function.lower())() for label in a.labels or ()))
    return replace(a, sql=f"{function.lower()}({a.sql})", labels=changed if plain else None, constant=None)


def cast(operand: Expression, kind: Type) -> Expression:
    """Return a value as another kind, or NULL if it has none."""
    if operand.kind == "null":
        return expect(kind, operand, "CAST")
    if operand.kind == kind and kind != "time":
        return operand
    if (operand.kind, kind) not in CASTS:
        raise InvalidReleaseError(f"a {operand.kind} cannot be cast to {kind}")
    return CASTS[operand.kind, kind](operand)


def _text_to_number(operand: Expression) -> Expression:
    sql = f"TRY_CAST({operand.sql} AS DOUBLE)"
    return Expression("number", sql, True, operand.needs).to_finite()


def _boolean_to_number(operand: Expression) -> Expression:
    sql = f"CAST({operand.sql} AS DOUBLE)"
    return Expression("number", sql, operand.nullable, operand.needs, span=Interval(0.0, 1.0), grid=INTEGER_GRID)


def _text_to_boolean(operand: Expression) -> Expression:
    whole = build_predicate(f"TRY_CAST({operand.sql} AS BOOLEAN)", (operand,))
    return replace(whole, nullable=True)


def _to_text(operand: Expression) -> Expression:
    labels = ("false", "true") if operand.kind == "boolean" else None
    sql = f"CAST({operand.sql} AS VARCHAR)"
    return Expression("text", sql, operand.nullable, operand.needs, labels=labels)


CASTS = {
    ("text", "number"): _text_to_number,
    ("boolean", "number"): _boolean_to_number,
    ("text", "boolean"): _text_to_boolean,
    ("number", "boolean"): lambda operand: build_predicate(f"({operand.sql} <> 0e0)", (operand,)),
    ("number", "text"): _to_text,
    ("boolean", "text"): _to_text,
}
