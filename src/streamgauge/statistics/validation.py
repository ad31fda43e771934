"""Checks of every statistic at construction, and of its required declarations."""

from dataclasses import fields
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.continual import LinearMechanism, Mechanism, WindowBridge
from streamgauge.continual.choice import parse_window
from streamgauge.continual.validation import check_whole
from streamgauge.noise import Grid
from streamgauge.privacy import Approx, IntegerZcdp, Pure, Zcdp
from streamgauge.privacy.rationals import parse_rational
from streamgauge.statistics.mechanism_config import to_config

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic

MAX_SEARCHED_PLACES = 2**11  # places of a grid for which a divisor of 1 is sought
MIN_GRID_PLACES = 2**8  # minimum places of a grid without a declared step
PUBLIC_REASON = "declare it: it must be public, since one that is read off the data tells of the data"


def require_declared(name: str, value: Any, what: str) -> Any:
    """Return the value; reject None, since only a person can declare it public."""
    if value is None:
        raise ValueError(f"{name} must be declared ({what}), got None; {PUBLIC_REASON}")
    return value


def check_statistic(statistic: "Statistic[Any]") -> None:
    """Reject settings that no statistic can have. The counter rejects the rest."""
    if not isinstance(statistic.loss, Pure | Zcdp | IntegerZcdp | Approx):
        raise ValueError(f"loss must be Pure, Zcdp, IntegerZcdp or Approx, got {statistic.loss!r}")
    _convert_plain(statistic)
    if not isinstance(getattr(statistic.unit, "ticks", None), int):
        raise ValueError(f"unit must be an Event, WEvent, Tick or User, got {statistic.unit!r}")
    _check_groups_per_event(statistic)
    if getattr(statistic, "shorter_windows", ()):
        _check_windows(statistic)
    if statistic.mechanism is not None:
        _check_linear(statistic, to_config(statistic.mechanism).mechanism)
    if statistic.pan_private and statistic.EXACT_MEMORY:
        name, why = type(statistic).__name__, statistic.EXACT_MEMORY
        raise ValueError(f"pan_private must be False for {name} ({why}), got True")
    if statistic.open_ticks and not statistic.pan_private:
        raise ValueError("pan_private must be True where ticks are open, got False")
    if statistic.open_ticks and (statistic.max_tick_events is not None or statistic.has_public_counts):
        why = "a tick is cut off, or counted, as a whole"
        raise ValueError(f"open_ticks must be False where {why}, got True")
    if statistic.pan_private and statistic.bounds_users:
        raise ValueError("pan_private must be False for users, whose ticks someone has to remember, got True")
    unit: Any = statistic.unit  # public counts must be the same for all neighbours
    if getattr(statistic, "public_counts", False) and (not unit.replace or getattr(unit, "moves", False)):
        rule = "unless units are events replaced in place (unit=Event(replace=True))"
        raise ValueError(f"public_counts must be False {rule}, got True with {unit!r}")


def _check_groups_per_event(statistic: "Statistic[Any]") -> None:
    """Reject events in several groups where one group is assumed: public counts, cells, and adaptive counters."""
    groups, claim = statistic.groups_per_event, statistic
    check_whole("groups_per_event", groups)
    if groups == 1:
        return
    one_group = not claim.CAN_SPAN_GROUPS or getattr(claim, "public_counts", False) or getattr(claim, "cells", None)
    if one_group:
        raise ValueError(f"groups_per_event must be 1 for this {type(claim).__name__}, got {groups}")
    if claim.mechanism is not None and not issubclass(to_config(claim.mechanism).mechanism, LinearMechanism):
        raise ValueError(f"groups_per_event must be 1 where the counter adapts to its data, got {groups}")


def _check_windows(statistic: Any) -> None:
    """Sort the shorter windows; reject others than sliding ones that one `WindowBridge` answers."""
    kind, _, longest = parse_window(statistic.window)
    given = statistic.shorter_windows
    if kind != "sliding" or statistic.hash_cells is not None:
        got = repr(statistic.window) if kind != "sliding" else f"{statistic.hash_cells} cells"
        raise ValueError(f'window must be "sliding TICKS" of events where there are shorter windows, got {got}')
    whole = isinstance(given, tuple | list) and all(type(ticks) is int and 0 < ticks < longest for ticks in given)
    if not whole or len(set(given)) < len(given):
        raise ValueError(f"shorter_windows must be different whole numbers of 1 to {longest - 1} ticks, got {given!r}")
    object.__setattr__(statistic, "shorter_windows", tuple(sorted(given)))
    if statistic.mechanism is not None and to_config(statistic.mechanism).mechanism is not WindowBridge:
        got = to_config(statistic.mechanism).mechanism.__name__
        raise ValueError(f"mechanism must be WindowBridge where there are shorter windows, got {got}")


def _check_linear(statistic: "Statistic[Any]", mechanism: type[Mechanism[Any, Any]]) -> None:
    """Reject an adaptive counter: most statistics need noise of a known law."""
    if not statistic.CAN_ADAPT and not issubclass(mechanism, LinearMechanism):
        kind = type(statistic).__name__
        raise ValueError(f"mechanism must be linear for {kind}, got {mechanism.__name__}")


def _convert_plain(statistic: "Statistic[Any]") -> None:
    """Convert NumPy integers to Python's; reject switches that are not booleans."""
    claim: Any = statistic  # a dataclass, as all claims are
    for field in fields(claim):
        value = getattr(statistic, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(statistic, field.name, value.item())
        elif isinstance(field.default, bool) and not isinstance(value, bool):
            raise ValueError(f"{field.name} must be True or False, got {value!r}")


def build_value_grid(lower: Any, upper: Any, step: Any, places: int = MIN_GRID_PLACES) -> Grid:
    """Return the grid of declared bounds.

    Without a step, it is one that divides both bounds and 1, and has enough places.

    >>> build_value_grid(35, 42, None).step
    Fraction(1, 64)
    """
    low = parse_rational(require_declared("lower", lower, "the least value that an event counts for"), "lower")
    high = parse_rational(require_declared("upper", upper, "the largest value that an event counts for"), "upper")
    if low >= high:
        raise ValueError(f"upper must be above lower, got {upper} and {lower}")
    return Grid(low, high, parse_rational(step, "step") if step is not None else find_even_step(low, high, places))


def find_even_step(low: Fraction, high: Fraction, places: int) -> Fraction:
    """Return the largest common divisor of both bounds and 1, halved as needed.

    It is halved until the grid has `places` places, so that whole numbers are on the grid. If the grid is then too fine
    to be useful, 1 is left out.
    """
    whole = low.denominator * high.denominator
    bounds = gcd(low.numerator * high.denominator, high.numerator * low.denominator)
    step = Fraction(gcd(bounds, whole), whole)
    if (high - low) / step > MAX_SEARCHED_PLACES:
        step = Fraction(bounds, whole)
    while (high - low) / step < places:
        step /= 2
    return step
