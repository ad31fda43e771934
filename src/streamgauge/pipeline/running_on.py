"""Releases that were ended and run on, to exactly the tick that their end covers.

    asked to end at a moment -> the end, with its last tick, is charged -> runs on -> its memory is forgotten

Privacy
    How far a run has come at some moment depends on how long it took, and so on the data. A release that
    ended there would tell that for ever. So its last tick follows from the clock and the moment at which the
    end was asked for: the last tick that has closed by then, or by when readers hear of it; over a finished
    source, whose ticks have all passed, the last one of all. It is in the book before any later tick closes,
    and a run that was killed in between runs on to it after the next start.

    With pan_private = true the tick after it is open, and events of it are in registers that may have been
    seen. Where a unit is in one tick that is no matter: what is charged later begins after all ticks that
    were opened, so no unit of that tick is in another release. Where it is in several (w_event), a window can
    have that tick and one of a later release: so the release runs on through that tick, which stays charged.
    So does its first one, if it published none, and all that were marked as open before the end, however late
    the run was by then or the clock is set now (`least_of`).

    What cannot run on ends where it is: where the source that was charged is gone, or what was charged
    cannot be built, which follows from declarations. Its memory is forgotten then, so it is entered that it
    never runs on again (`cut`). A curator cuts one by name where an engine fails with it, and says aloud that
    readers may then see how far it was. Any other failure (no memory, a disk that fails) may pass: it fails
    the start, and nothing is forgotten.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from streamgauge.pipeline.as_charged import pinned_texts, planned_as_charged
from streamgauge.pipeline.asked_releases import restored
from streamgauge.pipeline.book import Book, Entry, base_name
from streamgauge.pipeline.by_clock import closed_tick
from streamgauge.query.planner import Planned
from streamgauge.query.settings import PipelineFile, Stream


@dataclass
class RunningOn:
    """Which of the releases that were ended can run on, at one start.

    `build` may know all state: who keeps this keeps that.
    """

    released: Callable[[str], int]  # the last tick of a release that was committed
    build: Callable[[Entry], object]  # refuses by a ValueError what follows from declarations
    gone: bool  # whether the source that was charged is
    cut: Collection[str]  # names that a curator cuts
    able: dict[str, bool] = field(default_factory=dict)  # which can be built

    def complete(self, entry: Entry) -> bool:
        """Whether nothing is left to be drawn of a release."""
        return entry.until is not None and max(self.released(entry.name), entry.first - 1) >= entry.until

    def left(self, entries: Mapping[str, Entry]) -> dict[str, Entry]:
        """Those that were ended, and have ticks left, whether they can be run or not."""
        return {name: entry for name, entry in entries.items() if entry.runs_on and not self.complete(entry)}

    def can(self, entry: Entry) -> bool:
        """Whether there is the source that was charged, and what was charged can be built."""
        if self.gone or base_name(entry.name) in self.cut:
            return False
        if entry.name not in self.able:
            self.able[entry.name] = self._builds(entry)
        return self.able[entry.name]

    def _builds(self, entry: Entry) -> bool:
        try:
            self.build(entry)
        except ValueError:
            return False
        return True


def open_at_end(stream: Stream) -> int:
    """How many ticks stay charged after the last that has closed when a release ends."""
    return int(stream.pan_private and stream.unit.frees and stream.unit.ticks > 1)


def least_of(stream: Stream, entry: Entry, released: int, opened: int) -> int:
    """The least last tick of a release that ends: all that it published, or has in registers, stays charged.

    `opened` is the last tick that an event may have been counted in.
    """
    if not open_at_end(stream):
        return released
    least = max(released + 1, entry.first, opened)
    return least if entry.last is None else min(least, entry.last)


def last_of(stream: Stream, entry: Entry, moment: int, released: int, opened: int) -> int:
    """The last tick of a release that ends at a moment, by the clock; none before the least one."""
    if stream.arrival == "finished":
        passed = stream.ticks or 0
    else:
        by_clock = closed_tick(stream, moment) + open_at_end(stream)
        passed = max(by_clock, least_of(stream, entry, released, opened))
    return passed if entry.last is None else min(passed, entry.last)


def plan_of_ended(file: PipelineFile, entry: Entry, book: Book) -> Planned:
    """A release as it was charged, whether it is in the file or not; the tables that it reads must be."""
    plan = planned_as_charged(file, restored(entry, book), book)
    texts = pinned_texts(book)
    for name in (f"lookup.{each}" for each in plan.query.lookups):
        if texts.get(name) != file.blocks.get(name):
            raise ValueError(f"{name} must stay as it was charged, got another table")
    return plan
