"""What each bin of a score weighs as evidence, and which of them make the event that shows the most.

Weights are log-ratios of training counts. Counts of rare bins are noisy, and evidence without a bound makes a
mean that no bound holds tightly: so windows and cuts are tried, made of one half of the training runs and
judged by the other, which itself is believed no more than its size allows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp

import numpy as np

from streamgauge.audit.confidence import LARGEST, rho_seen
from streamgauge.audit.rough_rates import rough_highest, rough_lowest
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Bools, Floats

WINDOWS = (1, 5, 15)  # bins that are taken together
CUTS = np.array([1.0, 2.0, 4.0, np.inf])  # how much one bin may weigh
NEVER = 1e-300
CAUTION = 0.05  # doubt about what judges
BOLD = 0.5  # the same where a rate is multiplied by e^epsilon: more caution would see nothing at all

Bound = Callable[[Floats, Floats], Floats]  # of a rate from below and of one from above, event by event
Counts = tuple[Ints, Ints]  # how often each bin was seen under one neighbour, and under the other


@dataclass(frozen=True, eq=False)
class Halves:
    """The counts of the training runs."""

    made_of: Counts
    judged_by: Counts

    @property
    def turned(self) -> "Halves":
        """With the neighbours in the other order."""
        return Halves(self.made_of[::-1], self.judged_by[::-1])

    @property
    def whole(self) -> Counts:
        return self.made_of[0] + self.judged_by[0], self.made_of[1] + self.judged_by[1]

    @cached_property
    def weights(self) -> Floats:
        """By every window, a row each, of the half that they are made of."""
        return np.stack([weights(self.made_of, window) for window in WINDOWS])

    def to_come(self, runs: int) -> tuple[Floats, Floats]:
        """What is to be expected of so many runs, as one half judges."""
        one, other = (side * (runs / side.sum()) for side in self.judged_by)
        return one, other


def weights(counts: Counts, window: int = 1) -> Floats:
    """How much each bin speaks for the first neighbour."""
    smooth = np.ones(min(window, len(counts[0])))
    one, other = (np.convolve(side + 0.5, smooth, "same") for side in counts)
    return np.asarray(np.log(one) - np.log(other), np.float64)


def best_weights(halves: Halves, runs: int, doubt: float) -> tuple[float, Floats]:
    """Those that promise most of zCDP in so many runs, made of all counts at last; and how much."""
    cut = np.clip(halves.weights[:, None], -CUTS[:, None], CUTS[:, None])
    promised = rho_seen(cut.reshape(-1, cut.shape[-1]), *halves.to_come(runs), doubt)
    best = int(np.argmax(promised))
    window, most = WINDOWS[best // len(CUTS)], CUTS[best % len(CUTS)]
    return float(promised[best]), np.clip(weights(halves.whole, window), -most, most)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What each bin weighs, for whichever neighbour promises more; worked out where zCDP is asked for."""

    halves: Halves
    runs: int
    doubt: float

    @cached_property
    def best(self) -> tuple[Floats, bool]:
        """The weights, and whether they speak for the second neighbour."""
        sides = self.halves, self.halves.turned
        forth, back = (best_weights(side, self.runs, self.doubt) for side in sides)
        turned = back[0] > forth[0]
        return (back if turned else forth)[1], turned


def epsilon_at(delta: float) -> Bound:
    """The logarithm of what is left of the first rate without delta, over the second."""
    return lambda low, high: np.asarray(np.log(np.maximum(low - delta, NEVER) / high), np.float64)


def delta_at(epsilon: float) -> Bound:
    """What is left of the first rate without e^epsilon times the second."""
    return lambda low, high: low - exp(min(epsilon, LARGEST)) * high


@dataclass(frozen=True, eq=False)
class Events:
    """All of the kind "evidence of at least so much": for either neighbour, by every window, a row each."""

    order: Ints  # of the bins, those that speak most for the neighbour first
    one: Ints  # how often an event of so many bins was seen by the half that judges: under that neighbour
    other: Ints  # and under the other

    @classmethod
    def of(cls, halves: Halves) -> "Events":
        forth = halves.weights
        order = np.argsort(np.concatenate([-forth, forth]), axis=1, kind="stable")
        seen = [np.cumsum(side[order], axis=1) for side in halves.judged_by]
        one, other = (np.concatenate([a[: len(forth)], b[len(forth) :]]) for a, b in (seen, seen[::-1]))
        return cls(order, one, other)

    def rates(self, runs: int, doubt: float, caution: float) -> tuple[Floats, Floats]:
        """What is to be expected of so many runs: from below, and of the other neighbour from above."""
        one, other = self.one, self.other
        low = rough_lowest(runs * rough_lowest(one, one[:, -1:], caution), runs, doubt / 2)
        high = rough_highest(runs * rough_highest(other, other[:, -1:], caution), runs, doubt / 2)
        return low, high

    def best(self, promised: Floats) -> tuple[Bools, bool]:
        """The bins of the event that promises most, and whether it speaks for the second neighbour."""
        row, last = divmod(int(np.nanargmax(promised)), promised.shape[1])
        event = np.zeros(promised.shape[1], np.bool_)
        event[self.order[row, : last + 1]] = True
        return event, row >= len(self.order) // 2
