"""What each bin of a score weighs as evidence, and which of them make the event that shows the most.

Weights are log-ratios of training counts. Counts of rare bins are noisy, and evidence without a bound makes a
mean that no bound holds tightly: so windows and cuts are tried, made of one half of the training runs and
judged by the other, which itself is believed no more than its size allows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import exp

import numpy as np

from streamgauge.audit.confidence import LARGEST, rho_seen
from streamgauge.audit.rough_rates import rough_highest, rough_lowest
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Bools, Floats

WINDOWS = (1, 5, 15)  # bins that are taken together
CUTS = (1.0, 2.0, 4.0, np.inf)  # how much one bin may weigh
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

    def to_come(self, runs: int) -> tuple[Floats, Floats]:
        """What is to be expected of so many runs, as one half judges."""
        one, other = (side * (runs / side.sum()) for side in self.judged_by)
        return one, other


def weights(counts: Counts, window: int = 1, cut: float = np.inf) -> Floats:
    """How much each bin speaks for the first neighbour."""
    smooth = np.ones(min(window, len(counts[0])))
    one, other = (np.convolve(side + 0.5, smooth, "same") for side in counts)
    return np.asarray(np.clip(np.log(one) - np.log(other), -cut, cut), np.float64)


def best_weights(halves: Halves, runs: int, doubt: float) -> tuple[float, Floats]:
    """Those that promise most of zCDP in so many runs, made of all counts at last; and how much."""
    one, other = halves.to_come(runs)
    ways = list(product(WINDOWS, CUTS))
    promised = [rho_seen(weights(halves.made_of, *way), one, other, doubt) for way in ways]
    best = int(np.argmax(promised))
    return promised[best], weights(halves.whole, *ways[best])


def epsilon_at(delta: float) -> Bound:
    """The logarithm of what is left of the first rate without delta, over the second."""
    return lambda low, high: np.asarray(np.log(np.maximum(low - delta, NEVER) / high), np.float64)


def delta_at(epsilon: float) -> Bound:
    """What is left of the first rate without e^epsilon times the second."""
    return lambda low, high: low - exp(min(epsilon, LARGEST)) * high


def best_event(
    halves: Halves, runs: int, doubt: float, bound: Bound, caution: float = CAUTION
) -> tuple[float, Bools]:
    """Of the events "evidence of at least so much": the largest bound that one promises, and that one."""
    best, event = -np.inf, np.ones(len(halves.made_of[0]), np.bool_)
    for window in WINDOWS:
        order = np.argsort(-weights(halves.made_of, window), kind="stable")
        one, other = (np.cumsum(side[order]) for side in halves.judged_by)
        low = rough_lowest(runs * rough_lowest(one, one[-1], caution), runs, doubt / 2)
        high = rough_highest(runs * rough_highest(other, other[-1], caution), runs, doubt / 2)
        promised = bound(low, high)
        last = int(np.argmax(promised))
        if promised[last] > best:
            best = float(promised[last])
            event = np.zeros(len(order), np.bool_)
            event[order[: last + 1]] = True
    return best, event
