"""Continual density: signs are fair but for first appearances, and the law keeps its loss."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp, log
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.adaptive import CascadingBuffers
from streamgauge.audit.exact.kernels import one_person, worst_ratio
from streamgauge.continual import Binary, LimitExceededError, WindowSum
from streamgauge.continual.state_io import InvalidSaveError, pack
from streamgauge.memory import WipedArrays
from streamgauge.panprivate import ContinualDensity
from streamgauge.panprivate import sign_bits as law
from streamgauge.panprivate.continual_density import deduplicate
from streamgauge.panprivate.sign_bits import ONE_HALF, SignLaw, counter_fidelity, find_best_signs
from streamgauge.testing.noise import InsecureNoise
from tests.support.codes import has_code
from tests.support.saved_states import read_state

PAPER = SignLaw(Fraction(1, 40), Fraction(1, 10))  # of epsilon 1/10
COUNTER = Binary(sg.Pure(1), horizon=64, pan_private=True)


class OneUser:
    """The paper's algorithm for one user, step by step. `fidelity` flips signs at random."""

    def __init__(self, signs: SignLaw, fidelity: Fraction = Fraction(1)) -> None:
        self.signs, self.fidelity = signs, fidelity

    def initial(self) -> dict[Any, Fraction]:
        return {0: ONE_HALF, 1: ONE_HALF}

    def step(self, bit: Any, value: Any) -> dict[Any, Fraction]:
        if value is None:
            return {(bit, y): ONE_HALF for y in (0, 1)}
        chance = ONE_HALF + (self.signs.sign_probability(bit) - ONE_HALF) * self.fidelity
        bits = {0: 1 - self.signs.present_probability, 1: self.signs.present_probability}
        return {(new, y): bits[new] * (chance if y else 1 - chance) for new in (0, 1) for y in (0, 1)}


def test_a_sign_is_fair_unless_its_user_is_new() -> None:
    for signs in (PAPER, find_best_signs(Fraction(1), 0, Fraction(1), False)):
        again = (1 - signs.present_probability) * signs.sign_probability(
            0
        ) + signs.present_probability * signs.sign_probability(1)
        assert again == ONE_HALF
        assert ONE_HALF * (signs.sign_probability(0) + signs.sign_probability(1)) == ONE_HALF + signs.gap


def test_the_papers_law_is_the_papers() -> None:
    epsilon = Fraction(1, 10)
    assert PAPER.sign_probability(0) == (1 + epsilon) ** 2 / 2
    assert PAPER.sign_probability(1) == (1 - epsilon) ** 2 / 2
    assert PAPER.gap == epsilon**2 / 2


@pytest.mark.parametrize(
    ("signs", "fidelity"),
    [(PAPER, counter_fidelity(Fraction(1))), (SignLaw(Fraction(3, 10), Fraction(1, 5)), Fraction(1))],
)
def test_the_worst_ratio_is_that_of_enumeration(signs: SignLaw, fidelity: Fraction) -> None:
    found = worst_ratio(OneUser(signs, fidelity), (None, "x"), 3, one_person)
    assert found.ratio == law.worst_ratio(signs, 0, fidelity)


def test_two_streams_that_both_have_a_user_are_the_worst() -> None:
    """Against a user who never appears the same law loses only 0.297."""

    def never(stream: Any, values: Any) -> Any:
        return [(None,) * len(stream)] if any(stream) else []

    absent = worst_ratio(OneUser(PAPER), (None, "x"), 3, never)
    assert absent.epsilon == pytest.approx(0.29706596, abs=1e-8)
    assert log(law.worst_ratio(PAPER)) == pytest.approx(0.48768632, abs=1e-8)


def test_counter_fidelity_is_tanh_of_half_epsilon() -> None:
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(5)):
        fidelity = counter_fidelity(epsilon)
        e = exp(float(epsilon))
        assert float(fidelity) == pytest.approx((e - 1) / (e + 1), rel=1e-12)


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("intrusions", [0, 2])
@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(1), Fraction(6)])
def test_best_law_satisfies_its_loss_and_is_nearly_tight(epsilon: Fraction, intrusions: int, paper: bool) -> None:
    signs = find_best_signs(epsilon, intrusions, Fraction(1), paper)
    lost = log(law.worst_ratio(signs, intrusions))
    assert 0.99 * float(epsilon) < lost <= float(epsilon)
    if paper:
        assert abs(signs.lean - 4 * signs.tilt) <= Fraction(8, 2**20)
        assert (
            signs.after_intrusions(intrusions).gap
            < find_best_signs(epsilon, intrusions, Fraction(1), False).after_intrusions(intrusions).gap
        )


