"""Losses, units, windows and ticks in the words that a curator has for them."""

from typing import Any

from streamgauge.privacy import Approx, BudgetExceeded, Unit
from streamgauge.query.released import moment
from streamgauge.query.settings import Stream

AMOUNTS = ("epsilon", "delta", "rho")


def loss_text(loss: Any, *, named: bool = True) -> str:
    """Its amounts, with their names or without.

    >>> from streamgauge.privacy import Approx, Pure
    >>> loss_text(Pure("1/3")), loss_text(Approx(1, "1/1000000")), loss_text(Pure.nothing())
    ('epsilon 0.3333', 'epsilon 1, delta 1e-06', 'nothing')

    An epsilon and a rho are alternatives: what is left of an (epsilon, delta) budget.
    """
    amounts = {name: float(getattr(loss, name)) for name in AMOUNTS if hasattr(loss, name)}
    found = [
        f"{name} {amount:.4g}" if named else f"{amount:.4g}" for name, amount in amounts.items() if amount
    ]
    return (" or " if {"epsilon", "rho"} <= amounts.keys() else ", ").join(found) or "nothing"


def cost_text(loss: Any, delta: Any) -> str:
    """A loss, and what is taken of the budget's delta beside it.

    >>> from streamgauge.privacy import Pure
    >>> cost_text(Pure(1), None), cost_text(Pure(1), 1e-9)
    ('epsilon 1', 'epsilon 1 beside delta 1e-09')
    """
    return f"{loss_text(loss)} beside delta {float(delta):.4g}" if delta else loss_text(loss)


def exceeded_text(refusal: BudgetExceeded) -> str:
    """A charge that was refused, with its numbers."""
    left = f"what is left of {loss_text(refusal.allowed)}"
    asked = cost_text(refusal.asked, refusal.delta)
    spent = cost_text(refusal.spent, refusal.delta_spent)
    return f"charge must be at most {left}, got {asked} on top of {spent}{_kept(refusal)}"


def _kept(refusal: BudgetExceeded) -> str:
    """In which currency they add up, where that is not the one that was asked in."""
    kept, asked = refusal.allowed.kept_as, refusal.asked
    if kept.currency == asked.currency or isinstance(refusal.allowed, Approx):
        return ""
    takes = f"{loss_text(asked)} takes {loss_text(kept.restate(asked))}"
    return f" (the budget is kept as {loss_text(kept)}, and {takes})"


def unit_text(unit: Unit) -> str:
    """Whom a stream protects: one event; one event a tick within a window; one user, within bounds.

    >>> from streamgauge.privacy import User, WEvent
    >>> unit_text(WEvent(288))
    'one event a tick, in any 288 ticks in a row'
    >>> unit_text(User(1, 30))
    'one user: at most 1 event a tick, in at most 30 ticks'
    """
    told = {
        "Event": "what one report says" if unit.replace else "one event",
        "WEvent": "one event a tick, in any {w} in a row",
        "XAdjacent": "one user, however often",
        "User": "one user: at most {max_events_per_tick} a tick, in at most {max_ticks}",
    }
    nouns = {"w": "tick", "max_events_per_tick": "event", "max_ticks": "tick"}
    amounts = {name: counted(getattr(unit, name, 0), noun) for name, noun in nouns.items()}
    return told.get(type(unit).__name__, str(unit)).format(**amounts)


def span_text(first: int, last: int | None) -> str:
    """
    >>> span_text(1, 360), span_text(7, None)
    ('1 to 360', '7 on')
    """
    return f"{first:,} on" if last is None else f"{first:,} to {last:,}"


def ticks_text(stream: Stream, first: int, last: int | None) -> str:
    """When ticks are, and which."""
    until = "on" if last is None else f"to {moment(stream.begins(last + 1))}"
    return f"from {moment(stream.begins(first))} {until} (ticks {span_text(first, last)})"


def groups_text(groups: int, *, discovered: bool = False) -> str:
    """
    >>> groups_text(1), groups_text(1000), groups_text(1000, discovered=True)
    ('1 group', '1,000 groups', 'at most 1,000 groups, discovered')
    """
    told = counted(groups, "group")
    return f"at most {told}, discovered" if discovered else told


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "tick"), counted(2160, "tick"), counted(0, "tick")
    ('1 tick', '2,160 ticks', '0 ticks')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
