"""Room, by declarations alone: for the engine, for a finished standard input, and for what releases keep.

All ticks of such an input are held in memory until it has ended. An engine with less than LEAST would have to
read its source over and over, for a few ticks at a time. What a release keeps is in memory all the time, and
in every commit: more than the machine has is refused before it is charged. So is a release whose state has
a part that SQLite could not store: a value of its rows has at most `MAX_VALUE_BYTES`. Predicted sizes are
upper bounds. Groups that are discovered are the exception: their number is secret, so no declaration bounds
it.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamgauge.continual import Hybrid
from streamgauge.pipeline.by_clock import open_ticks
from streamgauge.pipeline.open_ticks import open_bytes, saved_open_bytes
from streamgauge.pipeline.scan import Scan
from streamgauge.query.measure import Measure
from streamgauge.query.parts import Part
from streamgauge.query.planner import Planned
from streamgauge.query.settings import Stream
from streamgauge.statistics import Distinct, Extremes
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.statistics.user_table import UserTable

PLACES = 2**25  # of all ticks and groups
PLACE = 512  # bytes: a group, as it is named and published
LEAST = 50  # MB
MAX_VALUE_BYTES = 10**9  # of one value in SQLite, by its default SQLITE_MAX_LENGTH
FIXED_BYTES = 2**14  # of a value, whatever its groups: headers, checksums, names, numbers of the whole run
ROW_BYTES = 33  # of a measure and place in a row of releases: four doubles and a bit
SIZE = re.compile(r"(\d+)\s*([KMGT])(i?)B", re.IGNORECASE)


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


def kept_bytes(plan: Planned) -> int:
    """What a release keeps at most: its counters, a bit for every code that is remembered, its places, and
    all that can come for open ticks.

    Where groups are discovered, as many as are released: how many more there are is secret.
    """
    waiting = sum(open_bytes(measure, ticks) for measure, ticks in _open(plan))
    return state_bytes(plan) + PLACE * places_of(plan.parts) + waiting


def saved_bytes(plan: Planned) -> int:
    """What a release adds to a commit, whatever has come."""
    return state_bytes(plan) + sum(saved_open_bytes(measure, ticks) for measure, ticks in _open(plan))


def needed_bytes(plans: Iterable[Planned]) -> int:
    """What releases keep whatever comes, at their last tick."""
    return sum(saved_bytes(plan) + PLACE * places_of(plan.parts) for plan in plans)


def machine_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def no_memory(plans: Sequence[Planned]) -> str | None:
    """Why these releases cannot be run on this machine, by declarations alone; None if they can."""
    needed, there = needed_bytes(plans), machine_bytes()
    if needed <= there:
        return None
    rule = f"releases must keep at most {size_text(there)}, the memory of this machine"
    return f"{rule}, got {size_text(needed)}: take fewer groups, or a shorter window or horizon"


def size_text(size: int) -> str:
    """
    >>> size_text(512), size_text(64_000_000), size_text(25_276_411_904)
    ('512 bytes', '64.0 MB', '25.3 GB')
    """
    units = [(10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")]
    return next((f"{size / unit:,.1f} {name}" for unit, name in units if size >= unit), f"{size} bytes")


def state_bytes(plan: Planned) -> int:
    """Its counters, a bit for every code that is remembered, and what alerts look back at."""
    numbers = sum(part.places * numbers_of(part.statistic) for part in plan.parts)
    cells = [(part.width, part.measure.cell) for part in plan.parts if part.statistic.REMEMBERS]
    bits = sum(width * cell.count for width, cell in cells if cell is not None)
    tails = sum(plan.groups * each.alert.window for each in plan.alerts)
    return 8 * (numbers + tails) + bits // 8


def reject_large_parts(plan: Planned) -> Iterator[str]:
    """Yield a reason if the store could not keep a part of this release's state."""
    size = max(max_part_bytes(plan))
    if size > MAX_VALUE_BYTES:
        rule = f"release {plan.name} must keep at most {size_text(MAX_VALUE_BYTES)} in a part of its state"
        yield f"{rule}, got up to {size_text(size)}: take fewer groups, a shorter window or another mechanism"


def max_part_bytes(plan: Planned) -> list[int]:
    """Return upper bounds of the values that a commit stores for a release, encrypted."""
    open_sums = sum(saved_open_bytes(measure, ticks) for measure, ticks in _open(plan))
    tails = [8 * plan.groups * (each.alert.window + 1) for each in plan.alerts]
    row = ROW_BYTES * plan.groups * len(plan.layout["measures"])
    runs = [max_run_bytes(part.statistic, part.places, part.width) for part in plan.parts]
    return [FIXED_BYTES + size for size in (open_sums, row, *tails, *runs)]


def max_run_bytes(statistic: Any, places: int, width: int) -> int:
    """Return an upper bound of a saved run's bytes beside `FIXED_BYTES`, by settings alone.

    A run without an end is bounded up to tick 2^40: a `Hybrid` states its memory at tick 2^20, and that grows
    with the logarithm of the tick.
    """
    counter = statistic.counter
    endless = 2 if isinstance(counter, Hybrid) and statistic.horizon is None else 1
    settings = sum(len(json.dumps(repr(claim))) for claim in (statistic, counter))
    users = statistic.size_of_universe if isinstance(statistic, Distinct) else 0
    seen = width * (users // 8 + 1) + 4 * users
    published = 16 * width if isinstance(statistic, Extremes) else 0
    return 8 * places * numbers_of(statistic) * endless + settings + seen + published


def numbers_of(statistic: Any) -> int:
    """How many numbers of 8 bytes it keeps for each place of a tick's vector."""
    if isinstance(statistic, UserTable | LocalFrequency):
        return statistic.numbers
    memory: int = statistic.counter.memory()
    return memory


def _open(plan: Planned) -> list[tuple[Measure, int]]:
    """What is added up for open ticks, and how many of them there are at most."""
    if plan.stream.pan_private:  # what has come rests in the counters
        return []
    measures = Scan.of([part.measure for part in plan.parts]).measures
    return [(measure, open_ticks(plan.stream)) for measure in measures]


def too_little(memory: str) -> str | None:
    """Why an engine cannot work with so much memory; None if it can.

    >>> too_little("600MB"), too_little("40 MiB")
    (None, 'memory must be at least 50MB, got 40 MiB')
    """
    number, unit, binary = found.groups() if (found := SIZE.fullmatch(memory)) else ("0", "K", "")
    kilobytes = int(number) * (1024 if binary else 1000) ** "KMGT".index(unit.upper())
    if kilobytes >= LEAST * 1000:
        return None
    return f"memory must be at least {LEAST}MB, got {memory}"
