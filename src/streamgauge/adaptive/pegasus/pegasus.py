"""Pegasus: noisy counts, smoothed over groups of ticks that are nearly constant.

    counts  --+--> Perturber: each count under noise ----+--> Smoother: medians of groups --> releases
              +--> Grouper: groups of similar ticks -----+

One run answers for each tick, for sliding windows of any width, for running sums and for alerts. A release has the
requested `window`, and the series behind it for all others: the noisy count of each tick, the starts of groups, and
readings of blocks if there are any. All are public, and all else is a function of them. `GroupHistory` computes
counts, sliding windows of any width, running sums and alerts from them, as a run would have released them.

With `block`, the Perturber reads at two scales: each tick, and each block of so many ticks when it ends. That is
for windows longer than a block. Shorter ones have the noise of ticks, which is wider then.

Privacy
    Neighbours: as for every adaptive mechanism, streams that differ by 1 in one count in each of at most
    `max_unit_steps` steps. Public: the number of ticks. Promise: pure epsilon-DP over the whole stream, even if
    values are chosen in view of past releases.
    Proof: of the `step_loss`, the Perturber spends the part `split`, with discrete Laplace noise of scale
    1/(split step_loss), and the Grouper the rest (see its claim). Two losses add, and smoothing reads only
    their releases. A `GroupHistory` reads releases only, and spends nothing.
    With `block`, a count is in the readings of one tick and of one block (see `windows`), which have the parts
    1 - `coarse` and `coarse` of the Perturber's budget: three losses add up to the step's.

Error
    Depends on data. `value` is from whole groups: the longer they are, the less noise and the more bias it has.
    In a constant stream noise alone ends an open group, after about 8/3 e^(theta/8) ticks on average: 5 with
    the default theta, 32 with 20, 400 with 40 (`max_group_ticks` aside), for all epsilon.
    `centre` is the sum of the noisy counts in the window, without bias. Its bound is the law of as many draws.
    Intervals are about it, so that they hold for all data. With `block`, whole blocks count by their readings
    (see `windows`): a window of N ticks has about N/block draws and those of a half to a whole block of ticks.
    For intervals a block near sqrt(N) is best; for values longer ones are good.
    Time for each tick is in the lengths of open groups.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus: Data-Adaptive Differentially Private Stream Processing, CCS
    2017: split 4/5, theta 5 and medians are their defaults; section 4 has one run answer many queries. Ours
    differs in exact noise, in groups of at most `max_group_ticks` ticks, in intervals, and in blocks, which
    they do not have.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease, ManyDrawsErrorBound
from streamgauge.adaptive.mechanism import GroupedMechanism
from streamgauge.adaptive.pegasus.grouper import Grouper, OpenGroups
from streamgauge.adaptive.pegasus.smoothers import build_smoother, row_capacity
from streamgauge.adaptive.pegasus.windows import (
    Blocks,
    GroupSmoothing,
    OpenBlock,
    SmoothingState,
    TwoScaleState,
    WindowSmoothing,
    build_window_smoothing,
    parse_window,
)
from streamgauge.continual.state_io import count_numbers
from streamgauge.continual.validation import check_settings, is_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum, Term
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.postprocess.monitor import EventMonitor
from streamgauge.privacy.rationals import Number, parse_nonnegative, parse_rational


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupedRelease(AdaptiveRelease):
    """The release of a run of `Pegasus`: a window, and the series behind it."""

    noisy_counts: Ints  # the count of the tick, under noise
    group_starts: Bools  # True if a group began with the tick
    block_readings: Ints | None = None  # the count of the block that ended with the tick, under noise; else 0


@dataclass
class GroupHistory:
    """The series behind the releases of a run, (ticks, width).

    `add` them as they come.

    >>> import numpy as np
    >>> history = GroupHistory(np.array([[4], [6], [9]]), np.array([[True], [False], [True]]))
    >>> history.estimate_counts()[:, 0], history.estimate_sliding(2)[:, 0], history.estimate_running("average")[:, 0]
    (array([4., 5., 9.]), array([ 4., 10., 14.]), array([ 4., 10., 19.]))
    """

    noisy_counts: Ints
    group_starts: Bools
    stddev: float = 0.0  # the standard error of one noisy count, for smoothers that need it
    blocks: Blocks | None = None
    block_readings: Ints | None = None  # as of a release, if blocks are read

    @classmethod
    def empty(cls, width: int, stddev: float = 0.0, blocks: Blocks | None = None) -> "GroupHistory":
        """Return the history before the first release of so many groups."""
        none = np.zeros((0, width), np.int64)
        return cls(none, none.astype(np.bool_), stddev, blocks, none if blocks else None)

    def add(self, release: AdaptiveRelease) -> None:
        """Add the release of one tick, of several, or of one group at several."""
        if not isinstance(release, GroupedRelease):
            raise ValueError(f"release must be one of Pegasus, got {type(release).__name__}")
        shape = (len(release.error_bounds), self.noisy_counts.shape[1])
        if release.noisy_counts.size != len(release.error_bounds) * self.noisy_counts.shape[1]:
            groups = release.noisy_counts.size // max(1, len(release.error_bounds))
            raise ValueError(f"release must be of {shape[1]} groups, as its history is, got {groups}")
        if (release.block_readings is None) != (self.block_readings is None):
            raise ValueError("release must have readings of blocks where its history has, got another kind")
        self.noisy_counts = np.concatenate([self.noisy_counts, release.noisy_counts.reshape(shape)])
        self.group_starts = np.concatenate([self.group_starts, release.group_starts.reshape(shape)])
        if self.block_readings is not None and release.block_readings is not None:
            self.block_readings = np.concatenate([self.block_readings, release.block_readings.reshape(shape)])

    def estimate_counts(self, smoother: str = "median") -> Floats:
        """Return estimates of each tick, as of that tick."""
        return self.estimate_window("each", smoother)

    def estimate_sliding(self, size: int, smoother: str = "median") -> Floats:
        """Return estimates of the last `size` ticks."""
        longest = max(1, len(self.noisy_counts), self.blocks.size if self.blocks else 1)
        return self.estimate_window(f"sliding {min(size, longest)}", smoother)

    def estimate_running(self, smoother: str = "median") -> Floats:
        """Return estimates of all ticks so far."""
        return self.estimate_window("running", smoother)

    def estimate_window(self, window: str, smoother: str = "median") -> Floats:
        """Return the values that a run would have released, a row for each tick."""
        groups = GroupSmoothing(build_smoother(smoother, self.stddev), parse_window(window))
        scaled, values = build_window_smoothing(groups, self.blocks), np.zeros(self.noisy_counts.shape)
        state = scaled.initial(self.noisy_counts.shape[1])
        ended = self.noisy_counts if self.block_readings is None else self.block_readings
        for row, (noisy, started, reading) in enumerate(zip(self.noisy_counts, self.group_starts, ended, strict=True)):
            values[row], _ = scaled.step(state, noisy, started, row + 1, reading)
        return values

    def find_alerts(self, monitor: EventMonitor, smoother: str = "median") -> Bools:
        """Return where a monitor of counts alerts.

        A low signal is one of the sliding window, as a whole.
        """
        width = self.noisy_counts.shape[1]
        if monitor.kind != "low":
            return monitor.start(width).feed(self.estimate_counts(smoother))
        alerts = replace(monitor, window=1).start(width).feed(self.estimate_sliding(monitor.window, smoother))
        alerts[: monitor.window - 1] = False
        return alerts


DEFAULT_COARSE = Fraction(1, 2)


@dataclass(slots=True)
class State:
    """The memory of a run. The open groups and the open block alone are secret."""

    tick: int
    groups: OpenGroups  # exact: the counts of the open groups
    smoothing: SmoothingState | TwoScaleState  # noisy
    block: OpenBlock | None = None  # exact: the sums of the open block, if blocks are read


@dataclass(frozen=True, kw_only=True)
class Pegasus(GroupedMechanism[State]):
    """Counts of each tick, of a sliding window or of all ticks.

    See the module's claim.
    """

    ERROR_DEPENDS_ON: ClassVar[str] = (
        "how long the stream stays near one level: smoothing gains as it does, and lags where it jumps"
    )
    block: int | None = None
    coarse: Number = DEFAULT_COARSE

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        for name in ("split", "coarse"):
            part = parse_rational(getattr(self, name), name)
            if not 0 < part < 1:
                raise ValueError(f"{name} must be above 0 and below 1, got {getattr(self, name)}")
            object.__setattr__(self, name, part)
        if self.block is not None and not is_whole(self.block, 2):
            raise ValueError(f"block must be left out or a whole number of at least 2, got {self.block!r}")
        if self.block is None and self.coarse != DEFAULT_COARSE:
            raise ValueError(f"coarse must be left out unless there is a block, got {self.coarse}")
        object.__setattr__(self, "theta", parse_nonnegative(self.theta, "theta"))
        self.grouper, self.smoothing  # noqa: B018 - both reject bad settings

    @cached_property
    def perturber(self) -> DiscreteLaplace:
        """The noise of one count."""
        part = 1 if self.block is None else 1 - Fraction(self.coarse)
        return DiscreteLaplace(1 / (part * Fraction(self.split) * self.step_loss.epsilon))

    @cached_property
    def blocks(self) -> Blocks | None:
        """The readings of blocks, with the rest of the Perturber's budget."""
        if self.block is None:
            return None
        law = DiscreteLaplace(1 / (Fraction(self.coarse) * Fraction(self.split) * self.step_loss.epsilon))
        return Blocks(self.block, law, self.perturber)

    @cached_property
    def grouper(self) -> Grouper:
        return Grouper((1 - Fraction(self.split)) * self.step_loss.epsilon, Fraction(self.theta), self.max_group_ticks)

    @cached_property
    def smoothing(self) -> GroupSmoothing:
        stddev = sqrt(self.perturber.variance)
        return GroupSmoothing(build_smoother(self.smoother, stddev), parse_window(self.window))

    @cached_property
    def window_smoothing(self) -> WindowSmoothing:
        """The smoother at work, with readings of blocks if they are of use."""
        return build_window_smoothing(self.smoothing, self.blocks)

    def history(self, width: int = 1) -> GroupHistory:
        """Return a history for releases of a run of so many groups.

        It answers for every window.
        """
        return GroupHistory.empty(width, sqrt(self.perturber.variance), self.blocks)

    @property
    def distribution(self) -> DiscreteLaplace:
        coarse = self.blocks.block_law if self.blocks else self.perturber
        return max(self.perturber, coarse, self.grouper.test_noise, key=lambda law: law.scale)

    def initial(self, width: int, noise: Noise) -> State:
        block = self.blocks.initial(width) if self.blocks else None
        return State(0, self.grouper.initial(width), self.window_smoothing.initial(width), block)

    def step(self, state: State, values: Ints, noise: Noise) -> GroupedRelease:
        state.tick += 1
        noisy = values + self.perturber.draw(noise, len(values))
        ended = None
        if self.blocks is not None and state.block is not None:
            ended = self.blocks.step(state.block, values, state.tick, noise)
        started = self.grouper.step(state.groups, values, noise)
        value, centre = self.window_smoothing.step(state.smoothing, noisy, started, state.tick, ended)
        series: dict[str, Any] = {"noisy_counts": noisy, "group_starts": started, "block_readings": ended}
        return GroupedRelease(value, centre.astype(np.float64), (self.error_bound(state.tick),), **series)

    def error_bound(self, tick: int) -> ManyDrawsErrorBound:
        """Return the noise of the readings that the window is the sum of."""
        blocks, ticks = self.window_smoothing.draws(self.check_tick(tick))
        coarse = (Term(blocks, 1, self.blocks.block_law),) if self.blocks and blocks else ()
        return ManyDrawsErrorBound(NoiseSum((Term(ticks, 1, self.perturber), *coarse)))

    def empty_release(self, width: int) -> GroupedRelease:
        none, whole = np.zeros((0, width)), np.zeros((0, width), np.int64)
        series: dict[str, Any] = {"noisy_counts": whole, "group_starts": none.astype(np.bool_)}
        return GroupedRelease(none, none, (), **series, block_readings=whole if self.blocks else None)

    def memory(self) -> int:
        """Return the numbers of a group of the longest kind.

        They are counts and, for a median, noisy counts.
        """
        blank, other = (count_numbers(self._blank_state(width)) for width in (1, 2))
        kinds = 1 + self.smoothing.smoother.NEEDS_SORTED_COUNTS
        return other - blank + kinds * row_capacity(self.max_group_ticks)
