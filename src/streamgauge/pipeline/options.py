"""How a run is run: what is injected, and what a curator has to say aloud."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING

from streamgauge.noise import Noise
from streamgauge.pipeline.asked_releases import AskedRelease
from streamgauge.pipeline.clock import Clock, SystemClock
from streamgauge.pipeline.record_shares import RecordShares
from streamgauge.pipeline.taken import Taken
from streamgauge.query.protocols import Live

if TYPE_CHECKING:
    from streamgauge.pipeline.holding import Holding

BATCH = 2**21  # places of vectors that go into one commit when catching up
TICKS = 4096  # and ticks


@dataclass(frozen=True)
class Progress:
    """What the curator sees of a run: private, since it counts events."""

    tick: int
    ticks: int | None
    events: int
    dropped: dict[str, int]
    counts: bool = True  # whether events are counted at all: nowhere with pan_private = true
    due: int | None = None  # the last tick that is to be caught up with, where that takes several commits

    @property
    def behind(self) -> str:
        """Says so where a run catches up."""
        return "" if self.due is None else "catching up: "

    @property
    def until(self) -> int | None:
        """The last tick that is in sight."""
        return self.ticks if self.due is None else self.due


def unseen(progress: Progress) -> None:
    """Nobody watches."""


def unnoted(what: str) -> None:
    """Nobody keeps a log."""


Step = Callable[[str], None]  # told the name of each step of a commit: where tests crash a run


def nothing(step: str) -> None:
    """Between two steps nothing happens, outside of tests."""


def untold(taken: Taken) -> None:
    """Nobody asks which ticks releases take."""


def at_once(due: Callable[[], int]) -> int:
    """All ticks that are due close: nobody waits for an end."""
    return due()


@dataclass
class Options:
    """All settings of a run that are not in its file."""

    noise: Noise | None = None  # the machine's, fresh for every run, unless a test says otherwise
    clock: Clock = field(default_factory=SystemClock)
    again: bool = False  # a finished file that changed is charged again
    rolled_back: bool = False  # a store that is behind its traces is charged again
    newest: bool = False  # a store that lost its witness is said to be the newest copy
    accept_clock: bool = False
    change_budget: bool = False
    batch: int = BATCH
    ticks: int = TICKS
    memory: str = "600MB"
    stop: Flag = field(default_factory=Flag)  # set by Ctrl-C
    turn: Flag = field(default_factory=Flag)  # set where others wait: the round at hand is the last
    seen: Callable[[Progress], None] = unseen
    note: Callable[[str], None] = unnoted  # the curator's log
    diagnose: Callable[[str], None] = unnoted  # private lines: a terminal, or else the curator's log
    shares: RecordShares | None = None  # of a process with many runs; a run that has none counts its own
    step: Step = nothing
    standard_input: int = 0  # the file descriptor
    inbox: Live | None = None  # a source that outlives the run: what is sent to a server, or its input
    holding: "Holding | None" = None  # the lock, key, store and sinks, where they outlive the run
    departs: Callable[[int], int] | None = None  # when readers see what is committed at a moment
    asked: tuple[AskedRelease, ...] = ()  # releases that are charged at this start and are in no file
    ended: tuple[str, ...] = ()  # releases that were asked for, and end at this start
    cut: tuple[str, ...] = ()  # the same, where they are: for what cannot be run
    over: frozenset[str] = frozenset()  # releases that have ended, and whose last tick readers have seen
    moments: Mapping[str, int] = field(default_factory=dict)  # when readers hear of an end, if that is known
    takes: Callable[[Taken], None] = untold  # told which ticks releases take, before the first is closed
    within: Callable[[Callable[[], int]], int] = at_once  # the last tick that may close, of those due
