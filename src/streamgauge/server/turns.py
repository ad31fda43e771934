"""Turns: the run is opened again and again, each time with what was asked for in between.

    ask -> the run at hand is stopped at a commit -> opened with the release -> done, or refused

A turn that is refused changes nothing, and the next one has nothing new.
"""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition
from threading import Event as Flag

from streamgauge.pipeline.asked_releases import AskedRelease
from streamgauge.pipeline.words import exceeded_text
from streamgauge.privacy import BudgetExceeded


class Refused(ValueError):  # noqa: N818 - refusals are named by what they say
    """A release that was not charged, or not ended: why, in words that follow from declarations."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class NotRunning(RuntimeError):  # noqa: N818 - the same
    """There is no run that could be asked for anything."""


def stops() -> NotRunning:
    return NotRunning("the run must go on to be asked, got one that stops")


@dataclass
class Turn:
    """What a run is opened with, and who waits for that."""

    asked: tuple[AskedRelease, ...] = ()
    ended: tuple[str, ...] = ()
    done: Future[None] = field(default_factory=Future)
    stop: Flag = field(default_factory=Flag)

    @property
    def needed(self) -> bool:
        """Whether its failure is the run's: it was opened, or had nothing that could be left out."""
        return self.done.done() or not (self.asked or self.ended)

    def settle(self, failure: Exception | None) -> None:
        """Tells who still waits that it was never opened."""
        if not self.done.done():
            self.done.set_exception(stops() if failure is None else refusal_of(failure))


def refusal_of(failure: BaseException) -> Exception:
    """Words of our own refusals may be told; of anything else its class."""
    if isinstance(failure, BudgetExceeded):
        return Refused((": ".join([*getattr(failure, "__notes__", []), exceeded_text(failure)]),))
    if isinstance(failure, ValueError) and type(failure).__module__.startswith("streamgauge."):
        return Refused((str(failure),))
    return NotRunning(f"the run could not be opened: {type(failure).__name__}")


class Turns:
    """Whose turn it is. Anybody asks; one thread takes turns."""

    def __init__(self) -> None:
        self.at_hand = Turn()
        self._asked: deque[Turn] = deque()
        self._over = False
        self._changed = Condition()

    def ask(self, turn: Turn) -> None:
        """Stops the run at hand, and waits until it was opened with what is asked for; raises why not."""
        with self._changed:
            if self._over:
                raise stops()
            self._asked.append(turn)
            if self.at_hand.done.done():
                self.at_hand.stop.set()
            self._changed.notify()
        turn.done.result()

    def opened(self, turn: Turn) -> None:
        """It was opened: what was asked for is charged. If others wait, it is their turn."""
        with self._changed:
            turn.done.set_result(None)
            if self._asked:
                turn.stop.set()

    def next(self, *, idle: bool) -> Turn | None:
        """The next turn; where nothing is left to run, only when somebody asks. None when all is over."""
        with self._changed:
            while idle and not self._asked and not self._over:
                self._changed.wait()
            if self._over:
                return None
            self.at_hand = self._asked.popleft() if self._asked else Turn()
            return self.at_hand

    def close(self) -> None:
        """Stops the run at hand; nobody gets a turn any more."""
        with self._changed:
            self._over = True
            self.at_hand.stop.set()
            for turn in self._asked:
                turn.settle(None)
            self._asked.clear()
            self._changed.notify()
