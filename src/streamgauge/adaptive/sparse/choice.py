"""Planner of running counts of few events, from a declared density.

The number of events is private. So the curator's declaration decides: `expected`, the events of one group in one
tick, 1/1000 say, is public as every setting is. With the horizon it predicts the error of the sparse counters. If
that is below the least of `continual.choose`, they are offered. Without a declaration they never are. Promise and
bounds hold even if the curator is wrong.

`SparseCounter` gets the split of the budget with the best prediction, and a tree fitted to the predicted segments.
Values are counts, so that those below 0 count as 0. `CascadingBuffers` is for pan-private counts, which
`SparseCounter` cannot be. Its intervals are far wider than those of trees. So it must be better by more than the
error of a prediction.

Error
    The error of sparse counters depends on data. So these are predictions and no bounds: the root of the mean
    squared error of `value` over all ticks, for events that come evenly. Nothing is read from data.
    `SparseCounter`: the sum since the cut is followed event by event, with the noise of the threshold, as a
    Markov chain. At every tick it is cut with the chance that one draw reaches the rest of the threshold. The
    error is the sum of the open segment, and the noise of the p-sums of the segments so far.
    `CascadingBuffers`: a level passes on after r^2 messages, or sooner when their events reach the threshold.
    The error has two parts. One is the noise of all updates of the count. The other is the estimate of the
    buffers (`shrink_noise`) under the noise of their messages, less their content: little if that is next to
    nothing. It is the mean over ticks that are spread evenly, with normal noise instead of sums of many draws.
    Simulation agrees to a fifth, see tests/adaptive/test_sparse_choice.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, sqrt
from typing import Any

import numpy as np

from streamgauge.adaptive.sparse.cascading_buffers import CascadingBuffers, shrink_noise
from streamgauge.adaptive.sparse.sparse_counter import SparseCounter
from streamgauge.continual import choice as continual
from streamgauge.continual.mechanism import UNBOUNDED_PLANNING_TICKS, LinearMechanism, Mechanism
from streamgauge.continual.validation import Bound
from streamgauge.noise.coerce import Floats, Number, as_fraction
from streamgauge.privacy import Event, Loss, Unit

THRESHOLD_QUANTILES = 24  # equally likely noises of a threshold that are followed
MAX_STEPS_TO_THRESHOLD = 64  # of a sum
MIN_EVENTS = 2.0**-1000
MAX_SIMULATED_STEPS = 512  # then the course is steady
MAX_SAMPLED_TICKS = 2048  # ticks that stand for all
GOLDEN_SECTION = (sqrt(5) - 1) / 2  # the fractional parts of its multiples are spread evenly, and have no period
QUADRATURE_POINTS = 64  # of a normal law


@dataclass(frozen=True)
class SparsePrediction:
    """The root of the mean squared error, and the number of segments at the end."""

    rmse: float
    segments: float


@dataclass(frozen=True, eq=False)
class TestCourse:
    """The course of a test: mean square of the open sum, and segments, by step."""

    squares: Floats
    segments: Floats

    def mean_square(self, steps: int) -> float:
        """Return the mean over so many steps.

        Later steps are as the second half of those that were followed.
        """
        later = self.squares[len(self.squares) // 2 :].mean()
        return float((self.squares.sum() + later * (steps - len(self.squares))) / steps)

    def final_segments(self, steps: int) -> float:
        """Return the segments after so many steps."""
        done, half = len(self.segments), len(self.segments) // 2
        pace = (self.segments[-1] - self.segments[half]) / max(1, done - 1 - half)
        return float(self.segments[-1] + pace * (steps - done))


def predict_sparse_error(claim: SparseCounter, ticks: int, events: float) -> SparsePrediction:
    """Predict the error of a counter of so many events in so many ticks.

    Below one event, of one.
    """
    if not events:
        return SparsePrediction(0.0, 0.0)
    events = max(1.0, events)
    threshold = claim.threshold_at(ticks)
    grain = max(1.0, events / ticks, threshold / MAX_STEPS_TO_THRESHOLD)
    steps = max(1, round(events / grain))
    course = _simulate_course(
        float(claim.test_noise.scale), threshold, (events / steps, ticks / steps), min(steps, MAX_SIMULATED_STEPS)
    )
    segments = course.final_segments(steps)
    p_sums = claim.shape.mean_digit_sum(max(1, round(segments))) if claim.shape.levels > 1 else segments / 2
    variance = p_sums * claim.tree.distribution.variance
    return SparsePrediction(sqrt(course.mean_square(steps) + variance), segments)


@lru_cache(maxsize=64)
def _simulate_course(scale: float, threshold: int, step_shape: tuple[float, float], steps: int) -> TestCourse:
    """Follow so many steps, each of some events at once and then some ticks."""
    grain, dwell = step_shape
    chances = (np.arange(THRESHOLD_QUANTILES) + 0.5) / THRESHOLD_QUANTILES - 0.5
    margins = -scale * np.sign(chances) * np.log1p(-2 * np.abs(chances))
    sums = grain * np.arange(ceil((threshold + 2 * margins.max()) / grain) + 2)
    distance = threshold + margins[:, None] - sums
    beyond = np.exp(-np.maximum(distance, 1 - distance) / scale) / (1 + np.exp(-1 / scale))
    stays = np.where(distance >= 0.5, 1 - beyond, beyond) ** dwell  # no draw of the step reaches the threshold
    open_at = np.zeros_like(stays)
    open_at[:, 0] = 1 / THRESHOLD_QUANTILES
    squares, cuts = np.zeros(steps), np.zeros(steps)
    for step in range(steps):
        before = open_at.sum(axis=0) @ sums**2
        open_at = np.pad(open_at, ((0, 0), (1, 0)))[:, :-1] * stays
        cuts[step] = 1 - open_at.sum()
        squares[step] = (before + open_at.sum(axis=0) @ sums**2) / 2
        open_at[:, 0] += cuts[step] / THRESHOLD_QUANTILES
    return TestCourse(squares, np.cumsum(cuts))


def predict_cascade_error(claim: CascadingBuffers, ticks: int, events: float) -> float:
    """Predict the error of cascading buffers of so many events.

    A message that fills a buffer fills the next.
    """
    at, rate = np.ceil(ticks * (np.arange(1, MAX_SAMPLED_TICKS + 1) * GOLDEN_SECTION % 1)), events / ticks
    period, inside, messages = 1.0, np.zeros(MAX_SAMPLED_TICKS), float(claim.max_messages)
    for level in range(claim.levels):
        filling = claim.threshold / max(rate * period, MIN_EVENTS) + 0.5
        messages = min(messages, max(1.0, filling)) if messages == claim.max_messages else 1.0
        inside += at // period % messages * (1 + int(claim.pan_private and level > 0))
        period *= messages
    variance, updates = claim.distribution.variance, at // period * (1 + int(claim.pan_private))
    sums, noise = (at % period * rate)[:, None], (inside * variance)[:, None]
    draws, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_POINTS)
    squares = (shrink_noise(sums + np.sqrt(noise) * draws, noise) - sums) ** 2 @ (weights / weights.sum())
    return sqrt((updates * variance + squares).mean())


CANDIDATE_SPLITS = (Fraction(3, 10), Fraction(2, 5), Fraction(1, 2), Fraction(3, 5))
MAX_ERROR_RATIO = 0.8  # of the least error, below which a pan-private one is offered


@dataclass(frozen=True)
class SparseOffer:
    """A sparse counter with its predicted error, or the reason of its refusal."""

    name: str
    mechanism: Mechanism[Any, Any] | None = None
    rmse: float = inf
    refusal: str = ""

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.name:<28} not offered: {self.refusal}"
        return f"{self.name:<28} {self.rmse:>12.4g} if there are as many events as expected"


@dataclass(frozen=True)
class SparseOffers:
    """The usual choice and the sparse counters; print it for a table."""

    usual: LinearMechanism[Any]
    rmse: float
    offers: tuple[SparseOffer, ...]

    @property
    def best(self) -> Mechanism[Any, Any]:
        made = [(offer.rmse, offer.mechanism) for offer in self.offers if offer.mechanism and not offer.refusal]
        return min(made, key=lambda pair: pair[0])[1] if made else self.usual

    def __str__(self) -> str:
        usual = f"{type(self.usual).__name__:<28} {self.rmse:>12.4g} whatever the data"
        return "\n".join([usual, *map(str, self.offers)])


def choose(loss: Loss, *, expected: Number | None = None, **requested: Any) -> Mechanism[Any, Any]:
    """Return `continual.choose`, or a sparse counter if its predicted error is less.

    The prediction uses the declared density.

    It has the arguments of `compare`.

    >>> from streamgauge import Pure
    >>> type(choose(Pure(1), horizon=2**14)).__name__
    'BridgeTree'
    >>> type(choose(Pure(1), horizon=2**14, expected="1/200")).__name__
    'SparseCounter'
    """
    return compare(loss, expected=expected, **requested).best


def compare(
    loss: Loss,
    *,
    horizon: int | None = None,
    window: str = "running",
    expected: Number | None = None,
    pan_private: bool = False,
    bound: Bound = 1,
    unit: Unit = Event(),
    memory: int | None = None,
) -> SparseOffers:
    """Return the offers behind `choose`: predicted errors, reasons for refusals."""
    settings = continual.MechanismRequest(bound, unit, pan_private)
    usual = continual.choose(loss, horizon=horizon, window=window, memory=memory, **vars(settings))
    density = None if expected is None else as_fraction("expected", expected)
    if density is not None and density <= 0:
        raise ValueError(f"expected must be above 0 events a tick, got {expected}")
    ticks = horizon or UNBOUNDED_PLANNING_TICKS
    least = usual.rmse(ticks)
    if density is None or window != "running":
        rule = "window must be running" if density else "expected must be declared"
        reason = f"{rule}, got {window if density else None}"
        refused = tuple(SparseOffer(maker.__name__, refusal=reason) for maker in SPARSE_FINDERS)
        return SparseOffers(usual, least, refused)
    *_, pure = continual.list_sufficient_losses(loss)
    request = SparseRequest(pure, settings, horizon, float(density * ticks))
    most = continual.DEFAULT_MEMORY_NUMBERS if memory is None else memory
    return SparseOffers(usual, least, tuple(_build_offer(maker, request, least, most) for maker in SPARSE_FINDERS))


@dataclass(frozen=True)
class SparseRequest:
    """The settings of a sparse counter, and the number of events that it counts."""

    loss: Loss
    requested: continual.MechanismRequest
    horizon: int | None
    events: float

    @property
    def ticks(self) -> int:
        return self.horizon or UNBOUNDED_PLANNING_TICKS

    def build(self, maker: type[Mechanism[Any, Any]], **settings: Any) -> Any:
        claim: Any = maker
        requested = {name: value for name, value in vars(self.requested).items() if name != "open_ticks"}
        return claim(self.loss, horizon=self.horizon, **requested, **settings)


ScoredMechanism = tuple[float, Mechanism[Any, Any]]  # with its predicted error


def _find_sparse_counter(request: SparseRequest) -> ScoredMechanism:
    """Return the counter of least predicted error among those tried."""
    found: list[ScoredMechanism] = []
    for split in CANDIDATE_SPLITS:
        claim = request.build(SparseCounter, split=split, signed=False)
        segments = predict_sparse_error(claim, request.ticks, request.events).segments
        fitted = replace(claim, segments=max(1, ceil(segments)))
        found.append((predict_sparse_error(fitted, request.ticks, request.events).rmse, fitted))
    return min(found, key=lambda scored: scored[0])


def _find_cascading_buffers(request: SparseRequest) -> ScoredMechanism:
    if not request.requested.pan_private:
        raise ValueError("pan_private must be True, else SparseCounter does better, got False")
    claim = request.build(CascadingBuffers)
    return predict_cascade_error(claim, request.ticks, request.events), claim


SPARSE_FINDERS: dict[type[Mechanism[Any, Any]], Callable[[SparseRequest], ScoredMechanism]] = {
    SparseCounter: _find_sparse_counter,
    CascadingBuffers: _find_cascading_buffers,
}


def _build_offer(maker: type[Mechanism[Any, Any]], request: SparseRequest, least: float, memory: int) -> SparseOffer:
    name = maker.__name__
    try:
        rmse, claim = SPARSE_FINDERS[maker](request)
    except ValueError as error:
        return SparseOffer(name, refusal=str(error))
    if claim.memory() > memory:
        return SparseOffer(name, refusal=f"memory must be at least {claim.memory()} numbers a group, got {memory}")
    most = least * (MAX_ERROR_RATIO if request.requested.pan_private else 1)
    refusal = f"predicted error must be below {most:.4g}, got {rmse:.4g}" if rmse >= most else ""
    return SparseOffer(name, claim, rmse, refusal)
