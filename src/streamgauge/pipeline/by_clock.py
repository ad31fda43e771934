"""Which ticks are open and which are over, by the clock alone: public, whatever has come."""

from streamgauge.query.settings import Stream


def newest_tick(stream: Stream, now: int) -> int:
    """The last tick that an event may lie in by now; 0 before the first."""
    return _within(stream, (now + stream.earliness - stream.start) // stream.tick + 1)


def closed_tick(stream: Stream, now: int) -> int:
    """The last tick whose end and lateness have passed; 0 before the first."""
    return _within(stream, (now - stream.start - stream.lateness) // stream.tick)


def open_ticks(stream: Stream) -> int:
    """How many ticks are open at most while a live source is read in time; of a finished one none."""
    if stream.arrival == "finished":
        return 0
    most = (stream.lateness + stream.earliness) // stream.tick + 2
    return most if stream.ticks is None else min(most, stream.ticks)


def first_by_clock(stream: Stream, now: int) -> int:
    """Where a release would begin that is asked for now: after all ticks that an event may lie in."""
    return 1 if stream.arrival == "finished" else newest_tick(stream, now) + 1


def _within(stream: Stream, tick: int) -> int:
    return max(0, tick if stream.ticks is None else min(tick, stream.ticks))
