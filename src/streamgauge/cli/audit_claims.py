"""What is asked of an audit, as it is typed: losses and units."""

from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from streamgauge.audit.catalogue import LOSSES, Asked
from streamgauge.cli.failures import bad_argument
from streamgauge.privacy import Approx, Event, Loss, Pure, Tick, Unit, User, WEvent, Zcdp

SMALLEST, LARGEST = Fraction(1, 10**9), 10**9  # numbers that noise can be drawn for, and told from 0
UNITS = "event, replace, tick:EVENTS, w_event:TICKS or user:EVENTS,TICKS"


def asked_for(
    ticks: int | None, epsilon: str | None, rho: str | None, delta: str | None, unit: str | None
) -> Asked:
    """The loss that was asked for, or the two that are tried."""
    given = [_stated(epsilon, delta), _loss("--rho", Zcdp, rho)]
    losses = tuple(loss for loss in given if loss is not None)
    return Asked(ticks, losses or LOSSES, None if unit is None else unit_of(unit))


def _stated(epsilon: str | None, delta: str | None) -> Loss | None:
    """Pure, or with a delta."""
    loss = _loss("--epsilon", Pure, epsilon)
    if delta is None:
        return loss
    if loss is None:
        bad_argument("--delta", "given with --epsilon", delta)
    try:
        return Approx(loss.amount, delta)
    except (ValueError, TypeError, ZeroDivisionError):
        bad_argument("--delta", "a number between 0 and 1, such as 0.001", delta)


def _loss(option: str, kind: Any, text: str | None) -> Loss | None:
    if text is None:
        return None
    try:
        loss: Loss = kind(text)
        fits = SMALLEST <= loss.amount <= LARGEST
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        fits = False
    if not fits:
        bad_argument(option, "a number above 0, such as 0.5 or 1/3, from 1e-9 to 1e9", text)
    return loss


def unit_of(text: str) -> Unit:
    """
    >>> unit_of("w_event:3"), unit_of("user:2,30")
    (WEvent(w=3, replace=False), User(max_events_per_tick=2, max_ticks=30))
    """
    kind, _, rest = text.partition(":")
    numbers = [int(part) for part in rest.split(",") if part.strip().isdecimal()]
    kinds: dict[tuple[str, int], Any] = {
        ("event", 0): Event,
        ("replace", 0): lambda: Event(replace=True),
        ("tick", 1): Tick,
        ("w_event", 1): WEvent,
        ("user", 2): User,
    }
    made = kinds.get((kind, len(numbers)))
    if made is None or rest.count(",") != max(0, len(numbers) - 1) or not all(numbers):
        bad_argument("--unit", UNITS, text)
    unit: Unit = made(*numbers)
    return unit


def near(name: str, names: list[str]) -> str:
    """A suggestion for a name that is not there."""
    close = get_close_matches(name.casefold(), [each.casefold() for each in names], 1)
    found = next((each for each in names if close and each.casefold() == close[0]), None)
    return f" (did you mean {found}?)" if found else ""
