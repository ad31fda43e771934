"""The ledger: what every release takes from a budget, before it takes it.

    tick        1    2    3    4    5    6    7 ...
    visits      e/4  e/4  e/4  e/4                       ended: later ticks are free again
    quantiles             e/2  e/2  e/2  e/2  e/2 ...    open-ended
    -------------------------------------------------
    one event   e/4  e/4  3e/4 3e/4 e/2  e/2  e/2        Event(): the dearest tick counts
    w = 2            e/2  e    3e/2 ...                  WEvent(2): the dearest two in a row

Promise
    At every moment, whatever was charged, the loss of every unit over all releases is at most the budget, if
    each release loses at most its timeline. Charges are checked and entered in one step under a lock, so
    concurrent ones never overspend. A refused charge leaves no trace. Nothing here sees data: costs and
    refusals depend on declarations only.

Currencies
    Losses add up in `budget.kept_as`: pure under a pure budget, zCDP under a zCDP or an (epsilon, delta)
    budget. The latter is converted once, at its own delta: composed rho <= kept_as holds exactly if the
    conversion holds. Pure charges count as epsilon^2/2 there; (epsilon, delta) charges are refused, since
    they imply no rho. Releases that take a delta of their own, as thresholds for keys that are discovered do,
    charge it beside their loss. Deltas are not pooled: each unit pays for what it touches, and its rho is
    converted at what they leave of the budget's delta (proofs in slack.py).

Ending
    An event-level or w-event charge that ends gives back the ticks from the first that was never ingested,
    its delta there too: a unit that it never saw loses nothing to it. A user-level one gives nothing back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock

from streamgauge.privacy.charges import Charge
from streamgauge.privacy.errors import BudgetExceeded
from streamgauge.privacy.exact import Number, not_negative, whole
from streamgauge.privacy.losses import Loss, Pure, Zcdp
from streamgauge.privacy.slack import by_delta, check_whole_unit
from streamgauge.privacy.terms import Span, Term, span
from streamgauge.privacy.timeline import Step, Timeline, check_loss
from streamgauge.privacy.units import Unit


@dataclass(frozen=True, slots=True)
class _Load:
    """The most that some units lose: so much in the ledger's currency, and so much of delta beside it."""

    amount: Fraction
    delta: Fraction


