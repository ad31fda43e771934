"""Two-part noise: every look, hand-over and crash costs one loss, enumerated; each broken twin costs more."""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit.broken.noise_ahead import CursorTree, LateLeaf, LiveHandOver, SavedRest
from streamgauge.audit.exact.costs import compute_cost
from streamgauge.audit.exact.probe import probe_view
from streamgauge.audit.subjects.pan_private import Intruder, PanPrivateSubject, compute_worst_to, observe_group
from streamgauge.continual import Kary, TwoPart, choose, compare
from streamgauge.continual.trees.past_noise import MixedNumbers
from streamgauge.noise import Ints
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise
from tests.support.saved_states import live_state

TICKS = 8
ONE = sg.Pure(1)
OPEN: dict[str, Any] = {"horizon": TICKS, "radices": (2, 2), "open_ticks": True}
APPROX = sg.Approx(1, Fraction(1, 10**6))


def worst(claim: TwoPart, ticks: int = TICKS, **intruder: Any) -> Any:
    return compute_worst_to(claim, ticks, Intruder(**intruder))


@pytest.mark.one_of_each
@pytest.mark.parametrize("radices", [(), (2, 2), (3, 2), (4,)])
def test_look_in_or_after_any_tick_costs_the_loss(radices: tuple[int, ...]) -> None:
    claim = TwoPart(ONE, horizon=TICKS, radices=radices, open_ticks=True)
    for peek in range(1, TICKS + 1):
        assert worst(claim, peek=peek, has_open_ticks=True).amount <= 1 + 1e-6
        assert worst(claim, peek=peek).amount <= 1 + 1e-6


@pytest.mark.one_of_each
@pytest.mark.parametrize("announced", range(1, TICKS + 1, 3))
def test_announced_intrusions_in_or_after_a_tick_cost_nothing_more(announced: int) -> None:
    for peek, is_open in product((1, 3, 4, 7), (False, True)):
        found = worst(TwoPart(ONE, **OPEN), peek=peek, announced_tick=announced, has_open_ticks=is_open)
        assert found.amount <= 1 + 1e-6


@pytest.mark.one_of_each
@pytest.mark.parametrize("lost", range(1, 6))
def test_look_before_or_after_a_lost_run_costs_the_loss(lost: int) -> None:
    for peek in range(1, 7):
        assert worst(TwoPart(ONE, **OPEN), 6, peek=peek, lost_tick=lost, has_open_ticks=True).amount <= 1 + 1e-6


@pytest.mark.parametrize("peek", range(5))
def test_units_on_both_sides_of_a_look_lose_the_claim(peek: int) -> None:
    claim = TwoPart(ONE, unit=sg.WEvent(3), **{**OPEN, "horizon": 6})
    assert worst(claim, 6, peek=peek, has_open_ticks=peek > 0).amount <= 1 + 1e-6
    gaussian = replace(claim, loss=APPROX)
    for move in (np.eye(6)[t] + np.eye(6)[t + 1] + np.eye(6)[t + 2] for t in range(4)):
        assert least_rho(gaussian, move, peek=peek, has_open_ticks=peek > 0) <= RHO * (1 + 1e-6)


RHO = float(APPROX.integer_order_loss.rho)


def least_rho(claim: TwoPart, move: np.ndarray, **intruder: Any) -> float:
    """Return the least cost of hiding a move, infinite if nothing does."""
    view = probe_view(partial(observe_group, claim, Intruder(**intruder)), len(move))
    return compute_cost(view, move, "zCDP").upper_bound


@pytest.mark.one_of_each
@pytest.mark.parametrize("radices", [(), (2, 2), (3,)])
def test_gaussian_parts_keep_rho_of_integer_orders_at_every_look(radices: tuple[int, ...]) -> None:
    claim, losses = TwoPart(APPROX, **{**OPEN, "radices": radices}), []
    for peek, move in product(range(1, 5), np.eye(5)):
        losses.append(least_rho(claim, move, peek=peek, has_open_ticks=True))
        more = [least_rho(claim, move, peek=peek, has_open_ticks=True, **act) for act in ANNOUNCED_OR_LOST]
        assert max(losses[-1], *more) <= RHO * (1 + 1e-6)
    assert max(losses) > 0.9 * RHO


@pytest.mark.parametrize("peek", [1, 3])
def test_gaussian_parts_without_an_end_keep_rho_at_looks(peek: int) -> None:
    claim = TwoPart(APPROX, open_ticks=True)
    view = probe_view(partial(observe_group, claim, Intruder(peek=peek, has_open_ticks=True)), 3)
    losses = [compute_cost(view, move, "zCDP").upper_bound for move in np.eye(3)]
    assert 0.9 * RHO < max(losses) <= RHO * (1 + 1e-6)


