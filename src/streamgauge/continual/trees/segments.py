"""Event-level counter: a noisy count, and noise that lives as long as its segment.

The count starts from a draw. Time is cut into segments of 1, 2, 4, .. ticks. Each has its own draw,
made when it begins and forgotten when it ends. A release adds the draws of all segments around it:

    [eta          ][eta           ]      segments of 4
    [eta  ][eta   ][eta   ][eta   ]      segments of 2
    [e][e][e][e]  [e][e][e][e]           segments of 1
     1  2  3  4    5  6  7  8            release 6 = count + eta(5..8) + eta(5, 6) + eta(6)

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: pure epsilon-DP over the whole stream, adaptively, and against an intruder who reads the
    memory once, unannounced.
    Proof: consider an event at tick s. If the intrusion is at s or later (or never), move the count's first
    draw by -1 and the draws of the segments that tile 1..s-1, at most MEMBERSHIPS - 1, by +1. No release moves,
    and the moved segments have ended: they are *not* in memory at the intrusion. If the intrusion is before s,
    move by -1 the segments that tile s..T, at most MEMBERSHIPS of them, all drawn after the intrusion. The
    rows of this strategy look ahead, so that the proof needs Laplace noise. Other losses are rejected.
    MEMBERSHIPS = floor(log2 T) + 1. An announced intrusion between two others would cost up to twice
    as much, so it is rejected. `Kary` survives any number.

Error
    Unbiased; the variance is that of one draw and one for each size of segment, at every tick.

Reference
    Dwork, Naor, Pitassi, Rothblum: Differential privacy under continual observation, STOC 2010. A later
    account prints that the moved segments "are in memory", and a variance without the 1 of 1 + log T.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import BoundedSettings, LinearMechanism, draw_rows
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.validation import check_noise, check_settings
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Loss, Pure


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    count: Ints = field(repr=False)  # noisy: the sum so far, on top of the first draw
    segments: Ints = field(repr=False)  # noise alone: the open segments, row i of 2^i ticks
    open_noise: Ints = field(repr=False)  # noise alone: the sum of the open segments


@dataclass(frozen=True, kw_only=True)
class Segments(BoundedSettings, LinearMechanism[State]):
    """Running counts over at most `horizon` ticks, pan-private; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure,)
    LOSSES_REASON: ClassVar[str] = "its noise looks ahead, which is proved harmless for Laplace noise alone"
    OPEN_TICKS_REASON: ClassVar[str] = "its first draw lasts for the whole run, so that a lost run has no successor"
    pan_private: bool = True

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_noise(self)

    @property
    def sizes(self) -> int:
        """Number of sizes of segment: 2^sizes reaches the horizon, and one is needed.

        Without a segment, an intruder before the first tick could subtract the count from the release.
        """
        return max(1, (self.horizon - 1).bit_length())

    @property
    def memberships(self) -> int:
        """Number of draws that one event can move."""
        return self.horizon.bit_length()

    @cached_property
    def distribution(self) -> Distribution:
        ticks = min(self.unit.ticks, self.horizon)
        return self.loss.calibrate(l1=self.tick_sensitivity.l1 * ticks * self.memberships, l2_squared=0)

    def count_begun_segments(self, tick: int) -> int:
        """Return how many segments begin at this tick: those of the smallest sizes."""
        return self.sizes if tick == 1 else min(self.sizes, ((tick - 1) & (1 - tick)).bit_length())

    def initial(self, width: int, noise: Noise) -> State:
        segments = np.zeros((self.sizes, width), np.int64)
        return State(0, self.distribution.draw(noise, width), segments, np.zeros(width, np.int64))

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        state.tick += 1
        begun = self.count_begun_segments(state.tick)
        state.segments[:begun] = draw_rows(self.distribution, noise, begun, len(values))
        state.count += values
        state.open_noise += state.segments[:begun].sum(axis=0)
        release: Ints = state.count + state.open_noise
        ended = state.segments[: self.count_begun_segments(state.tick + 1)]
        state.open_noise -= ended.sum(axis=0)
        ended[:] = 0
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        ticks, width = block.shape
        releases = state.count + np.cumsum(block, axis=0)
        state.count = state.count + block.sum(axis=0)
        before = np.arange(state.tick, state.tick + ticks)
        begins = [before % 2**size == 0 for size in range(self.sizes)]
        counts = np.sum(begins, axis=0, dtype=np.int64) if begins else np.zeros(ticks, np.int64)
        draws = draw_rows(self.distribution, noise, int(counts.sum()), width)
        first = np.cumsum(counts) - counts
        state.tick += ticks
        for size, begin in enumerate(begins):
            lives = np.concatenate([state.segments[size][None], draws[first[begin] + size]])
            releases += lives[np.cumsum(begin)]
            state.segments[size] = lives[-1] if state.tick % 2**size else 0
        state.open_noise = state.segments.sum(axis=0)
        return releases

    def intrusion_refusal(self) -> str:
        return "mechanism must be a tree to survive an announced intrusion, got Segments"

    def noise_at(self, tick: int) -> NoiseSum:
        return NoiseSum((Term(1 + self.sizes, 1, self.distribution),))

    def mean_variance(self, ticks: int) -> float:
        return (1 + self.sizes) * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        rows = [(self.sizes, 0)]  # the count, then (size, begin) of each segment, in drawing order
        for before in range(ticks):
            rows += [(size, before) for size in range(self.count_begun_segments(before + 1))]
        decode = np.zeros((ticks, len(rows)))
        measure = np.zeros((len(rows), ticks))
        decode[:, 0] = measure[0] = 1
        for row, (size, begin) in enumerate(rows[1:], 1):
            decode[begin : begin + 2**size, row] = 1
            last = begin + 2**size  # the segment tiles 1..s-1 for those s that have its bit
            for s in range(last + 1, ticks + 1):
                if (s - 1) >> size << size == last and (s - 1) >> size & 1:
                    measure[row, s - 1] = -1
        return Strategy(measure, decode, (self.distribution,) * len(rows), tuple(range(len(rows))))
