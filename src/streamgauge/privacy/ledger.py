"""The ledger: charges of every release against a budget, before it spends.

    tick        1    2    3    4    5    6    7 ...
    visits      e/4  e/4  e/4  e/4                       ended: later ticks are free again
    quantiles             e/2  e/2  e/2  e/2  e/2 ...    open-ended
    -------------------------------------------------
    one event   e/4  e/4  3e/4 3e/4 e/2  e/2  e/2        Event(): the worst tick counts
    w = 2            e/2  e    3e/2 ...                  WEvent(2): the worst two in a row

Promise
    At every moment the loss of every unit over all releases is at most the budget, if each release loses at
    most its timeline. Charges are checked and entered in one step under a lock, so concurrent ones never
    overspend. A rejected charge leaves no trace. The ledger sees no data: costs and refusals depend on
    declarations only.

Currencies
    Under a pure budget, pure losses add up. Under a zCDP budget rhos add up, and a pure charge counts as
    epsilon^2/2. Under an (epsilon, delta) budget some pure charges add up in epsilon. All others compose
    as zCDP and are converted once. For each unit the ledger uses the best split (proofs in split_bounds.py).
    (epsilon, delta) charges are rejected, since they imply no rho. A release with its own delta, such as
    thresholds for discovered keys, charges it in addition to its loss. Deltas are not pooled: each unit
    pays for the ticks it touches, and its rho is converted at the remaining delta (split_bounds.py).

Integer orders
    A charge of `IntegerZcdp` adds to the others at integer orders. So from then on sums are converted at the best
    integer order (see conversions.py), for all units, ended charges included: never less than the truth.
    Such a charge covers the whole unit, since group privacy of zCDP passes through other orders.

Ending
    An event-level or w-event charge that ends frees the ticks from the first that was never ingested, and
    their delta: a unit that it never read loses nothing to it. A user-level charge frees nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock

from streamgauge.privacy.errors import BudgetExceededError, PrivacyError
from streamgauge.privacy.loss_profiles import ChargeTerms
from streamgauge.privacy.losses import AdditiveLoss, Approx, IntegerZcdp, Loss, Pure, Zcdp
from streamgauge.privacy.rationals import Number, format_rational, parse_nonnegative, parse_whole
from streamgauge.privacy.split_bounds import LossBound, LossSplit, SplitBudget, build_loss_bounds, check_whole_unit
from streamgauge.privacy.timeline import ALL_TICKS, LossTerm, Span, Step, TickWeight, Timeline, check_loss, check_span
from streamgauge.privacy.units import Unit

LedgerRow = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Charge:
    """One entry of the ledger.

    `active_timeline` is the part of its timeline that still counts, None if all was freed.
    """

    number: int
    name: str
    timeline: Timeline
    native: bool
    per_tick: bool
    active_timeline: Timeline | None
    end_tick: int | None = None  # the last tick ingested when it ended
    delta: Fraction = Fraction(0)  # share of the budget's delta, in addition to the loss

    @property
    def delta_term(self) -> LossTerm | None:
        """Its delta, if it has one and still counts.

        Every unit that touches it loses all of it, once.
        """
        if not self.delta or self.active_timeline is None:
            return None
        return LossTerm(self.delta, (TickWeight(*self.active_timeline.span, Fraction(1)),), is_native=True)

    def to_rows(self) -> list[LedgerRow]:
        """Return lines of the ledger's table: name, first and last tick, loss, note."""
        if self.active_timeline is None:
            return [(self.name, "-", "-", "given back", self._note)]
        return [self._format_row(step) for step in self.active_timeline.steps]

    def _format_row(self, step: Step) -> LedgerRow:
        last = "on" if step.last is None else str(step.last)
        extra = f" and delta {format_rational(self.delta)}" if self.delta else ""
        return self.name, str(step.first), last, f"{step.loss}{extra}", self._note

    @property
    def _note(self) -> str:
        kind = "of the whole unit" if self.native else "of the unit in a tick" if self.per_tick else ""
        return ", ".join(filter(None, (kind, "" if self.end_tick is None else f"ended after {self.end_tick}")))


