"""What sums of signs tell: how many users came for the first time, and how far that may be from the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np

from streamgauge.continual import Claim, Mechanism
from streamgauge.continual.saved import NoNoise
from streamgauge.noise import DiscreteLaplace
from streamgauge.panprivate.coins import Coins
from streamgauge.panprivate.deviations import Around, Deviation, Responses, drawn, sampled
from streamgauge.panprivate.draws import Draws
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.occupancy import Occupied
from streamgauge.panprivate.taken import Taken
from streamgauge.privacy import Event

TRIED = 3  # ticks that show whether a counter adds up


def check_counter(counter: Mechanism[Any]) -> None:
    """Refuses what is no pan-private running count of pure loss for one event.

    The loss would be kept by a counter that adapts to its data too, such as `CascadingBuffers`. But estimates
    have standard errors and intervals, which need the law of the counter's noise apart from the data.
    """
    kept = isinstance(counter, Claim) and counter.loss.currency == "pure" and counter.pan_private
    if kept and not isinstance(counter, Mechanism):
        rule = "counter must be linear, since intervals need the law of its noise apart from the data"
        raise ValueError(f"{rule}, got {counter!r}")
    if not kept or counter.unit != Event() or counter.bound != 1:
        raise ValueError(
            f"counter must be a pan-private mechanism of pure loss for one event, got {counter!r}"
        )
    ticks = min(TRIED, counter.horizon or TRIED)
    state = counter.initial(1, NoNoise())
    told = [int(counter.step(state, np.ones(1, np.int64), NoNoise())[0]) for _ in range(ticks)]
    if told != list(range(1, ticks + 1)):
        raise ValueError(f"counter must add up all ticks, got {counter!r}")


@dataclass(frozen=True)
class Stretch:
    """The time between two announced intrusions, under one law of signs."""

    ticks: int
    slots: float
    ones: float  # as they were heard, or are expected to be
    gap: float
    counter: Mechanism[Any] | None

    @property
    def users(self) -> float:
        """Who came for the first time, estimated."""
        return (self.ones - self.slots / 2) / self.gap

    def variance(self, users: float) -> float:
        """Of the estimate, if so many came for the first time."""
        signs = self.slots / 4 - min(max(users, 0.0), self.slots) * self.gap**2
        heard = self.counter.noise_at(self.ticks).variance if self.counter is not None and self.ticks else 0.0
        return (signs + heard) / self.gap / self.gap

    def parts(self, entries: int) -> list[Deviation]:
        """Of the error of users/entries."""
        one = 1 / (entries * self.gap)
        found: list[Deviation] = []
        if self.slots:
            chances = np.array([0.5, 0.5 + self.gap])
            found.append(Responses(self.slots, one, chances, 0 * chances))
        if self.counter is not None and self.ticks:
            terms = self.counter.noise_at(self.ticks).terms
            found += [
                Draws(one * float(term.weight), laplace(term.distribution), term.count) for term in terms
            ]
        return found


def laplace(law: object) -> DiscreteLaplace:
    """Counters of pure loss have no other noise."""
    if not isinstance(law, DiscreteLaplace):
        raise TypeError(f"counter must have Laplace noise, got {type(law).__name__}")
    return law


def of_bits(stretches: Sequence[Stretch], entries: int) -> float:
    """The variance of the part of entries that is taken, which cells users fell into aside."""
    return sum(stretch.variance(stretch.users) for stretch in stretches) / entries**2


def estimated(stretches: Sequence[Stretch], universe: int, entries: int, hashed: bool) -> Estimated:
    """The part of the universe that has come, of the sums of all stretches."""
    value = sum(stretch.users for stretch in stretches) / entries
    variance = of_bits(stretches, entries)
    parts = [part for stretch in stretches for part in stretch.parts(entries)]
    if hashed:
        return of_cells(value, variance, parts, Occupied(universe, entries))
    came = min(max(value, 0.0), 1.0)
    variance += sampled(entries, universe) * came * (1 - came)
    return Estimated(value, sqrt(variance), universe, Around(value, parts + drawn(1.0, entries, universe)))


def of_cells(taken: float, variance: float, parts: list[Deviation], occupied: Occupied) -> Estimated:
    """Users that were hashed: of cells that are taken. How many share them has no end."""
    load = float(occupied.load(taken))
    stddev = sqrt(variance + occupied.variance(load)) * occupied.slope(load)

    def deviations(low: float, high: float) -> list[Deviation]:
        """If the mean part of the cells that is taken is between these; signs depend on which were."""
        numbers = [each * occupied.entries**2 for each in occupied.variances(low, high)]
        m = occupied.entries
        return [*parts, Coins(m, 1 / m, (low, high), (numbers[0], numbers[1]), alone=False)]

    return Estimated(load, stddev, occupied.cells, Taken(occupied, taken, deviations), highest=inf)
