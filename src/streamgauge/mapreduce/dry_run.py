"""Dry runs of mappers, on rows that a person types. They read no stream.

{"url": "/news/1", "seconds": 90, "time": "2026-01-05T10:00:00"}  ->  ("news", 1.5), 12 steps
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from math import nan
from typing import Any

from streamgauge.mapreduce.columns import encode_text
from streamgauge.mapreduce.interpreter import run_record
from streamgauge.mapreduce.program import Constant, MapperProgram, ValueKind

MAX_ROWS = 20
MAX_ROW_STEPS = 20_000  # of the interpreter, which is slow
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class TriedRow:
    """Pairs of one typed row, clamped to the bounds."""

    pairs: tuple[tuple[str | int, float], ...]
    steps: int
    is_complete: bool  # false if the row took too many steps for a dry run


def try_rows(
    program: MapperProgram, rows: Sequence[Mapping[str, Any]], bounds: tuple[Fraction, Fraction] | None = None
) -> list[TriedRow]:
    """Return the pairs of typed rows, by the interpreter."""
    most = min(program.max_steps, MAX_ROW_STEPS)
    return [_try_row(replace(program, max_steps=most), row, bounds) for row in rows[:MAX_ROWS]]


def _try_row(program: MapperProgram, row: Mapping[str, Any], bounds: tuple[Fraction, Fraction] | None) -> TriedRow:
    found = run_record(program, {name: read_item(kind, row.get(name)) for name, kind in program.columns})
    pairs = [(program.keys[key], value) for key, value in found.pairs]
    low, high = (float(end) for end in bounds) if bounds is not None else (-float("inf"), float("inf"))
    clamped = tuple(
        (key.decode() if isinstance(key, bytes) else int(key), min(max(value, low), high)) for key, value in pairs
    )
    return TriedRow(clamped, found.steps, found.steps <= program.max_steps)


def read_item(kind: ValueKind, item: Any) -> Constant:
    """Return a typed item as a value of a kind; anything else is a missing value."""
    if kind == "text":
        return encode_text(item)
    if kind == "bool":
        return item is True
    if kind == "time":
        return _read_time(item)
    try:
        return float(item) if not isinstance(item, bool | str) else nan
    except (TypeError, ValueError, OverflowError):
        return nan


def _read_time(item: Any) -> float:
    """Return the microseconds of a local time in ISO form."""
    try:
        moment = datetime.fromisoformat(item).replace(tzinfo=None)
    except (TypeError, ValueError):
        return nan
    return float((moment - EPOCH).total_seconds() * 1e6)
