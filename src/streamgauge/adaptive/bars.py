"""Error bars of releases whose error depends on data: what is certain of it, and nothing else.

A bar says how far the truth is from a release's `centre`. Where that is noise of a known law, it is the law
itself (`NoiseSum`); where a private test has bounded how far data have moved, the bound with the noise of the
test; where nothing bounds it, `Unknown`. A mechanism that has no standard error apart from its data says NaN.
"""

from dataclasses import dataclass, replace
from math import inf, nan
from typing import Protocol

import numpy as np

from streamgauge.noise import NoiseSum
from streamgauge.noise.numbers import Floats

DIGITS = 7  # binary digits of a number of draws whose half width is worked out
Widths = float | Floats  # one number for all groups, or one for each


class Bar(Protocol):
    """How far the truth may be from the centre of a release, at one tick."""

    @property
    def stddev(self) -> Widths:
        """The standard error of the centre; NaN where there is none apart from the data."""
        ...

    def half_width(self, confidence: float) -> Widths:
        """Within which the truth lies with at least `confidence`, whatever the data."""
        ...


@dataclass(frozen=True)
class Unknown:
    """Nothing is certain."""

    @property
    def stddev(self) -> float:
        return nan

    def half_width(self, confidence: float) -> float:
        return inf


@dataclass(frozen=True)
class ManyDraws:
    """The noise of windows that grow from tick to tick, whose half widths are not worked out at every tick.

    They are those of a few more draws, less than one in 64, so that one serves for many ticks: never too
    narrow, since a sum of symmetric draws that are the likelier the nearer to 0 only spreads with each draw.
    """

    noise: NoiseSum

    @property
    def stddev(self) -> float:
        return self.noise.stddev

    def half_width(self, confidence: float) -> float:
        more = (replace(term, count=few_digits(term.count)) for term in self.noise.terms)
        return NoiseSum(tuple(more)).half_width(confidence)


def few_digits(number: int) -> int:
    """The least number of DIGITS binary digits, and zeros, that is not below this one.

    >>> [few_digits(number) for number in (1, 128, 129, 1000)]
    [1, 128, 130, 1000]
    """
    places = max(0, number.bit_length() - DIGITS)
    return -(-number >> places) << places


@dataclass(frozen=True)
class OneGroup:
    """What a bar says of one of its groups."""

    bar: Bar
    column: int

    @property
    def stddev(self) -> Widths:
        return self._cut(self.bar.stddev)

    def half_width(self, confidence: float) -> Widths:
        return self._cut(self.bar.half_width(confidence))

    def _cut(self, widths: Widths) -> Widths:
        return widths if np.ndim(widths) == 0 else float(np.asarray(widths)[self.column])


def parts(ordinal: int) -> int:
    """One over the part of a chance that is for the i-th of ever so many: over all i, these add up to 1.

    Those of 2^(j-1) < i <= 2^j have 1/((j + 1)(j + 2)) together.

    >>> [parts(i) for i in (1, 2, 3, 4, 5, 8, 9)]
    [2, 6, 24, 24, 80, 80, 240]
    """
    j = (ordinal - 1).bit_length()
    return (j + 1) * (j + 2) * int(2 ** max(j - 1, 0))


def rows_of(widths: list[Widths], width: int) -> Floats:
    """One row per tick, one column per group."""
    if not widths:
        return np.zeros((0, width))
    return np.stack([np.broadcast_to(np.asarray(each, np.float64), (width,)) for each in widths])