class Ledger:
    """A budget for every unit, and the charges against it.

    >>> from streamgauge.privacy import Event, Pure
    >>> ledger = Ledger(Pure(1), Event())
    >>> visits = ledger.charge("visits", Pure(0.75), first=1)
    >>> ledger.left()
    Pure(epsilon=1/4)
    >>> try:
    ...     ledger.charge("quantiles", Pure(0.5), first=1, last=9)
    ... except BudgetExceeded as refusal:
    ...     refusal.asked, refusal.spent, refusal.allowed
    (Pure(epsilon=1/2), Pure(epsilon=3/4), Pure(epsilon=1))
    >>> ended = ledger.end(visits, ingested=100)
    >>> ledger.left(first=101)
    Pure(epsilon=1)
    """

    def __init__(self, budget: Loss, unit: Unit) -> None:
        check_loss(budget, "budget")
        if not isinstance(getattr(unit, "ticks", None), int):
            raise ValueError(f"unit must be an Event, Tick, WEvent or User, got {unit!r}")
        self.budget, self.unit = budget, unit
        self._limit: Pure | Zcdp = budget.kept_as
        self._lock = Lock()
        self._charges: dict[int, Charge] = {}
        self._terms: dict[int, Term] = {}
        self._slacks: dict[int, Term] = {}
        self._ingested = 0

    def charge(
        self,
        name: str,
        loss: Loss,
        first: int = 1,
        last: int | None = None,
        *,
        native: bool = False,
        per_tick: bool = False,
        delta: Number = 0,
    ) -> Charge:
        """Charges a release that loses `loss` to one event at any input tick from `first` to `last`.

        With `per_tick` it is the loss to all events that one unit has in a tick (the mechanism's bound is the
        unit's reach); with `native` the loss to all that one unit does at all. `delta` is what it takes of
        the budget's delta beside `loss`, from every unit that touches these ticks.
        """
        return self.charge_timeline(
            name, Timeline((Step(first, last, loss),)), native=native, per_tick=per_tick, delta=delta
        )

    def charge_timeline(
        self,
        name: str,
        timeline: Timeline,
        *,
        native: bool = False,
        per_tick: bool = False,
        delta: Number = 0,
    ) -> Charge:
        """Charges a release whose loss differs from tick to tick; natively, at the largest of them."""
        slack = not_negative(delta, "delta")
        self.budget.kept_beside(slack)  # refuses a delta where the budget has none
        check_whole_unit(slack, self.unit, native=native, per_tick=per_tick)
        term = self._term(timeline, native, per_tick)
        with self._lock:
            charge = Charge(len(self._charges), name, timeline, native, per_tick, timeline, delta=slack)
            terms = [*self._terms.values(), term]
            slacks = [*self._slacks.values(), *filter(None, [charge.slack])]
            if not self._affordable(self._loads(terms, slacks, timeline.span)):
                raise self._refusal(charge)
            self._enter(charge)
        return charge

    def end(self, charge: Charge, *, ingested: int) -> Charge:
        """Ends a release; `ingested` is the last tick of which anything was seen. Returns the new entry."""
        with self._lock:
            tick = whole(ingested, "ingested", least=0)
            if not isinstance(charge, Charge):
                raise ValueError(f"charge must be an open charge of this ledger, got {charge!r}")
            if tick < self._ingested:
                raise ValueError(
                    f"ingested must be at least {self._ingested}, as told before, got {ingested}"
                )
            if charge.ended is not None or self._charges.get(charge.number) != charge:
                raise ValueError(f"charge must be an open charge of this ledger, got {charge.name}")
            self._ingested = tick
            covers = charge.timeline.until(tick) if self.unit.frees else charge.timeline
            ended = replace(charge, covers=covers, ended=tick)
            self._enter(ended)
            return ended

    def copy(self) -> "Ledger":
        """Another with the same charges: what is charged there is not charged here."""
        other = Ledger(self.budget, self.unit)
        with self._lock:
            other._charges, other._terms = dict(self._charges), dict(self._terms)
            other._slacks, other._ingested = dict(self._slacks), self._ingested
        return other

    def spent(self, first: int = 1, last: int | None = None) -> Loss:
        """What the dearest unit that touches these ticks has lost at most, in the budget's currency."""
        with self._lock:
            return self._spent(span(first, last))

    def left(self, first: int = 1, last: int | None = None, *, delta: Number = 0) -> Pure | Zcdp:
        """What every unit that touches these ticks can still lose, in the currency that adds up.

        With `delta`: what it can lose beside that much more of the budget's delta.
        """
        more = not_negative(delta, "delta")
        with self._lock:
            loads = self._spent_loads(span(first, last))
        rooms = (self.budget.kept_beside(load.delta + more).amount - load.amount for load in loads)
        return self._limit.from_amount(max(min(rooms), Fraction(0)))

    def delta_spent(self, first: int = 1, last: int | None = None) -> Fraction:
        """The most that charges took of delta from a unit that touches these ticks: `spent` allows for it."""
        with self._lock:
            return max(load.delta for load in self._spent_loads(span(first, last)))

    @property
    def entries(self) -> tuple[Charge, ...]:
        """All charges in the order they were entered, ended ones included."""
        with self._lock:
            return tuple(self._charges.values())

    def __repr__(self) -> str:
        return f"<ledger of {self.budget!r} for {self.unit!r}, {len(self._charges)} charges>"

    def __str__(self) -> str:
        rows = [("charge", "from", "to", "loss of one event", "")]
        rows += [row for charge in self.entries for row in charge.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join((f"{self.budget} for each {self.unit}, {self.spent()} spent", *table))

    def _term(self, timeline: Timeline, native: bool, per_tick: bool) -> Term:
        events = 1 if native or per_tick else self.unit.events
        return timeline.term(self._limit, events=events, native=native)

    def _dearest(self, terms: Iterable[Term], touching: Span) -> Fraction:
        return self.unit.dearest(tuple(terms), self._limit.power, touching)

    def _loads(self, terms: Iterable[Term], slacks: Sequence[Term], touching: Span) -> list[_Load]:
        """Loads of which every unit that touches the interval has at most one."""
        parts = by_delta(slacks, self.unit, touching)
        every = tuple(terms)
        return [_Load(self._dearest(every, where), delta) for delta, where in parts]

    def _affordable(self, loads: Iterable[_Load]) -> bool:
        return all(load.amount <= self.budget.kept_beside(load.delta).amount for load in loads)

    def _spent_loads(self, touching: Span) -> list[_Load]:
        return self._loads(self._terms.values(), list(self._slacks.values()), touching)

    def _spent(self, touching: Span) -> Loss:
        stated = (
            self.budget.restate(self._limit.from_amount(load.amount), beside=load.delta)
            for load in self._spent_loads(touching)
        )
        return max(stated, key=lambda loss: loss.amount)

    def _refusal(self, charge: Charge) -> BudgetExceeded:
        steps, touching = charge.timeline.steps, charge.timeline.span
        asked = max(steps, key=lambda step: self._limit.restate(step.loss).amount).loss
        taken = max(load.delta for load in self._spent_loads(touching))
        return BudgetExceeded(asked, self._spent(touching), self.budget, *touching, charge.delta, taken)

    def _enter(self, entry: Charge) -> None:
        self._charges[entry.number] = entry
        self._terms.pop(entry.number, None)
        self._slacks.pop(entry.number, None)
        if entry.covers is not None:
            self._terms[entry.number] = self._term(entry.covers, entry.native, entry.per_tick)
        if entry.slack is not None:
            self._slacks[entry.number] = entry.slack
