"""Counters for few events: chosen for running counts where the curator's `expected` says that they win.

How many events there are is private. So a release that leaves its mechanism to be chosen has a sparse counter
only where its curator declares how many events a group has in a tick, and the prediction made of that number
is below that of every mechanism whose error depends on no data. Promises and bounds hold all the same if the
curator is wrong. What was chosen is pinned with the charge: to declare another number later changes nothing.
"""

from dataclasses import replace
from fractions import Fraction

from streamgauge.adaptive.sparse_choice import Offers, compare
from streamgauge.continual import Mechanism
from streamgauge.continual.mechanism import AHEAD
from streamgauge.privacy.exact import exact
from streamgauge.query.query import Query
from streamgauge.query.rollups import width_of
from streamgauge.query.settings import Release
from streamgauge.statistics import Count
from streamgauge.statistics.tuned import Tuned

AS_CHARGED = "chosen when it was charged"


def expected_at(release: Release, query: Query, level: int) -> Fraction | None:
    """How many events a group of a level has in a tick: as many as all finest groups that it is made of."""
    if release.expected is None:
        return None
    return exact(release.expected, "expected") * width_of(query, max(query.levels)) / width_of(query, level)


def counted(count: Count, expected: Fraction | None) -> Count:
    """The same count by the counter that is predicted to be least wrong, if so many events are expected."""
    if expected is None or count.mechanism is not None:
        return count
    best = offers(count, expected).best
    unlike = isinstance(best, Mechanism) or best.loss != count.loss
    return count if unlike else replace(count, mechanism=Tuned.like(best))


def reason(count: Count, expected: Fraction | None) -> str:
    """Why a counter for few events was chosen, which nobody asked for by name."""
    found = None if expected is None else offers(count, expected)
    if found is None or found.best != count.counter:
        return AS_CHARGED
    off, usual = min(offer.rmse for offer in found.offers if not offer.refused), type(found.usual).__name__
    told = f"predicted to be off by {off:.4g}, {usual} by {found.rmse:.4g} whatever the data"
    return f"chosen because expected = {float(expected or 0):g}: {told}"


def offers(count: Count, expected: Fraction) -> Offers:
    """What each counter is predicted to be off by; less than one event in all counts as one."""
    least = Fraction(1, count.horizon or AHEAD)
    return compare(
        count.loss,
        horizon=count.horizon,
        window=count.window,
        expected=max(expected, least),
        bound=count.reach,
        unit=count.counted,
    )
