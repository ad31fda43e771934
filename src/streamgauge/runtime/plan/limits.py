"""Limits of memory and CPU time, by declarations alone.

Memory
    A batch standard input has the sums of all its ticks in memory until it ends. An engine with less than
    MIN_ENGINE_MEGABYTES would read its source many times, for a few ticks each. The state of a release is always in
    memory, and in every commit. A release that needs more than the machine has is refused before its charge. So is a
    release with a part of its state that SQLite cannot store: a value has at most `MAX_VALUE_BYTES`. Predicted sizes
    are upper bounds. Discovered groups are the exception: their number is secret, so no declaration bounds it.

CPU time
    The cost of a release in a round is the same with and without events:

    a frame         FRAME_COST; cells of an axis AXIS_COST more; each sum 1
    a discovery     DISCOVERY_COST
    a mapper        MAPPER_COST to pass rows through it; 1 per STEPS_PER_COST steps of one record
    SQL             1 per CHARS_PER_COST characters; LAMBDA_COST per function (NULLIF, a division), which an engine
                    binds again at every nesting
    a part          PART_COST for the noise and intervals of each window; 1 per PLACES_PER_COST numbers of a tick
    a hashed column HASH_TABLE_COST for its distinct values, whose intervals are computed once per law of noise
    reports         1 per HASHES_PER_COST values that are hashed for an estimate
    an alert        PART_COST for its window; an adjusted measure the same
    a commit        1 per BYTES_PER_COST, since open ticks are committed on every change

    A cost of 1 is about a millisecond of one processor, measured on blocks of one event. The work for many events is
    caused by their sender.

Privacy
    A tick is published at the first multiple of `publish_delay` after its commit. If the work of a round came near
    that delay, an analyst with enough requests could see by the clock that an earlier round had an event. So the work
    of all ad hoc releases is bounded (`adhoc.max_cpu_ms`). Two such rounds in sequence take less than the usual
    delay: a cost of 200 was measured to take 0.25 s at most, over all kinds of expressions.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamgauge.config.settings import Stream
from streamgauge.continual import Hybrid, PastBridge, TwoPart
from streamgauge.engines.duckdb.rows import RowSource, reuse_label_codes
from streamgauge.plan.consistency import count_remembered
from streamgauge.plan.measure import Measure
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import ReleasePlan
from streamgauge.runtime.live.open_ticks import open_bytes, saved_open_bytes
from streamgauge.runtime.release_run import Scan
from streamgauge.runtime.ticks import max_open_ticks
from streamgauge.statistics import Distinct, Extremes

MAX_INPUT_PLACES = 2**25  # over all ticks and groups
PLACE_BYTES = 512  # of a group, as named and published
MIN_ENGINE_MEGABYTES = 50
MAX_VALUE_BYTES = 10**9  # of one value in SQLite, its default SQLITE_MAX_LENGTH
FIXED_BYTES = 2**14  # of a value, independent of groups: headers, checksums, names, numbers of the whole run
ROW_BYTES = 33  # of a measure and place in a row of releases: four doubles and a bit
SIZE_PATTERN = re.compile(r"(\d+)\s*([KMGT])(i?)B", re.IGNORECASE)


def count_vector_places(parts: Iterable[CounterPart]) -> int:
    """Return the places of the vectors of one tick, over all parts."""
    return sum(part.value_count for part in parts)


def find_input_refusal(stream: Stream, plans: Sequence[ReleasePlan]) -> str | None:
    """Return the reason why releases cannot share a batch standard input, or None."""
    if stream.ticks is None or not stream.is_read_once:
        return None
    places = count_vector_places(part for plan in plans for part in plan.parts)
    if places * stream.ticks <= MAX_INPUT_PLACES:
        return None
    rule = f"ticks x groups must be at most {MAX_INPUT_PLACES} for a batch standard input"
    return f"{rule}, got {stream.ticks} ticks x {places} places: write it to a file, or take longer ticks"


def memory_bytes(plan: ReleasePlan) -> int:
    """Return an upper bound of the memory of a release.

    It has counters, a bit per remembered code, the places, and all possible sums of open ticks. For discovered groups
    it has the released ones only: the number of others is secret.
    """
    waiting = sum(open_bytes(measure, ticks) for measure, ticks in _list_open_measures(plan))
    return state_bytes(plan) + PLACE_BYTES * count_vector_places(plan.parts) + waiting


def saved_bytes(plan: ReleasePlan) -> int:
    """Return the bytes that a release adds to a commit, for any data."""
    return state_bytes(plan) + sum(saved_open_bytes(measure, ticks) for measure, ticks in _list_open_measures(plan))


def needed_bytes(plans: Iterable[ReleasePlan]) -> int:
    """Return the memory of releases at their last tick, for any data."""
    return sum(saved_bytes(plan) + PLACE_BYTES * count_vector_places(plan.parts) for plan in plans)


def machine_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def find_memory_refusal(plans: Sequence[ReleasePlan]) -> str | None:
    """Return the reason why this machine cannot run these releases, or None."""
    needed, there = needed_bytes(plans), machine_bytes()
    if needed <= there:
        return None
    rule = f"releases must keep at most {size_text(there)}, the memory of this machine"
    return f"{rule}, got {size_text(needed)}: take fewer groups, or a shorter window or horizon"


def size_text(size: int) -> str:
    """Return a number of bytes as text.

    >>> size_text(512), size_text(64_000_000), size_text(25_276_411_904)
    ('512 bytes', '64.0 MB', '25.3 GB')
    """
    units = [(10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")]
    return next((f"{size / unit:,.1f} {name}" for unit, name in units if size >= unit), f"{size} bytes")


def state_bytes(plan: ReleasePlan) -> int:
    """Return the bytes of counters, of a bit per remembered code, and of alerts."""
    numbers = sum(part.value_count * part.statistic.memory_numbers for part in plan.parts)
    kept = [part for part in plan.parts if part.statistic.HAS_MEMORY]
    cells = [(part.width, part.measure.cell) for part in kept]
    bits = sum(width * cell.count for width, cell in cells if cell is not None)
    bits += sum(8 * weight_bytes(part.statistic, part.width) for part in kept)
    tails = sum(plan.groups * each.alert.window for each in plan.alerts)
    tails += count_remembered(plan.adjustments, plan.query)
    return 8 * (numbers + tails) + bits // 8


def reject_large_parts(plan: ReleasePlan) -> Iterator[str]:
    """Yield a reason if the store cannot contain a part of this release's state."""
    size = max(max_part_bytes(plan))
    if size > MAX_VALUE_BYTES:
        rule = f"release {plan.name} must keep at most {size_text(MAX_VALUE_BYTES)} in a part of its state"
        yield f"{rule}, got up to {size_text(size)}: take fewer groups, a shorter window or another mechanism"


