"""Bounds on users over a finished source: of each user so many events of a tick, in so many ticks.

    per tick    events are ordered by a keyed hash of the record; the first `max_events_per_tick` survive
    per stream  the first `max_ticks` ticks that the user has any event in survive

Privacy
    Which events survive is decided by that user's events alone: windows are partitioned by user, and the hash
    orders by content, so neither other users nor the order of the file matter (records with equal hashes are
    alike, and it does not matter which of them survives). Bounds come before any WHERE, across groups, and
    count from the stream's first tick, wherever a run resumes.
"""

from streamgauge.engines.passes import BOUNDED, ELSEWHERE
from streamgauge.engines.row_source import ORDER, TICK, USER
from streamgauge.privacy import User


def bounded(rows: str, unit: User, first: int) -> str:
    """Rows with BOUNDED in place of the ticks of events that do not survive; ticks before `first` are
    another scan's.

    Records that were dropped before are no events of their users: their own hash stands in for one.
    """
    events = f"(SELECT * REPLACE (CASE WHEN {TICK} >= 1 THEN {USER} ELSE {ORDER} END AS {USER}) FROM {rows})"
    ranked = (
        f'SELECT *, row_number() OVER (PARTITION BY {USER}, {TICK} ORDER BY {ORDER}) AS "$event", '
        f'dense_rank() OVER (PARTITION BY {USER} ORDER BY {TICK}) AS "$ticks" FROM {events}'
    )
    survives = f'"$event" <= {unit.max_events_per_tick} AND "$ticks" <= {unit.max_ticks}'
    ruled = (
        f"CASE WHEN {TICK} < 1 THEN {TICK} WHEN {TICK} < {first} THEN {ELSEWHERE} "
        f"WHEN {survives} THEN {TICK} ELSE {BOUNDED} END"
    )
    return f"(SELECT * REPLACE ({ruled} AS {TICK}) FROM ({ranked}))"
