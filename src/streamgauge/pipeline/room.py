"""Room for a standard input that is finished: all of its ticks are held in memory until it has ended."""

from collections.abc import Iterable, Sequence

from streamgauge.query.parts import Part
from streamgauge.query.planner import Planned
from streamgauge.query.settings import Stream

PLACES = 2**25  # of all ticks and groups


def places_of(parts: Iterable[Part]) -> int:
    """Places of the vectors of one tick, all parts together."""
    return sum(part.places for part in parts)


def no_room(stream: Stream, plans: Sequence[Planned]) -> str | None:
    """Why these releases cannot share such an input, by declarations alone; None if they can."""
    if stream.source != "-" or stream.ticks is None or stream.arrival == "live":
        return None
    places = places_of(part for plan in plans for part in plan.parts)
    if places * stream.ticks <= PLACES:
        return None
    rule = f"ticks x groups must be at most {PLACES} for a finished standard input"
    return f"{rule}, got {stream.ticks} ticks x {places} places: write it to a file, or take longer ticks"