def max_part_bytes(plan: ReleasePlan) -> list[int]:
    """Return upper bounds of the values that a commit stores for a release, encrypted."""
    open_sums = sum(saved_open_bytes(measure, ticks) for measure, ticks in _list_open_measures(plan))
    tails = [8 * plan.groups * (each.alert.window + 1) for each in plan.alerts]
    tails += [8 * count_remembered(plan.adjustments, plan.query)]
    row = ROW_BYTES * plan.groups * len(plan.layout["measures"])
    runs = [max_run_bytes(part.statistic, part.value_count, part.width) for part in plan.parts]
    return [FIXED_BYTES + size for size in (open_sums, row, *tails, *runs)]


def max_run_bytes(statistic: Any, places: int, width: int) -> int:
    """Return an upper bound of a saved run's bytes without `FIXED_BYTES`, by settings.

    A run without an end is bounded up to tick 2^40. `Hybrid`, `PastBridge` and `TwoPart` state their memory at tick
    2^20, which grows with the logarithm of the tick.
    """
    counter = statistic.counter
    endless = 2 if isinstance(counter, Hybrid | PastBridge | TwoPart) and statistic.horizon is None else 1
    settings = sum(len(json.dumps(repr(claim))) for claim in (statistic, counter))
    users = statistic.universe_size if isinstance(statistic, Distinct) else 0
    memory = width * (users // 8 + 1) + 4 * users + weight_bytes(statistic, width)
    published = 16 * width if isinstance(statistic, Extremes) else 0
    counters: int = 8 * places * statistic.memory_numbers * endless
    return counters + settings + memory + published


def weight_bytes(statistic: Any, width: int) -> int:
    """Return an upper bound of the bytes of sums of weights, and of changes, that a statistic remembers."""
    weighs = isinstance(statistic, Distinct) and statistic.max_changes is not None
    return (8 * width + 2) * statistic.universe_size if weighs else 0


def _list_open_measures(plan: ReleasePlan) -> list[tuple[Measure, int]]:
    """Return the measures of open ticks, with the largest number of these ticks."""
    if plan.stream.pan_private:  # events of open ticks are in the counters
        return []
    measures = Scan.from_measures([part.measure for part in plan.parts]).measures
    periods = int(plan.periods is not None and not plan.release.partial)  # open ones, whose sums are one tick's
    return [(measure, max_open_ticks(plan.stream) + periods) for measure in measures]


def find_engine_refusal(memory: str) -> str | None:
    """Return the reason why an engine cannot work with this much memory, or None.

    >>> find_engine_refusal("600MB"), find_engine_refusal("40 MiB")
    (None, 'memory must be at least 50MB, got 40 MiB')
    """
    number, unit, binary = found.groups() if (found := SIZE_PATTERN.fullmatch(memory)) else ("0", "K", "")
    kilobytes = int(number) * (1024 if binary else 1000) ** "KMGT".index(unit.upper())
    if kilobytes >= MIN_ENGINE_MEGABYTES * 1000:
        return None
    return f"memory must be at least {MIN_ENGINE_MEGABYTES}MB, got {memory}"


FRAME_COST, AXIS_COST, DISCOVERY_COST, PART_COST, LAMBDA_COST = 3, 2, 5, 3, 2
HASH_TABLE_COST = 20
MAPPER_COST, STEPS_PER_COST = 10, 50_000
CHARS_PER_COST, PLACES_PER_COST, BYTES_PER_COST, HASHES_PER_COST = 2**7, 2**14, 2**17, 2**11


def cpu_ms(plan: ReleasePlan) -> int:
    """Return the work of a round for a release, in approximate milliseconds."""
    measures = Scan.from_measures([part.measure for part in plan.parts]).measures
    typed = RowSource(plan.stream, {}, measures, b"").typed_columns
    parts = (
        PART_COST * (sum(part.windows for part in plan.parts) + len(plan.alerts) + len(plan.adjustments))
        + count_vector_places(plan.parts) // PLACES_PER_COST
        + saved_bytes(plan) // BYTES_PER_COST
    )
    parts += HASH_TABLE_COST * sum(getattr(part.statistic, "hash_cells", None) is not None for part in plan.parts)
    parts += sum(getattr(part.statistic, "hashed_values", 0) for part in plan.parts) // HASHES_PER_COST
    return parts + sum(measure_cost(reuse_label_codes(each, typed)) for each in measures)


def measure_cost(measure: Measure) -> int:
    """Return the work of the engine for a measure, in approximate milliseconds."""
    steps = 0 if measure.mapper is None else MAPPER_COST + measure.mapper.max_steps // STEPS_PER_COST
    if measure.key is not None:
        return DISCOVERY_COST + _text_cost(measure.key + (measure.where or ""))
    axis = measure.cell is not None and measure.cell.step is not None
    return steps + FRAME_COST + AXIS_COST * axis + measure.rows - 1 + _text_cost(_join_sql(measure))


def _join_sql(measure: Measure) -> str:
    """Return the SQL that depends on the request."""
    texts = [measure.where or "", *(value.sql for value in measure.values)]
    texts += [group.code for group in measure.groups] + ([measure.cell.sql] if measure.cell else [])
    return "".join(texts)


def _text_cost(sql: str) -> int:
    return len(sql) // CHARS_PER_COST + LAMBDA_COST * sql.count("lambda ")
