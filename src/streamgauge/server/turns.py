"""Turns: the run is opened again and again, each time with all that was asked for in between.

    ask -> the round at hand is the run's last -> judged -> opened with the release -> done, or refused

All who wait share a turn; those are told first whom the ledger is against (`judged`), and the run is opened
with the others. If that fails all the same, nothing of it is charged unless it was committed already, and
the next turn has nothing new. Those who end something then share the one after, and are told if that fails;
each who asks for something gets one alone. Announced intrusions are held before the run is opened, whatever
becomes of that (`held`). Between two turns there is a whole round of the run, in which
every release of the file goes on, and a while (`PACE`): so asking starves nobody. Ticks after the last one of
a release that is to end wait for that turn (`within`), so which is its last follows from when that was asked
for; and that is never long, however many ends and refusals there are.

Privacy
    Refusals that follow from declarations and the ledger are told to who asks. Of any other failure, which
    may speak of the source, a sink or the store, they learn that there was one; its words are the curator's.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from pathlib import Path
from threading import Condition
from threading import Event as Flag
from time import monotonic
from typing import Any

from streamgauge.pipeline.asked_releases import AskedRelease, AskRefused
from streamgauge.pipeline.book import TooLate
from streamgauge.pipeline.clock import SECOND
from streamgauge.pipeline.store_errors import KeyRefused, WrongKey
from streamgauge.pipeline.words import exceeded_text
from streamgauge.privacy import BudgetExceeded, PrivacyError
from streamgauge.query import query
from streamgauge.server.announced import Announced

Verdict = tuple[str, ...] | None  # what is against a wish; None if it is so already
PACE = 1.0  # seconds between two turns
REST = 5.0  # seconds between two tries of a run that waits for its key
KEYLESS = (KeyRefused, WrongKey)
TOLD = (PrivacyError, TooLate, AskRefused, query.Refused)  # by declarations and the ledger alone


class Refused(ValueError):  # noqa: N818 - refusals are named by what they say
    """A release that was not charged, or not ended: why, in words that follow from declarations."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class NotRunning(RuntimeError):  # noqa: N818 - the same
    """There is no run that could be asked for anything."""


class KeyAway(NotRunning):
    """The key is not where it should be: a run that is set down could not be taken up again."""

    def __init__(self) -> None:
        super().__init__(
            "the curator's key must be there for a run to be set down and taken up again, got none: the run "
            "goes on, and nothing was charged; ask again once the key is back"
        )


class Behind(NotRunning):
    """It has to catch up with the clock, which takes long: who waits is told at once."""

    def __init__(self) -> None:
        super().__init__(
            "the run must have caught up with the clock to be asked, got one that has not: ask again"
        )


class Stops(NotRunning):
    """It ends for now, whatever came: who waits is told at once."""

    def __init__(self) -> None:
        super().__init__("the run must go on to be asked, got one that stops")


def refusal_of(failure: BaseException) -> Exception:
    """What may be told of a failure."""
    if isinstance(failure, Behind):
        return failure
    if isinstance(failure, KEYLESS):
        return KeyAway()
    if not isinstance(failure, TOLD):
        return NotRunning("the run could not be opened")
    told = exceeded_text(failure) if isinstance(failure, BudgetExceeded) else str(failure)
    return Refused((": ".join([*getattr(failure, "__notes__", []), told]),))


def begun() -> Future[Any]:
    """What nobody can take back: who waits for it may go away, the run tells it all the same."""
    found: Future[Any] = Future()
    found.set_running_or_notify_cancel()
    return found


@dataclass(eq=False)
class Wish:
    """What somebody asks for, and waits for."""

    asked: tuple[AskedRelease, ...] = ()
    ended: tuple[str, ...] = ()
    announced: Path | None = None  # where an intrusion hands over
    moment: int = 0  # when it was asked
    done: Future[Any] = field(default_factory=begun)

    def settle(self, failure: Exception | None) -> None:
        """Tells that it was never opened."""
        if not self.done.done():
            self.done.set_exception(Stops() if failure is None else refusal_of(failure))


class Due(Flag):
    """Set once somebody waits, their turn begins by the clock, and one that failed has had its while."""

    failed = -inf  # when
    until: Callable[[], int] = staticmethod(lambda: 0)  # how many microseconds, by the clock

    def is_set(self) -> bool:
        return super().is_set() and self.left() <= 0

    def left(self) -> float:
        """Seconds."""
        return max(self.failed + PACE - monotonic(), self.until() / SECOND)


@dataclass
class Turn:
    """What a run is opened with, and who waits for that."""

    wishes: tuple[Wish, ...] = ()
    done: Future[None] = field(default_factory=Future)  # when it is open
    stop: Flag = field(default_factory=Flag)
    due: Due = field(default_factory=Due)

    @property
    def asked(self) -> tuple[AskedRelease, ...]:
        return tuple(chain.from_iterable(wish.asked for wish in self.wishes))

    @property
    def ended(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(wish.ended for wish in self.wishes)))

    @property
    def moments(self) -> dict[str, int]:
        """When each end was first asked for."""
        return {name: wish.moment for wish in reversed(self.wishes) for name in wish.ended}

    @property
    def needed(self) -> bool:
        """Whether its failure is the run's: it was opened, or had nothing that could be left out."""
        return self.done.done() or not self.wishes

    @property
    def interrupted(self) -> bool:
        """Whether the run may have more to do."""
        return self.stop.is_set() or self.due.is_set()


