"""Sketch switching: every published answer comes from a copy that was never looked at before.

    feed all copies; e = estimate of copy j
    z/(1 + alpha/2) <= e <= z (1 + alpha/2)     answer z again: nothing new is seen
    otherwise                                   answer z = e, and go on with copy j + 1

Proof: while z stands, a deterministic adversary's stream is fixed, and depends on copies before j only. So copy j,
which tracks that fixed stream, is right as often as for an oblivious one. With copy error e, each switch means that the
truth moved by the factor (1 + alpha/2)(1 - e)/(1 + e). If it only grows, as F0, F1 and F2 of insertions do, there are
at most ln(largest/first)/ln(factor) switches. A randomised adversary is a mixture of deterministic ones.

Reference: Ben-Eliezer, Jayaram, Woodruff, Yogev: A framework for adversarially robust streaming algorithms, 2020. They
feed copies from the moment when they are needed, or all; here all.
"""

from collections.abc import Callable

from streamgauge.continual.validation import check_whole
from streamgauge.robust.game import Estimator
from streamgauge.robust.insertions import feed_copies, is_near
from streamgauge.sketches.item_hash import Item


class CopiesUsedError(RuntimeError):
    """The answer changed more often than there are copies."""


class SketchSwitching:
    """An estimator within (1 + alpha) of the truth against an adversary, from copies of an oblivious one.

    >>> from streamgauge.sketches import SecondMoment
    >>> robust = SketchSwitching(lambda: SecondMoment(rows=64), copies=5, alpha=0.3)
    >>> robust.update("tea", 10); robust.estimate()
    100.0
    """

    def __init__(self, make: Callable[[], Estimator], *, copies: int, alpha: float) -> None:
        check_whole("copies", copies)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
        self.alpha = alpha
        self._copies = [make() for _ in range(copies)]
        self._answer, self._used = 0.0, 0

    @property
    def switches(self) -> int:
        """Number of copies whose answer was shown."""
        return self._used

    def update(self, item: Item, weight: int = 1) -> None:
        """Add an item to all copies."""
        feed_copies(self._copies, item, weight)

    def estimate(self) -> float:
        """Return the answer.

        Raises:
            CopiesUsedError: if it must change and no fresh copy remains.
        """
        if self._used == len(self._copies):
            raise CopiesUsedError(f"copies must be more than {self._used} for this stream; use exact counters")
        found = self._copies[self._used].estimate()
        if not is_near(found, self._answer, 1 + self.alpha / 2):
            self._answer = found
            self._used += 1
        return self._answer
