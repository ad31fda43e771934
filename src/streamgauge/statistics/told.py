"""What every release can be laid out as: named columns of numbers, the same five for all statistics.

    release.told(0.95)      {"count": Columns, "mean": Columns, ...}; a lone `Estimate` is "value"

Each column is an array of (width,), or (ticks, width) for several ticks. What nobody looks at is not worked
out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from streamgauge.noise.numbers import Bools, Floats


class Measured(Protocol):
    """A number for every tick and group, with its error bars."""

    @property
    def value(self) -> Floats: ...

    @property
    def stddev(self) -> Floats: ...

    @property
    def enough(self) -> Bools: ...

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True, eq=False)
class Columns:
    """One measure of a release: `value`, `stddev`, `low`, `high` and `enough`, all of one shape.

    `stddev` is NaN where there is no such thing; `low` and `high` always hold, with `confidence`.
    """

    confidence: float
    _made: Callable[[], Measured] = field(repr=False)

    @cached_property
    def _measured(self) -> Measured:
        return self._made()

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        return self._measured.interval(self.confidence)

    @property
    def value(self) -> Floats:
        return self._measured.value

    @property
    def stddev(self) -> Floats:
        return np.broadcast_to(self._measured.stddev, self.value.shape)

    @property
    def low(self) -> Floats:
        return np.broadcast_to(self._interval[0], self.value.shape)

    @property
    def high(self) -> Floats:
        return np.broadcast_to(self._interval[1], self.value.shape)

    @property
    def enough(self) -> Bools:
        """Where there was enough to go on; never where nothing is certain."""
        return np.broadcast_to(self._measured.enough, self.value.shape) & np.isfinite(self.high)
