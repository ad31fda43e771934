"""What `streamgauge init` makes of a sample: which column is the time, which values and bounds there may be.

Privacy
    Guesses are as private as the sample, until a person confirms them. They are made coarse all the same:
    bounds and times are rounded outward, and a value is listed only if three records have it.
"""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from math import floor, log10

from streamgauge.query.durations import DAY, HOUR, MINUTE, SECOND
from streamgauge.query.instants import EPOCH, MICROSECOND
from streamgauge.query.sample import Sample
from streamgauge.query.toml_rules import COLUMN, exactly, is_line

FEW_VALUES = 20
SEEN = 3  # records that must have a value before it is listed
MOST_TICKS = 2500
TICKS = (SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY)
EPOCHS: dict[str, Fraction | int] = {
    "epoch s": 10**6,
    "epoch ms": 10**3,
    "epoch us": 1,
    "epoch ns": Fraction(1, 1000),
}
EARLIEST = 946684800 * SECOND  # 2000
LATEST = 4102444800 * SECOND  # 2100

_TIMELY = re.compile(r"^(ts|at|when)$|time|date|day|stamp|_at$", re.IGNORECASE)
_PERSONAL = re.compile(
    r"user|patient|customer|client|person|people|member|account|device|card|mail|phone|name$"
    r"|(^|[_ ])(uu|u)?id$|Id$"
)


@dataclass(frozen=True, repr=False)
class TimeGuess:
    """The column of times, how they are written, and from when to when they go."""

    name: str
    format: str
    naive: bool
    first: int
    last: int

    @property
    def tick(self) -> int:
        """The shortest of the usual lengths that makes no more ticks than a person can look at."""
        span = self.last - self.first
        return next((tick for tick in TICKS if span <= MOST_TICKS * tick), DAY)

    @property
    def start(self) -> int:
        return self.first // self._round * self._round

    @property
    def end(self) -> int:
        """After the last event, which is not in a tick that ends at it."""
        return (self.last // self._round + 1) * self._round

    @property
    def _round(self) -> int:
        return max(self.tick, DAY if self.last - self.first > DAY else HOUR)


@dataclass(frozen=True, repr=False)
class ColumnGuess:
    """A column that can be declared: by its values or by its bounds, as TOML writes them."""

    name: str
    key: str  # "values" or "bounds"
    items: tuple[str | bool | Fraction, ...]


@dataclass(frozen=True, repr=False)
class Guess:
    """All that a draft says of the data."""

    time: TimeGuess
    columns: tuple[ColumnGuess, ...]
    user: str | None
    left_out: tuple[str, ...]  # columns that nothing could be guessed of


def guess(sample: Sample) -> Guess | None:
    """What the sample looks like; None if no column of it looks like a time."""
    names = _usable(sample)
    times = [time for name in names if (time := _time(name, sample.cells(name)))]
    if not times:
        return None
    time = max(times, key=lambda time: (bool(_TIMELY.search(time.name)), time.format == "iso"))
    others = [name for name in names if name.casefold() != time.name.casefold()]
    user = next((name for name in others if _PERSONAL.search(name)), None)
    found = {name: _column(name, sample.cells(name)) for name in others if name != user}
    left_out = tuple(name for name, column in found.items() if column is None)
    return Guess(time, tuple(column for column in found.values() if column), user, left_out)


def _usable(sample: Sample) -> list[str]:
    """Names that can be declared; of those that differ only in case, the first."""
    first: dict[str, str] = {}
    for name in sample.names:
        if COLUMN.parse(name) is not None:
            first.setdefault(name.casefold(), name)
    return list(first.values())


def _time(name: str, cells: list[str]) -> TimeGuess | None:
    """A column of which nearly all cells are times; numbers are, only if its name says so."""
    ways = ["iso", *EPOCHS] if _TIMELY.search(name) else ["iso"]
    for way in ways:
        read = [instant for cell in cells if (instant := _instant(cell, way)) is not None]
        if read and len(read) >= 0.95 * len(cells):
            naive = way == "iso" and not all(re.search(r"(Z|[+-]\d\d(:?\d\d)?)$", c[10:]) for c in cells)
            return TimeGuess(name, way, naive, min(read), max(read))
    return None


def _instant(cell: str, way: str) -> int | None:
    instant = _iso(cell) if way == "iso" else _epoch(cell, EPOCHS[way])
    return instant if instant is not None and EARLIEST <= instant < LATEST else None


def _iso(cell: str) -> int | None:
    if not re.match(r"\d{4}-\d\d-\d\d", cell, re.ASCII):
        return None
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def _epoch(cell: str, scale: Fraction | int) -> int | None:
    number = _number(cell)
    return None if number is None else floor(number * scale)


def _number(cell: str) -> Fraction | None:
    """A number, but no code that begins with a zero."""
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", cell):
        return None
    return exactly(Decimal(cell))


def _column(name: str, cells: list[str]) -> ColumnGuess | None:
    bounds = _bounds(cells)
    values = _switches(cells) or _values(cells)
    if not (bounds or values):
        return None
    return ColumnGuess(name, "bounds", bounds) if bounds else ColumnGuess(name, "values", values)


def _switches(cells: list[str]) -> tuple[bool, ...]:
    return (False, True) if cells and {cell.lower() for cell in cells} <= {"true", "false"} else ()


def _bounds(cells: list[str]) -> tuple[Fraction, ...]:
    """The least and the largest number, rounded outward to a digit of their distance."""
    numbers = [number for cell in cells if (number := _number(cell)) is not None]
    if not numbers or len(numbers) < 0.95 * len(cells):
        return ()
    low, high = min(numbers), max(numbers)
    power = floor(log10(high - low)) if high > low else 0
    step = Fraction(10) ** power
    lower, upper = floor(low / step), -floor(-high / step)
    upper += lower == upper
    return lower * step, upper * step


def _values(cells: list[str]) -> tuple[str, ...]:
    """Values of which there are few, and that several records share."""
    counted = Counter(cells)
    if len(counted) > FEW_VALUES or 2 * len(counted) > len(cells):
        return ()
    return tuple(sorted(value for value, times in counted.items() if times >= SEEN and is_line(value, 100)))
