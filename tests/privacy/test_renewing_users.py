"""Users whose contributions renew: all neighbours of short streams, and charges by windows of ticks."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product

import pytest

from streamgauge.privacy import Approx, BudgetExceededError, Ledger, Pure, User, Zcdp, is_charged_whole
from streamgauge.privacy.timeline import LossTerm, TickWeight
from streamgauge.privacy.units import count_changed_ticks

Ticks = frozenset[int]
Rule = Callable[[Sequence[int], User], Ticks]


def in_blocks(order: Sequence[int], unit: User) -> Ticks:
    """Return the ticks that count, of ticks with events in the order of arrival."""
    counted: list[int] = []
    for tick in order:
        block = (tick - 1) // unit.renewal
        if sum((other - 1) // unit.renewal == block for other in counted) < unit.ticks_per_block:
            counted.append(tick)
    return frozenset(counted)


def in_last_ticks(order: Sequence[int], unit: User) -> Ticks:
    """Return the ticks that count where a tick needs fewer than `max_ticks` among the last ones."""
    counted: list[int] = []
    for tick in order:
        if sum(tick - unit.per < other <= tick for other in counted) < unit.max_ticks:
            counted.append(tick)
    return frozenset(counted)


def renewed_too_early(order: Sequence[int], unit: User) -> Ticks:
    """The rule of blocks, but users are forgotten before the last tick of a block."""
    return in_blocks(order, unit) | frozenset(tick for tick in order if tick % unit.renewal == 0)


def changes(order: Sequence[int], unit: User, rule: Rule) -> Iterator[Ticks]:
    """Yield the ticks that change if the user is absent from any window of at most `per` ticks."""
    last = max(order, default=0)
    for first, length in product(range(1, last + 1), range(1, unit.per + 1)):
        absent = [tick for tick in order if not first <= tick < first + length]
        yield rule(order, unit) ^ rule(absent, unit)


def every_change(unit: User, ticks: int, orders: Callable[[Sequence[int]], Iterator[Sequence[int]]], rule: Rule):
    for size in range(ticks + 1):
        for active in combinations(range(1, ticks + 1), size):
            for order in orders(active):
                yield from changes(order, unit, rule)


SMALL = [
    *((User(1, 1, per=2), 5), (User(1, 1, per=3), 6), (User(1, 2, per=3), 6)),
    *((User(1, 2, per=4, renewal=2), 6), (User(1, 3, per=3, renewal=1), 5)),
]


@pytest.mark.parametrize(("unit", "ticks"), SMALL, ids=repr)
def test_every_neighbour_in_any_order_changes_at_most_charged_ticks(unit: User, ticks: int) -> None:
    found = set(every_change(unit, ticks, permutations, in_blocks))
    assert max(map(len, found)) <= unit.ticks
    assert all(max(each) - min(each) < unit.span for each in found if each)


LARGER = [(block, per_block) for block in (2, 3, 4) for per_block in range(1, block + 1)]


@pytest.mark.parametrize(("block", "per_block"), LARGER)
def test_charged_ticks_are_reached_by_some_neighbour(block: int, per_block: int) -> None:
    """Two blocks, each with the order that lets ticks of the window come first."""
    unit = User(1, per_block, per=block)
    worst = 0
    for cut in range(1, block + 1):
        window = range(cut + 1, cut + block + 1)
        for active in product((0, 1), repeat=2 * block):
            ticks = [tick for tick in range(1, 2 * block + 1) if active[tick - 1]]
            order = sorted(ticks, key=lambda tick: tick not in window)
            absent = [tick for tick in order if tick not in window]
            worst = max(worst, len(in_blocks(order, unit) ^ in_blocks(absent, unit)))
    assert worst == unit.ticks


def test_rule_of_last_ticks_cascades_without_end() -> None:
    unit = User(1, 1, per=3)
    longest = [
        max(len(change) for change in changes(range(1, ticks + 1), unit, in_last_ticks)) for ticks in (9, 18, 27)
    ]
    assert longest == [6, 12, 18]
    assert max(len(change) for change in changes(range(1, 28), unit, in_blocks)) <= unit.ticks == 4


def test_allowance_that_renews_early_exceeds_the_charge() -> None:
    unit = User(1, 1, per=3)
    found = every_change(unit, 6, permutations, renewed_too_early)
    assert max(map(len, found)) > unit.ticks


def test_ticks_of_finer_renewals_approach_the_allowance() -> None:
    assert [User(1, 60, per=720, renewal=720 // k).ticks for k in (1, 2, 3, 30, 60)] == [240, 150, 120, 66, 63]
    assert [count_changed_ticks(per_block, 10, 1) for per_block in (1, 5, 6, 9, 10)] == [4, 20, 18, 12, 10]
    unbounded = User(2, per=30)
    assert (unbounded.ticks, unbounded.span, unbounded.consecutive, unbounded.max_ticks) == (30, 30, True, 30)
    assert (User(1, 1, per=3).span, User(1, 4, per=4, renewal=1).consecutive) == (6, True)
    assert User(1, 5).span is None
    assert [is_charged_whole(unit) for unit in (User(1, 1), User(1, 1, per=3))] == [True, True]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "max_ticks must be given unless contributions renew (per), got None"),
        ({"max_ticks": 3, "renewal": 2}, "renewal must be None without per, got 2"),
        ({"max_ticks": 3, "per": 2}, "max_ticks must be at most per = 2, got 3"),
        ({"max_ticks": 3, "per": 7, "renewal": 2}, "renewal must divide per = 7, got 2"),
        (
            {"max_ticks": 3, "per": 8, "renewal": 2},
            "max_ticks must be a multiple of per / renewal = 4, so that each block has as many, got 3",
        ),
        ({"max_ticks": 3, "per": 0}, "per must be at least 1, got 0"),
    ],
)
def test_uneven_allowances_are_refused(given: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=r"must") as refusal:
        User(1, **given)
    assert str(refusal.value) == text


def test_renewing_user_prints_its_window() -> None:
    assert repr(User(1, 2, per=4)) == "User(max_events_per_tick=1, max_ticks=2, per=4, renewal=4)"
    assert repr(User(1, 2)) == "User(max_events_per_tick=1, max_ticks=2)"


def term(peak: int, first: int, last: int | None, native: bool = False) -> LossTerm:
    return LossTerm(Fraction(peak), (TickWeight(first, last, Fraction(1)),), native)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("unit", [User(1, 1, per=2), User(1, 2, per=4, renewal=2), User(1, 3, per=3)], ids=repr)
def test_charge_covers_every_changed_set_in_windows(unit: User, power: int) -> None:
    ticks = range(1, 10)
    for spans in [((1, 3), (5, 9)), ((1, 10), (4, 4)), ((2, 2), (8, 10)), ((1, None), (1, 2))]:
        for native in ((False, False), (False, True), (True, True)):
            terms = [term(2, *spans[0], native[0]), term(3, *spans[1], native[1])]
            stated = unit.worst_case_loss(terms, power, (1, None))
            for size in range(1, min(unit.ticks, 6) + 1):
                for chosen in combinations(ticks, size):
                    if max(chosen) - min(chosen) < unit.span:
                        assert cost(terms, chosen, power) <= stated


def cost(terms: Sequence[LossTerm], chosen: Sequence[int], power: int) -> Fraction:
    total = Fraction(0)
    for each in terms:
        q = sum((each.weight_at(tick) for tick in chosen), Fraction(0))
        total += each.peak * (Fraction(bool(q)) if each.is_native else q**power)
    return total


@pytest.mark.parametrize("budget", [Pure(1), Zcdp(1), Approx(1, "1/1000000")], ids=repr)
def test_ended_release_is_free_beyond_its_windows(budget: Pure | Zcdp | Approx) -> None:
    unit = User(2, 2, per=10)
    ledger = Ledger(budget, unit)
    loss = ledger.remaining_loss() if isinstance(budget, Approx) else budget
    charge = ledger.charge("first", loss, native=True)
    with pytest.raises(BudgetExceededError):
        ledger.charge("second", loss, first=500, native=True)
    ledger.end(charge, ingested=100)
    with pytest.raises(BudgetExceededError):
        ledger.charge("second", loss, first=100 + unit.span - 1, native=True)
    ledger.charge("second", loss, first=100 + unit.span, native=True)
    assert ledger.remaining_loss(first=100).amount == 0


def test_user_without_renewal_gets_nothing_back() -> None:
    ledger = Ledger(Pure(1), User(2, 2))
    ledger.end(ledger.charge("first", Pure(1), native=True), ingested=100)
    with pytest.raises(BudgetExceededError):
        ledger.charge("second", Pure(1), first=10_000, native=True)


@pytest.mark.parametrize("windows", [1, 2, 3])
def test_windows_of_one_user_add_up_by_group_privacy(windows: int) -> None:
    """A chain of neighbours, one for each window, leads to the stream without the user."""
    unit = User(1, 1, per=3)
    present = list(range(1, windows * 3 + 1))
    steps = [present[3 * done :] for done in range(windows + 1)]
    for before, after in pairwise(steps):
        assert len(in_blocks(before, unit) ^ in_blocks(after, unit)) <= unit.ticks
    assert Pure("1/4").group(windows).epsilon == Fraction(windows, 4)
    assert Zcdp("1/4").group(windows).rho == Fraction(windows**2, 4)
