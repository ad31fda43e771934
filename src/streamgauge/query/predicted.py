"""How wrong a release will be, before anything is read: from its claims, and what its curator expects.

    count, sum, distinct     exact: the noise is known, and depends on no data
    distinct, hashed         noise and shared cells, at the number of values that is expected, or at 1,000
    mean, variance, stddev   depend on the data: at the number of events that is expected, or at 1,000, of
                             values that are spread evenly over their bounds
    quantile, min, max       in ranks: how many events lie between the answer and the truth, at most
    reports of devices       of a value that is rare, at the number of reports that is expected, or at 1,000
    groups discovered        exact, with the noisy count that a group needs to be published
    mechanisms that adapt    depend on the data: what is certain whatever they are, or that nothing is

`expected` is what a curator declares: the number of events of one group in one tick. For a hashed column
`expected_distinct` is the number of its values; without it, each expected event may bring one. `expected`
decides the numbers printed here and, where the mechanism of a running count is left to be chosen, whether one
for few events counts (see `few_events`).

Promise
    Under what a note says of the data, the error of a mean or a spread is within 0.8 to 1.25 times what is
    told: simulated over losses, windows and counts. Where there are too few events for that, which the delta
    method would make light of, nothing is told but how many it takes. Values that are spread less evenly have
    another error: a standard deviation that is half as large has twice as much.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, isfinite, nan
from typing import Any

import numpy as np

from streamgauge.continual.choice import parse_window
from streamgauge.continual.weighed_counts import weights
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats
from streamgauge.query.parts import Output, Part
from streamgauge.query.planner import Planned
from streamgauge.query.toml_rules import MOST
from streamgauge.statistics import Extremes, Quantile, Summary, TopK
from streamgauge.statistics.hash_cells import HashCells
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.statistics.ranking import CONFIDENCE
from streamgauge.statistics.top_k import AMONG
from streamgauge.statistics.user_table import UserTable

FAR = 1000  # the last tick that is shown of a release without a horizon
EVENTS = 1000.0  # the number of events that errors are shown at, if nobody expects another
WHATEVER, UNBOUNDED = "whatever the data", "no bound before there are data"
NORMAL = normal_point(0.025)  # of a normal law: for what has no exact one before the data are there
CLEAR = {"mean": 5.0, "variance": 12.0, "stddev": 12.0}  # spreads of noise that a count must be clear of
CROWDED = 0.01  # of the number of values: an error of shared cells that needs no warning
FEWEST = {"mean": 2, "variance": 30, "stddev": 30}  # events whose own spread is near what is expected


@dataclass(frozen=True)
class Error:
    """The predicted error of one measure at one tick, for one group."""

    measure: str
    tick: int
    stddev: float  # NaN where nothing can be told before there are data
    half_width: float  # 95 %; NaN the same, infinite where nothing is certain whatever the data
    level: float | None = None  # what it would be an error of, where something is expected
    note: str = ""  # what it depends on
    threshold: float | None = None  # the noisy count above which a group that is discovered is published

    @property
    def relative(self) -> float | None:
        """The half width as a part of the level."""
        return self.half_width / abs(self.level) if self.level else None


def shown_ticks(plan: Planned) -> tuple[int, ...]:
    """The first, the middle and the last tick of a release, counted from its own first."""
    last = plan.last_tick(1) or FAR
    return tuple(dict.fromkeys((1, (last + 1) // 2, last)))


def errors(plan: Planned) -> list[Error]:
    """All measures of the finest level, in the order of the SELECT, tick by tick."""
    finest = [part for part in plan.parts if part.level == max(plan.query.levels)]
    found = [
        _error(plan, part, output, tick)
        for part in finest
        for output in part.outputs
        for tick in _told_ticks(plan, part)
    ]
    order = [aggregate.name for aggregate in plan.query.aggregates]
    return sorted(found, key=lambda error: (order.index(error.measure), error.tick))


def _told_ticks(plan: Planned, part: Part) -> tuple[int, ...]:
    """Of reports whose number nobody expects, or that are of one tick, the error is the same at all ticks."""
    ticks = shown_ticks(plan)
    same = plan.release.expected is None or plan.release.window == "each"
    return ticks[:1] if same and isinstance(part.statistic, LocalFrequency) else ticks


def events_by(plan: Planned, tick: int) -> float | None:
    """How many events of a group are in the window at a tick, if so many come at each as are expected."""
    expected = plan.release.expected
    if expected is None:
        return None
    kind, setting, size = parse_window(plan.release.window)
    if kind == "decayed":
        rate: float = 0.5 ** (1 / int(size))
        return expected * (1 - rate**tick) / (1 - rate)
    if setting == "exponent":
        return expected * float(weights(Fraction(size), tick).sum())
    return expected * (tick if kind == "running" else min(tick, int(size)))


Told = tuple[float, float, float | None, str]


def _error(plan: Planned, part: Part, output: Output, tick: int) -> Error:
    aggregate = plan.query.aggregates[output.aggregate]
    how: Sequence[tuple[type, Callable[..., Told]]] = (
        (Summary, _of_summary),
        (Quantile, _of_ranks),
        (Extremes, _of_extremes),
        (UserTable, _of_users),
        (LocalFrequency, _of_reports),
    )
    if isinstance(part.statistic, TopK):
        return _of_keys(aggregate.name, part.statistic, tick, events_by(plan, tick))
    if _cells(part) is not None:
        return Error(aggregate.name, tick, *_of_cells(plan, part, tick))
    tell = next((tell for kind, tell in how if isinstance(part.statistic, kind)), _of_counter)
    events = _events_of_users(plan, part, tick) if tell is _of_users else events_by(plan, tick)
    return Error(aggregate.name, tick, *tell(part.statistic, output.column, tick, events))


def _of_keys(measure: str, statistic: TopK, tick: int, events: float | None) -> Error:
    """Intervals hold for all groups at once, published or not, since the largest are looked at."""
    noise, threshold = statistic.noise_at(tick), statistic.selection.threshold(tick)
    half, note = noise.simultaneous(CONFIDENCE, AMONG), f"a group appears at {floor(threshold) + 1:,} events"
    return Error(measure, tick, noise.stddev, half, events, note, threshold)


def _of_counter(statistic: Any, column: str, tick: int, events: float | None) -> Told:
    bar = statistic.bar_at(tick)
    widths = np.atleast_1d(bar.half_width(0.95))
    spread, half = float(np.max(bar.stddev)), float(widths.max())
    if statistic.depends:
        return spread, half, None, WHATEVER if isfinite(half) else _unbounded(widths)
    return spread, half, events if not hasattr(statistic, "lower") else None, ""


def _expected_distinct(plan: Planned, part: Part) -> int | None:
    """Return how many values of the column of a part its curator has declared to expect."""
    codes = plan.query.aggregates[part.outputs[0].aggregate].codes
    column = None if codes is None else plan.stream.columns.get(codes.column)
    return None if column is None else column.expected_distinct


def _events_of_users(plan: Planned, part: Part, tick: int) -> float | None:
    """Return the events by a tick that count for a table of users: no more than so many users need."""
    events, users, table = events_by(plan, tick), _expected_distinct(plan, part), part.statistic
    if users is None or not isinstance(table, UserTable):
        return events
    enough = users * (table.times if table.kind == "heavy_fraction" else 1)
    return enough if events is None else min(events, enough)


def values_by(plan: Planned, part: Part, tick: int) -> tuple[float, str]:
    """Return how many values of a hashed column to expect at a tick, and the key that says so."""
    declared, events = _expected_distinct(plan, part), events_by(plan, tick)
    if declared is not None:
        return min(declared, inf if events is None else events), "expected_distinct"
    return (EVENTS, "") if events is None else (events, "expected")


def _of_cells(plan: Planned, part: Part, tick: int) -> Told:
    """The error of noise and of values that share a cell."""
    statistic, (values, source) = part.statistic, values_by(plan, part, tick)
    table = HashCells(_cells(part) or 0)
    spread, half = table.predict(values, statistic.bar_at(tick))
    if not isfinite(half) and statistic.depends:
        return spread, half, None, UNBOUNDED
    note = f"at {values:,.0f} values in {table.cells:,} cells"
    note += {"expected": ", one for each event", "": "; expected_distinct states how many to expect"}.get(
        source, ""
    )
    if not isfinite(half):
        return nan, half, None, f"{note}: nearly all occupied, so that there is a lower bound only"
    return spread, half, values if source == "expected_distinct" else None, note


def crowded_of(plan: Planned, part: Part) -> tuple[str, ...]:
    """Return a warning if the hash table is too small for the values that are expected.

    Shared cells have an error of their own, and multiply that of the noise: both count.
    """
    cells, tick = _cells(part), shown_ticks(plan)[-1]
    values, source = values_by(plan, part, tick)
    if cells is None or not source:
        return ()
    noise = float(np.nan_to_num(part.statistic.stddev(tick)))

    def error_in(cells: int) -> float:
        table = HashCells(cells)
        return float(table.stddev(values, noise)) if values < table.most else inf

    crowded, fit = error_in(cells), cells
    if crowded <= max(2**0.5 * noise, CROWDED * values, 1.0):
        return ()
    while fit < MOST and error_in(fit) > max(1.25 * noise, CROWDED * values / 2, 0.5):
        fit = 1 << fit.bit_length()
    each = ", one for each expected event (declare expected_distinct if there are fewer)"
    rule = f"hashed = {cells} is too small for {values:,.0f} values{each if source == 'expected' else ''}"
    error = f"shared cells raise the std error from {noise:,.4g} to {crowded:,.4g}"
    if not noise:
        error = f"the std error from shared cells alone is {crowded:,.4g}"
    if not isfinite(crowded):
        error = "nearly all cells will be occupied: only a lower bound is known"
    return (f"{rule}: {error}; use at least {fit}",)


def _cells(part: Part) -> int | None:
    """Return the size of the hash table that a part counts in, if it does."""
    return getattr(part.statistic, "hash_cells", None)


def _unbounded(widths: Floats) -> str:
    """Of the topmost groups of a hierarchy, which are always read, more is certain than of those below."""
    certain = widths[np.isfinite(widths)]
    return f"{UNBOUNDED}, but +-{certain.max():,.4g} at the topmost level" if len(certain) else UNBOUNDED


def _of_summary(statistic: Any, column: str, tick: int, events: float | None) -> Told:
    if column in ("count", "sum"):
        noise = statistic.noise_of(column, tick)
        return noise.stddev, noise.half_width(0.95), events if column == "count" else None, ""
    count, needed = EVENTS if events is None else events, events_needed(statistic, column, tick)
    if count < needed:
        return nan, nan, None, f"not known at {count:,.0f} events: takes {needed:,}"
    spread = statistic.stddev_of(column, tick, count=count, mean=statistic.moments.middle)
    low, high = (f"{float(end):,.6g}" for end in (statistic.grid.lower, statistic.grid.upper))
    return spread, NORMAL * spread, None, f"at {count:,.0f} events, spread evenly over {low} to {high}"


def events_needed(statistic: Any, column: str, tick: int) -> int:
    """From how many events on the error of a mean or a spread can be told beforehand."""
    noise = statistic.moments.expected(statistic.counter.stddev(tick), 0.0, 0.0)
    spread = max(float(noise.count_spread[0]), float(noise.total_spread[0]))
    return max(FEWEST[column], ceil(CLEAR[column] * spread))


def _of_ranks(statistic: Any, column: str, tick: int, events: float | None) -> Told:
    spread = statistic.rank_stddev(tick)
    return spread, NORMAL * spread, events, "events at most between it and the true one, beside its cell's"


def _of_users(statistic: Any, column: str, tick: int, events: float | None) -> Told:
    spread = statistic.stddev(column, events)
    return spread, NORMAL * spread, None, statistic.told_of(events)


def _of_reports(statistic: Any, column: str, tick: int, events: float | None) -> Told:
    """`expected` is of one value: so many of all of them are reports."""
    reports = EVENTS if events is None else max(1.0, events * statistic.channels)
    spread = statistic.stddev(reports)
    note = f"of a value that few have, among {reports:,.0f} reports that are spread evenly over the others"
    more = "; `expected` tells how many to expect a tick" if events is None else ""
    return spread, NORMAL * spread, events, note + more


def _of_extremes(statistic: Any, column: str, tick: int, events: float | None) -> Told:
    return nan, statistic.rank(tick), events, "events that may lie beyond it"
