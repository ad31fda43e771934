"""Declared axis: a range of numbers in cells of one step, and noisy counts on it.

    lower                                   upper        Axis(0, 120, 10): 12 cells, 13 edges
    |  0  |  1  |  2  |   ...   |  n-1  |                cell c has the values with edge c <= x < edge c + 1

Values below `lower` count in the first cell, those not below `upper` in the last. Items that are not numbers are
dropped. Values and edges are compared as floats, by the same comparison as `x >= 0.3` in a program. So the
events in a range are exactly those for which its condition is true, on either side of 3/10 the
float 0.3 lies.

Ranks, quantiles and extremes are computed from a profile. It has the blocks of a tree (see `value_tree`) of some ticks
and groups, and the law of the noise in each. The noise of a rank is that of a signed sum of blocks, whose number is
public: it is known, not fitted.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm, prod, ulp
from typing import Any, ClassVar, TypeVar

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.noise.coerce import as_floats
from streamgauge.privacy import Sensitivity, Unit
from streamgauge.privacy.rationals import Number, format_rational, parse_positive, parse_rational
from streamgauge.statistics.estimate import Floats, NoiseLaws
from streamgauge.statistics.events import Bools, Column
from streamgauge.statistics.ordered.value_tree import ValueTree
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic, unit_sensitivity
from streamgauge.statistics.validation import require_declared

MAX_AXIS_CELLS = 2**26  # cells of an axis
MAX_EXACT_FLOAT = 2**53


@dataclass(frozen=True, init=False, repr=False)
class Axis:
    """Cells of one `step` from `lower` to `upper`, all public.

    A float means the decimal that it prints as.

    >>> age = Axis(0, 120, 10)
    >>> age, age.cells
    (Axis(lower=0, upper=120, step=10), 12)
    >>> age.encode(np.array([9.99, 10, -3, 500]))[0]
    array([ 0,  1,  0, 11])
    """

    lower: Fraction
    upper: Fraction
    step: Fraction

    def __init__(self, lower: Number | None = None, upper: Number | None = None, step: Number | None = None) -> None:
        low = parse_rational(require_declared("lower", lower, "the value at which the first cell begins"), "lower")
        high = parse_rational(require_declared("upper", upper, "the value at which the last cell ends"), "upper")
        size = parse_positive(
            require_declared("step", step, "the size of a cell, which answers are as fine as"), "step"
        )
        for name, value in (("lower", low), ("upper", high), ("step", size)):
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.lower >= self.upper:
            raise ValueError(
                f"upper must be above lower, got {format_rational(self.upper)} and {format_rational(self.lower)}"
            )
        number = (self.upper - self.lower) / self.step
        if number.denominator != 1:
            rule = f"step must divide upper - lower = {format_rational(self.upper - self.lower)}"
            raise ValueError(f"{rule}, got {format_rational(self.step)}")
        if number > MAX_AXIS_CELLS:
            raise ValueError(f"step must leave at most 2**26 cells, got {format_rational(self.step)} for {number}")
        first, pace, parts = self._integers
        if max(abs(first), abs(first + pace * self.cells), parts) >= MAX_EXACT_FLOAT or not self._has_distinct_edges:
            raise ValueError(
                f"step must be wide enough for floats to tell cells apart, got {format_rational(self.step)}"
            )

    @cached_property
    def cells(self) -> int:
        """Number of cells."""
        return int((self.upper - self.lower) / self.step)

    @property
    def _integers(self) -> tuple[int, int, int]:
        """`lower` and `step` as whole numbers of one part, and the parts that make 1."""
        parts = lcm(self.lower.denominator, self.step.denominator)
        return int(self.lower * parts), int(self.step * parts), parts

    @property
    def _has_distinct_edges(self) -> bool:
        """True if no two edges are the same float, as with a step of at least two floats."""
        coarsest = max(ulp(float(self.lower)), ulp(float(self.upper)))
        return self.step >= 2 * Fraction(coarsest) or bool((np.diff(self.edges) > 0).all())

    @cached_property
    def edges(self) -> Floats:
        """All edges as nearest floats: the quotient of two floats that are exact."""
        first, pace, parts = self._integers
        return (first + pace * np.arange(self.cells + 1)) / parts

    def encode(self, values: Any) -> tuple[Ints, Bools]:
        """Return the cell of each item, and whether it was a number, each item alone."""
        bottom, top = float(self.edges[0]), float(self.edges[-1])
        floats, present = as_floats(values, np.floor(bottom), np.ceil(top))
        cells = np.searchsorted(self.edges, floats, side="right") - 1
        return np.clip(cells, 0, self.cells - 1), present

    def find_edge(self, name: str, value: Number) -> int:
        """Return the number of the edge at `value`; reject values that are not edges."""
        place = (parse_rational(value, name) - self.lower) / self.step
        if not 0 <= place <= self.cells:
            rule = f"must be from {format_rational(self.lower)} to {format_rational(self.upper)}"
            raise ValueError(f"{name} {rule}, got {value}")
        if place.denominator != 1:
            below = self.lower + self.step * (place.numerator // place.denominator)
            near = f"{format_rational(below)} and {format_rational(below + self.step)}"
            raise ValueError(f"{name} must be at an edge of its cells (the nearest are {near}), got {value}")
        return int(place)

    def find_edges(self, name: str, bounds: Any) -> tuple[int, int]:
        """Return the edges of a half-open range (from, to); None means an open end."""
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise ValueError(f"{name} must be a pair (from, to), None for an open end, got {bounds!r}")
        start, end = bounds
        first = 0 if start is None else self.find_edge(name, start)
        last = self.cells if end is None else self.find_edge(name, end)
        if first > last:
            raise ValueError(f"{name} must be a pair (from, to) in order, got {start} and {end}")
        return first, last

    def __repr__(self) -> str:
        lower, upper, step = map(format_rational, (self.lower, self.upper, self.step))
        return f"Axis(lower={lower}, upper={upper}, step={step})"


R = TypeVar("R")
MAX_PROFILE_PLACES = 2**26  # places of a vector that is read as a whole


@dataclass(frozen=True, eq=False)
class AxisProfile:
    """Blocks of an axis, (ticks, nodes, width), and the noise of one block by tick."""

    axis: Axis
    tree: ValueTree
    nodes: Floats
    noises: Sequence[NoiseSum]

    @cached_property
    def ranks(self) -> Floats:
        """Noisy number of events before every edge, (ticks, cells + 1, width)."""
        return self.tree.prefixes(self.nodes)

    @property
    def total(self) -> Floats:
        """Noisy number of events, (ticks, width): the rank of the last edge."""
        return self.ranks[:, -1]

    @cached_property
    def laws(self) -> NoiseLaws:
        """Noise laws of one block, each computed once for all ticks that have it."""
        return NoiseLaws.from_noises(self.noises)

    @property
    def variances(self) -> Floats:
        """Variances of the noise of one block, tick by tick."""
        return np.square(self.laws.map_scaled(lambda law: law.stddev))


def level_sensitivity(unit: Unit, levels: int, groups: int = 1) -> Sensitivity:
    """Return the reach of a unit whose events add 1 to a node of each level."""
    single, pair = Sensitivity(levels, levels, levels), Sensitivity(2 * levels, 2 * levels, 2 * levels)
    return unit_sensitivity(unit, single, pair, groups=groups)


def build_level_increments(axis: Axis, tree: ValueTree, values: Column, groups: Ints, width: int) -> Increments:
    """Return the increments of a column's events: 1 to a node of each level."""
    cells, present = axis.encode(values)
    events = np.flatnonzero(present)
    places = tree.find_nodes(cells[events]) * width + groups[events][:, None]
    return Increments(events, places, np.ones((1, 1), np.int64))


