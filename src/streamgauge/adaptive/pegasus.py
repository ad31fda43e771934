"""Pegasus: counts under noise, smoothed over groups of ticks that a private test finds nearly constant.

    counts  --+--> Perturber: each count under noise ----+--> Smoother: medians of groups --> releases
              +--> Grouper: which ticks are alike -------+

One run answers for each tick, for sliding windows of any width, for running sums and for alerts: a release
has the `window` that was asked for, and the series behind it for all others (see `GroupHistory`).

Privacy
    Neighbours: as for every adaptive mechanism, who move one count by 1 in each of at most `steps` steps.
    Public: the number of ticks. Promise: pure epsilon-DP over the whole stream, even if values are chosen in
    view of past releases.
    Proof: of the `share` of one step, the Perturber takes the part `split`, with discrete Laplace noise of
    scale 1/(split share), and the Grouper the rest (see its claim); two losses add, and smoothing sees only
    what both have released.

Error
    Depends on data. `value` is from whole groups: the less noisy and the more biased, the longer they are. In
    a constant stream noise alone ends an open group, after about 8/3 e^(theta/8) ticks on average: 5 with the
    default theta, 32 with 20, 400 with 40 (`longest` aside), whatever epsilon is.
    `centre` is the sum of the noisy counts in the window, without bias, and its bar the exact law of as many
    draws; intervals are about it, so that they hold whatever the data are.
    Time for each tick is in the lengths of open groups.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus: Data-Adaptive Differentially Private Stream Processing, CCS
    2017: split 4/5, theta 5 and medians are their defaults. Ours differs in exact noise, in groups that have
    at most `longest` ticks, and in intervals.
"""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.adaptive import Adaptive
from streamgauge.adaptive.group_history import Grouped, GroupHistory
from streamgauge.adaptive.group_windows import Smoothed, Smoothing, window_of
from streamgauge.adaptive.grouper import Grouper, OpenGroups
from streamgauge.adaptive.ragged import room_for
from streamgauge.adaptive.smoothers import smoother_of
from streamgauge.continual.bound import Bound
from streamgauge.continual.saved import numbers
from streamgauge.continual.settings import check_settings
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Event, Loss, Unit
from streamgauge.privacy.exact import Number, exact, not_negative


@dataclass(slots=True)
class State:
    """All that a run remembers; secret are the open groups alone."""

    tick: int
    groups: OpenGroups  # exact: the counts of the open groups
    smoothed: Smoothed  # noisy


@dataclass(frozen=True)
class Pegasus(Adaptive[State]):
    """Counts of each tick, of a sliding window or of all ticks; see the module's claim."""

    DEPENDS: ClassVar[str] = (
        "how long the stream stays near one level: smoothing gains as it does, and lags where it jumps"
    )
    WINDOWS: ClassVar[tuple[str, ...]] = ("each", "sliding", "running")
    RESTS_EXACT: ClassVar[str] = "its grouper holds the counts of open groups"
    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()
    window: str = "each"
    split: Number = Fraction(4, 5)
    theta: Number = 5
    smoother: str = "median"
    longest: int = 256

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        split = exact(self.split, "split")
        if not 0 < split < 1:
            raise ValueError(f"split must be above 0 and below 1, got {self.split}")
        object.__setattr__(self, "split", split)
        object.__setattr__(self, "theta", not_negative(self.theta, "theta"))
        self.grouper, self.smoothing  # noqa: B018 - both refuse what they cannot be

    @cached_property
    def perturber(self) -> DiscreteLaplace:
        """The noise of one count."""
        return DiscreteLaplace(1 / (Fraction(self.split) * self.share.epsilon))

    @cached_property
    def grouper(self) -> Grouper:
        return Grouper((1 - Fraction(self.split)) * self.share.epsilon, Fraction(self.theta), self.longest)

    @cached_property
    def smoothing(self) -> Smoothing:
        stddev = sqrt(self.perturber.variance)
        return Smoothing(smoother_of(self.smoother, stddev), window_of(self.window))

    def history(self, width: int = 1) -> GroupHistory:
        """A history that takes releases of a run of so many groups, and answers for every window."""
        return GroupHistory.of(width, sqrt(self.perturber.variance))

    @property
    def distribution(self) -> DiscreteLaplace:
        return max(self.perturber, self.grouper.asking, key=lambda law: law.scale)

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, self.grouper.initial(width), self.smoothing.initial(width))

    def step(self, state: State, values: Ints, noise: Noise) -> Grouped:
        state.tick += 1
        noisy = values + self.perturber.draw(noise, len(values))
        started = self.grouper.step(state.groups, values, noise)
        value, centre = self.smoothing.step(state.smoothed, noisy, started, state.tick)
        bars = (self.bar(state.tick),)
        return Grouped(value, centre.astype(np.float64), bars, noisy=noisy, started=started)

    def bar(self, tick: int) -> NoiseSum:
        """The noise of the counts in the window."""
        return NoiseSum((Term(self.smoothing.window.ticks(self.checked(tick)), 1, self.perturber),))

    def nothing(self, width: int) -> Grouped:
        none = np.zeros((0, width))
        return Grouped(none, none, (), noisy=none.astype(np.int64), started=none.astype(np.bool_))

    def memory(self) -> int:
        """With room for the longest group, its counts and, for a median, its noisy counts."""
        blank, other = (numbers(self._blank(width)) for width in (1, 2))
        kinds = 1 + self.smoothing.smoother.RANKED
        return other - blank + kinds * room_for(self.longest)
