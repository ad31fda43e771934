"""Whether something can be sent by now: by the file, the book and the clock, and by how the run is.

    reports    in a tick that a release takes, for they count in the one they come in
    events     until all ticks of all releases are closed; those of ticks that none takes count for nothing

**Privacy.** Which ticks releases take is public; that a run catches up with a clock that is far ahead of it
(`Progress.due`), that it stops or has failed, is the machine's. None of it tells what came.
"""

from math import ceil

from streamgauge.pipeline.by_clock import closed_tick
from streamgauge.pipeline.clock import SECOND
from streamgauge.server.errors import HttpRefusal, later
from streamgauge.server.runner import Runner

SOON = 3600  # seconds: a start that is worth waiting for
PATIENT = 60  # seconds after which somebody may have asked for a release
BEHIND = 10  # seconds in which a run catches up with many ticks
NO_RELEASE = "no release goes on"
END = "the stream's end has passed"
STOPPING = "the server is stopping"
STATES = {"stopping": STOPPING, "failed": "the run failed"}
CATCHING_UP = "must be sent once the run has caught up with the clock, got some before: send them again"


def check_running(runner: Runner, what: str) -> None:
    """Refuses what nobody would read for now, or ever."""
    if why := STATES.get(runner.state):
        raise not_running(what, why)
    if runner.state == "ended":
        end = runner.file.stream.end
        passed = end is not None and runner.now() >= end
        raise not_running(what, END if passed else NO_RELEASE, PATIENT)
    if runner.catching_up:
        raise later("catching_up", f"{what} {CATCHING_UP}", seconds=BEHIND)


def check_events(runner: Runner) -> None:
    """Refuses events once none of them can count any more."""
    check_running(runner, "events")
    if runner.taken.next(closed_tick(runner.file.stream, runner.now()) + 1) is None:
        raise not_running("events", NO_RELEASE, PATIENT)


def arrival_of_reports(runner: Runner) -> int:
    """When a message came, by the clock; refused if no release takes the tick of that moment."""
    now, stream = runner.now(), runner.file.stream
    if now < stream.start:
        raise too_early("the stream's start", stream.start - now)
    if stream.end is not None and now >= stream.end:
        rule = "reports must be sent before the stream's end, got some after it"
        raise HttpRefusal(410, "ended", rule)
    tick = (now - stream.start) // stream.tick + 1
    first = runner.taken.next(tick)
    if first is None:
        raise not_running("reports", NO_RELEASE, PATIENT)
    if first > tick:
        raise too_early("the first tick of a release", stream.begins(first) - now)
    return now


def too_early(since: str, wait: int) -> HttpRefusal:
    seconds = ceil(wait / SECOND)
    rule = f"reports must be sent from {since} on, got some before it"
    return HttpRefusal(425, "too_early", rule, {"Retry-After": str(seconds)} if seconds <= SOON else None)


def not_running(what: str, why: str, seconds: int = 1) -> HttpRefusal:
    rule = f"{what} must be sent while a release goes on, got some after: {why}"
    return later("not_running", rule, seconds=seconds)