def test_laws_near_the_best_one_exceed_the_loss() -> None:
    signs = find_best_signs(Fraction(1), 0, Fraction(1), False)
    limit = Fraction(exp(1))
    for step in (Fraction(99, 100), Fraction(101, 100)):
        tilt, lean = signs.tilt * step, signs.lean / step * Fraction(1002, 1000)
        assert law.worst_ratio(SignLaw(tilt, lean)) > limit


def estimates(claim: ContinualDensity, users: int, ticks: int = 32, runs: int = 40) -> list[Any]:
    """Return estimates of runs with this number of users, each of whom comes often."""
    source, chance, found = InsecureNoise(5), np.random.default_rng(1), []
    for _ in range(runs):
        run = claim.start(source)
        for tick in range(ticks):
            slots = np.full(100, -1)
            slots[:60] = chance.permutation(users)[:60]
            told = run.step(slots)
            if claim.intrusions and tick == ticks // 2:
                run.intrude()
        found.append(told)
    return found


@pytest.mark.parametrize(
    "settings", [{}, {"law": "paper"}, {"counter": COUNTER}, {"intrusions": 1}], ids=["best", "paper", "noisy", "told"]
)
def test_estimates_are_right_and_err_as_predicted(settings: dict[str, Any]) -> None:
    claim = ContinualDensity(sg.Pure(8), universe=200, **settings)
    found = estimates(claim, 100)
    values = np.array([each.value for each in found])
    stated = float(np.median([each.stddev for each in found]))
    assert abs(values.mean() - 0.5) < 7 * stated / np.sqrt(len(values))
    assert 0.5 * stated < values.std(ddof=1) < 1.6 * stated
    low, high = found[0].interval(1 - 1e-9)
    assert low <= 0.5 <= high
    assert stated == pytest.approx(claim.stddev(0.5, claim.intrusions, slots=3200, ticks=32), rel=0.1)


@pytest.mark.parametrize("users", [-np.ones(40, np.int64), np.full(40, 2**64 - 1, np.uint64), [-1, -1.0, None]])
def test_empty_slots_change_no_bit_of_hashed_users(users: Any) -> None:
    """If -1 were a user with a cell, every empty slot would redraw its bit."""
    run = ContinualDensity(sg.Pure(8), universe=2, hashed=True).start()
    before = read_state(run).bits
    for tick in range(1, 31):
        run.step(users)
        assert np.array_equal(read_state(run).bits, before)
        assert read_state(run).stretches[1, 0] == tick * len(users)


@pytest.mark.parametrize("load", [7, 10])
def test_interval_holds_more_users_than_cells(load: int) -> None:
    claim = ContinualDensity(sg.Pure(20), universe=100, hashed=True)
    for seed in range(5):
        told = replace(claim, seed=seed).start(InsecureNoise(seed)).step(np.arange(100 * load))
        low, high = told.interval(0.95)
        assert low <= load < high