@dataclass(frozen=True, kw_only=True)
class AxisStatistic(Statistic[R]):
    """Base of quantiles and extremes: one tree over one axis, and its sensitivity."""

    CAN_SPAN_GROUPS: ClassVar[bool] = True
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    branching: int = 0
    open_ticks: bool = False

    @property
    @abstractmethod
    def tree(self) -> ValueTree: ...

    @cached_property
    def axis(self) -> Axis:
        return Axis(self.lower, self.upper, self.step)

    @property
    def channels(self) -> int:
        return self.tree.size

    @property
    def tick_sensitivity(self) -> Sensitivity:
        return level_sensitivity(self.unit, self.tree.levels, self.groups_per_event)

    def vector_size(self, width: int, memory: Any) -> int:
        return check_places_count("step", [self.channels, width], "take a larger one, or fewer groups")

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        return build_level_increments(self.axis, self.tree, rows[0], groups, width)

    def vectors_from_cells(  # noqa: PLR0917 - a table of events, and the shape of the vectors
        self,
        cells: Ints,
        places: Ints,
        counts: Ints,
        width: int,
        rows: Ints | None = None,
        ticks: int = 1,
        memory: Any = None,
    ) -> Ints:
        """Return the exact vectors, (channels, width), of events in cells of groups.

        With `rows`, the tick of each item from 0 on, they are (ticks, channels, width). Items outside are dropped.
        Repeated items are added up.
        """
        when = np.zeros(len(cells), np.int64) if rows is None else rows
        inside = (cells >= 0) & (cells < self.axis.cells) & (places >= 0) & (places < width)
        inside &= (when >= 0) & (when < ticks)
        cells, places, counts, when = cells[inside], places[inside], counts[inside], when[inside]
        vectors = np.zeros(ticks * self.channels * width, np.int64)
        for first, size in self.tree.level_blocks:
            nodes = when * self.channels + first + cells // size
            np.add.at(vectors, nodes * width + places, counts)
        shape = (self.channels, width) if rows is None else (ticks, self.channels, width)
        return vectors.reshape(shape)

    def build_profile(self, sums: NoisySums) -> AxisProfile:
        """Return the noisy blocks of all ticks of the sums."""
        return AxisProfile(self.axis, self.tree, sums.channels, sums.noises)


def check_places_count(name: str, shape: Sequence[int], advice: str) -> int:
    """Return the places of a vector; reject more than can be read at every tick."""
    places = prod(shape)
    if places > MAX_PROFILE_PLACES:
        shown = " x ".join(map(str, shape))
        raise ValueError(f"{name} must make at most 2**26 places ({advice}), got {shown} = {places}")
    return places
