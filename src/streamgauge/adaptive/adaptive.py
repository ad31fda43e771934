"""What every adaptive mechanism is: a claim whose error depends on data, and which says so.

The loss never does: it is a promise for all data. What can be said of the error before there are data is
`bar`, which holds whatever they are, and `DEPENDS`, which names in words what the rest depends on.

Privacy
    All mechanisms of this room are proved for streams of whole numbers that differ by 1 in one number, and
    are calibrated to `share`, an even part of epsilon for each such step of one unit: a unit moves at most
    `unit.ticks` ticks, each by at most `reach.l1` in L1, so that from a stream to its neighbour there are
    `steps` = ticks * l1 of them at most, and their losses add up to epsilon (group privacy).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from streamgauge.adaptive.bars import Bar
from streamgauge.adaptive.released import Released, one_after_the_other, stacked
from streamgauge.continual.bound import Bound
from streamgauge.continual.claim import Claim, Ticking
from streamgauge.noise import Ints, Noise
from streamgauge.privacy import Event, Loss, Pure, Unit

S = TypeVar("S", bound=Ticking)


@dataclass(frozen=True)
class Adaptive(Claim[S, Released]):
    """A mechanism that adapts to its data: `start` it, `step` or `feed` it, read its releases.

    What all of them can be set to is here; what is a mechanism's own, in its file.
    """

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure,)
    WHY: ClassVar[str] = "its private tests are proved for pure losses"
    DEPENDS: ClassVar[str]  # what its error depends on, in words that a plan can print
    WINDOWS: ClassVar[tuple[str, ...]]  # the kinds of window that it answers: "each", "sliding", "running"
    JOINT: ClassVar[bool] = False  # whether groups are decided on together, so that none can be added later
    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    @property
    def steps(self) -> int:
        """By how many steps of 1 in one number the streams of neighbours differ, at most.

        A reach may be a fraction; rounding ticks * l1 down loses nothing. A run refuses all but whole numbers
        (`integers` in `streamgauge.continual.run`), so the streams of neighbours differ by whole numbers. The
        sum of those differences is a whole number of at most ticks * l1, hence at most its floor. It is 1 or
        more: `check_settings` refuses a reach below the unit's events a tick.
        """
        return int(self.unit.ticks * self.reach.l1)

    @cached_property
    def share(self) -> Pure:
        """What one step may lose."""
        return Pure(self.loss.as_pure().epsilon / self.steps)

    @abstractmethod
    def bar(self, tick: int) -> Bar:
        """What holds for the release at `tick` whatever the data, before there are any."""

    def feed(self, state: S, block: Ints, noise: Noise) -> Released:
        if not len(block):
            return self.nothing(block.shape[1])
        return stacked([self.step(state, row, noise) for row in block])

    def nothing(self, width: int) -> Released:
        """The release of no ticks."""
        none = np.zeros((0, width))
        return Released(none, none, ())

    def joined(self, releases: Sequence[Released]) -> Released:
        return one_after_the_other(releases)

    def narrowed(self, release: Released) -> Released:
        return release.of_group(0)

    def widening_refusal(self) -> str:
        if self.JOINT:
            return f"width must stay as it is for {type(self).__name__}, got more groups"
        return super().widening_refusal()