@pytest.mark.parametrize(
    ("settings", "came", "value"),
    [({"hashed": True}, 400, 1.0), ({"sample": 40, "universe": 2000}, 1000, 0.5), ({"intrusions": 1}, 200, 0.5)],
    ids=["hashed", "sampled", "told"],
)
def test_predicted_errors_are_those_of_estimates(settings: dict[str, Any], came: int, value: float) -> None:
    claim = ContinualDensity(sg.Pure(20), **{"universe": 400, **settings})
    values, source = [], InsecureNoise(3)
    for seed in range(60):
        run = replace(claim, seed=seed).start(source)
        for half in (np.arange(came // 2), np.arange(came // 2, came)):
            told = run.step(half)
            if claim.intrusions and not run.intrusions:
                run.intrude()
        values.append(told.value)
    asked: dict[str, Any] = {"intrusions": claim.intrusions, "slots": came, "ticks": 2}
    predicted = claim.stddev(value, **asked)
    assert 0.5 * predicted < np.std(values) < 1.7 * predicted
    assert claim.stddev(**asked) >= predicted * (1 - 1e-9)


def test_interval_before_the_first_slot_is_zero() -> None:
    run = ContinualDensity(sg.Pure(1), universe=9).start()
    assert run.estimate().interval() == (0.0, 0.0)
    assert run.step([]).interval() == (0.0, 0.0)


class Handed(InsecureNoise):
    """Noise that records all its draws."""

    def __init__(self) -> None:
        super().__init__(4)
        self.drawn: list[Any] = []

    def coins(self, chance: Fraction, size: int) -> Any:
        self.drawn.append(super().coins(chance, size))
        return self.drawn[-1]


def test_intrusion_overwrites_its_flips_and_the_old_counter() -> None:
    """The second flips and the copied state together would reveal the current bits."""
    noise = Handed()
    run = ContinualDensity(sg.Pure(4), universe=99, intrusions=1, counter=COUNTER).start(noise)
    run.step(np.arange(99))
    noise.drawn.clear()
    with run._locked() as state:
        old = state.counter
    run.intrude()
    assert len(noise.drawn) == 2
    assert not any(flips.any() for flips in noise.drawn)
    assert not old.entries.any()


@pytest.mark.parametrize("size", [0, 1, 500, 5000, 70_000])
def test_deduplication_finds_each_place_once(size: int) -> None:
    chance = np.random.default_rng(size)
    for places in (chance.integers(0, size // 2 + 1, size), chance.permutation(size) << 20):
        with WipedArrays() as secret:
            assert np.array_equal(np.sort(deduplicate(places, secret)), np.unique(places))


def test_other_constant_of_the_paper_halves_the_estimate() -> None:
    """The proof has epsilon^2 = 2 gap, the figure epsilon^2/2: the broken twin is biased."""
    claim = ContinualDensity(sg.Pure(8), universe=100, law="paper")
    source = InsecureNoise(2)
    values = np.array([claim.start(source).step(np.arange(100)).value for _ in range(600)])
    deviation = values.std(ddof=1) / np.sqrt(len(values))
    halved = values / 2
    assert abs(halved.mean() - 1) > 7 * deviation / 2
    assert abs(values.mean() - 1) < 7 * deviation


def test_empty_slots_of_any_kind_and_strangers_are_slots() -> None:
    claim = ContinualDensity(sg.Pure(8), universe=5)
    run = claim.start()
    run.step([None, -1, "x", 2.5, 7, 3])
    run.step([])
    assert read_state(run).stretches[:2, 0].tolist() == [2, 6]


def test_repeated_user_in_a_tick_has_one_biased_sign() -> None:
    claim = ContinualDensity(sg.Pure(8), universe=1)
    source, ones = InsecureNoise(9), 0
    for _ in range(2000):
        run = claim.start(source)
        run.step([0, 0, 0])
        ones += int(read_state(run).stretches[2, 0])
    expected = 2000 * (1.5 + float(claim.signs.gap))
    assert abs(ones - expected) < 7 * np.sqrt(2000 * 0.75)


def test_latest_estimate_is_repeated_without_charge() -> None:
    run = ContinualDensity(sg.Pure(1), universe=9).start()
    told = run.step([1, 2, 3])
    assert run.estimate().value == told.value


def test_announced_intrusions_begin_another_counter_and_are_limited() -> None:
    counter = Binary(sg.Pure("1/100"), horizon=7, pan_private=True)
    run = ContinualDensity(sg.Pure(4), universe=9, intrusions=1, counter=counter).start(InsecureNoise(1))
    for _ in range(7):
        run.step([1])
    with pytest.raises(LimitExceededError, match=r"^tick must be at most the counter's horizon 7, got 8$"):
        run.step([1])
    seen = run.intrude()
    with run._locked() as state:
        assert not np.shares_memory(seen.bits, state.bits)
        assert not np.array_equal(seen.counter.entries, state.counter.entries)
    run.step([1])
    with pytest.raises(LimitExceededError, check=has_code("intrusions_exhausted")):
        run.intrude()


@pytest.mark.parametrize(
    "counter",
    [
        Binary(sg.Pure(1), horizon=8),
        Binary(sg.Zcdp(1), horizon=8, pan_private=True),
        Binary(sg.Pure(1), horizon=8, pan_private=True, bound=2),
    ],
)
def test_a_counter_must_be_pan_private_and_pure(counter: Any) -> None:
    with pytest.raises(ValueError, match=r"^counter must be a pan-private mechanism of pure loss for one event"):
        ContinualDensity(sg.Pure(1), universe=9, counter=counter)


def test_nonlinear_counter_is_refused() -> None:
    counter: Any = CascadingBuffers(sg.Pure(1), horizon=8)
    with pytest.raises(
        ValueError, match=r"^counter must be linear, since intervals need the law of its noise apart from"
    ):
        ContinualDensity(sg.Pure(1), universe=9, counter=counter)


def test_signs_through_any_counter_lose_no_more_than_their_product() -> None:
    """Two signs that are not fair pass through counters, one of which reveals both at once."""
    ratio, odds = Fraction(3), (Fraction(7, 10), Fraction(2, 5))
    fidelity = (ratio - 1) / (ratio + 1)
    pairs = list(product((0, 1), repeat=2))
    for likelihoods in product((Fraction(1), ratio, ratio**2), repeat=4):
        told = dict(zip(pairs, likelihoods, strict=True))
        if any(told[a, b] > ratio * told[c, d] for a, b in pairs for c, d in pairs if (a == c) != (b == d)):
            continue  # has no epsilon for one slot
        fair = sum(told.values()) / 4
        for one, two in product((odds[0], 1 - odds[0]), (odds[1], 1 - odds[1])):
            chances = {(a, b): (one if a else 1 - one) * (two if b else 1 - two) for a, b in pairs}
            most = (1 + abs(2 * one - 1) * fidelity) * (1 + abs(2 * two - 1) * fidelity)
            least = (1 - abs(2 * one - 1) * fidelity) * (1 - abs(2 * two - 1) * fidelity)
            assert least <= sum(chances[p] * told[p] for p in pairs) / fair <= most


def test_a_counter_must_count_all() -> None:
    with pytest.raises(ValueError, match=r"^counter must add up all ticks"):
        ContinualDensity(sg.Pure(1), universe=9, counter=WindowSum(sg.Pure(1), window=2, pan_private=True))


def test_ticks_are_steps() -> None:
    run = ContinualDensity(sg.Pure(1), universe=9).start()
    for refused in (run.add, run.remove):
        with pytest.raises(TypeError, match="must not be called on ContinualDensity"):
            refused([1])
    with pytest.raises(TypeError, match=r"^users must be a batch such as an array or a list, got generator$"):
        run.step(user for user in (1, 2))
    assert run.record["releases"] == 0


def test_a_save_holds_the_law_and_is_refused_under_another(monkeypatch):
    """The search uses floats, so another version may find another law for these settings."""
    claim = ContinualDensity(sg.Pure(2), universe=50, intrusions=1)
    run = claim.start(noise=InsecureNoise(1))
    run.step(np.arange(20))
    saved = run.save()
    again = ContinualDensity(sg.Pure(2), universe=50, intrusions=1)
    assert again.load(saved).record == run.record
    other = ContinualDensity(sg.Pure(2), universe=50, intrusions=1)
    monkeypatch.setitem(other.__dict__, "signs", replace(claim.signs, keep=claim.signs.keep - Fraction(1, 2**20)))
    assert repr(other) == repr(claim)
    with pytest.raises(InvalidSaveError, match="one without its law is of an earlier version") as refused:
        other.load(saved)
    assert str(claim.signs.keep.numerator) in str(refused.value)


def test_save_identity_contains_the_counter():
    counter = Binary(sg.Pure(1), horizon=16, pan_private=True)
    claim = ContinualDensity(sg.Pure(2), universe=50, counter=counter)
    assert claim.identity().endswith(counter.identity())


def test_save_of_an_earlier_version_is_refused():
    claim = ContinualDensity(sg.Pure(2), universe=50)
    run = claim.start(noise=InsecureNoise(1))
    earlier = pack(repr(claim), 50, run.record, run._state)
    with pytest.raises(InvalidSaveError, match="one without its law is of an earlier version"):
        claim.load(earlier)