class Turns:
    """Whose turn it is. Anybody asks; one thread takes turns."""

    def __init__(
        self, now: Callable[[], int] = lambda: 0, begins: Callable[[int], int] = lambda asked: asked
    ) -> None:
        self._now, self._begins = now, begins
        self._asked: deque[Wish] = deque()
        self._alone: deque[Wish] = deque()  # of a turn that could not be opened with all of them
        self._over, self._failed = False, False
        self._refusing = False  # whether nobody gets a turn any more, though the run may go on for a while
        self._changed = Condition()
        self.at_hand = self._turn()

    def ask(self, wish: Wish) -> Future[Any]:
        """What is there once the run was opened with what is asked for, or has why not."""
        with self._changed:
            if self._refusing:
                raise Stops
            wish.moment = self._now()
            self._asked.append(wish)
            self.at_hand.due.set()
            self._changed.notify()
        return wish.done

    def within(self, due: Callable[[], int], last: Callable[[int], int]) -> int:
        """The last tick that is due, and not after the last one of a release that waits for its end.

        Both under one lock: so what is due before an end is asked for is not after its last tick.
        """
        with self._changed:
            waiting = (*self._asked, *self._alone, *self.at_hand.wishes)
            ends = [wish.moment for wish in waiting if wish.ended and not wish.done.done()]
            return min([due(), *map(last, ends)])

    def opened(self, turn: Turn) -> None:
        """It was opened: what was asked for is charged. If others wait, it is their turn."""
        with self._changed:
            turn.done.set_result(None)
            for wish in turn.wishes:
                wish.done.set_result(None)
            if self._asked or self._alone:
                turn.due.set()

    def judged(self, turn: Turn, verdicts: Sequence[Verdict]) -> None:
        """Those are told who would be refused, or have what they want; the turn is of the others."""
        with self._changed:
            for wish, verdict in zip(turn.wishes, verdicts, strict=True):
                if verdict:
                    wish.done.set_exception(Refused(verdict))
                elif verdict is None:
                    wish.done.set_result(None)
            turn.wishes = tuple(wish for wish in turn.wishes if not wish.done.done())

    def held(self, turn: Turn, wish: Wish, outcome: Announced | Exception) -> None:
        """An intrusion was held, or was not: the turn is of the others."""
        with self._changed:
            if isinstance(outcome, Exception):
                wish.done.set_exception(outcome)
            else:
                wish.done.set_result(outcome)
            turn.wishes = tuple(each for each in turn.wishes if each is not wish)

    def over(self, turn: Turn, failure: Exception | None) -> None:
        """It is over; who still waits for it tries again, or is told why not."""
        with self._changed:
            self._failed = failure is not None
            if self._failed:
                turn.due.failed = monotonic()
            left = [wish for wish in turn.wishes if not wish.done.done()]
            asks = [wish for wish in left if wish.asked]
            if asks and len(left) > 1 and not self._refusing:
                self._alone.extend(asks)
                self._asked.extendleft(wish for wish in reversed(left) if not wish.asked)
                return
            for wish in left:
                wish.settle(failure)
            if not turn.done.done():
                turn.done.set_exception(failure or Stops())

    def rest(self, failure: Exception) -> None:
        """The run cannot be taken up for now: who waits is told, and it is tried again after a while."""
        with self._changed:
            self._put_off(failure)
            if not self._over:
                self._changed.wait(REST)

    def put_off(self) -> None:
        """The run has to catch up: who waits is told."""
        with self._changed:
            self._put_off(Behind())

    def _put_off(self, failure: Exception | None) -> None:
        for wish in (*self._alone, *self._asked):
            wish.settle(failure)
        self._alone.clear()
        self._asked.clear()

    def next(self, *, idle: bool) -> Turn | None:
        """The next turn; where nothing is left to run, only when somebody asks. None when all is over.

        After one that failed the run goes on as it was for a while.
        """
        with self._changed:
            while idle and not self._over and (wait := self._wait()) != 0:
                self._changed.wait(wait)
            if self._over:
                return None
            self.at_hand = self._turn(() if self._failed and not idle else self._wishes())
            return self.at_hand

    def refuse(self) -> None:
        """Nobody gets a turn any more, and who waits for one is told; the run at hand goes on."""
        with self._changed:
            self._refusing = True
            self._put_off(None)

    def close(self) -> None:
        """Stops the run at hand; nobody gets a turn any more."""
        self.refuse()
        with self._changed:
            self._over = True
            self.at_hand.stop.set()
            self._changed.notify()

    def abandon(self, failure: Exception | None) -> None:
        """The thread that takes turns takes no more: nobody is left waiting, whatever it died of."""
        self.close()
        self.over(self.at_hand, failure)

    def _wait(self) -> float | None:
        """How long it is to the next turn of a run that has nothing to do; None if nobody asks."""
        return max(0.0, self.at_hand.due.left()) if self._asked or self._alone else None

    def _turn(self, wishes: tuple[Wish, ...] = ()) -> Turn:
        """The next turn of these; after it, those who wait have theirs by the clock."""
        turn = Turn(wishes)
        turn.due.until = self._until_next
        turn.due.failed = self.at_hand.due.failed if self._failed else -inf
        return turn

    def _until_next(self) -> int:
        """How long it is until the turn begins of who waits for longest."""
        waiting = [] if self._alone else [self._begins(wish.moment) for wish in list(self._asked)]
        return max(0, min(waiting, default=0) - self._now())

    def _wishes(self) -> tuple[Wish, ...]:
        """All whose turn has begun; of a turn that failed, those who end something, then one alone."""
        now = self._now()
        found = [wish for wish in self._asked if self._begins(wish.moment) <= now]
        if self._alone:
            found = [wish for wish in found if not wish.asked] or [self._alone.popleft()]
        self._asked = deque(wish for wish in self._asked if wish not in found)
        return tuple(found)