MAX_CACHED_LOADS = 16  # intervals whose loads are stored until the next charge


@dataclass(frozen=True, slots=True)
class Remainder:
    """The rest of an (epsilon, delta) budget: epsilon for a pure release, else rho."""

    epsilon: Fraction
    rho: Fraction

    @property
    def amount(self) -> Fraction:
        return self.rho


class Ledger:
    """A budget for every unit, and the charges against it.

    With `integer_orders` an (epsilon, delta) budget is converted at integer orders before a charge needs it.

    >>> from streamgauge.privacy import Event, Pure
    >>> ledger = Ledger(Pure(1), Event())
    >>> visits = ledger.charge("visits", Pure(0.75), first=1)
    >>> ledger.remaining_loss()
    Pure(epsilon=1/4)
    >>> try:
    ...     ledger.charge("quantiles", Pure(0.5), first=1, last=9)
    ... except BudgetExceededError as refusal:
    ...     refusal.requested, refusal.spent, refusal.allowed
    (Pure(epsilon=1/2), Pure(epsilon=3/4), Pure(epsilon=1))
    >>> ended = ledger.end(visits, ingested=100)
    >>> ledger.remaining_loss(first=101)
    Pure(epsilon=1)
    """

    def __init__(self, budget: Loss, unit: Unit, *, integer_orders: bool = False) -> None:
        check_loss(budget, "budget")
        if not isinstance(getattr(unit, "ticks", None), int):
            raise ValueError(f"unit must be an Event, Tick, WEvent or User, got {unit!r}")
        self.budget, self.unit = budget, unit
        if isinstance(budget, IntegerZcdp):
            raise ValueError(f"budget must be Pure, Zcdp or Approx, got {budget!r}")
        self._limit = budget.additive_loss
        self._split_budget = (
            SplitBudget(budget.epsilon, budget.delta, integer_orders) if isinstance(budget, Approx) else None
        )
        self._lock = Lock()
        self._charges: dict[int, Charge] = {}
        self._pure: dict[int, LossTerm] = {}
        self._zcdp: dict[int, LossTerm] = {}
        self._slacks: dict[int, LossTerm] = {}
        self._cached_loads: dict[Span, list[LossBound]] = {}  # of the charges as they are now
        self._last_ingested_tick = 0

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
        """Charge a release that loses `loss` to one event at ticks `first` to `last`.

        With `per_tick`, `loss` covers all events that one unit has in a tick: the mechanism's bound is the unit's
        sensitivity. With `native`, it covers all that one unit does. `delta` is charged in addition, to every
        unit that touches these ticks. The loss of a mechanism is its `charged_loss`. From the first `IntegerZcdp` on,
        the ledger converts every sum at integer orders.
        """
        timeline = Timeline((Step(first, last, loss),))
        return self.charge_timeline(name, timeline, native=native, per_tick=per_tick, delta=delta)

    def charge_timeline(
        self, name: str, timeline: Timeline, *, native: bool = False, per_tick: bool = False, delta: Number = 0
    ) -> Charge:
        """Charge a release whose loss differs from tick to tick; natively, at the largest of them."""
        slack = parse_nonnegative(delta, "delta")
        self.budget.additive_loss_after_delta(slack)  # refuses a delta where the budget has none
        check_whole_unit(slack, self.unit, timeline, native=native, per_tick=per_tick)
        if timeline.needs_integer_orders and self._split_budget is None:
            raise PrivacyError(f"loss must be one of all orders under a budget of {self.budget}, got {timeline.losses}")
        with self._lock:
            charge = Charge(len(self._charges), name, timeline, native, per_tick, timeline, None, slack)
            own, terms = self._build_charge_terms(charge), self.build_terms()
            both = ChargeTerms(terms.pure + own.pure, terms.zcdp + own.zcdp, terms.delta_terms + own.delta_terms)
            before, self._split_budget = self._split_budget, self._convert_at_integers(timeline)
            is_stricter = before != self._split_budget
            if not self.can_afford(self.build_loads(both, ALL_TICKS if is_stricter else timeline.span)):
                error = self._build_error(charge)
                self._split_budget = before
                raise error
            self._enter(charge)
        return charge

    def _convert_at_integers(self, timeline: Timeline) -> SplitBudget | None:
        """Return the budget that weighs loads, at integer orders if a charge needs them."""
        known = self._split_budget
        return replace(known, integer_orders=True) if known is not None and timeline.needs_integer_orders else known

    def end(self, charge: Charge, *, ingested: int) -> Charge:
        """End a release and return the new entry; `ingested` is the last tick read."""
        with self._lock:
            tick = parse_whole(ingested, "ingested", least=0)
            if not isinstance(charge, Charge):
                raise ValueError(f"charge must be an open charge of this ledger, got {charge!r}")
            if tick < self._last_ingested_tick:
                raise ValueError(
                    f"ingested must be at least {self._last_ingested_tick}, the last ingested tick, got {ingested}"
                )
            if charge.end_tick is not None or self._charges.get(charge.number) != charge:
                raise ValueError(f"charge must be an open charge of this ledger, got {charge.name}")
            self._last_ingested_tick = tick
            covers = charge.timeline.truncate(tick) if self.unit.frees_unused_ticks else charge.timeline
            ended = replace(charge, active_timeline=covers, end_tick=tick)
            self._enter(ended)
            return ended

    def copy(self) -> "Ledger":
        """Return another ledger with the same charges; later charges are separate."""
        other = Ledger(self.budget, self.unit)
        with self._lock:
            other._split_budget = self._split_budget
            other._charges, other._last_ingested_tick = dict(self._charges), self._last_ingested_tick
            other._pure, other._zcdp = dict(self._pure), dict(self._zcdp)
            other._slacks = dict(self._slacks)
        return other

    def spent_loss(self, first: int = 1, last: int | None = None) -> Loss:
        """Return the worst-case loss so far of a unit that touches these ticks.

        It is in the budget's currency.
        """
        with self._lock:
            return self._compute_spent_loss(check_span(first, last))

    def remaining_loss(self, first: int = 1, last: int | None = None, *, delta: Number = 0) -> AdditiveLoss:
        """Return the loss that every unit that touches these ticks can still afford.

        It is a rho under an (epsilon, delta) budget. With `delta`, that much more of the budget's delta is reserved.
        """
        loads = self._build_loads_with_delta(first, last, delta)
        if self._split_budget is not None:
            return Zcdp.from_amount(min(map(self._split_budget.remaining_rho, loads)))
        margins = (self._limit.amount - max(s.epsilon + s.rho for s in load.splits) for load in loads)
        return self._limit.from_amount(max(min(margins), Fraction(0)))

    def remaining_epsilon(self, first: int = 1, last: int | None = None, *, delta: Number = 0) -> Pure | None:
        """Return the epsilon left for a pure release; None under a zCDP budget.

        Args:
            first: The first tick of the release.
            last: Its last tick, None if it never ends.
            delta: The delta that the release charges in addition.
        """
        if self._split_budget is None:
            left = self.remaining_loss(first, last, delta=delta)
            return left if isinstance(left, Pure) else None
        return Pure.from_amount(
            min(map(self._split_budget.remaining_epsilon, self._build_loads_with_delta(first, last, delta)))
        )

    def remainder(self, first: int = 1, last: int | None = None) -> AdditiveLoss | Remainder:
        """Return the rest, in both currencies under an (epsilon, delta) budget."""
        left, pure = self.remaining_loss(first, last), self.remaining_epsilon(first, last)
        if self._split_budget is None or pure is None:
            return left
        return Remainder(pure.epsilon, left.amount)

    def spent_delta(self, first: int = 1, last: int | None = None) -> Fraction:
        """Return the most delta that a unit which touches these ticks has lost.

        `spent_loss` allows for it.
        """
        with self._lock:
            return max(load.delta for load in self.find_loads(check_span(first, last)))

    @property
    def entries(self) -> tuple[Charge, ...]:
        """All charges in the order they were entered, ended ones included."""
        with self._lock:
            return tuple(self._charges.values())

    def __repr__(self) -> str:
        return f"<ledger of {self.budget!r} for {self.unit!r}, {len(self._charges)} charges>"

    def __str__(self) -> str:
        rows = [("charge", "from", "to", "loss of one event", "")]
        rows += [row for charge in self.entries for row in charge.to_rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join((f"{self.budget} for each {self.unit}, {self.spent_loss()} spent", *table))

    def _build_loads_with_delta(self, first: int, last: int | None, delta: Number) -> list[LossBound]:
        """Return the loads of units that touch an interval, with so much more delta."""
        more, touching = parse_nonnegative(delta, "delta"), check_span(first, last)
        self.budget.additive_loss_after_delta(more)
        with self._lock:
            loads = self.find_loads(touching)
        return [replace(load, delta=load.delta + more) for load in loads]

    def _build_charge_terms(self, charge: Charge) -> ChargeTerms:
        """Return a charge in the currency that counts: its own under an (epsilon, delta) budget."""
        if charge.active_timeline is None:
            return ChargeTerms()
        events = 1 if charge.native or charge.per_tick else self.unit.events
        pure = all(isinstance(step.loss, Pure) for step in charge.active_timeline.steps)
        limit = Pure(1) if pure and self._split_budget is not None else self._find_limit(charge.active_timeline)
        term = charge.active_timeline.to_term(limit, events=events, native=charge.native)
        slacks = () if charge.delta_term is None else (charge.delta_term,)
        return ChargeTerms((term,), (), slacks) if limit.power == 1 else ChargeTerms((), (term,), slacks)

    def _find_limit(self, timeline: Timeline) -> AdditiveLoss:
        """Return the currency that the steps of a charge are restated in."""
        return IntegerZcdp(1) if timeline.needs_integer_orders else self._limit

    def build_terms(self) -> ChargeTerms:
        return ChargeTerms(*(tuple(found.values()) for found in (self._pure, self._zcdp, self._slacks)))

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        """Return loads of which every unit that touches the interval has at most one."""
        if self._split_budget is not None:
            return build_loss_bounds(terms, self.unit, touching)
        epsilon = self.unit.worst_case_loss(terms.pure, 1, touching)
        rho = self.unit.worst_case_loss(terms.zcdp, 2, touching)
        return [LossBound((LossSplit(epsilon, rho),))]

    def can_afford(self, loads: Iterable[LossBound]) -> bool:
        if self._split_budget is not None:
            return all(map(self._split_budget.allows, loads))
        return all(split.epsilon + split.rho <= self._limit.amount for load in loads for split in load.splits)

    def find_loads(self, touching: Span) -> list[LossBound]:
        if touching not in self._cached_loads:
            if len(self._cached_loads) >= MAX_CACHED_LOADS:
                self._cached_loads.clear()
            self._cached_loads[touching] = self.build_loads(self.build_terms(), touching)
        return self._cached_loads[touching]

    def _compute_spent_loss(self, touching: Span) -> Loss:
        loads = self.find_loads(touching)
        if self._split_budget is None:
            return self._limit.from_amount(max(s.epsilon + s.rho for load in loads for s in load.splits))
        epsilon = self._split_budget.largest_loss(loads)
        return Approx(epsilon, self._split_budget.delta) if epsilon else Approx.zero()

    def _build_error(self, charge: Charge) -> BudgetExceededError:
        steps, touching, limit = charge.timeline.steps, charge.timeline.span, self._find_limit(charge.timeline)
        requested = max(steps, key=lambda step: limit.restate(step.loss).amount).loss
        delta_spent = max(load.delta for load in self.find_loads(touching))
        return BudgetExceededError(
            requested, self._compute_spent_loss(touching), self.budget, *touching, charge.delta, delta_spent
        )

    def _enter(self, entry: Charge) -> None:
        self._charges[entry.number] = entry
        self._cached_loads.clear()
        own = self._build_charge_terms(entry)
        for found, terms in ((self._pure, own.pure), (self._zcdp, own.zcdp), (self._slacks, own.delta_terms)):
            found.pop(entry.number, None)
            if terms:
                found[entry.number] = terms[0]
