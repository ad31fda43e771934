"""Releases in a notebook: a small table with error bars, without scripts; every text is escaped."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from math import floor, isfinite, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamgauge.query.released import Released
    from streamgauge.query.shapes import Shape

ROWS = 20


ALIKE = 0.05


def plus_minus(value: float, low: float, high: float) -> str:
    """A number with half the width of its interval, to two digits of the latter; with both its ends, if the
    interval is about another number.

    >>> plus_minus(1234.5678, 1230.1, 1239.0356), plus_minus(12.0, 6.0, 18.0), plus_minus(0.0, 30.0, 42.0)
    ('1234.6 ± 4.5', '12 ± 6', '0 (30 to 42)')
    """
    half = (high - low) / 2
    if not isfinite(value):
        return "unknown"
    if not isfinite(half):
        return f"{value:.6g}"
    digits = _digits(half if half > 0 else value)
    shown, error, first, last = (f"{number:.{digits}f}" for number in (value, half, low, high))
    return f"{shown} ± {error}" if is_about(value, low, high) else f"{shown} ({first} to {last})"


def is_about(value: float, low: float, high: float) -> bool:
    """Whether a value is in the middle of its interval, to a twentieth of its half width."""
    return abs(low + high - 2 * value) <= ALIKE * (high - low) / 2


def _digits(number: float) -> int:
    """How many places after the point show two digits of a number; none where they would be zeros."""
    if number == 0 or float(number).is_integer():
        return 0
    return min(12, max(0, 1 - floor(log10(abs(number)))))


def table(shape: "Shape", items: Sequence["Released"]) -> str:
    """The newest ticks: as many as fit, but at least one."""
    several = max(1, ROWS // max(1, len(shape.places)))
    newest = items[-several:]
    rows = [_row(item, i, shape.columns) for item in newest for i in range(len(item.shape.places))][:ROWS]
    left = sum(len(item.shape.places) for item in items) - len(rows)
    names = ("tick", "from (UTC)", *shape.columns, *shape.measures)
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in names)
    notes = [f"{left:,} more rows"] if left else []
    notes += [f"counts {shape.contributions}"] if shape.contributions else []
    note = "".join(f"<p><small>{escape(each)}</small></p>" for each in notes)
    title = f"<caption>{escape(shape.release)}, with 95 % bounds</caption>"
    return (
        f"<div><table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{note}</div>"
    )


def _row(item: "Released", place: int, columns: Sequence[str]) -> str:
    group = dict(item.shape.places[place].labels)
    begin = datetime.fromtimestamp(item.start // 10**6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    told = [
        plus_minus(*(float(part[row, place]) for part in (item.value, item.low, item.high)))
        + ("" if item.enough[row, place] else " (not enough)")
        for row in range(len(item.shape.measures))
    ]
    labels = [str(group.get(name, "")) for name in columns]
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (str(item.tick), begin, *labels, *told))
    return f"<tr>{cells}</tr>"
