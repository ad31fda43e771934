"""The game of adversarial streaming: an adversary chooses each update in view of all answers.

    repeat: the adversary gets the last answer and chooses an update; the algorithm takes it and answers

The algorithm wins if every answer is within its factor of the truth. Hardt and Woodruff showed that no linear sketch of
few rows wins against deletions. Reference: Ben-Eliezer, Jayaram, Woodruff, Yogev 2020; Hassidim et al. 2020.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.noise.coerce import Floats
from streamgauge.sketches.item_hash import Item
from streamgauge.sketches.sketch_table import SketchTable

Update = tuple[Item, int]


class Estimator(Protocol):
    """A streaming algorithm with one number as its answer, such as `sketches.SecondMoment`."""

    def update(self, item: Item, weight: int = 1) -> None: ...

    def estimate(self) -> float: ...


class StreamAdversary(Protocol):
    """A writer of the stream who sees every answer."""

    def choose(self, answer: float) -> Update:
        """Return the next update, given the answer to the one before (0 at first)."""
        ...


class ExactMoment:
    """The exact second moment, in memory that grows with the number of items. It is robust by itself.

    >>> truth = ExactMoment()
    >>> truth.update("tea", 3); truth.update("tea", -1); truth.estimate()
    4.0
    """

    def __init__(self) -> None:
        self.totals: dict[Item, int] = {}
        self.moment = 0

    def update(self, item: Item, weight: int = 1) -> None:
        total = self.totals.get(item, 0)
        self.totals[item] = total + weight
        self.moment += weight * (2 * total + weight)

    def estimate(self) -> float:
        return float(self.moment)


@dataclass
class PointEstimator:
    """The estimate of one item by a table, as an algorithm of the game."""

    table: SketchTable
    item: Item

    def update(self, item: Item, weight: int = 1) -> None:
        self.table.update([item], [weight])

    def estimate(self) -> float:
        return float(self.table.estimate([self.item])[0])


@dataclass(frozen=True)
class GameResult:
    """Answers and truths of a game, step by step."""

    answers: Floats = field(repr=False)
    truths: Floats = field(repr=False)

    @property
    def ratios(self) -> Floats:
        """Answer over truth at each step; NaN where the truth is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.truths == 0, np.nan, self.answers / self.truths)

    @property
    def least_ratio(self) -> float:
        return float(np.nanmin(self.ratios))

    @property
    def largest_ratio(self) -> float:
        return float(np.nanmax(self.ratios))

    @property
    def worst_ratio(self) -> float:
        """The ratio that is furthest from 1, of all steps, as a factor."""
        low, high = self.least_ratio, self.largest_ratio
        return low if low <= 0 or 1 / low > high else high

    @property
    def largest_error(self) -> float:
        return float(np.abs(self.answers - self.truths).max())


def play(algorithm: Estimator, adversary: StreamAdversary, steps: int, truth: Estimator | None = None) -> GameResult:
    """Play so many steps; the truth is that of `truth`, by default the exact second moment.

    >>> from streamgauge.robust.adversaries import RandomAdversary
    >>> play(ExactMoment(), RandomAdversary(100), 50).worst_ratio
    1.0
    """
    check_whole("steps", steps)
    exact = truth if truth is not None else ExactMoment()
    answers, truths, answer = np.zeros(steps), np.zeros(steps), 0.0
    for step in range(steps):
        item, weight = adversary.choose(answer)
        algorithm.update(item, weight)
        exact.update(item, weight)
        answers[step] = answer = algorithm.estimate()
        truths[step] = exact.estimate()
    return GameResult(answers, truths)
