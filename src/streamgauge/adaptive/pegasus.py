"""Pegasus: counts under noise, smoothed over groups of ticks that a private test finds nearly constant.

    counts  --+--> Perturber: each count under noise ----+--> Smoother: medians of groups --> releases
              +--> Grouper: which ticks are alike -------+

One run answers for each tick, for sliding windows of any width, for running sums and for alerts: a release
has the `window` that was asked for, and the series behind it for all others (see `GroupHistory`).

With `block`, the Perturber reads at two scales: each tick, and each block of so many ticks when it ends. That
is for windows longer than a block; shorter ones have the noise of ticks, which is wider then.

Privacy
    Neighbours: as for every adaptive mechanism, who move one count by 1 in each of at most `steps` steps.
    Public: the number of ticks. Promise: pure epsilon-DP over the whole stream, even if values are chosen in
    view of past releases.
    Proof: of the `share` of one step, the Perturber takes the part `split`, with discrete Laplace noise of
    scale 1/(split share), and the Grouper the rest (see its claim); two losses add, and smoothing sees only
    what both have released.
    With `block`, a count is in the readings of one tick and of one block (blocks.py), which have the parts
    1 - `coarse` and `coarse` of what the Perturber takes: three losses add up to the share.

Error
    Depends on data. `value` is from whole groups: the less noisy and the more biased, the longer they are. In
    a constant stream noise alone ends an open group, after about 8/3 e^(theta/8) ticks on average: 5 with the
    default theta, 32 with 20, 400 with 40 (`longest` aside), whatever epsilon is.
    `centre` is the sum of the noisy counts in the window, without bias, and its bar the law of as many
    draws; intervals are about it, so that they hold whatever the data are. With `block`, whole blocks count
    by their readings (block_windows.py): a window of N ticks has about N/block draws and those of a half to
    a whole block of ticks. For intervals a block near sqrt(N) is best; values bear longer ones.
    Time for each tick is in the lengths of open groups.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus: Data-Adaptive Differentially Private Stream Processing, CCS
    2017: split 4/5, theta 5 and medians are their defaults. Ours differs in exact noise, in groups that have
    at most `longest` ticks, in intervals, and in blocks, which they have not.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.bars import ManyDraws
from streamgauge.adaptive.block_windows import Scaled, TwoScaled, with_blocks
from streamgauge.adaptive.blocks import Blocks, OpenBlock
from streamgauge.adaptive.group_history import Grouped, GroupHistory
from streamgauge.adaptive.group_windows import Smoothed, Smoothing, window_of
from streamgauge.adaptive.grouped_claim import GroupedClaim
from streamgauge.adaptive.grouper import Grouper, OpenGroups
from streamgauge.adaptive.ragged import room_for
from streamgauge.adaptive.smoothers import smoother_of
from streamgauge.continual.saved import numbers
from streamgauge.continual.settings import check_settings, is_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum, Term
from streamgauge.privacy.exact import Number, exact, not_negative

HALF = Fraction(1, 2)


@dataclass(slots=True)
class State:
    """All that a run remembers; secret are the open groups and the open block alone."""

    tick: int
    groups: OpenGroups  # exact: the counts of the open groups
    smoothed: Smoothed | TwoScaled  # noisy
    block: OpenBlock | None = None  # exact: the sums of the open block, where blocks are read


@dataclass(frozen=True, kw_only=True)
class Pegasus(GroupedClaim[State]):
    """Counts of each tick, of a sliding window or of all ticks; see the module's claim."""

    DEPENDS: ClassVar[str] = (
        "how long the stream stays near one level: smoothing gains as it does, and lags where it jumps"
    )
    block: int | None = None
    coarse: Number = HALF

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        for name in ("split", "coarse"):
            part = exact(getattr(self, name), name)
            if not 0 < part < 1:
                raise ValueError(f"{name} must be above 0 and below 1, got {getattr(self, name)}")
            object.__setattr__(self, name, part)
        if self.block is not None and not is_whole(self.block, 2):
            raise ValueError(f"block must be left out or a whole number of at least 2, got {self.block!r}")
        if self.block is None and self.coarse != HALF:
            raise ValueError(f"coarse must be left out unless there is a block, got {self.coarse}")
        object.__setattr__(self, "theta", not_negative(self.theta, "theta"))
        self.grouper, self.smoothing  # noqa: B018 - both refuse what they cannot be

    @cached_property
    def perturber(self) -> DiscreteLaplace:
        """The noise of one count."""
        part = 1 if self.block is None else 1 - Fraction(self.coarse)
        return DiscreteLaplace(1 / (part * Fraction(self.split) * self.share.epsilon))

    @cached_property
    def blocks(self) -> Blocks | None:
        """The readings of blocks, with the rest of the Perturber's part."""
        if self.block is None:
            return None
        law = DiscreteLaplace(1 / (Fraction(self.coarse) * Fraction(self.split) * self.share.epsilon))
        return Blocks(self.block, law, self.perturber)

    @cached_property
    def grouper(self) -> Grouper:
        return Grouper((1 - Fraction(self.split)) * self.share.epsilon, Fraction(self.theta), self.longest)

    @cached_property
    def smoothing(self) -> Smoothing:
        stddev = sqrt(self.perturber.variance)
        return Smoothing(smoother_of(self.smoother, stddev), window_of(self.window))

    @cached_property
    def scaled(self) -> Scaled:
        """The smoother at work, with readings of blocks where they are of use."""
        return with_blocks(self.smoothing, self.blocks)

    def history(self, width: int = 1) -> GroupHistory:
        """A history that takes releases of a run of so many groups, and answers for every window."""
        return GroupHistory.of(width, sqrt(self.perturber.variance), self.blocks)

    @property
    def distribution(self) -> DiscreteLaplace:
        coarse = self.blocks.law if self.blocks else self.perturber
        return max(self.perturber, coarse, self.grouper.asking, key=lambda law: law.scale)

    def initial(self, width: int, noise: Noise) -> State:
        block = self.blocks.initial(width) if self.blocks else None
        return State(0, self.grouper.initial(width), self.scaled.initial(width), block)

    def step(self, state: State, values: Ints, noise: Noise) -> Grouped:
        state.tick += 1
        noisy = values + self.perturber.draw(noise, len(values))
        ended = self._ended(state, values, noise)
        started = self.grouper.step(state.groups, values, noise)
        value, centre = self.scaled.step(state.smoothed, noisy, started, state.tick, ended)
        bars = (self.bar(state.tick),)
        return Grouped(value, centre.astype(np.float64), bars, noisy=noisy, started=started, ended=ended)

    def _ended(self, state: State, values: Ints, noise: Noise) -> Ints | None:
        """The readings of the blocks that end here, where blocks are read."""
        if self.blocks is None or state.block is None:
            return None
        return self.blocks.step(state.block, values, state.tick, noise)

    def bar(self, tick: int) -> ManyDraws:
        """The noise of the readings that the window is put together from."""
        blocks, ticks = self.scaled.draws(self.checked(tick))
        coarse = (Term(blocks, 1, self.blocks.law),) if self.blocks and blocks else ()
        return ManyDraws(NoiseSum((Term(ticks, 1, self.perturber), *coarse)))

    def nothing(self, width: int) -> Grouped:
        none, whole = np.zeros((0, width)), np.zeros((0, width), np.int64)
        ended = whole if self.blocks else None
        return Grouped(none, none, (), noisy=whole, started=none.astype(np.bool_), ended=ended)

    def memory(self) -> int:
        """With room for the longest group, its counts and, for a median, its noisy counts."""
        blank, other = (numbers(self._blank(width)) for width in (1, 2))
        kinds = 1 + self.smoothing.smoother.RANKED
        return other - blank + kinds * room_for(self.longest)
