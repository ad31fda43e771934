"""The releases of one `Pegasus` run, from which any window and any alert can be worked out at no cost.

Whatever window a run releases, it releases the noisy count of each tick too, where groups begin, and readings
of blocks if it takes any. All are public, and all else is a function of them: counts, sliding windows of any
width and running sums by any smoother, each as a run would have released it tick by tick, and alerts on them.

Privacy
    None is spent: functions of releases. Nothing here knows noise or data.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, section 4, has one run answer many queries.
"""

from dataclasses import dataclass, replace

import numpy as np

from streamgauge.adaptive.block_windows import with_blocks
from streamgauge.adaptive.blocks import Blocks
from streamgauge.adaptive.group_windows import Smoothing, window_of
from streamgauge.adaptive.ragged import Ints
from streamgauge.adaptive.released import Released
from streamgauge.adaptive.smoothers import smoother_of
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.postprocess.monitor import EventMonitor


@dataclass(frozen=True, eq=False, kw_only=True)
class Grouped(Released):
    """What a run of `Pegasus` releases: a window, and the series behind it."""

    noisy: Ints  # the count of the tick, under noise
    started: Bools  # whether a group began with the tick
    ended: Ints | None = None  # the count of the block that ended with the tick, under noise; else 0


@dataclass
class GroupHistory:
    """The series behind the releases of a run, (ticks, width); `add` them as they come.

    >>> import numpy as np
    >>> history = GroupHistory(np.array([[4], [6], [9]]), np.array([[True], [False], [True]]))
    >>> history.counts()[:, 0], history.sliding(2)[:, 0], history.running("average")[:, 0]
    (array([4., 5., 9.]), array([ 4., 10., 14.]), array([ 4., 10., 19.]))
    """

    noisy: Ints
    started: Bools
    stddev: float = 0.0  # the standard error of one noisy count, for smoothers that ask for it
    blocks: Blocks | None = None
    ended: Ints | None = None  # as of a release, where blocks are read

    @classmethod
    def of(cls, width: int, stddev: float = 0.0, blocks: Blocks | None = None) -> "GroupHistory":
        """Before the first release of so many groups."""
        none = np.zeros((0, width), np.int64)
        return cls(none, none.astype(np.bool_), stddev, blocks, none if blocks else None)

    def add(self, release: Released) -> None:
        """Takes the release of one tick, of several, or of one group at several."""
        if not isinstance(release, Grouped):
            raise ValueError(f"release must be one of Pegasus, got {type(release).__name__}")
        shape = (len(release.bars), self.noisy.shape[1])
        if release.noisy.size != len(release.bars) * self.noisy.shape[1]:
            groups = release.noisy.size // max(1, len(release.bars))
            raise ValueError(f"release must be of {shape[1]} groups, as its history is, got {groups}")
        if (release.ended is None) != (self.ended is None):
            raise ValueError("release must have readings of blocks where its history has, got another kind")
        self.noisy = np.concatenate([self.noisy, release.noisy.reshape(shape)])
        self.started = np.concatenate([self.started, release.started.reshape(shape)])
        if self.ended is not None and release.ended is not None:
            self.ended = np.concatenate([self.ended, release.ended.reshape(shape)])

    def counts(self, smoother: str = "median") -> Floats:
        """Each tick, as it was known at that tick."""
        return self.released("each", smoother)

    def sliding(self, size: int, smoother: str = "median") -> Floats:
        """The last `size` ticks."""
        longest = max(1, len(self.noisy), self.blocks.size if self.blocks else 1)
        return self.released(f"sliding {min(size, longest)}", smoother)

    def running(self, smoother: str = "median") -> Floats:
        """All ticks so far."""
        return self.released("running", smoother)

    def released(self, window: str, smoother: str = "median") -> Floats:
        """What a run would have released as its values, a row for each tick."""
        groups = Smoothing(smoother_of(smoother, self.stddev), window_of(window))
        scaled, values = with_blocks(groups, self.blocks), np.zeros(self.noisy.shape)
        state = scaled.initial(self.noisy.shape[1])
        ended = self.noisy if self.ended is None else self.ended
        for row, (noisy, started, reading) in enumerate(zip(self.noisy, self.started, ended, strict=True)):
            values[row], _ = scaled.step(state, noisy, started, row + 1, reading)
        return values

    def alerts(self, monitor: EventMonitor, smoother: str = "median") -> Bools:
        """Where a monitor of counts alerts; a low signal is one of the sliding window, as a whole."""
        width = self.noisy.shape[1]
        if monitor.kind != "low":
            return monitor.start(width).feed(self.counts(smoother))
        alerts = replace(monitor, window=1).start(width).feed(self.sliding(monitor.window, smoother))
        alerts[: monitor.window - 1] = False
        return alerts
