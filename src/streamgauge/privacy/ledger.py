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
    Under a pure budget, pure losses add up. Under a zCDP budget rhos add up, and a pure charge counts as
    epsilon^2/2. Under an (epsilon, delta) budget some pure charges add up in epsilon, and all others compose
    as zCDP and are converted once. For each unit the ledger takes the best split (proofs in splits.py).
    (epsilon, delta) charges are refused, since they imply no rho. Releases that take a delta of their own, as
    thresholds for keys that are discovered do, charge it beside their loss. Deltas are not pooled: each unit
    pays for what it touches, and its rho is converted at what they leave of the budget's delta (slack.py).

Ending
    An event-level or w-event charge that ends gives back the ticks from the first that was never ingested,
    its delta there too: a unit that it never saw loses nothing to it. A user-level one gives nothing back.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock

from streamgauge.privacy.charges import Charge
from streamgauge.privacy.errors import BudgetExceeded
from streamgauge.privacy.exact import Number, not_negative, whole
from streamgauge.privacy.losses import Approx, Loss, Pure, Zcdp
from streamgauge.privacy.profiles import Terms
from streamgauge.privacy.slack import check_whole_unit
from streamgauge.privacy.splits import Load, Split, SplitBudget, split_loads
from streamgauge.privacy.terms import Span, Term, span
from streamgauge.privacy.timeline import Step, Timeline, check_loss
from streamgauge.privacy.units import Unit

MAX_KNOWN_LOADS = 16  # intervals whose loads are stored until the next charge


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of an (epsilon, delta) budget: an epsilon for a pure release, or a rho for another one."""

    epsilon: Fraction
    rho: Fraction

    @property
    def amount(self) -> Fraction:
        return self.rho


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
        self._splits = SplitBudget(budget.epsilon, budget.delta) if isinstance(budget, Approx) else None
        self._lock = Lock()
        self._charges: dict[int, Charge] = {}
        self._pure: dict[int, Term] = {}
        self._zcdp: dict[int, Term] = {}
        self._slacks: dict[int, Term] = {}
        self._known_loads: dict[Span, list[Load]] = {}  # of the charges as they are now
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
        with self._lock:
            charge = Charge(len(self._charges), name, timeline, native, per_tick, timeline, delta=slack)
            own, terms = self._own_terms(charge), self._terms()
            both = Terms(terms.pure + own.pure, terms.zcdp + own.zcdp, terms.slacks + own.slacks)
            if not self._affordable(self._loads(both, timeline.span)):
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
            other._charges, other._ingested = dict(self._charges), self._ingested
            other._pure, other._zcdp = dict(self._pure), dict(self._zcdp)
            other._slacks = dict(self._slacks)
        return other

    def spent(self, first: int = 1, last: int | None = None) -> Loss:
        """What the dearest unit that touches these ticks has lost at most, in the budget's currency."""
        with self._lock:
            return self._spent(span(first, last))

    def left(self, first: int = 1, last: int | None = None, *, delta: Number = 0) -> Pure | Zcdp:
        """What every unit that touches these ticks can still lose: rho under an (epsilon, delta) budget.

        With `delta`: what it can lose beside that much more of the budget's delta.
        """
        loads = self._loads_beside(first, last, delta)
        if self._splits is not None:
            return Zcdp.from_amount(min(map(self._splits.rho_left, loads)))
        rooms = (self._limit.amount - max(s.epsilon + s.rho for s in load.splits) for load in loads)
        return self._limit.from_amount(max(min(rooms), Fraction(0)))

    def left_pure(self, first: int = 1, last: int | None = None, *, delta: Number = 0) -> Pure | None:
        """Return the epsilon that a pure release over these ticks can still take; None under a zCDP budget.

        Args:
            first: The first tick of the release.
            last: Its last tick, None if it never ends.
            delta: What it takes of the budget's delta beside its loss.
        """
        if self._splits is None:
            left = self.left(first, last, delta=delta)
            return left if isinstance(left, Pure) else None
        return Pure.from_amount(min(map(self._splits.epsilon_left, self._loads_beside(first, last, delta))))

    def remainder(self, first: int = 1, last: int | None = None) -> Pure | Zcdp | Remainder:
        """Return what is left, both ways under an (epsilon, delta) budget."""
        left, pure = self.left(first, last), self.left_pure(first, last)
        if self._splits is None or pure is None:
            return left
        return Remainder(pure.epsilon, left.amount)

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

    def _loads_beside(self, first: int, last: int | None, delta: Number) -> list[Load]:
        """Return the loads of units that touch an interval, beside so much more of delta."""
        more, touching = not_negative(delta, "delta"), span(first, last)
        self.budget.kept_beside(more)
        with self._lock:
            loads = self._spent_loads(touching)
        return [replace(load, delta=load.delta + more) for load in loads]

    def _own_terms(self, charge: Charge) -> Terms:
        """Return a charge in the currency that counts: its own under an (epsilon, delta) budget."""
        if charge.covers is None:
            return Terms()
        events = 1 if charge.native or charge.per_tick else self.unit.events
        pure = all(isinstance(step.loss, Pure) for step in charge.covers.steps)
        limit = Pure(1) if pure and self._splits is not None else self._limit
        term = charge.covers.term(limit, events=events, native=charge.native)
        slacks = () if charge.slack is None else (charge.slack,)
        return Terms((term,), (), slacks) if limit.power == 1 else Terms((), (term,), slacks)

    def _terms(self) -> Terms:
        return Terms(*(tuple(found.values()) for found in (self._pure, self._zcdp, self._slacks)))

    def _loads(self, terms: Terms, touching: Span) -> list[Load]:
        """Return loads of which every unit that touches the interval has at most one."""
        if self._splits is not None:
            return split_loads(terms, self.unit, touching)
        epsilon, rho = self.unit.dearest(terms.pure, 1, touching), self.unit.dearest(terms.zcdp, 2, touching)
        return [Load((Split(epsilon, rho),))]

    def _affordable(self, loads: Iterable[Load]) -> bool:
        if self._splits is not None:
            return all(map(self._splits.allows, loads))
        return all(split.epsilon + split.rho <= self._limit.amount for load in loads for split in load.splits)

    def _spent_loads(self, touching: Span) -> list[Load]:
        if touching not in self._known_loads:
            if len(self._known_loads) >= MAX_KNOWN_LOADS:
                self._known_loads.clear()
            self._known_loads[touching] = self._loads(self._terms(), touching)
        return self._known_loads[touching]

    def _spent(self, touching: Span) -> Loss:
        loads = self._spent_loads(touching)
        if self._splits is None:
            return self._limit.from_amount(max(s.epsilon + s.rho for load in loads for s in load.splits))
        epsilon = self._splits.largest_loss(loads)
        return Approx(epsilon, self._splits.delta) if epsilon else Approx.nothing()

    def _refusal(self, charge: Charge) -> BudgetExceeded:
        steps, touching = charge.timeline.steps, charge.timeline.span
        asked = max(steps, key=lambda step: self._limit.restate(step.loss).amount).loss
        taken = max(load.delta for load in self._spent_loads(touching))
        return BudgetExceeded(asked, self._spent(touching), self.budget, *touching, charge.delta, taken)

    def _enter(self, entry: Charge) -> None:
        self._charges[entry.number] = entry
        self._known_loads.clear()
        own = self._own_terms(entry)
        for found, terms in ((self._pure, own.pure), (self._zcdp, own.zcdp), (self._slacks, own.slacks)):
            found.pop(entry.number, None)
            if terms:
                found[entry.number] = terms[0]
