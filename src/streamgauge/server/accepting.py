"""Whether something can be sent by now: by the file, the book and the clock, and by how the run is.

    reports    in a tick that a release takes which reads one of their columns, for they count in the one
               they come in; a message's records one by one
    events     from when one may lie in the first tick until all ticks of all releases are closed; those of
               ticks that none takes count for nothing

**Privacy.** Which ticks releases take is public; that a run catches up with a clock that is far ahead of it
(`Progress.due`), that it stops or has failed, is the machine's. Which columns a record of devices has is
public. None of it tells what else came.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil
from typing import NoReturn

from streamgauge.pipeline.by_clock import closed_tick
from streamgauge.pipeline.clock import SECOND
from streamgauge.pipeline.taken import Taken
from streamgauge.query.formats import REPORTS
from streamgauge.server.errors import HttpRefusal, later
from streamgauge.server.runner import Runner

SOON = 3600  # seconds: a start that is worth waiting for
PATIENT = 60  # seconds after which somebody may have asked for a release
BEHIND = 10  # seconds in which a run catches up with many ticks
NO_RELEASE = "no release goes on"
NOT_OF_THESE = "no release goes on that reads these columns"
NOT_READ = "nothing is read for now"
END = "the stream's end has passed"
STOPPING = "the server is stopping"
STATES = {"stopping": STOPPING, "failed": "the run failed"}
CATCHING_UP = "must be sent once the run has caught up with the clock, got some before: send them again"


@dataclass(frozen=True)
class Arrival:
    """When something came, by the clock: the tick of that moment, and what releases take."""

    moment: int
    tick: int
    taken: Taken

    def takes(self, columns: frozenset[str]) -> bool:
        """Whether a release takes the tick that reads one of these columns."""
        return self.taken.next(self.tick, columns) == self.tick


def check_running(runner: Runner, what: str) -> None:
    """Refuses what nobody would read for now, or ever."""
    if why := STATES.get(runner.state):
        raise not_running(what, why)
    if runner.state == "ended":
        end = runner.file.stream.end
        passed = end is not None and runner.now() >= end
        raise not_running(what, END if passed else NO_RELEASE, PATIENT)
    check_caught_up(runner, f"{what} {CATCHING_UP}")


def check_begun(runner: Runner, what: str) -> None:
    """Refuses what comes before any of it may lie in the first tick: reports lie where they come."""
    stream, now = runner.file.stream, runner.now()
    first = stream.start - (0 if stream.source == REPORTS else stream.earliness)
    if now < first:
        raise too_early(what, "the stream's start", first - now)


def check_caught_up(runner: Runner, rule: str) -> None:
    """Refuses what would wait for as long as a run catches up."""
    if runner.catching_up:
        raise catching_up(rule)


def catching_up(rule: str) -> HttpRefusal:
    return later("catching_up", rule, seconds=BEHIND)


def check_events(runner: Runner) -> None:
    """Refuses events before any of them can count, and once none can any more."""
    check_begun(runner, "events")
    check_running(runner, "events")
    if runner.taken.next(closed_tick(runner.file.stream, runner.now()) + 1) is None:
        raise not_running("events", NO_RELEASE, PATIENT)


def arrival_of_reports(runner: Runner, columns: Collection[frozenset[str] | None] = (None,)) -> Arrival:
    """When a message came; refused if no release takes the tick of that moment.

    `columns` are those that its records have: of each record, or of all that are alike.
    """
    now, stream, taken = runner.now(), runner.file.stream, runner.taken
    check_begun(runner, "reports")
    if stream.end is not None and now >= stream.end:
        rule = "reports must be sent before the stream's end, got some after it"
        raise HttpRefusal(410, "ended", rule)
    tick = (now - stream.start) // stream.tick + 1
    found = [first for each in set(columns) if (first := taken.next(tick, each)) is not None]
    if not found:
        raise not_running("reports", NO_RELEASE if taken.next(tick) is None else NOT_OF_THESE, PATIENT)
    if min(found) > tick:
        raise too_early("reports", "the first tick of a release", stream.begins(min(found)) - now)
    return Arrival(now, tick, taken)


def refuse_unread(runner: Runner, what: str) -> NoReturn:
    """Refuses what came while the run reads nothing: before the start, and where it sees the clock a little
    later than who sends."""
    check_begun(runner, what)
    raise not_running(what, NOT_READ)


def too_early(what: str, since: str, wait: int) -> HttpRefusal:
    seconds = ceil(wait / SECOND)
    rule = f"{what} must be sent from {since} on, got some before it"
    return HttpRefusal(425, "too_early", rule, {"Retry-After": str(seconds)} if seconds <= SOON else None)


def not_running(what: str, why: str, seconds: int = 1) -> HttpRefusal:
    rule = f"{what} must be sent while a release goes on, got some after: {why}"
    return later("not_running", rule, seconds=seconds)
