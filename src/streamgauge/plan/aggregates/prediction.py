"""Predicted errors: the request, the result, and shared predictions.

Promise
    Under the data that a note describes, the error of a mean or a spread is 0.8 to 1.25 times the prediction:
    simulated over losses, windows and counts. For too few events the delta method would underestimate the error.
    Then the prediction states only how many are needed. Values that are spread less evenly have another
    error: half the standard deviation has twice the error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any

import numpy as np

from streamgauge.noise.coerce import Floats
from streamgauge.noise.tail_bounds import normal_point
from streamgauge.statistics.keys.hash_cells import HashCells

DEFAULT_EVENTS = 1000.0  # number of events for shown errors, if none is expected
DATA_INDEPENDENT_NOTE, UNBOUNDED_NOTE = "whatever the data", "no bound before there are data"


@dataclass(frozen=True)
class ErrorPrediction:
    """Predicted error of one measure at one tick, for one group."""

    measure: str
    tick: int
    stddev: float  # NaN if it cannot be known before there are data
    half_width: float  # 95 %; NaN the same, infinite if nothing is certain for all data
    level: float | None = None  # the expected value, if one is expected
    note: str = ""  # its dependence on data
    threshold: float | None = None  # the noisy count above which a discovered group is published

    @property
    def relative(self) -> float | None:
        """Half width as a part of the level."""
        return self.half_width / abs(self.level) if self.level else None


@dataclass(frozen=True)
class PredictionRequest:
    """Column of a part at a tick, with the curator's expectation."""

    measure: str
    statistic: Any
    column: str  # of the part's release
    tick: int
    events: float | None = None  # of a group, in the window
    distinct: int | None = None  # values of the column
    confidence: float = 0.95  # of the interval of one group

    def build(self, stddev: float, half_width: float, level: float | None = None, note: str = "") -> ErrorPrediction:
        return ErrorPrediction(self.measure, self.tick, stddev, half_width, level, note)

    def build_normal(self, stddev: float, level: float | None = None, note: str = "") -> ErrorPrediction:
        """Return a prediction under a normal law."""
        return self.build(stddev, normal_point((1 - self.confidence) / 2) * stddev, level, note)

    def predict_values(self) -> tuple[float, str]:
        """Return the expected values of a hashed column, and the key that declares them."""
        if self.distinct is not None:
            return min(self.distinct, inf if self.events is None else self.events), "expected_distinct"
        return (DEFAULT_EVENTS, "") if self.events is None else (self.events, "expected_events")


Predict = Callable[[PredictionRequest], ErrorPrediction]


def predict_counter(request: PredictionRequest) -> ErrorPrediction:
    """Predict the error of a count or a sum from its known noise.

    The noise depends on no data unless the counter adapts.
    """
    statistic = request.statistic
    bound = statistic.error_bound_at(request.tick, request.column)
    widths = np.atleast_1d(bound.half_width(request.confidence))
    spread, half = float(np.max(bound.stddev)), float(widths.max())
    if statistic.error_depends_on:
        return request.build(
            spread, half, None, DATA_INDEPENDENT_NOTE if isfinite(half) else _explain_unbounded(widths)
        )
    return request.build(spread, half, None if hasattr(statistic, "lower") else request.events)


def _explain_unbounded(widths: Floats) -> str:
    """Return the note for groups without a bound.

    The topmost groups of a hierarchy are always read, so more is certain of them than of those below.
    """
    certain = widths[np.isfinite(widths)]
    return f"{UNBOUNDED_NOTE}, but +-{certain.max():,.4g} at the topmost level" if len(certain) else UNBOUNDED_NOTE


def predict_hash_cells(request: PredictionRequest) -> ErrorPrediction:
    """Predict the error of noise and of values that share a hash cell."""
    statistic, (values, source) = request.statistic, request.predict_values()
    table = HashCells(statistic.hash_cells)
    spread, half = table.predict(values, statistic.error_bound_at(request.tick))
    if not isfinite(half) and statistic.error_depends_on:
        return request.build(spread, half, None, UNBOUNDED_NOTE)
    hints = {"expected_events": ", one for each event", "": "; expected_distinct states how many to expect"}
    note = f"at {values:,.0f} values in {table.cells:,} cells{hints.get(source, '')}"
    if not isfinite(half):
        return request.build(nan, half, None, f"{note}: nearly all occupied, so that there is a lower bound only")
    return request.build(spread, half, values if source == "expected_distinct" else None, note)
