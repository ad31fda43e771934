"""Base of the mechanisms of w-event privacy: a budget for every window of w ticks.

A unit touches at most w consecutive ticks. So a mechanism may spend epsilon again in every window of w ticks,
forever. Budgets are whole numbers of equal parts of epsilon and never floats, so that no window's sum needs a
tolerance for rounding.

Privacy
    Neighbours: streams that differ in at most w = `unit.ticks` consecutive ticks, in each by at most
    `tick_sensitivity.l1` in L1. The number of ticks is public.
    Promise: pure epsilon-DP over the whole, endless stream, even if values are chosen in view of past
    releases. It holds for every mechanism that releases each tick under a loss fixed by earlier releases, if
    the losses add up to at most epsilon over any w consecutive ticks.
    Proof: the log of the ratio of the chances of a history of releases is the sum of those of its ticks,
    each given the ticks before it. Ticks in which the streams agree add nothing. The others lie in a window.

Pan-privacy
    A run remembers its releases and nothing else: noise is drawn inside the step, and the exact vector is
    gone when the step ends. An intruder with the memory learns no more than past releases. So
    intrusions, announced or not, lose nothing, and are answered without noise.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: Differentially private event sequences over infinite streams,
    VLDB 2014. Dwork, Naor, Pitassi, Rothblum, Yekhanin: Pan-private streaming algorithms, 2010.
"""

from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from streamgauge.adaptive.mechanism import AdaptiveMechanism, S
from streamgauge.continual.validation import check_noise, check_settings
from streamgauge.noise import DiscreteLaplace, Noise, NoiseSum, Term

MAX_WINDOW_TICKS = 2**20  # a run remembers the budgets of two windows
BUDGET_BITS = 4  # few budgets, so few laws of noise: their tables are cached


@dataclass(frozen=True)
class WEventMechanism(AdaptiveMechanism[S]):
    """A claim that spends epsilon in every window of w = `unit.ticks` ticks.

    See the module's claim.
    """

    WINDOWS: ClassVar[tuple[str, ...]] = ("each",)

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        if not self.unit.consecutive:
            who = f"an Event that stays in its tick, a Tick or a WEvent for {type(self).__name__}"
            raise ValueError(f"unit must be {who}, got {self.unit!r}")
        if self.w > MAX_WINDOW_TICKS:
            raise ValueError(f"unit must be of at most 2**20 ticks, got {self.unit!r}")
        check_noise(self)

    @property
    def w(self) -> int:
        return self.unit.ticks

    @property
    def epsilon(self) -> Fraction:
        return self.loss.as_pure().epsilon

    def build_law(self, budget: Fraction) -> DiscreteLaplace:
        """Return the noise under which a number or vector loses `budget`.

        A unit moves it by l1.
        """
        return DiscreteLaplace(self.tick_sensitivity.l1 / budget)

    def intrude(self, state: S, noise: Noise) -> S:
        """Return a copy of the memory, which has past releases only."""
        return deepcopy(state) if self.pan_private else super().intrude(state, noise)


def single_draw_noise(law: DiscreteLaplace) -> NoiseSum:
    return NoiseSum((Term(1, 1, law),))


def round_down_to_few_bits(parts: int) -> int:
    """Round down to a number of BUDGET_BITS binary digits followed by zeros.

    >>> [round_down_to_few_bits(parts) for parts in (0, 15, 17, 19, 1000)]
    [0, 15, 16, 18, 960]
    """
    places = max(0, parts.bit_length() - BUDGET_BITS)
    return parts >> places << places
