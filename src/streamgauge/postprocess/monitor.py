"""Alerts on releases: a jump, a drop, a low signal, a threshold, with the rates at which they err.

A monitor looks at the last w releases c of each group, and alerts at tick t if

    jump        c_t - c_(t-w+1) >= size
    drop        c_t - c_(t-w+1) <= -size
    low         c_(t-w+1) + ... + c_t <= size
    threshold   c_t >= size                     (w = 1)

and never before it has seen w releases. The left side is the *monitored quantity*: the true one plus noise
S, whose law is public. So is how often an alert will be wrong.

Privacy
    None is spent: alerts are functions of releases. They must never be fed back into a mechanism.

Error
    An alert says +-(truth + S) >= +-level, and the law of S is symmetric. Where the truth is `quiet`, a false
    alarm has the chance P(S >= x), x being how far `quiet` is from the level; where it is `loud`, a miss has
    the chance P(S > x), x being how far `loud` is beyond it. A `Tail` bounds P(S >= x) from above, so that
    what is predicted is never too low; whole sums of noise are known to within a thousandth.
    Rates are those of one tick and one group; over n of them, the chance of any error is at most n times
    as large.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, has jumps, drops and low signals as queries; the
    rates are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgauge.postprocess.tails import Tail, beyond

Floats = npt.NDArray[np.float64]
Alerts = npt.NDArray[np.bool_]


class Kind(NamedTuple):
    """What is monitored, and on which side of the level the alerts are."""

    quantity: Callable[[Floats, int], Floats]  # of the rows seen and w, for each full window
    side: int  # alerts where side * quantity >= side * level
    sign: int  # level = sign * size
    shortest: int  # w, at least
    longest: float = inf  # w, at most
    least: float = -inf  # size, which must be above

    def admits(self, size: float) -> bool:
        return size > self.least


def change(rows: Floats, window: int) -> Floats:
    return np.asarray(rows[window - 1 :] - rows[: len(rows) - window + 1])


def total(rows: Floats, window: int) -> Floats:
    """Added up in the order of ticks, so that the same window has the same sum wherever a block begins."""
    sums = rows[: len(rows) - window + 1].copy()
    for age in range(1, window):
        sums += rows[age : age + len(sums)]
    return sums


KINDS = {
    "jump": Kind(change, side=1, sign=1, shortest=2, least=0),
    "drop": Kind(change, side=-1, sign=-1, shortest=2, least=0),
    "low": Kind(total, side=-1, sign=1, shortest=1),
    "threshold": Kind(total, side=1, sign=1, shortest=1, longest=1),
}


class Detectable(NamedTuple):
    """What can be told apart from quiet."""

    size: float  # to be set
    loud: float  # the true quantity, nearest to quiet, that is missed rarely enough


@dataclass(frozen=True)
class EventMonitor:
    """Alerts of one kind; `start` it, or predict how often it errs. See the module's claim.

    >>> from fractions import Fraction
    >>> from streamgauge.noise import DiscreteLaplace, NoiseSum, Term
    >>> monitor = EventMonitor("jump", size=50, window=2)
    >>> monitor.start().feed([3, 60, 61, 0])
    array([False,  True, False, False])
    >>> noise = NoiseSum((Term(2, 1, DiscreteLaplace(Fraction(10))),))      # of two releases
    >>> round(monitor.false_alarm(noise, quiet=0), 4), round(monitor.miss(noise, loud=100), 4)
    (0.0123, 0.0113)
    """

    kind: str
    size: float
    window: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if not isinstance(self.size, Real) or isinstance(self.size, bool):
            raise ValueError(f"size must be a number, got {self.size!r}")
        if not abs(self.size) < 2**1024:
            raise ValueError(f"size must be finite, got {self.size}")
        if not KINDS[self.kind].admits(self.size):
            raise ValueError(f"size must be above 0 for a {self.kind}, got {self.size}")
        kind = KINDS[self.kind]
        if not isinstance(self.window, int | np.integer) or isinstance(self.window, bool):
            raise ValueError(f"window must be a whole number, got {self.window!r}")
        if not kind.shortest <= self.window <= kind.longest:
            limits = f"{kind.shortest}" if kind.longest == kind.shortest else f"at least {kind.shortest}"
            raise ValueError(f"window must be {limits} for kind {self.kind}, got {self.window!r}")
        object.__setattr__(self, "window", int(self.window))

    @property
    def level(self) -> float:
        """The monitored quantity at which alerts begin."""
        return KINDS[self.kind].sign * self.size

    def quantity(self, rows: Floats) -> Floats:
        """The monitored quantity of each full window of the rows."""
        return KINDS[self.kind].quantity(rows, self.window)

    def start(self, width: int = 1) -> "Watch":
        """A watch over `width` groups, which has seen nothing yet."""
        if not isinstance(width, int | np.integer) or isinstance(width, bool) or width < 1:
            raise ValueError(f"width must be at least 1, got {width!r}")
        return Watch(self, np.empty((0, width)))

    def false_alarm(self, noise: Tail, quiet: float) -> float:
        """At least the chance of an alert at a tick where the true quantity is `quiet`."""
        return min(1.0, noise.upper_tail(KINDS[self.kind].side * (self.level - quiet)))

    def miss(self, noise: Tail, loud: float) -> float:
        """At least the chance of silence at a tick where the true quantity is `loud`."""
        return min(1.0, beyond(noise, KINDS[self.kind].side * (loud - self.level)))

    def detectable(self, noise: Tail, beta: float, quiet: float = 0.0, grid: float = 1.0) -> Detectable:
        """The size to set so that `quiet` alarms with chance at most beta, and the nearest true quantity that
        is then missed with chance at most beta, both in steps of `grid` from `quiet`. The size of this
        monitor plays no part. A jump or drop has a size above 0, however far on its other side `quiet` is.

        >>> from streamgauge.noise import NoiseSum
        >>> EventMonitor("drop", size=1, window=2).detectable(NoiseSum(()), beta=0.01)
        Detectable(size=1.0, loud=-1.0)
        """
        if not 0 < beta < 1 / 2:
            raise ValueError(f"beta must be above 0 and below 1/2, got {beta}")
        if not 0 < grid < inf:
            raise ValueError(f"grid must be above 0 and finite, got {grid}")
        kind = KINDS[self.kind]
        if not -inf < quiet < inf:
            raise ValueError(f"quiet must be finite, got {quiet}")

        def enough(steps: int) -> bool:
            size = kind.sign * (quiet + kind.side * grid * steps)
            return kind.admits(size) and noise.upper_tail(steps * grid) <= beta

        level = quiet + kind.side * grid * least(enough)
        loud = level + kind.side * grid * least(lambda steps: beyond(noise, steps * grid) <= beta)
        return Detectable(kind.sign * level, loud)


def least(enough: Callable[[int], bool]) -> int:
    """The least whole number from 0 that is enough, if all beyond it are."""
    high = 0
    while not enough(high):
        high = 2 * high + 1
    low = (high - 1) // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(slots=True, eq=False)
class Watch:
    """A monitor at work. All that it remembers is `tail`: the last releases, w - 1 at most, a row each."""

    monitor: EventMonitor
    tail: Floats  # releases

    def __post_init__(self) -> None:
        if self.tail.ndim != 2 or len(self.tail) >= self.monitor.window:
            longest = self.monitor.window - 1
            raise ValueError(f"tail must be at most {longest} rows of releases, got {self.tail.shape}")

    @property
    def width(self) -> int:
        return int(self.tail.shape[1])

    def step(self, values: npt.ArrayLike) -> Alerts:
        """Takes one tick's release of every group; says which of them alert."""
        row = np.asarray(values, np.float64).reshape(-1)
        if row.shape != (self.width,):
            raise ValueError(f"values must be one number per group ({self.width}), got {len(row)}")
        return np.asarray(self._take(row[None])[0])

    def feed(self, block: npt.ArrayLike) -> Alerts:
        """Takes the releases of many ticks, (ticks, width), or (ticks,) for one group."""
        rows = np.asarray(block, np.float64)
        if rows.ndim == 1 and self.width == 1:
            return np.asarray(self._take(rows[:, None])[:, 0])
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"block must be of shape (ticks, {self.width}), got {rows.shape}")
        return self._take(rows)

    def _take(self, rows: Floats) -> Alerts:
        monitor, side = self.monitor, KINDS[self.monitor.kind].side
        seen, alerts = np.concatenate([self.tail, rows]), np.zeros(rows.shape, np.bool_)
        self.tail = seen[max(0, len(seen) - monitor.window + 1) :].copy()
        if len(seen) >= monitor.window:
            with np.errstate(over="ignore", invalid="ignore"):
                full = side * monitor.quantity(seen) >= side * monitor.level
            alerts[len(alerts) - len(full) :] = full
        return alerts