@pytest.mark.parametrize("loss", [APPROX, APPROX.integer_order_loss])
def test_audit_judges_gaussian_parts_by_the_rho_of_integer_orders(loss: sg.privacy.Loss) -> None:
    """It is a little below the rho of all orders, under which too little noise would be acquitted."""
    claim = TwoPart(loss, **{**OPEN, "horizon": 4, "radices": (2,)})
    subject = PanPrivateSubject(claim, 4, Intruder(has_open_ticks=True))
    assert subject.loss == APPROX.integer_order_loss
    assert subject.worst().amount == pytest.approx(RHO, rel=1e-6)
    assert subject.worst().computed_from != "not computed"
    for broken in (LateLeaf, CursorTree):
        twin = broken(loss, **{**OPEN, "horizon": 4, "radices": (2,)})
        assert PanPrivateSubject(twin, 4, Intruder(has_open_ticks=True)).worst().floor == inf


def test_both_currencies_of_a_gaussian_claim_have_one_noise() -> None:
    one, other = (TwoPart(loss, horizon=64) for loss in (APPROX, APPROX.integer_order_loss))
    assert (one.charged_loss, one.distribution) == (other.charged_loss, other.distribution)
    assert [one.stddev(t) for t in (1, 9, 64)] == [other.stddev(t) for t in (1, 9, 64)]
    assert type(choose(APPROX.integer_order_loss, horizon=2**16, pan_private=True)) is TwoPart
    assert type(choose(APPROX.additive_loss, horizon=2**16, pan_private=True)) is not TwoPart
    found = {each.name: each for each in compare(APPROX.integer_order_loss, horizon=64, pan_private=True).candidates}
    assert found["Kary"].mechanism == Kary(sg.Zcdp(RHO_EXACT), horizon=64, pan_private=True)
    assert found["Kary"].rmse > found["TwoPart"].rmse


RHO_EXACT = APPROX.integer_order_loss.rho
ANNOUNCED_OR_LOST: tuple[dict[str, int], ...] = ({"announced_tick": 3}, {"lost_tick": 2})


def test_gaussian_draws_ahead_are_refused_where_all_orders_count() -> None:
    with pytest.raises(
        ValueError, match=r"^loss must be Pure or IntegerZcdp or Approx for TwoPart \(its noise looks ahead"
    ):
        TwoPart(sg.Zcdp("1/2"), horizon=9)
    broken = SavedRest(APPROX, **OPEN)
    assert least_rho(broken, np.eye(4)[1], peek=2, lost_tick=2, has_open_ticks=True) > 1.7 * RHO
    broken = CursorTree(APPROX, **OPEN)
    assert max(least_rho(broken, np.eye(4)[1], peek=peek) for peek in range(1, 5)) == inf


class Shifted:
    """Noise that is given, from the first draw on."""

    def __init__(self, draws: list[int]) -> None:
        self.draws = draws

    def laplace(self, scale: Fraction, size: int) -> Ints:
        taken, self.draws = self.draws[:size], self.draws[size:]
        return np.array(taken, np.int64)

    gaussian = laplace


def view_run(claim: TwoPart, values: list[int], draws: list[int], look: int) -> tuple[list[float], str]:
    """Return all releases, and the memory after so many ticks, to the last bit."""
    run, released, seen = claim.start(1, Shifted(draws)), [], ""
    for tick, value in enumerate(values, 1):
        released.append(float(run.step([value])[0]))
        seen = repr(describe(live_state(run))) if tick == look else seen
    return released, seen


def describe(state: Any) -> Any:
    if isinstance(state, np.ndarray):
        return state.tolist()
    names = getattr(state, "__dataclass_fields__", None)
    return state if names is None else [describe(getattr(state, name)) for name in names]


@pytest.mark.parametrize(("radices", "ticks"), [((3, 3), 27), ((2, 2), 13), ((5,), 11)])
def test_shift_of_the_proof_hides_event_from_every_look(radices: tuple[int, ...], ticks: int) -> None:
    """For all events and all looks, bit for bit: shifted draws ahead before a look, fresh ones after it."""
    claim = TwoPart(ONE, horizon=ticks, radices=radices)
    strategy, counted = claim.strategy(ticks), CountedNoise(SilentNoise())
    fresh = len(claim.fresh.strategy(ticks).distributions)
    run, made = claim.start(1, counted), []
    for tick in range(ticks):
        run.step([0])
        made += [tick + 1] * (counted.total - len(made))
    bridge, *_ = claim.noise_ahead.build_matrices(ticks)
    rows = np.concatenate([strategy.measure[:fresh], bridge])
    chance = np.random.default_rng(3)
    values, draws = chance.integers(0, 9, ticks).tolist(), chance.integers(-99, 99, len(strategy.draws))
    plain = {look: view_run(claim, values, draws.tolist(), look) for look in range(1, ticks + 1)}
    for event, look in product(range(1, ticks + 1), repeat=2):
        moved = [value + 7 * (tick == event) for tick, value in enumerate(values, 1)]
        is_ahead = event <= look
        shift = [7 * rows[row, event - 1] * ((row >= fresh) == is_ahead) for row in strategy.draws]
        assert is_ahead or min(at for at, move in zip(made, shift, strict=True) if move) > look
        assert view_run(claim, moved, (draws - shift).astype(int).tolist(), look) == plain[look]


