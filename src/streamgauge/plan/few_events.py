"""Counters for few events, chosen for running counts by `expected_events`.

The number of events is private. So a release with an automatic mechanism has a sparse counter under two conditions.
Its curator declares how many events a group has in a tick. The prediction from that number is below that of every
mechanism whose error depends on no data. Promises and bounds are valid even if the
curator is wrong. The choice is pinned with the charge: a later change of the number changes nothing.
"""

from dataclasses import replace
from fractions import Fraction

from streamgauge.adaptive.sparse.choice import SparseOffers, compare
from streamgauge.config.settings import Release
from streamgauge.continual import LinearMechanism
from streamgauge.continual.mechanism import UNBOUNDED_PLANNING_TICKS
from streamgauge.plan.rollups import compute_width
from streamgauge.privacy.rationals import parse_rational
from streamgauge.sql.query import Query
from streamgauge.statistics import Count
from streamgauge.statistics.mechanism_config import MechanismConfig

CHARGED_REASON = "chosen when it was charged"


def compute_expected(release: Release, query: Query, level: int) -> Fraction | None:
    """Return the events of a level's group in a tick: those of all its finest groups."""
    if release.expected_events is None:
        return None
    return (
        parse_rational(release.expected_events, "expected_events")
        * compute_width(query, max(query.levels))
        / compute_width(query, level)
    )


def choose_counter(count: Count, expected: Fraction | None) -> Count:
    """Return the count with the counter of least predicted error for these events."""
    if expected is None or count.mechanism is not None or count.windows:
        return count
    best = compare_counters(count, expected).best
    unlike = isinstance(best, LinearMechanism) or best.loss != count.loss
    return count if unlike else replace(count, mechanism=MechanismConfig.from_mechanism(best))


def explain_choice(count: Count, expected: Fraction | None) -> str:
    """Return why a counter for few events was chosen that the file does not name."""
    found = None if expected is None else compare_counters(count, expected)
    if found is None or found.best != count.counter:
        return CHARGED_REASON
    off, usual = min(offer.rmse for offer in found.offers if not offer.refusal), type(found.usual).__name__
    reason = f"predicted to be off by {off:.4g}, {usual} by {found.rmse:.4g} whatever the data"
    return f"chosen because expected_events = {float(expected or 0):g}: {reason}"


def compare_counters(count: Count, expected: Fraction) -> SparseOffers:
    """Return the predicted error of each counter. At least one event is assumed."""
    least = Fraction(1, count.horizon or UNBOUNDED_PLANNING_TICKS)
    return compare(
        count.loss,
        horizon=count.horizon,
        window=count.window,
        expected=max(expected, least),
        bound=count.tick_sensitivity,
        unit=count.counter_unit,
    )
