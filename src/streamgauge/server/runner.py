"""The run behind the server: `streamgauge run` itself, in a thread, told what is asked for.

    Pipeline.ticks -> commit -> Leaving (the clock) -> Board -> readers
          ^ ask, end, intrude: set down after a whole round, and taken up again

Promise
    The run has the lock, key, witness and crash law of `streamgauge run`. Lock, key, store, sinks and a
    source that cannot be replayed are held from the first turn to the last (`pipeline.holding`). If the run
    cannot be opened with what is asked for, it goes on without, or rests if its last tick was over. Nothing
    was charged then, unless a sink failed after the commit: the charge stands, the release is taken up by
    the next turn, and who asks again in the same words is answered as if nothing had been. With pan_private
    = true a run whose key is away is not set down; one that was set down waits for its key, and goes on.
    When the run is over, or the world failed it, readers go on reading. Whatever its thread dies of, the run
    is then "failed", who waits is told, and only then are lock and store let go.

Privacy
    `state` and `error` are public: the error is the name of a class. `progress`, `failure` and what `worry`
    is told are the curator's. A failure is kept for as long as readers read: what was at work when it came,
    with records as they were sent and registers as they were, is let go of first (`let_go`). With
    pan_private = true it does not even say where it was, nor what other failure it came of.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

from streamgauge.pipeline.asked_releases import AskedRelease, never_asked
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.by_clock import closed_tick
from streamgauge.pipeline.holding import Holding
from streamgauge.pipeline.keys import key_is_away
from streamgauge.pipeline.opening import RunRefused
from streamgauge.pipeline.options import Options, Progress, unseen
from streamgauge.pipeline.pipeline import Pipeline, input_of
from streamgauge.pipeline.reader import Act
from streamgauge.pipeline.reading import read_book
from streamgauge.pipeline.record_shares import RecordShares
from streamgauge.pipeline.store_errors import NoStore
from streamgauge.pipeline.taken import Taken
from streamgauge.query.formats import SENT, STANDARD
from streamgauge.query.protocols import Live
from streamgauge.query.settings import PipelineFile
from streamgauge.server.announced import Announced, Departing, hand_over, why_not
from streamgauge.server.board import Board, State
from streamgauge.server.departed import Readers
from streamgauge.server.emptied import let_go
from streamgauge.server.gathering import Gathering
from streamgauge.server.heard import Heard
from streamgauge.server.judging import verdicts
from streamgauge.server.known_acts import books
from streamgauge.server.leaving import Leaving
from streamgauge.server.over import Over
from streamgauge.server.tally import Tally
from streamgauge.server.turns import KEYLESS, TOLD, KeyAway, NotRunning, Refused, Turn, Turns, Wish
from streamgauge.sources.inbox import Inbox, inbox_of
from streamgauge.sources.passing_inbox import PassingInbox

__all__ = ["NotRunning", "Refused", "Runner", "State"]

ONCE: dict[str, Any] = {
    "again": False,
    "rolled_back": False,
    "newest": False,
    "change_budget": False,
    "ended": (),
    "cut": (),
}  # said for one start


class Interrupted(RuntimeError):  # noqa: N818 - named for what happened
    """The thread of a run was ended by what is no error: an engine that was interrupted, for one."""


def unworried(failure: Exception) -> None:
    """Nobody wants to know."""


class Runner:
    """A pipeline at work for a server, from `start` to `stop`."""

    def __init__(
        self,
        file: PipelineFile,
        options: Options | None = None,
        *,
        seen: Callable[[Progress], None] = unseen,
        worry: Callable[[Exception], None] = unworried,
        now: Callable[[], int] | None = None,
        demo: bool = False,
    ) -> None:
        self.file, self.options, self.demo = file, options or Options(), demo
        self.now = now or self.options.clock.now
        self.inbox = self._inbox()
        self.board = Board(Readers(file.folder))
        self.books, self._over = books(file.stream.unit), Over()
        self.taken = Taken()  # which ticks releases take
        self.progress: Progress | None = None
        self.failure: Exception | None = None
        self.dropped = Counter[str]()  # exact: records at the door, before they could be read
        self.late: dict[int, int] = {}  # acts, by their place, that leave after their time: when
        self.shares = None if file.stream.pan_private else RecordShares(file.stream, self.options.diagnose)
        self._seen, self._tally, self._waits = seen, Tally(), False
        self._gathering = Gathering.of(file)
        self._turns = Turns(self.now, self._gathering.begins)
        self._worry, self._holding = worry, Holding(file)
        self._input: Live | None = self.inbox
        self._leaving = Leaving(file, self.board, self.now)
        self._thread = Thread(target=self._work, name="streamgauge run", daemon=True)

    def _inbox(self) -> Inbox | PassingInbox | None:
        """What events are sent to, if they are."""
        if self.file.stream.source not in SENT:
            return None
        if self.file.stream.pan_private:
            return PassingInbox(most_waiting=self.file.server.max_waiting)
        return inbox_of(self.file, self.now)

    @property
    def state(self) -> State:
        return self.board.state

    @property
    def error(self) -> str:
        return "" if self.failure is None else type(self.failure).__name__

    @property
    def catching_up(self) -> bool:
        """Whether many ticks are behind the clock."""
        told = self.progress
        return told is not None and told.due is not None and told.tick < told.due

    def start(self) -> None:
        """Begins; returns when the run is open, and raises what `run` would if it must not be."""
        first = self._turns.at_hand
        self._leaving.start()
        self._thread.start()
        if first.done.exception() is not None and self.failure is not None:
            self.stop()
            raise self.failure

    def let_go(self) -> None:
        """Live readers are told, and sent home; so is who waits for a turn."""
        if self.state != "failed":
            self.board.tell("stopping")
        self.board.close()
        self._turns.refuse()

    def stop(self) -> None:
        """Ends the run after the batch at hand, and waits for that. Live readers are let go first."""
        self.let_go()
        self._turns.close()
        if self._thread.is_alive():
            self._thread.join()
        if self.shares is not None:
            self.shares.report()
        if self.inbox is not None:
            self.inbox.close()
        self._leaving.stop()
        self.board.readers.close()

    def ask(self, asked: AskedRelease, share: Fraction | None = None) -> None:
        """Charges a release and starts it; blocks until it is. Raises Refused, or NotRunning."""
        self.asking(asked, share).result()

    def end(self, name: str) -> None:
        """Ends a release that was asked for: it runs on to the last tick that has closed by when readers hear
        of what is asked for now. Blocks until that is charged. Raises Refused, or NotRunning."""
        self.ending(name).result()

    def intrude(self, to: Path) -> Announced:
        """Holds an announced intrusion between two turns; blocks until what was seen is in a new folder.
        Raises NotHandedOver, or NotRunning."""
        found: Announced = self.intruding(to).result()
        return found

    def asking(self, asked: AskedRelease, share: Fraction | None = None) -> Future[None]:
        """As `ask`, for who waits otherwise."""
        return self._wished(Wish(asked=(asked if share is None else replace(asked, share=share),)))

    def ending(self, name: str) -> Future[None]:
        """As `end`."""
        return self._wished(Wish(ended=(name,)))

    def intruding(self, to: Path) -> Future[Announced]:
        """As `intrude`."""
        return self._in_turn(Wish(announced=to))

    def _wished(self, wish: Wish) -> Future[None]:
        if reasons := tuple(never_asked(self.file.stream)):
            raise Refused(reasons)
        return self._in_turn(wish)

    def _in_turn(self, wish: Wish) -> Future[Any]:
        """Sets the run down for a wish, unless it could not be taken up again: with pan_private = true it
        holds no key."""
        if self.file.stream.pan_private and key_is_away(self.file):
            raise KeyAway
        return self._turns.ask(wish)

    def acts(self) -> tuple[Act, ...]:
        """All that is public of what was done."""
        try:
            with self.board.reading() as reader:
                return reader.acts()
        except NoStore:
            return ()

    def book(self) -> Book:
        """What was charged, as far as it is public; not to be changed."""
        return self.books(self.acts())

    def over(self) -> frozenset[str]:
        """Releases that were ended, and of which readers have seen all."""
        try:
            with self.board.reading() as reader:
                return self._over.seen(self.books(reader.acts()), reader)
        except NoStore:
            return frozenset()

    def names(self) -> set[str]:
        """All releases that were ever charged."""
        return {act.body["release"] for act in self.acts() if act.kind == "charge"}

    def _work(self) -> None:
        """The thread of the run."""
        with self._failing(), self._holding, self._failing():
            self._take_turns()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever goes wrong in here fails the run; who waits for it is told."""
        try:
            yield
        except Exception as failure:
            self._fail(self._emptied(failure))
        except BaseException as ending:  # this thread has nobody above it who wants to know
            let_go(ending, where=not self.file.stream.pan_private)
            self._fail(Interrupted(f"run must go on until it is stopped, got {type(ending).__name__}"))
        finally:
            self._turns.abandon(self.failure)

    def _take_turns(self) -> None:
        turn: Turn | None = self._turns.at_hand
        idle = False  # whether nothing is left to run
        while turn is not None:
            idle = self._take(turn, idle=idle)
            turn = self._turns.next(idle=idle)

    def _take(self, turn: Turn, *, idle: bool) -> bool:
        """One turn; returns whether nothing is left to run. What went wrong is gone before the next."""
        failure = self._run(turn, idle=idle)
        if failure is None:
            idle = not turn.interrupted
        elif self._keyless(turn, failure):
            self._turns.rest(failure)
        elif turn.needed:
            self._fail(failure)
        else:
            self._go_on_after(failure)
        if idle and failure is None:
            self._leaving.ended()
            if self.inbox is not None:
                self.inbox.rest()
        self._turns.over(turn, failure)
        return idle

    def _keyless(self, turn: Turn, failure: Exception) -> bool:
        """Whether a run that was set down waits for its key: all of it is in its store, and nobody gets at
        that. The curator is told once."""
        before, self._waits = self._waits, isinstance(failure, KEYLESS) and self.state == "running"
        waits = self._waits and turn.needed and not turn.done.done()
        if waits and not before:
            self._worry(failure)
        return waits

    def _judge(self, turn: Turn) -> None:
        """Tells those at once whom the ledger is against: the turn is of the others."""
        if turn.wishes:
            book = read_book(self.file.folder, self.file.stream)
            heard, seen = self._gathering.heard, self._departs(turn)(self.now())
            told = verdicts(self.file, turn.wishes, book, heard=heard, seen=seen, over=self.over())
            self._turns.judged(turn, told)

    def _go_on_after(self, failure: Exception) -> None:
        """A turn was not opened: the run goes on as it was."""
        if not isinstance(failure, TOLD):
            self._worry(failure)
        if not isinstance(failure, (*TOLD, RunRefused)):  # the store may be uncertain
            self._holding.let_go()

    def _run(self, turn: Turn, *, idle: bool) -> Exception | None:
        """One turn, to its end or until it is stopped; returns what went wrong."""
        self._tally.opened()
        try:
            heard = Heard(self.file, self._leaving, self.late)
            self._hand_over(turn, heard)
            self._judge(turn)
            if idle and not turn.wishes:
                return None
            with heard:
                for released in Pipeline(self.file).ticks(self._options(turn, heard)):
                    heard.commit(released)
        except Exception as failure:
            return self._emptied(failure)
        finally:
            self._behind_no_more()
        return None

    def _behind_no_more(self) -> None:
        """A run that is over catches up with nothing: the next one tells anew."""
        if self.progress is not None:
            self.progress = replace(self.progress, due=None)

    def _hand_over(self, turn: Turn, heard: Heard) -> None:
        """Holds the intrusions that were announced: who announced one is told what came of it."""
        for wish in turn.wishes:
            if wish.announced is not None:
                with heard.beside(self._begun(turn)):
                    found = self._intruded(wish.announced, self._departs(turn))
                self._turns.held(turn, wish, found)

    def _intruded(self, to: Path, departs: Callable[[int], int]) -> Announced | Exception:
        clock, noise = Departing(self.options.clock, departs), self.options.noise
        try:
            return hand_over(self._holding, to, clock, noise, self.options.step)
        except Exception as failure:
            refusal = why_not(self._emptied(failure))
            if refusal.code in ("lost", "failed", "no_room", "key_away"):
                self._worry(failure)
            return refusal

    def _emptied(self, failure: Exception) -> Exception:
        let_go(failure, where=not self.file.stream.pan_private)
        return failure

    def _options(self, turn: Turn, heard: Heard) -> Options:
        def step(name: str) -> None:
            self.options.step(name)
            if name == "opened":
                heard.opening(first=self.state == "starting", begun=self._begun(turn))
                self.options = replace(self.options, **ONCE)
                self.board.tell("running")
                self._turns.opened(turn)

        own: dict[str, Any] = {"stop": turn.stop, "turn": turn.due, "seen": self._watch, "step": step}
        own |= {
            "takes": self._takes,
            "shares": self.shares,
            "inbox": self._source(),
            "holding": self._holding,
            "departs": self._departs(turn),
        }
        own |= {
            "asked": turn.asked,
            "over": self.over() if turn.asked else frozenset(),
            "ended": (*self.options.ended, *turn.ended),
        }
        moments = {name: self._gathering.heard(asked) for name, asked in turn.moments.items()}
        return replace(self.options, moments=moments, within=self._within, **own)

    def _begun(self, turn: Turn) -> int:
        """When it began, by the clock; 0 if nobody asked."""
        return max((self._gathering.begins(wish.moment) for wish in turn.wishes), default=0)

    def _departs(self, turn: Turn) -> Callable[[int], int]:
        """When readers see what is committed at a moment as this turn is opened."""
        least = max((self._gathering.heard(wish.moment) for wish in turn.wishes), default=0)
        return lambda moment: max(least, self._leaving.departures.moment(moment))

    def _within(self, due: Callable[[], int]) -> int:
        """No tick closes after the last one of a release that waits for its end."""
        heard, stream = self._gathering.heard, self.file.stream
        return self._turns.within(due, lambda moment: closed_tick(stream, heard(moment)))

    def _source(self) -> Live | None:
        """What cannot be read again outlives a turn."""
        if self._input is None and self.file.stream.source == STANDARD:
            self._input = input_of(self.file, self.options)
        return self._input

    def _takes(self, taken: Taken) -> None:
        self.taken = taken

    def _watch(self, progress: Progress) -> None:
        told = self._tally.with_earlier(progress)
        self.progress = replace(told, dropped={**told.dropped, **self.dropped})
        self._seen(self.progress)
        if self.catching_up:
            self._turns.put_off()

    def _fail(self, failure: Exception) -> None:
        """The world is not as a run needs it: readers go on, nobody else."""
        self.failure = self.failure or failure
        self.board.tell("failed")
        if self.inbox is not None:
            self.inbox.close()
        self._turns.close()
