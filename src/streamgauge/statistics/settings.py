"""What every statistic refuses at construction, and what it asks its curator to declare."""

from dataclasses import fields
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.adaptive import Adaptive
from streamgauge.continual import Claim, Mechanism
from streamgauge.continual.choice import parse_window
from streamgauge.noise import Grid
from streamgauge.privacy import Approx, Pure, Zcdp
from streamgauge.privacy.exact import exact
from streamgauge.statistics.tuned import tuned

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic

FINE = 2**11  # places of a grid for which a divisor of 1 is sought
PLACES = 2**8  # that a grid has at least, if its step is not declared
WHY_PUBLIC = "declare it: it must be public, since one that is read off the data tells of the data"


class Undeclared(ValueError):  # noqa: N818 - named for what is missing
    """Something that a statistic needs beyond its events, and that only a person can declare public."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name} must be declared ({what}), got None; {WHY_PUBLIC}")


def declared(name: str, value: Any, what: str) -> Any:
    """The value, if there is one."""
    if value is None:
        raise Undeclared(name, what)
    return value


def check_claim(statistic: "Statistic[Any]") -> None:
    """Refuses what no statistic can be; the counter refuses the rest."""
    if not isinstance(statistic.loss, Pure | Zcdp | Approx):
        raise ValueError(f"loss must be Pure, Zcdp or Approx, got {statistic.loss!r}")
    _keep_plain(statistic)
    if not isinstance(getattr(statistic.unit, "ticks", None), int):
        raise ValueError(f"unit must be an Event, WEvent, Tick or User, got {statistic.unit!r}")
    if statistic.mechanism is not None:
        _check_kind(statistic, tuned(statistic.mechanism).mechanism)
    if statistic.pan_private and statistic.RESTS_EXACT:
        name, why = type(statistic).__name__, statistic.RESTS_EXACT
        raise ValueError(f"pan_private must be False for {name} ({why}), got True")
    if statistic.open_ticks and not statistic.pan_private:
        raise ValueError("pan_private must be True where ticks are open, got False")
    if statistic.open_ticks and (statistic.most_events is not None or statistic.counts_are_public):
        why = "a tick is cut off, or counted, as a whole"
        raise ValueError(f"open_ticks must be False where {why}, got True")
    if statistic.pan_private and statistic.bounds_users:
        raise ValueError("pan_private must be False for users, whose ticks someone has to remember, got True")


def _check_kind(statistic: "Statistic[Any]", mechanism: type[Claim[Any, Any]]) -> None:
    """Most statistics are decoded from sums under noise of a known law."""
    if not statistic.ADAPTS and not issubclass(mechanism, Mechanism):
        kind = type(statistic).__name__
        raise ValueError(f"mechanism must be linear for {kind}, got {mechanism.__name__}")


def _keep_plain(statistic: "Statistic[Any]") -> None:
    """Turns NumPy's whole numbers into Python's, and refuses switches that are neither on nor off."""
    claim: Any = statistic  # a dataclass, as all claims are
    for field in fields(claim):
        value = getattr(statistic, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(statistic, field.name, value.item())
        elif isinstance(field.default, bool) and not isinstance(value, bool):
            raise ValueError(f"{field.name} must be True or False, got {value!r}")


def window_settings(window: str, claim: Any) -> dict[str, Any]:
    """What a window is to a mechanism that was asked for by name."""
    kind, wanted, size = parse_window(window)
    names = {field.name for field in fields(claim)}
    if issubclass(claim, Adaptive):
        return _adapted_window(window, kind, claim, names)
    other = names & {"window", "half_life", "exponent"} - {wanted}
    if (wanted and wanted not in names) or (not wanted and other):
        raise ValueError(f"mechanism must be one that answers {window!r}, got {claim.__name__}")
    return {wanted: size} if wanted else {}


def _adapted_window(window: str, kind: str, claim: type[Adaptive[Any]], names: set[str]) -> dict[str, Any]:
    """One that adapts says which windows it answers, and is told which in the same words."""
    if kind not in claim.WINDOWS:
        known = " or ".join(claim.WINDOWS)
        got = f"{claim.__name__}, which answers {known}"
        raise ValueError(f"mechanism must be one that answers {window!r}, got {got}")
    return {"window": window} if "window" in names else {}


def value_grid(lower: Any, upper: Any, step: Any, places: int = PLACES) -> Grid:
    """The grid of declared bounds; without a step, one that divides both and 1, and has enough places.

    >>> value_grid(35, 42, None).step
    Fraction(1, 64)
    """
    low = exact(declared("lower", lower, "the least value that an event counts for"), "lower")
    high = exact(declared("upper", upper, "the largest value that an event counts for"), "upper")
    if low >= high:
        raise ValueError(f"upper must be above lower, got {upper} and {lower}")
    return Grid(low, high, exact(step, "step") if step is not None else even_step(low, high, places))


def even_step(low: Fraction, high: Fraction, places: int) -> Fraction:
    """The largest common divisor of both bounds and 1, halved until the grid has so many places.

    So whole numbers are on the grid. Where that makes a grid too fine to be of use, 1 is left out.
    """
    whole = low.denominator * high.denominator
    bounds = gcd(low.numerator * high.denominator, high.numerator * low.denominator)
    step = Fraction(gcd(bounds, whole), whole)
    if (high - low) / step > FINE:
        step = Fraction(bounds, whole)
    while (high - low) / step < places:
        step /= 2
    return step
