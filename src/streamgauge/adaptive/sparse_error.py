"""How wrong sparse counters will be if the curator is right about how many events there are.

Their error depends on data, so that these are predictions and no bounds: the root of the mean squared error
of `value` over all ticks, for events that come evenly. Nothing is read from data.

`SparseCounter`: the sum since the cut is followed event by event, beside the noise of the threshold, as a
chain of chances: at every tick it is cut with the chance that one draw reaches what is left to the threshold.
The error is what the open segment holds, and the noise of the p-sums of the segments so far.

`CascadingBuffers`: a level passes on after r^2 messages, or sooner when their events reach the threshold. The
error is the noise of all updates of the count, and what is told of buffers (`beyond_noise`) under the noise
of the messages in them, less what they hold: little where that is next to nothing. It is the mean over ticks
that are spread evenly, with normal noise in place of sums of many draws.

Simulation agrees within a fifth, see tests/adaptive/test_sparse_choice.py.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from streamgauge.adaptive.cascading_buffers import CascadingBuffers, beyond_noise
from streamgauge.adaptive.sparse_counter import SparseCounter
from streamgauge.noise.numbers import Floats

MARGINS = 24  # equally likely noises of a threshold that are followed
FINEST = 64  # steps that a sum takes to the threshold, at most
TINY = 2.0**-1000
FOLLOWED = 512  # steps until all goes on as before
SAMPLED = 2048  # ticks that stand for all
GOLDEN = (
    sqrt(5) - 1
) / 2  # multiples of which, less whole numbers, are spread evenly, in step with no period
DRAWS = 64  # that stand for a normal law


@dataclass(frozen=True)
class Prediction:
    """The root of the mean squared error, and how many segments there will be in the end."""

    rmse: float
    segments: float


@dataclass(frozen=True, eq=False)
class Course:
    """What a test goes through, step by step: the mean square of the open sum, and the segments so far."""

    squares: Floats
    segments: Floats

    def mean_square(self, steps: int) -> float:
        """Over so many steps; those that were not followed are as the later half of those that were."""
        later = self.squares[len(self.squares) // 2 :].mean()
        return float((self.squares.sum() + later * (steps - len(self.squares))) / steps)

    def last(self, steps: int) -> float:
        """The segments after so many steps."""
        done, half = len(self.segments), len(self.segments) // 2
        pace = (self.segments[-1] - self.segments[half]) / max(1, done - 1 - half)
        return float(self.segments[-1] + pace * (steps - done))


def sparse_error(claim: SparseCounter, ticks: int, events: float) -> Prediction:
    """Of a counter of so many events in so many ticks; where less than one is expected, of one."""
    if not events:
        return Prediction(0.0, 0.0)
    events = max(1.0, events)
    threshold = claim.threshold_at(ticks)
    grain = max(1.0, events / ticks, threshold / FINEST)
    steps = max(1, round(events / grain))
    course = _course(
        float(claim.test.scale), threshold, (events / steps, ticks / steps), min(steps, FOLLOWED)
    )
    segments = course.last(steps)
    p_sums = claim.shape.mean_digits(max(1, round(segments))) if claim.shape.levels > 1 else segments / 2
    variance = p_sums * claim.tree.distribution.variance
    return Prediction(sqrt(course.mean_square(steps) + variance), segments)


@lru_cache(maxsize=64)
def _course(scale: float, threshold: int, step_of: tuple[float, float], steps: int) -> Course:
    """Follows so many steps, each of some events at once and then some ticks."""
    grain, dwell = step_of
    chances = (np.arange(MARGINS) + 0.5) / MARGINS - 0.5
    margins = -scale * np.sign(chances) * np.log1p(-2 * np.abs(chances))
    sums = grain * np.arange(ceil((threshold + 2 * margins.max()) / grain) + 2)
    stays = _passes(threshold + margins[:, None] - sums, scale) ** dwell
    open_at = np.zeros_like(stays)
    open_at[:, 0] = 1 / MARGINS
    squares, cuts = np.zeros(steps), np.zeros(steps)
    for step in range(steps):
        before = open_at.sum(axis=0) @ sums**2
        kept = np.pad(open_at, ((0, 0), (1, 0)))[:, :-1] * stays
        cuts[step] = 1 - kept.sum()
        squares[step] = (before + kept.sum(axis=0) @ sums**2) / 2
        kept[:, 0] += cuts[step] / MARGINS
        open_at = kept
    return Course(squares, np.cumsum(cuts))


def _passes(left: Floats, scale: float) -> Floats:
    """The chance that a draw does not reach what is left."""
    beyond = np.exp(-np.maximum(left, 1 - left) / scale) / (1 + np.exp(-1 / scale))
    return np.asarray(np.where(left >= 0.5, 1 - beyond, beyond))


def cascade_error(claim: CascadingBuffers, ticks: int, events: float) -> float:
    """Of cascading buffers that count so many events; what has filled one buffer fills the next at once."""
    at, rate = np.ceil(ticks * (np.arange(1, SAMPLED + 1) * GOLDEN % 1)), events / ticks
    period, inside, messages = 1.0, np.zeros(SAMPLED), float(claim.patience)
    for level in range(claim.levels):
        filling = claim.threshold / max(rate * period, TINY) + 0.5
        messages = min(messages, max(1.0, filling)) if messages == claim.patience else 1.0
        inside += at // period % messages * (1 + int(claim.pan_private and level > 0))
        period *= messages
    variance, updates = claim.distribution.variance, at // period * (1 + int(claim.pan_private))
    return sqrt((updates * variance + _buffered(at % period * rate, inside * variance)).mean())


def _buffered(held: Floats, variance: Floats) -> Floats:
    """The mean square of what is told of buffers, under normal noise, less what they hold."""
    draws, weights = np.polynomial.hermite_e.hermegauss(DRAWS)
    told = beyond_noise(held[:, None] + np.sqrt(variance)[:, None] * draws, variance[:, None])
    return np.asarray((told - held[:, None]) ** 2 @ (weights / weights.sum()))
