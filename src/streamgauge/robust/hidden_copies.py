"""A private median of copies: answers hide the copies' seeds, so that an adversary does not learn them.

    feed all copies; y_j their estimates
    q = number of copies for which the last answer z is off by more than 1 + alpha/2
    q + noise < copies/2 + noise of the phase        answer z again: one sparse-vector query
    otherwise                                        answer z = private median of y on a grid; next phase

Each phase costs `epsilon`: half for its sparse vector (threshold noise of scale 4/epsilon, query noise 8/epsilon), half
for its median. Phases are few, since the value only grows; answers are many. Without the sparse vector, which the
survey leaves out, each answer would cost a median, and copies would grow with the root of the number of steps.

Proof: what the adversary sees is differentially private in the seeds, so that the share of copies that are right on
its stream generalises to that of fresh seeds (`generalisation`). Constants: see `sizes`.

Reference: Hassidim, Kaplan, Mansour, Matias, Stemmer: Adversarially robust streaming algorithms via differential
privacy, 2020.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.noise import RandomSource, SecureNoise
from streamgauge.privacy import Pure
from streamgauge.robust.game import Estimator
from streamgauge.robust.insertions import feed_copies, is_near
from streamgauge.sketches.item_hash import Item
from streamgauge.statistics import private_median

GRID_STEPS_PER_ALPHA = 8


class AnswerLimitError(RuntimeError):
    """The answer reached the end of the grid, beyond which it would be wrong at a new phase for each query."""


class PrivateMedian:
    """An estimator within about (1 + alpha) of the truth against an adversary, from copies of an oblivious one.

    >>> from streamgauge.sketches import SecondMoment
    >>> robust = PrivateMedian(lambda: SecondMoment(rows=64), copies=61, alpha=0.3, largest=10**6)
    >>> robust.update("tea", 100)
    >>> 7_000 < robust.estimate() < 14_000
    True
    """

    def __init__(
        self,
        make: Callable[[], Estimator],
        *,
        copies: int,
        alpha: float,
        largest: float,
        epsilon: Fraction | int = 2,
        noise: RandomSource | None = None,
    ) -> None:
        check_whole("copies", copies)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
        if not 1 < largest < 2.0**512:
            raise ValueError(f"largest must be above 1 and below 2**512, got {largest}")
        self.alpha = alpha
        self.epsilon = Fraction(epsilon)  # of a phase
        if self.epsilon <= 0:
            raise ValueError(f"epsilon must be above 0, got {epsilon}")
        steps = int(np.log(largest) / np.log1p(alpha / GRID_STEPS_PER_ALPHA)) + 2
        self.grid = np.append(0.0, (1 + alpha / GRID_STEPS_PER_ALPHA) ** np.arange(steps))
        self._copies = [make() for _ in range(copies)]
        self._source = noise if noise is not None else SecureNoise()
        self._answer, self._phases, self._is_current = 0.0, 0, False
        self._threshold = self._draw_threshold()

    @property
    def phases(self) -> int:
        """Number of medians that were published; the seeds have lost `epsilon` for each."""
        return self._phases

    def update(self, item: Item, weight: int = 1) -> None:
        """Add an item to all copies."""
        feed_copies(self._copies, item, weight)
        self._is_current = False

    def estimate(self) -> float:
        """Return the answer; one query for each update, however often it is read.

        Raises:
            AnswerLimitError: if an answer has reached `largest`. That follows from answers alone.
        """
        self._check_answer()
        if self._is_current:
            return self._answer
        self._is_current = True
        found = [copy.estimate() for copy in self._copies]
        wrong = sum(not is_near(self._answer, each, 1 + self.alpha / 2) for each in found)
        if wrong + int(self._source.laplace(8 / self.epsilon, 1)[0]) >= self._threshold:
            self._answer = private_median(found, self.grid, Pure(self.epsilon / 2), noise=self._source)
            self._phases += 1
            self._threshold = self._draw_threshold()
            self._check_answer()
        return self._answer

    def _check_answer(self) -> None:
        if self._answer >= self.grid[-1]:
            raise AnswerLimitError(
                f"largest must be above the values of this stream, got {float(self.grid[-1]):.6g}; use exact counters"
            )

    def _draw_threshold(self) -> int:
        return len(self._copies) // 2 + int(self._source.laplace(4 / self.epsilon, 1)[0])
