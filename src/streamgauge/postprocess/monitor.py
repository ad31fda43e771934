"""Alerts on releases: jump, drop, low signal, threshold, with their error rates.

A monitor reads the last w releases c of each group, and alerts at tick t if

    jump        c_t - c_(t-w+1) >= size
    drop        c_t - c_(t-w+1) <= -size
    low         c_(t-w+1) + ... + c_t <= size
    threshold   c_t >= size                     (w = 1)

It never alerts before w releases. The left side is the *monitored quantity*: the true one plus noise
S, whose law is public. So the rate of wrong alerts is public.

Privacy
    Post-processing: alerts are functions of releases. They must never be fed back into a mechanism.

Error
    An alert means +-(truth + S) >= +-level, and the law of S is symmetric. If the truth is `quiet`, a false
    alarm has probability P(S >= x), x being the distance of `quiet` from the level. If it is `loud`, a miss has
    probability P(S > x), x being the distance of `loud` beyond the level. A `Tail` bounds P(S >= x) from above,
    so that predictions are never too low. For whole sums of noise it is exact to a thousandth.
    Rates are those of one tick and one group. Over n of them, the probability of any error is at most n times
    as large.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, has jumps, drops and low signals as queries. The
    rates are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import erfc, inf, isnan, nextafter, sqrt
from numbers import Real
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

SPLIT_SHARES = (1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4)


class Tail(Protocol):
    """A symmetric law, such as `streamgauge.noise.NoiseSum`."""

    def upper_tail(self, x: float) -> float:
        """Return a bound on P(S >= x), never too small."""
        ...


@dataclass(frozen=True)
class UnionTail:
    """The sum of two noises of unknown dependence.

    If A + B >= p + q then A >= p or B > q or both. So P(A + B >= x) is at most P(A >= p) + P(B > q) for every
    p + q <= x, and the best of some splits is used. Differences are sums, since the laws are symmetric.
    """

    first: Tail
    second: Tail

    def upper_tail(self, x: float) -> float:
        if isnan(x):
            raise ValueError(f"x must be a number, got {x}")
        if x <= 0:
            return 1.0
        splits = [(inf, inf)] if x == inf else [split_point(x, part) for part in SPLIT_SHARES]
        return min(1.0, *(self.first.upper_tail(p) + strict_upper_tail(self.second, q) for p, q in splits))


@dataclass(frozen=True)
class NormalTail:
    """Noise known by its standard error only, approximated as normal: no bound.

    It serves means, variances and other quotients of noisy sums.
    """

    stddev: float

    def __post_init__(self) -> None:
        if not 0 < self.stddev < inf:
            raise ValueError(f"stddev must be positive, got {self.stddev}")

    def upper_tail(self, x: float) -> float:
        return erfc(x / (self.stddev * sqrt(2))) / 2


def split_point(x: float, part: float) -> tuple[float, float]:
    """p and q with p + q <= x, exactly, and p about `part` of x."""
    p = x * part
    q = x - p
    return p, q if Fraction(p) + Fraction(q) <= Fraction(x) else nextafter(q, -inf)


def strict_upper_tail(noise: Tail, x: float) -> float:
    """Return P(S > x)."""
    return noise.upper_tail(nextafter(x, inf))


Floats = npt.NDArray[np.float64]
Alerts = npt.NDArray[np.bool_]


class MonitorKind(NamedTuple):
    """The monitored quantity, and the side of the level that alerts."""

    quantity: Callable[[Floats, int], Floats]  # of the rows so far and w, for each full window
    side: int  # alerts where side * quantity >= side * level
    sign: int  # level = sign * size
    min_window: int  # w, at least
    max_window: float = inf  # w, at most
    size_floor: float = -inf  # size, which must be above

    def is_valid_size(self, size: float) -> bool:
        return size > self.size_floor


def window_change(rows: Floats, window: int) -> Floats:
    return np.asarray(rows[window - 1 :] - rows[: len(rows) - window + 1])


def window_total(rows: Floats, window: int) -> Floats:
    """Return sums added in the order of ticks, so that blocks do not change them."""
    sums = rows[: len(rows) - window + 1].copy()
    for age in range(1, window):
        sums += rows[age : age + len(sums)]
    return sums


KINDS = {
    "jump": MonitorKind(window_change, side=1, sign=1, min_window=2, size_floor=0),
    "drop": MonitorKind(window_change, side=-1, sign=-1, min_window=2, size_floor=0),
    "low": MonitorKind(window_total, side=-1, sign=1, min_window=1),
    "threshold": MonitorKind(window_total, side=1, sign=1, min_window=1, max_window=1),
}


class DetectableEvent(NamedTuple):
    """The smallest event that differs detectably from quiet."""

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
    >>> round(monitor.false_alarm_probability(noise, quiet=0), 4), round(monitor.miss_probability(noise, loud=100), 4)
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
        if not KINDS[self.kind].is_valid_size(self.size):
            raise ValueError(f"size must be above 0 for a {self.kind}, got {self.size}")
        kind = KINDS[self.kind]
        if not isinstance(self.window, int | np.integer) or isinstance(self.window, bool):
            raise ValueError(f"window must be a whole number, got {self.window!r}")
        if not kind.min_window <= self.window <= kind.max_window:
            limits = f"{kind.min_window}" if kind.max_window == kind.min_window else f"at least {kind.min_window}"
            raise ValueError(f"window must be {limits} for kind {self.kind}, got {self.window!r}")
        object.__setattr__(self, "window", int(self.window))

    @property
    def level(self) -> float:
        """The monitored quantity at which alerts begin."""
        return KINDS[self.kind].sign * self.size

    def quantity(self, rows: Floats) -> Floats:
        """Return the monitored quantity of each full window of the rows."""
        return KINDS[self.kind].quantity(rows, self.window)

    def start(self, width: int = 1) -> "MonitorRun":
        """Return a run over `width` groups, without releases so far."""
        if not isinstance(width, int | np.integer) or isinstance(width, bool) or width < 1:
            raise ValueError(f"width must be at least 1, got {width!r}")
        return MonitorRun(self, np.empty((0, width)))

    def false_alarm_probability(self, noise: Tail, quiet: float) -> float:
        """At least the chance of an alert at a tick where the true quantity is `quiet`."""
        return min(1.0, noise.upper_tail(KINDS[self.kind].side * (self.level - quiet)))

    def miss_probability(self, noise: Tail, loud: float) -> float:
        """At least the chance of silence at a tick where the true quantity is `loud`."""
        return min(1.0, strict_upper_tail(noise, KINDS[self.kind].side * (loud - self.level)))

    def find_detectable(self, noise: Tail, beta: float, quiet: float = 0.0, grid: float = 1.0) -> DetectableEvent:
        """Return the size for which `quiet` alarms with probability at most beta.

        Return as well the nearest true quantity that is then missed with probability at most beta. Both are in steps of
        `grid` from `quiet`. The size of this monitor plays no part. A jump or drop has a size above 0, even if `quiet`
        is far on its other side.

        >>> from streamgauge.noise import NoiseSum
        >>> EventMonitor("drop", size=1, window=2).find_detectable(NoiseSum(()), beta=0.01)
        DetectableEvent(size=1.0, loud=-1.0)
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
            return kind.is_valid_size(size) and noise.upper_tail(steps * grid) <= beta

        level = quiet + kind.side * grid * find_least(enough)
        loud = level + kind.side * grid * find_least(lambda steps: strict_upper_tail(noise, steps * grid) <= beta)
        return DetectableEvent(kind.sign * level, loud)


