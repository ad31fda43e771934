"""A table of randomised bits: drawn, redrawn, counted under noise, and what the count tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from streamgauge.noise import Chance, DiscreteLaplace, Ints
from streamgauge.noise.entropy import Bytes, Wiped
from streamgauge.panprivate.coins import Coins
from streamgauge.panprivate.deviations import Deviation, Noise, Responses
from streamgauge.panprivate.occupancy import Number, Occupied
from streamgauge.panprivate.randomised_response import Response
from streamgauge.panprivate.table import Table
from streamgauge.panprivate.taken import Taken


def redraw(bits: Bytes, places: Ints, chance: Fraction, noise: Chance) -> None:
    """Draws the bits at these places anew; of a place that is there twice, the last draw stays."""
    with Wiped() as secret:
        bits[places] = secret(noise.coins(chance, len(places)))


def send(table: Table, channel: Response, noise: Chance) -> None:
    """Sends every bit through a channel: 0 to its absent law, 1 to its present one."""
    for bits in table.stretches():
        with Wiped() as secret:
            absent = secret(noise.coins(channel.absent, len(bits)))
            present = secret(noise.coins(channel.present, len(bits)))
            np.copyto(absent, present, where=bits.view(np.bool_))
            np.copyto(bits, absent)


def noisy_ones(tables: Sequence[Bytes], law: DiscreteLaplace, noise: Chance) -> Ints:
    """How many bits of each table are 1, under noise; neither numbers nor draws are left."""
    with Wiped() as secret:
        ones = secret(np.array([np.count_nonzero(bits) for bits in tables], np.int64))
        return np.asarray(ones + secret(law.draw(noise, len(tables))))


@dataclass(frozen=True)
class Count:
    """What a noisy number of ones among `entries` bits of these laws tells of the part whose users came."""

    entries: int
    laws: Response
    noise: DiscreteLaplace

    def part(self, ones: int) -> float:
        """Unbiased."""
        return float((Fraction(ones, self.entries) - self.laws.absent) / self.laws.gap)

    def variance(self, part: Number) -> Number:
        """Of `part`, if that is the truth of these entries."""
        gap = float(self.laws.gap)
        weight = 1 / (self.entries * gap * gap)
        return (self._of_a_bit(part) + self.noise.variance / self.entries) * weight

    def _of_a_bit(self, part: Number) -> Number:
        absent, present = float(self.laws.absent), float(self.laws.present)
        return part * present * (1 - present) + (1 - part) * absent * (1 - absent)

    def deviations(self) -> list[Deviation]:
        weight = 1 / (self.entries * float(self.laws.gap))
        chances = np.array([float(self.laws.absent), float(self.laws.present)])
        return [Responses(self.entries, weight, chances, 0 * chances), Noise(weight, self.noise)]

    def in_cells(self, part: float, occupied: Occupied) -> Taken:
        """Where the load is, if users were thrown at random into these cells, of which a part is told."""
        return Taken(occupied, part, partial(self._deviations_in_cells, occupied))

    def _deviations_in_cells(self, occupied: Occupied, low: float, high: float) -> list[Deviation]:
        """If the mean part of the cells that is taken is between these; ones are coins (`occupancy`)."""
        absent, gap, m = float(self.laws.absent), float(self.laws.gap), self.entries
        ends = [self._of_a_bit(part) for part in (low, high)]
        cells = [(gap * m) ** 2 * each for each in occupied.variances(low, high)]
        numbers = m * min(ends) + cells[0], m * max(ends) + cells[1]
        least = min(self._of_a_bit(part) for part in (0.0, 1.0))
        weight = 1 / (m * gap)
        coins = Coins(m, weight, (absent + gap * low, absent + gap * high), numbers, least)
        return [coins, Noise(weight, self.noise)]
