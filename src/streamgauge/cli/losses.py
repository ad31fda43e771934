"""Losses and units as tables show them."""

from typing import Any

AMOUNTS = ("epsilon", "delta", "rho")


def loss_text(loss: Any, *, named: bool = True) -> str:
    """Its amounts, with their names or without.

    >>> from streamgauge.privacy import Approx, Pure
    >>> loss_text(Pure("1/3")), loss_text(Approx(1, "1/1000000")), loss_text(None)
    ('epsilon 0.3333', 'epsilon 1, delta 1e-06', 'nothing')
    """
    amounts = {name: float(getattr(loss, name)) for name in AMOUNTS if hasattr(loss, name)}
    found = [f"{name} {amount:.4g}" if named else f"{amount:.4g}" for name, amount in amounts.items()]
    return ", ".join(found) or "nothing"


def unit_text(unit: Any) -> str:
    """
    >>> from streamgauge.privacy import Event, User, WEvent
    >>> unit_text(Event()), unit_text(WEvent(288))
    ('event', 'whatever happens in any 288 ticks')
    """
    texts = {
        "Event": "event",
        "Tick": "tick of a user",
        "WEvent": "whatever happens in any {w} ticks",
        "User": "user",
    }
    text = texts.get(type(unit).__name__, str(unit))
    return text.format(w=getattr(unit, "w", ""))


def ticks_text(first: int, last: int | None) -> str:
    """
    >>> ticks_text(1, 360), ticks_text(7, None)
    ('1 to 360', '7 on')
    """
    return f"{first:,} on" if last is None else f"{first:,} to {last:,}"
