"""Base classes of adaptive mechanisms, whose error depends on the data.

The loss never depends on the data: it is a promise for all data. Before there are data, two things describe the
error. `error_bound` holds for all data. `ERROR_DEPENDS_ON` describes what else it depends on.

Privacy
    All mechanisms of this package are proved for streams of whole numbers that differ by 1 in one number.
    They are calibrated to `step_loss`, an even part of epsilon for each such step of one unit.
    Proof: a unit moves at most `unit.ticks` ticks, each by at most `tick_sensitivity.l1` in L1. So from a
    stream to its neighbour there are at most `max_unit_steps` = ticks * l1 steps. Their losses add up to
    epsilon (group privacy).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease, ErrorBound, combine_releases
from streamgauge.continual.mechanism import Mechanism, Settings, TickState
from streamgauge.noise import Ints, Noise
from streamgauge.privacy import Loss, Pure
from streamgauge.privacy.rationals import Number

S = TypeVar("S", bound=TickState)


@dataclass(frozen=True)
class AdaptiveMechanism(Settings, Mechanism[S, AdaptiveRelease]):
    """A mechanism that adapts to its data.

    `start` it, `step` or `feed` it, read its releases.
    """

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure,)
    LOSSES_REASON: ClassVar[str] = "its private tests are proved for pure losses"
    ERROR_DEPENDS_ON: ClassVar[str]  # in words that a plan can print
    WINDOWS: ClassVar[tuple[str, ...]]  # the kinds of window that it answers: "each", "sliding", "running"
    HAS_JOINT_GROUPS: ClassVar[bool] = False  # True if groups are decided on together: none can be added later

    @property
    def max_unit_steps(self) -> int:
        """The most steps of 1 in one number by which the streams of neighbours differ.

        A reach may be a fraction. Rounding ticks * l1 down loses nothing: a run rejects all but whole numbers
        (`parse_integers` in `streamgauge.continual.run`), so the streams of neighbours differ by whole numbers. The
        sum of those differences is a whole number of at most ticks * l1, so at most its floor. It is 1 or
        more: `check_settings` rejects a reach below the unit's events a tick.
        """
        return int(self.unit.ticks * self.tick_sensitivity.l1)

    @cached_property
    def step_loss(self) -> Pure:
        """The loss of one step."""
        return Pure(self.loss.as_pure().epsilon / self.max_unit_steps)

    @abstractmethod
    def error_bound(self, tick: int) -> ErrorBound:
        """Return the error bound of the release at `tick` that holds for all data."""

    def feed(self, state: S, block: Ints, noise: Noise) -> AdaptiveRelease:
        if not len(block):
            return self.empty_release(block.shape[1])
        return combine_releases([self.step(state, row, noise) for row in block], np.stack)

    def empty_release(self, width: int) -> AdaptiveRelease:
        """Return the release of no ticks."""
        none = np.zeros((0, width))
        return AdaptiveRelease(none, none, ())

    def join_releases(self, releases: Sequence[AdaptiveRelease]) -> AdaptiveRelease:
        return combine_releases(releases, np.concatenate)

    def narrow_release(self, release: AdaptiveRelease) -> AdaptiveRelease:
        return release.select_group(0)

    def widening_refusal(self) -> str:
        if self.HAS_JOINT_GROUPS:
            return f"width must stay as it is for {type(self).__name__}, got more groups"
        return super().widening_refusal()


@dataclass(frozen=True, kw_only=True)
class GroupedMechanism(AdaptiveMechanism[S]):
    """A claim that smooths counts over groups of similar ticks.

    It is for one stream or for all nodes of a tree.

    `split` is the share of the Perturber. `theta` is how uneven a group may be, in units of 1/epsilon of the
    Grouper. `max_group_ticks` bounds the ticks of a group. All settings are public.
    """

    WINDOWS: ClassVar[tuple[str, ...]] = ("each", "sliding", "running")
    EXACT_MEMORY: ClassVar[str] = "its grouper holds the counts of open groups"
    window: str = "each"
    split: Number = Fraction(4, 5)
    theta: Number = 5
    smoother: str = "median"
    max_group_ticks: int = 256