def test_a_tick_that_opens_without_its_noise_is_bare() -> None:
    assert worst(LateLeaf(ONE, **OPEN), 4, peek=3, has_open_ticks=True).floor == inf
    assert worst(TwoPart(ONE, **OPEN), 4, peek=3, has_open_ticks=True).amount <= 1 + 1e-6


def test_a_lost_run_whose_draws_go_on_costs_twice() -> None:
    found = worst(SavedRest(ONE, **OPEN), 4, peek=2, lost_tick=2, has_open_ticks=True)
    assert found.floor == pytest.approx(2)


def test_draws_behind_a_cursor_show_exact_events() -> None:
    assert max(worst(CursorTree(ONE, **OPEN), 4, peek=peek).floor for peek in range(1, 5)) == inf


def test_a_live_hand_over_after_a_look_shows_exact_sums() -> None:
    losses = [worst(LiveHandOver(ONE, **OPEN), 4, peek=2, announced_tick=tick).floor for tick in (3, 4)]
    assert max(losses) == inf


def test_the_planner_takes_it_where_it_is_better() -> None:
    taken = {ticks: type(choose(ONE, horizon=ticks, pan_private=True)) for ticks in (2**10, 2**16, 2**20)}
    assert taken == {2**10: Kary, 2**16: TwoPart, 2**20: TwoPart}
    for horizon, most in ((2**10, 18.5), (2**16, 37.5), (2**20, 52.0)):
        assert choose(ONE, horizon=horizon, pan_private=True).rmse() <= most
    approx = sg.Zcdp("1/2").as_approx("1e-6")
    for horizon, most in ((2**10, 5.3), (2**16, 7.8), (2**20, 9.5)):
        assert choose(approx, horizon=horizon, pan_private=True).rmse() <= most
    for horizon in (None, 2**10, 2**20):
        assert type(choose(ONE, horizon=horizon, pan_private=True, open_ticks=True)) is TwoPart
    refused = {each.name: each.refusal for each in compare(ONE, horizon=9).candidates}
    assert refused["TwoPart"] == "pan_private must be True for TwoPart, got False"


def test_errors_grow_with_the_root_of_announced_intrusions() -> None:
    claim, wide = TwoPart(ONE, horizon=64), 4000
    run = claim.start(wide, InsecureNoise(5))
    expected = 0.0
    for _ in range(3):
        errors = run.feed(np.ones((16, wide), np.int64))[-1] - run.tick
        expected += claim.noise_at(16).variance
        assert run.stddev() ** 2 == pytest.approx(expected)
        assert (errors**2).mean() == pytest.approx(expected, rel=6.5 * np.sqrt(5 / wide))
        shown = run.intrude()
        np.testing.assert_allclose(shown.base, errors + run.tick)
        assert not any(part.any() for part in (shown.sums.sum.whole, shown.sums.ahead.draws, shown.fresh.entries))


def test_parts_of_ticks_equal_the_whole_without_more_error() -> None:
    for horizon, loss in product((20, None), (ONE, APPROX)):
        claim = TwoPart(loss, horizon=horizon, open_ticks=True)
        whole, parted = claim.start(3, InsecureNoise(1)), claim.start(3, InsecureNoise(1))
        for row in np.random.default_rng(5).integers(-9, 9, (20, 3)):
            parted.add_partial(row - 4)
            np.testing.assert_array_equal(parted.step([4, 4, 4]), whole.step(row))
        assert claim.stddev(17) == TwoPart(loss, horizon=horizon).stddev(17)


def test_rerandomized_runs_release_unbiased_with_the_stated_error() -> None:
    claim, wide = TwoPart(ONE, horizon=9, open_ticks=True), 4000
    run, truth = claim.start(wide, InsecureNoise(9)), 0
    for tick in range(1, 7):
        run.add_partial(np.full(wide, 5))
        truth += 5
        if tick in (2, 5):
            run.intrude()
        if tick in (2, 4):
            run = claim.load(run.save(), InsecureNoise(10 + tick))
            before = run.stddev()
            run.rerandomize()
            truth -= 5
            assert run.stddev() == before
        truth += 1
        errors = run.step(np.ones(wide, int)) - truth
        assert abs(errors.mean()) < 6.5 * run.stddev() / wide**0.5
        assert abs((errors**2).mean() / run.stddev() ** 2 - 1) < 6.5 * np.sqrt(8 / wide)


def test_mixed_numbers_have_one_form() -> None:
    number = MixedNumbers(np.array([3]), np.array([4]), 5)
    number.add(np.array([-12]))
    assert (number.whole.tolist(), number.rest.tolist(), number.is_normal) == ([1], [2], True)
    assert number.to_numerators().tolist() == [7]
    assert not MixedNumbers(np.array([3]), np.array([5]), 5).is_normal
