"""What the four mechanisms of w-event privacy have in common: a budget for every window of w ticks.

A unit touches at most w consecutive ticks, so a mechanism may spend epsilon anew in every window of w ticks,
for ever. Budgets are whole numbers of equal parts of epsilon and never floats, so that no window's sum has
to be forgiven a rounding.

Privacy
    Neighbours: streams that differ in at most w = `unit.ticks` consecutive ticks, in each by at most
    `reach.l1` in L1. The number of ticks is public.
    Promise: pure epsilon-DP over the whole, endless stream, even if values are chosen in view of past
    releases, for every mechanism that releases each tick under a loss fixed by what was released before, and
    whose losses add up to at most epsilon over any w consecutive ticks.
    Proof: the log of the ratio of the chances of a history of releases is the sum of those of its ticks,
    each given the ticks before it. Ticks in which the streams agree add nothing; the others lie in a window.

Pan-privacy
    A run remembers what it has released and nothing else: noise is drawn inside the step, and the exact
    vector is gone when the step ends. Who sees the memory sees no more than past releases; so intrusions,
    announced or not, lose nothing, and are answered without noise.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: Differentially private event sequences over infinite streams,
    VLDB 2014. Dwork, Naor, Pitassi, Rothblum, Yekhanin: Pan-private streaming algorithms, 2010.
"""

from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from streamgauge.adaptive.adaptive import Adaptive, S
from streamgauge.continual.settings import check_noise, check_settings
from streamgauge.noise import DiscreteLaplace, Noise, NoiseSum, Term

LONGEST = 2**20  # ticks of a window, since budgets of two of them are remembered
DIGITS = 4  # binary digits of a budget: so few laws of noise that their tables are kept


@dataclass(frozen=True)
class WindowClaim(Adaptive[S]):
    """A claim that spends epsilon in every window of w = `unit.ticks` ticks; see the module's claim."""

    WINDOWS: ClassVar[tuple[str, ...]] = ("each",)

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        if not self.unit.consecutive:
            who = f"an Event that stays in its tick, a Tick or a WEvent for {type(self).__name__}"
            raise ValueError(f"unit must be {who}, got {self.unit!r}")
        if self.w > LONGEST:
            raise ValueError(f"unit must be of at most 2**20 ticks, got {self.unit!r}")
        check_noise(self)

    @property
    def w(self) -> int:
        return self.unit.ticks

    @property
    def epsilon(self) -> Fraction:
        return self.loss.as_pure().epsilon

    def law(self, budget: Fraction) -> DiscreteLaplace:
        """The noise under which a number, or a vector, that a unit moves by l1 loses `budget`."""
        return DiscreteLaplace(self.reach.l1 / budget)

    def intrude(self, state: S, noise: Noise) -> S:
        """There is nothing to hide: the memory is what was released."""
        return deepcopy(state) if self.pan_private else super().intrude(state, noise)


def one_draw(law: DiscreteLaplace) -> NoiseSum:
    return NoiseSum((Term(1, 1, law),))


def coarse(parts: int) -> int:
    """The number, rounded down to DIGITS binary digits.

    >>> [coarse(parts) for parts in (0, 15, 17, 19, 1000)]
    [0, 15, 16, 18, 960]
    """
    places = max(0, parts.bit_length() - DIGITS)
    return parts >> places << places
