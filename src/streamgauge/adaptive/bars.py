"""Error bars of releases whose error depends on data: what is certain of it, and nothing else.

A bar says how far the truth is from a release's `centre`. Where that is noise of a known law, it is the law
itself (`NoiseSum`); where a private test has bounded how far data have moved, the bound with the noise of the
test; where nothing bounds it, `Unknown`. A mechanism that has no standard error apart from its data says NaN.
"""

from dataclasses import dataclass
from math import inf, nan
from typing import Protocol

import numpy as np

from streamgauge.noise.numbers import Floats

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


def rows_of(widths: list[Widths], width: int) -> Floats:
    """One row per tick, one column per group."""
    if not widths:
        return np.zeros((0, width))
    return np.stack([np.broadcast_to(np.asarray(each, np.float64), (width,)) for each in widths])
