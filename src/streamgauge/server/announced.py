"""An announced intrusion into the run behind a server: held between two turns, and written beside the file.

    asked -> the run is set down -> noise, a copy, noise, the act -> CLINIC.handed-over/NAME -> taken up again

Promise
    It is the intrusion of `streamgauge intrude` (`pipeline.intruding`), under the lock that the server holds.
    What is seen goes to a new folder on the server's disk and never over the wire; whoever has a curator's
    token names that folder and cannot choose where it lies. What is refused was not drawn, and the run goes
    on, as it does after any failure that leaves it its store. The same name again is never a second one: its
    folder is there, or what a broken one left.

Privacy
    The act is dated by the departure at which readers see it: when it was committed tells how long the run
    took to be set down. State, copies and the key are gone when the run is taken up.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamgauge.noise import Noise
from streamgauge.panprivate import NoIntrusionLeft
from streamgauge.pipeline.clock import Clock
from streamgauge.pipeline.handed_over import GONE, NoPlace, PlaceTaken
from streamgauge.pipeline.holding import Holding
from streamgauge.pipeline.intruding import Intrusion, IntrusionRefused
from streamgauge.pipeline.options import Step
from streamgauge.pipeline.store_errors import KeyRefused, WrongKey
from streamgauge.query.settings import PipelineFile

NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
SUFFIX = ".handed-over"
FAILED = "the intrusion failed: the ledger tells whether it is on record, the curator's log why it failed"
CODES: dict[type[Exception], str] = {
    NoIntrusionLeft: "no_intrusion_left",
    PlaceTaken: "folder_taken",
    IntrusionRefused: "not_intruded",
    NoPlace: "no_room",
    KeyRefused: "key_away",
    WrongKey: "key_away",
}


@dataclass(frozen=True)
class Announced:
    """An intrusion that is on record, and where all is that was seen."""

    folder: Path
    number: int
    tick: int


class NotHandedOver(ValueError):  # noqa: N818 - refusals are named by what they say
    """Nothing was handed over: why, by a code and in words that follow from declarations and the disk."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


def why_not(failure: Exception) -> NotHandedOver:
    """What the curator is told."""
    code = next((code for kind, code in CODES.items() if isinstance(failure, kind)), "failed")
    words = FAILED if code == "failed" else ": ".join([*getattr(failure, "__notes__", ()), str(failure)])
    return NotHandedOver("lost" if words.endswith(GONE) else code, words)


def place_of(file: PipelineFile, name: str) -> Path:
    """Where a hand-over of such a name lies."""
    return file.path.with_suffix(SUFFIX) / name


@dataclass(frozen=True)
class Departing:
    """A clock by which what is done now is done when readers see it."""

    clock: Clock
    departs: Callable[[int], int]

    def now(self) -> int:
        return self.departs(self.clock.now())

    def steady(self) -> int:
        return self.clock.steady()

    def sleep(self, microseconds: int) -> None:
        self.clock.sleep(microseconds)


def hand_over(holding: Holding, to: Path, clock: Clock, noise: Noise | None, step: Step) -> Announced:
    """Holds an intrusion while nothing runs; store and key are let go of, whatever happens."""
    try:
        seen = Intrusion(holding.file, holding.publisher(step), clock, noise).held(holding, to, step)
    finally:
        holding.let_go()
    return Announced(seen.folder, seen.number, seen.tick)
