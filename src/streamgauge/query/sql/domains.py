"""Groups: the finite domain of an expression, and the number of its label for one event.

Promise
    Every event has one label or none, whichever labels other events have: a code is a function of the event.
    It is always below the number of labels: texts are looked up in an ENUM, numbers put on their grid and
    cut off at its ends.

An ENUM that meets a text that it lacks looks for similar labels to put into an error that nobody reads
(measured: 8 ms for one record and 10^5 labels, a clock that tells of one record). That cannot happen here:
the row source has made undeclared values NULL, and all other texts are labels by construction.
"""

from collections.abc import Callable
from fractions import Fraction

from streamgauge.query.query import Codes, GroupColumn, Refused
from streamgauge.query.settings import Label
from streamgauge.query.sql import grids
from streamgauge.query.sql.expressions import Expression, Type, double, quoted
from streamgauge.query.sql.grids import useful
from streamgauge.query.sql.intervals import decimal

MOST_LABELS = 10**6
FEW = 64  # numbers that are looked up one by one


Domain = tuple[tuple[Label, ...], str]


def group(name: str, expression: Expression, asked: str) -> GroupColumn:
    """The groups of an expression, which was `asked` for in these words."""
    labels, code = DOMAINS.get(expression.kind, _none)(expression, asked)
    if not 0 < len(labels) <= MOST_LABELS:
        raise Refused(f"GROUP BY {asked} must have 1 to {MOST_LABELS} groups, got {len(labels)}")
    text = expression.sql if expression.kind == "text" else None
    return GroupColumn(name, labels, f"CAST({code} AS INTEGER)", text, expression.nullable)


def distinct(column: str, expression: Expression, universe: int | None) -> Codes:
    """What COUNT(DISTINCT column) counts: hashes below a public number, or labels."""
    if universe is not None:
        return Codes(expression.sql, universe, column, hashed=True)
    if expression.kind == "text" and expression.labels is None:
        raise Refused(
            f"COUNT(DISTINCT {column}) needs a universe: declare values or hashed for column {column}"
        )
    labels, code = DOMAINS.get(expression.kind, _none)(expression, column)
    return Codes(f"CAST({code} AS BIGINT)", len(labels), column)


def _truths(expression: Expression, asked: str) -> Domain:
    return (False, True), expression.sql


def _texts(expression: Expression, asked: str) -> Domain:
    if expression.labels is None:
        raise Refused(f"GROUP BY {asked} needs its groups: declare its values, values = [...], or max_groups")
    return expression.labels, _enum_code(expression.sql, expression.labels)


def _enum_code(sql: str, labels: tuple[Label, ...]) -> str:
    return f"enum_code(TRY_CAST({sql} AS ENUM ({', '.join(quoted(str(label)) for label in labels)})))"


def _numbers(expression: Expression, asked: str) -> Domain:
    """Numbers that were declared or written one by one, or those of a bounded grid."""
    if expression.labels is None:
        return _grid(expression, asked)
    labels = expression.labels
    if len(labels) > FEW and all(
        float(label).is_integer() and abs(float(label)) <= grids.SURE for label in labels
    ):
        whole = tuple(int(label) for label in labels)
        return whole, _enum_code(f"CAST(TRY_CAST({expression.sql} AS BIGINT) AS VARCHAR)", whole)
    listed = ", ".join(double(float(label)) for label in labels)
    return labels, f"(list_position([{listed}], {expression.sql}) - 1)"


def _grid(expression: Expression, asked: str) -> Domain:
    if not expression.span.bounded:
        raise Refused(f"GROUP BY {asked} needs bounds: declare bounds = [lowest, highest], or values")
    lower, upper = decimal(expression.span.lower), decimal(expression.span.upper)
    step = useful(expression.grid, lower, upper)
    if step is None:
        raise Refused(f"GROUP BY {asked} needs a grid: declare one, or group by FLOOR({asked})")
    first, last = (nearest(end / step) for end in (lower, upper))
    if last - first >= MOST_LABELS:
        raise Refused(f"GROUP BY {asked} must have 1 to {MOST_LABELS} groups, got {last - first + 1}")
    labels = tuple(_label(i * step) for i in range(first, last + 1))
    sure = expression.grid is not None and expression.grid.sure and step == 1
    place = expression.sql if sure else f"floor({expression.sql} / {double(float(step))} + 0.5e0)"
    code = f"least(greatest({place} - {double(float(first))}, 0e0), {double(float(last - first))})"
    return labels, f"CASE WHEN {expression.sql} IS NOT NULL THEN {code} END"


def nearest(value: Fraction) -> int:
    return (value + Fraction(1, 2)).__floor__()


def _label(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _none(expression: Expression, asked: str) -> Domain:
    what = {
        "time": "group by a date part, such as EXTRACT(hour FROM ...)",
        "code": "hashed columns have no labels",
    }
    raise Refused(
        f"GROUP BY {asked} has no finite set of groups: {what.get(expression.kind, 'NULL is none')}"
    )


DOMAINS: dict[Type, Callable[[Expression, str], Domain]] = {
    "boolean": _truths,
    "text": _texts,
    "number": _numbers,
}
