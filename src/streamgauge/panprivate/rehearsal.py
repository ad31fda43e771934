"""What an intruder would see, rehearsed over made-up people: with pan-privacy and without.

    counter     one visit among others in a running count     `rehearsed_counter`
    table       all visits of one patient, in a table         `rehearsed_table`

Privacy
    Streams are made here, of constants; noise is drawn and forgotten. Nothing of a live run is read: these
    modules are given none. Looking at the memory of a real run would be an intrusion.

Promise
    The odds change by a factor of at most e^epsilon, in every rehearsal. A second look that nobody announced
    is not within it, and is shown as well.
"""

from math import exp
from typing import Any

import numpy as np

from streamgauge.noise.numbers import Floats
from streamgauge.panprivate import rehearsed_counter as counter
from streamgauge.panprivate import rehearsed_table as table

EPSILON = 1
BEFORE = 0.5  # what the intruder thinks before looking


def rehearsed(times: int) -> dict[str, Any]:
    """Both, ready for `json.dumps`: Robin came in every other rehearsal, the first among them."""
    came = np.arange(times) % 2 == 0
    most = exp(EPSILON)
    return {
        "epsilon": EPSILON,
        "before": BEFORE,
        "bounds": {"odds": [1 / most, most], "chance": [1 / (1 + most), most / (1 + most)]},
        "came": came.tolist(),
        "counter": _with_chances(counter.rehearsed_counter(came)),
        "table": _with_chances(table.rehearsed_table(came)),
    }


def _with_chances(told: dict[str, Any]) -> dict[str, Any]:
    """Instead of odds, what the intruder thinks after each rehearsal; and the odds that went furthest."""
    odds, twice = told.pop("odds"), told.pop("two_looks")
    furthest = float(np.exp(np.abs(np.log(odds)).max()))
    return told | {"chance": chances(odds), "worst_odds": furthest, "two_looks": chances(twice)}


def chances(odds: Floats) -> list[float]:
    """Of Robin having come, by the odds of it; infinite ones are certainty."""
    with np.errstate(invalid="ignore"):
        found = np.where(np.isinf(odds), 1.0, odds / (1 + odds))
    return [round(float(each), 6) for each in found]