def find_least(is_enough: Callable[[int], bool]) -> int:
    """Return the least whole number from 0 that is enough, if all beyond it are."""
    high = 0
    while not is_enough(high):
        high = 2 * high + 1
    low = (high - 1) // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@dataclass(slots=True, eq=False)
class MonitorRun:
    """A monitor at work; its state is `tail`, at most the last w - 1 releases."""

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
        """Take one tick's release of every group; says which of them alert."""
        row = np.asarray(values, np.float64).reshape(-1)
        if row.shape != (self.width,):
            raise ValueError(f"values must be one number per group ({self.width}), got {len(row)}")
        return np.asarray(self._feed_rows(row[None])[0])

    def feed(self, block: npt.ArrayLike) -> Alerts:
        """Take the releases of many ticks, (ticks, width), or (ticks,) for one group."""
        rows = np.asarray(block, np.float64)
        if rows.ndim == 1 and self.width == 1:
            return np.asarray(self._feed_rows(rows[:, None])[:, 0])
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"block must be of shape (ticks, {self.width}), got {rows.shape}")
        return self._feed_rows(rows)

    def _feed_rows(self, rows: Floats) -> Alerts:
        monitor, side = self.monitor, KINDS[self.monitor.kind].side
        window_sums, alerts = np.concatenate([self.tail, rows]), np.zeros(rows.shape, np.bool_)
        self.tail = window_sums[max(0, len(window_sums) - monitor.window + 1) :].copy()
        if len(window_sums) >= monitor.window:
            with np.errstate(over="ignore", invalid="ignore"):
                full = side * monitor.quantity(window_sums) >= side * monitor.level
            alerts[len(alerts) - len(full) :] = full
        return alerts
