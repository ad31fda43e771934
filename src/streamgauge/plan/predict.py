"""Predicted errors of a release, from its claims and the curator's expectations.

Each aggregate predicts its own error (`plan.aggregates`). `expected_events` is a declaration of the curator: the
number of events of one group in one tick. For a hashed column `expected_distinct` is the number of its values.
Without it, each expected event may have a new one. `expected_events` decides the numbers printed here. If the
mechanism of a running count is automatic, it also decides whether one for few events counts (see `few_events`).

Hints give further facts about a mechanism that adapts to its data, or about a table of users. They
follow from its settings, and from which events its query can lose. Nothing here reads data.
"""

from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite
from typing import Any

import numpy as np

from streamgauge.config.mechanism import HIERARCHY_MECHANISM
from streamgauge.config.rules import MAX_COUNT
from streamgauge.continual.choice import parse_window
from streamgauge.continual.decay.weighted_counts import polynomial_weights
from streamgauge.plan.aggregates.function import Output
from streamgauge.plan.aggregates.prediction import ErrorPrediction, PredictionRequest
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import ReleasePlan
from streamgauge.sql.query import Query
from streamgauge.statistics import Statistic
from streamgauge.statistics.keys.hash_cells import HashCells

DEFAULT_LAST_TICK = 1000  # last tick shown for a release without a horizon
MAX_SHARED_CELL_ERROR = 0.01  # of the number of values: an error of shared cells that needs no warning


