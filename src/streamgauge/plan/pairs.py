"""Queries over the pairs of a mapper, and the time that they may take.

**Slot.** A tick closes on time if its records are mapped within the tick. So a live plan is refused if it may take
longer. Under `unit = { tick = ... }` a tick has a declared number of records. Else each record that ends early spends
the steps that it has left. Then the steps depend on the number of records and not on their content, and the expected
events, if declared, must fit.
"""

from dataclasses import replace
from importlib.util import find_spec

from streamgauge import sql
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.rules import format_duration
from streamgauge.config.settings import PipelineFile, Release, Stream
from streamgauge.privacy import Tick, XAdjacent
from streamgauge.sql.query import Query

PAIR_KEY, PAIR_VALUE = '"$pair key"', '"value"'
NANOSECONDS_PER_STEP = 20  # four times the measured time of a step (benchmarks/mappers.py)
NANOSECONDS_PER_RECORD, NANOSECONDS_PER_PAIR = 5_000, 500


def build_pair_query(file: PipelineFile, release: Release) -> Query:
    """Return the query of a release whose events are the pairs of a mapper."""
    mapper, stream = release.mapper, file.stream
    if mapper is None:
        raise InvalidReleaseError("map must be given, got none")
    if isinstance(stream.unit, XAdjacent):
        raise InvalidReleaseError("map must be left out where units are users of a pan-private stream, got one")
    if find_spec("wasmtime") is None:
        raise InvalidReleaseError("wasmtime must be installed for map, got none: pip install 'streamgauge[mapper]'")
    query = sql.parse(release.sql, mapper.build_pair_stream(stream), {})
    groups = tuple(replace(group, code=PAIR_KEY, text=None) for group in query.groups)
    return replace(query, groups=groups, columns=frozenset(name for name, _ in mapper.program.columns), mapper=mapper)


def spends_all_steps(stream: Stream) -> bool:
    """Return whether each record takes the time of `max_steps`, so that no record's content shows in the time."""
    return stream.mode == "streaming" and not isinstance(stream.unit, Tick)


def check_slot(release: Release, stream: Stream) -> None:
    """Reject a live release whose records may take longer than their tick."""
    mapper = release.mapper
    if mapper is None or stream.mode != "streaming":
        return
    expected = (release.expected_events or 0) * len(mapper.keys) / mapper.max_groups
    records = stream.unit.events if isinstance(stream.unit, Tick) else max(1, expected)
    one = mapper.max_steps * NANOSECONDS_PER_STEP + mapper.max_pairs * NANOSECONDS_PER_PAIR + NANOSECONDS_PER_RECORD
    nanoseconds = records * one
    if nanoseconds > stream.tick * 1000:
        needed = format_duration(int(nanoseconds // 1000))
        rule = f"max_steps must be few enough for {records:,.0f} records in a tick of {format_duration(stream.tick)}"
        raise InvalidReleaseError(f"{rule}, got {mapper.max_steps:,}, which may take {needed}")
