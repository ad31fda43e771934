"""Bounds on users over a finished source: of each user so many events of a tick, in so many ticks.

    per tick    events are ordered by a hash of the record; the first `max_events_per_tick` survive
    per stream  the first `max_ticks` ticks that the user has any event in survive

Privacy
    Which events survive is decided by that user's events alone: windows are partitioned by user, and the hash
    orders by content, so neither other users nor the order of the file matter (records with equal hashes are
    alike, but for a chance of 2^-64, and then either is the user's own). Bounds come before any WHERE, across
    groups, and count from the stream's first tick, wherever a run resumes. Records that were dropped before
    are no events of their users: they are partitions of their own.

All windows are partitioned alike, so that events are sorted once, by tick and hash: what comes before an
event in its tick is what comes before it at all, less what is in earlier ticks.
"""

from streamgauge.engines.passes import BOUNDED, ELSEWHERE
from streamgauge.engines.row_source import ORDER, TICK, USER
from streamgauge.privacy import User


def bounded(rows: str, unit: User, first: int) -> str:
    """Rows with BOUNDED in place of the ticks of events that do not survive; ticks before `first` are
    another scan's.

    Those who have no user have their own hash in place of one, which parts many of them.
    """
    user = f"PARTITION BY {TICK} >= 1, COALESCE({USER}, {ORDER}::VARCHAR)"
    by_tick = f"({user} ORDER BY {TICK})"
    event = f"row_number() OVER ({user} ORDER BY {TICK}, {ORDER}) - rank() OVER {by_tick}"
    ranked = f'SELECT *, {event} AS "$event", dense_rank() OVER {by_tick} AS "$ticks" FROM {rows}'
    survives = f'"$event" < {unit.max_events_per_tick} AND "$ticks" <= {unit.max_ticks}'
    ruled = (
        f"CASE WHEN {TICK} < 1 THEN {TICK} WHEN {TICK} < {first} THEN {ELSEWHERE} "
        f"WHEN {survives} THEN {TICK} ELSE {BOUNDED} END"
    )
    return f"(SELECT * REPLACE ({ruled} AS {TICK}) FROM ({ranked}))"