def choose_ticks(plan: ReleasePlan) -> tuple[int, ...]:
    """Return the first, the middle and the last tick of a release or of a period, from its own first."""
    if plan.periods is not None:
        last = plan.periods.survey.longest if plan.release.partial else 1
        return tuple(dict.fromkeys((1, (last + 1) // 2, last)))
    last = plan.last_tick(1) or DEFAULT_LAST_TICK
    return tuple(dict.fromkeys((1, (last + 1) // 2, last)))


def predict_errors(plan: ReleasePlan) -> list[ErrorPrediction]:
    """Return predictions for all measures of the finest level, tick by tick.

    They are in the order of the SELECT.
    """
    finest = [part for part in plan.parts if part.level == max(plan.query.levels)]
    ticks = choose_ticks(plan)
    is_constant = plan.release.expected_events is None or plan.release.window == "each"
    found = [
        part.predict(build_request(plan, part, output, tick))
        for part in finest
        for output in part.outputs
        for tick in (ticks[:1] if is_constant and not part.statistic.ERROR_GROWS else ticks)
    ]
    order = [aggregate.name for aggregate in plan.query.aggregates]
    if plan.periods is not None and not plan.release.partial:
        found = [replace(error, tick=plan.periods.nominal_ticks) for error in found]
    return sorted(found, key=lambda error: (order.index(error.measure), error.tick))


def predict_events(plan: ReleasePlan, tick: int, window: int = 0) -> float | None:
    """Return the expected events of a group in the window at a tick: the release's, or one of so many ticks."""
    expected = plan.release.expected_events
    if expected is None:
        return None
    if window:
        return expected * min(tick, window)
    if plan.periods is not None:
        return expected * (tick if plan.release.partial else plan.periods.nominal_ticks)
    kind, setting, size = parse_window(plan.release.window)
    if kind == "decayed":
        rate: float = 0.5 ** (1 / int(size))
        return expected * (1 - rate**tick) / (1 - rate)
    if setting == "exponent":
        return expected * float(polynomial_weights(Fraction(size), tick).sum())
    return expected * (tick if kind == "running" else min(tick, int(size)))


def build_request(plan: ReleasePlan, part: CounterPart, output: Output, tick: int) -> PredictionRequest:
    """Return the request for a column of a part at a tick, with the expectations."""
    aggregate = plan.query.aggregates[output.aggregate]
    codes = plan.query.aggregates[part.outputs[0].aggregate].codes
    column = None if codes is None else plan.stream.columns.get(codes.column)
    return PredictionRequest(
        aggregate.name,
        part.statistic,
        output.column,
        tick,
        predict_events(plan, tick, aggregate.window),
        None if column is None else column.expected_distinct,
        part.confidence,
    )


def find_crowding(plan: ReleasePlan, part: CounterPart) -> tuple[str, ...]:
    """Return a warning if the hash table is too small for the expected values.

    Shared cells have their own error, and multiply that of the noise: both count.
    """
    cells, tick = getattr(part.statistic, "hash_cells", None), choose_ticks(plan)[-1]
    values, source = build_request(plan, part, part.outputs[0], tick).predict_values()
    if cells is None or not source:
        return ()
    noise = float(np.nan_to_num(part.statistic.stddev(tick)))

    def compute_error(cells: int) -> float:
        table = HashCells(cells)
        return float(table.stddev(values, noise)) if values < table.max_values else inf

    crowded, fit = compute_error(cells), cells
    if crowded <= max(2**0.5 * noise, MAX_SHARED_CELL_ERROR * values, 1.0):
        return ()
    while fit < MAX_COUNT and compute_error(fit) > max(1.25 * noise, MAX_SHARED_CELL_ERROR * values / 2, 0.5):
        fit = 1 << fit.bit_length()
    each = ", one for each expected event (declare expected_distinct if there are fewer)"
    rule = f"hash_cells = {cells} is too small for {values:,.0f} values{each if source == 'expected_events' else ''}"
    error = f"shared cells raise the std error from {noise:,.4g} to {crowded:,.4g}"
    if not noise:
        error = f"the std error from shared cells alone is {crowded:,.4g}"
    if not isfinite(crowded):
        error = "nearly all cells will be occupied: only a lower bound is known"
    return (f"{rule}: {error}; use at least {fit}",)


CENTRE_HINT = "95 % within is about the centre of the interval that is released, not about the value"
QUIET_HINT = 'where most ticks are near 0, mechanism = { name = "Pegasus", smoother = "quiet" } is nearer'
LAG_HINT = "it says 0 until what has come is clear of noise, and may be behind by as much ever after"
SHARED_LOSS_HINT = "{} estimates, one a tick, share the loss: with longer ticks, or an earlier end, each has less noise"
MECHANISM_HINTS = {
    "Pegasus": QUIET_HINT,
    HIERARCHY_MECHANISM: "",
    "CascadingBuffers": LAG_HINT,
    "SparseCounter": LAG_HINT,
}
READ_DEPENDENCE = "how long nodes stay near one level"  # the whole dependence if every node is measured


def build_hints(statistic: Statistic[Any], *, certain: bool = True) -> tuple[str, ...]:
    """Return hints of a statistic, if its value may differ from its interval's centre.

    Args:
        certain: True if the plan has an interval.
    """
    counter: Any = statistic.counter
    if hints := getattr(statistic, "hints", ()):
        return tuple(hints)
    if getattr(counter, "releases", 1) > 1:
        return (SHARED_LOSS_HINT.format(f"{counter.releases:,}"),)
    own = MECHANISM_HINTS.get(type(counter).__name__)
    if own is None:
        return ()
    known = own == QUIET_HINT and counter.smoother == "quiet"
    return tuple(hint for hint in (CENTRE_HINT if certain else "", "" if known else own) if hint)


def find_lost_events(statistic: Statistic[Any], query: Query) -> tuple[str, ...]:
    """Return which events count nowhere if one run answers all levels of a ROLLUP."""
    if type(statistic.counter).__name__ != HIERARCHY_MECHANISM:
        return ()
    names = [group.name for group in query.groups[min(query.levels) :] if group.nullable]
    if not names:
        return ()
    lost = f"an event without a declared {' or '.join(names)} counts on no level, though SQL counts it above"
    return (f"{lost}: declare other = true, or leave mechanism out, to count it",)


def describe_dependence(statistic: Statistic[Any]) -> str:
    """Return the dependence of a statistic's error, under its settings."""
    counter: Any = statistic.counter
    return (
        READ_DEPENDENCE
        if type(counter).__name__ == HIERARCHY_MECHANISM and not counter.prune
        else statistic.error_depends_on
    )
