"""Losses, units, windows and ticks as text for the curator."""

from fractions import Fraction
from typing import Any

from streamgauge.config.settings import Stream
from streamgauge.privacy import Approx, BudgetExceededError, IntegerZcdp, Loss, Unit
from streamgauge.releases.release import format_utc_time

REPORT_TEXT = "what one report says"
AMOUNT_NAMES = ("epsilon", "delta", "rho")
LEAST_AMOUNT = 1e-9  # the least epsilon or rho of a release (config.rules.EPSILON)


def loss_text(loss: Any, *, named: bool = True) -> str:
    """Return the amounts of a loss, with or without their names.

    >>> from streamgauge.privacy import Approx, Pure
    >>> loss_text(Pure("1/3")), loss_text(Approx(1, "1/1000000")), loss_text(Pure("1e-12"))
    ('epsilon 0.3333', 'epsilon 1, delta 1e-06', 'nothing')

    An amount that no release can have, as it is left when shares are rounded, counts as nothing. An epsilon and a
    rho are alternatives: the remainder of an (epsilon, delta) budget.
    """
    amounts = {name: float(getattr(loss, name)) for name in AMOUNT_NAMES if hasattr(loss, name)}
    found = [
        f"{name} {amount:.4g}" if named else f"{amount:.4g}"
        for name, amount in amounts.items()
        if is_charge(name, amount)
    ]
    text = (" or " if {"epsilon", "rho"} <= amounts.keys() else ", ").join(found) or "nothing"
    return f"{text} at integer orders" if named and isinstance(loss, IntegerZcdp) else text


def is_charge(name: str, amount: float) -> bool:
    """Return whether a release can have this epsilon, rho or delta."""
    return amount > 0 if name == "delta" else amount >= LEAST_AMOUNT


def cost_text(loss: Any, delta: Any) -> str:
    """Return a loss, with its additional part of the budget's delta.

    >>> from streamgauge.privacy import Pure
    >>> cost_text(Pure(1), None), cost_text(Pure(1), 1e-9)
    ('epsilon 1', 'epsilon 1 beside delta 1e-09')
    """
    return f"{loss_text(loss)} beside delta {float(delta):.4g}" if delta else loss_text(loss)


def refusal_text(refusal: ValueError) -> str:
    """Return the text of a refusal: of a charge, with its numbers."""
    return exceeded_text(refusal) if isinstance(refusal, BudgetExceededError) else str(refusal)


def exceeded_text(refusal: BudgetExceededError) -> str:
    """Return the text of a refused charge, with its numbers.

    It has the currency of the budget, if that is not the one of the request.
    """
    requested = cost_text(refusal.requested, refusal.delta)
    spent = cost_text(refusal.spent, refusal.delta_spent)
    text = f"charge must be at most what is left of {loss_text(refusal.allowed)}, got {requested} on top of {spent}"
    budget, loss = refusal.allowed.additive_loss, refusal.requested
    notes = [refusal.note] if refusal.note else []
    if budget.currency != loss.currency and not isinstance(refusal.allowed, Approx):
        takes = f"{loss_text(loss)} takes {loss_text(budget.restate(loss))}"
        notes.insert(0, f"the budget is kept as {loss_text(budget)}, and {takes}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def request_text(loss: Loss, share: Fraction | None, budget: Loss, left: Loss, pure: Loss | None) -> str:
    """Return a refused charge in the words of its request, or nothing if the budget has the same.

    Args:
        left: what is left of the budget's additive loss.
        pure: what is left for a pure release.
    """
    whole = budget.additive_loss.amount
    spent = whole - left.amount
    if share is not None:
        part, taken = float(share), float(spent / whole)
        return f"as a share: {part:.4g} on top of {taken:.4g} of 1, so {1 - taken:.4g} is left"
    if loss.currency == "pure":
        rest = left.amount if pure is None else pure.amount
        if budget.currency == "pure" or not rest:
            return ""
        epsilon = float(rest) if pure is not None else (2 * float(rest)) ** 0.5
        return f"epsilon {epsilon:.4g} is left for a release with an epsilon"
    if budget.currency == "zCDP":
        return ""
    amounts = (float(loss.amount), float(spent), float(whole), float(left.amount))
    return "in rho: {:.4g} on top of {:.4g} of {:.4g}, so {:.4g} is left".format(*amounts)


def unit_text(unit: Unit) -> str:
    """Return the protected unit: an event, an event per tick in a window, or a user.

    >>> from streamgauge.privacy import User, WEvent
    >>> unit_text(WEvent(288))
    'one event a tick, in any 288 ticks in a row'
    >>> unit_text(User(1, 30))
    'one user: at most 1 event a tick, in at most 30 ticks'
    >>> unit_text(User(1, 60, per=720, renewal=24))
    'one user, in any 720 ticks in a row: at most 1 event a tick, in at most 2 ticks of each 24 ticks'
    """
    replaced = "one event, or another in its place at any time" if getattr(unit, "moves", False) else REPORT_TEXT
    texts = {
        "Event": replaced if unit.replace else "one event",
        "Tick": "all events of one tick: at most {events}",
        "WEvent": "one event a tick, in any {w} in a row",
        "XAdjacent": "one user, however often",
        "User": "one user: at most {max_events_per_tick} a tick, in at most {max_ticks}",
    }
    kind = type(unit).__name__
    if getattr(unit, "per", None) is not None:
        block = "" if unit.consecutive else ", in at most {ticks_per_block} of each {renewal}"
        texts[kind] = "one user, in any {per} in a row: at most {max_events_per_tick} a tick" + block
    nouns = {"w": "tick", "max_events_per_tick": "event", "events": "event"}
    nouns |= dict.fromkeys(("max_ticks", "per", "renewal", "ticks_per_block"), "tick")
    amounts = {name: plural(getattr(unit, name, None) or 0, noun) for name, noun in nouns.items()}
    return texts.get(kind, str(unit)).format(**amounts)


def span_text(first: int, last: int | None) -> str:
    """Return a range of ticks.

    >>> span_text(1, 360), span_text(7, None)
    ('1 to 360', '7 on')
    """
    return f"{first:,} on" if last is None else f"{first:,} to {last:,}"


def ticks_text(stream: Stream, first: int, last: int | None) -> str:
    """Return the times and numbers of a range of ticks."""
    until = "on" if last is None else f"to {format_utc_time(stream.tick_start(last + 1))}"
    return f"from {format_utc_time(stream.tick_start(first))} {until} (ticks {span_text(first, last)})"


def groups_text(groups: int, *, discovered: bool = False) -> str:
    """Return a number of groups.

    >>> groups_text(1), groups_text(1000), groups_text(1000, discovered=True)
    ('1 group', '1,000 groups', 'at most 1,000 groups, discovered')
    """
    text = plural(groups, "group")
    return f"at most {text}, discovered" if discovered else text


def format_ordinal(number: int) -> str:
    """Return a place in a ranking.

    >>> format_ordinal(1), format_ordinal(11), format_ordinal(1002)
    ('1st', '11th', '1,002nd')
    """
    is_teen = number % 100 in (11, 12, 13)
    return f"{number:,}" + ("th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th"))


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "tick"), plural(2160, "tick"), plural(0, "tick")
    ('1 tick', '2,160 ticks', '0 ticks')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
