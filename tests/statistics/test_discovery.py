"""Laws of discovery: a key that only one unit has is published with probability at most delta, exactly.

All noise values are enumerated, and thresholds are tried from both sides.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import exp
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import streamgauge as sg
from streamgauge.continual import Kary, SimpleII, SquareRoot, WindowSum
from streamgauge.noise import Distribution, NoiseSum
from streamgauge.privacy import Sensitivity, Tick
from streamgauge.statistics.keys.discovery import KeyExposure, KeySelection, upper_noise_quantile
from streamgauge.statistics.keys.top_k import TopK
from streamgauge.testing.noise import InsecureNoise
from tests.support.exact_loss import declared, worst

FIFTH = Fraction(1, 5)
LOSS = sg.Approx(1, FIFTH)
FAR = 60  # noise beyond has less than 1e-12 of the mass here


def masses(law: Distribution) -> np.ndarray:
    return np.array([law.pmf(k) for k in range(-FAR, FAR + 1)])


def sums(noise: NoiseSum) -> np.ndarray:
    """The exact law of a sum of equal draws, about the middle of the array."""
    (term,) = noise.terms
    assert term.weight == 1
    law = np.ones(1)
    for _ in range(term.count):
        law = np.convolve(law, masses(term.distribution))
    return law


def tail(noise: NoiseSum, beyond: float) -> float:
    """P(noise > beyond), exactly."""
    law = sums(noise)
    places = np.arange(len(law)) - len(law) // 2
    return float(law[places > beyond].sum())


CLAIMS = {
    "simple": {"horizon": 8, "mechanism": SimpleII},
    "tree": {"horizon": 9, "mechanism": Kary},
    "each tick": {"horizon": 8, "window": "each"},
    "window": {"horizon": 8, "window": "sliding 3"},
    "users": {"horizon": 8, "mechanism": SimpleII, "unit": sg.User(2, 2)},
    "often": {"horizon": 8, "window": "each", "unit": sg.User(4, 1), "max_keys": 1},
    "replaced": {"horizon": 8, "mechanism": SimpleII, "unit": sg.Event(replace=True)},
}
every_claim = pytest.mark.parametrize("settings", CLAIMS.values(), ids=CLAIMS)


def pure(settings: Any) -> KeySelection:
    """Return thresholds for counters of pure epsilon, with Laplace noise."""
    claim = TopK(LOSS, k=1, **settings)
    return KeySelection(claim.build_counter(sg.Pure(1)), FIFTH, claim.exposure, claim.at_least)


def rounds(selection: KeySelection, settings: Any) -> list[int]:
    """Return the largest set of ticks at which one key of a unit is eligible."""
    most = (selection.exposure.pairs or 0) // selection.exposure.keys
    assert most <= settings["horizon"]
    return list(range(1, settings["horizon"] + 1))[-most:]


@every_claim
def test_one_units_keys_are_published_with_probability_at_most_delta(settings: Any) -> None:
    """Union bound for all keys and ticks, each with the largest addition of the unit."""
    selection = pure(settings)
    most = selection.exposure.max_per_key
    chances = [tail(selection.counter.noise_at(t), selection.threshold(t) - most) for t in rounds(selection, settings)]
    assert sum(chances) * selection.exposure.keys <= float(selection.delta)


@every_claim
def test_thresholds_are_the_least_sufficient_integers(settings: Any) -> None:
    """A twin that compares with >= instead of > exceeds its share at every tick."""
    selection = pure(settings)
    for t in rounds(selection, settings):
        beyond = selection.threshold(t) - selection.exposure.max_per_key
        share = float(selection.exposure.delta_share(selection.delta, t))
        assert beyond == int(beyond)
        assert tail(selection.counter.noise_at(t), beyond) <= share < tail(selection.counter.noise_at(t), beyond - 1)


def ever(selection: KeySelection, first: int, last: int, thresholds: Any) -> float:
    """Return P(key with V events from tick `first` is published by `last`), summed noise."""
    (term,) = selection.counter.noise_at(1).terms
    draw, most = masses(term.distribution), selection.exposure.max_per_key
    alive, published = np.ones(1), 0.0
    for tick in range(1, last + 1):
        alive = np.convolve(alive, draw)
        places = np.arange(len(alive)) - len(alive) // 2
        over = (places + most > thresholds(tick)) & (tick >= first)
        published += float(alive[over].sum())
        alive = np.where(over, 0.0, alive)
    return published


def test_joint_publication_probability_is_close_below_delta() -> None:
    selection = pure(CLAIMS["simple"])
    chances = [ever(selection, first, 8, selection.threshold) for first in range(1, 9)]
    assert max(chances) <= float(FIFTH)
    assert max(chances) > float(FIFTH) / 4


TWINS: dict[str, tuple[str, Any]] = {
    "compares with at least": ("each tick", lambda s, t: s.threshold(t) - 1),
    "without what the unit adds": ("often", lambda s, t: s.threshold(t) - s.exposure.max_per_key),
    "delta not split over ticks": (
        "simple",
        lambda s, t: s.exposure.max_per_key + upper_noise_quantile(s.counter.noise_at(t), s.delta),
    ),
    "the noise of the first tick": (
        "simple",
        lambda s, t: (
            s.exposure.max_per_key + upper_noise_quantile(s.counter.noise_at(1), s.exposure.delta_share(s.delta, t))
        ),
    ),
}
every_twin = pytest.mark.parametrize(("name", "twin"), TWINS.values(), ids=TWINS)


@every_twin
def test_twins_publish_one_units_key_too_often(name: str, twin: Any) -> None:
    selection = pure(CLAIMS[name])
    last = 8 if name == "simple" else 1
    assert ever(selection, 1, last, selection.threshold) <= float(FIFTH)
    assert ever(selection, 1, last, lambda tick: twin(selection, tick)) > float(FIFTH)


KEYS = 20_000


def published(name: str, thresholds: Any) -> int:
    """Return the number of published keys, each with the largest addition of one user."""
    claim = TopK(LOSS, k=KEYS, **CLAIMS[name])
    known = {tick: thresholds(claim.selection, tick) for tick in range(1, 9)}

    class KnownSelection(KeySelection):
        def threshold(self, tick: int) -> float:
            return float(known[tick])

    class Twin(TopK):
        @property
        def selection(self) -> KeySelection:  # type: ignore[override]  # cached in the class itself
            return KnownSelection(**vars(claim.selection))

    run = Twin(LOSS, k=KEYS, **CLAIMS[name]).start(noise=InsecureNoise(7))
    keys = np.repeat(np.arange(KEYS), claim.exposure.max_per_key)
    run.step(keys, users=keys)
    for _ in range(7):
        last = run.step()
    return len(last.keys[0])


@pytest.mark.parametrize("name", ["simple", "each tick", "often"])
def test_share_of_single_user_keys_published_is_below_delta(name: str) -> None:
    found = published(name, KeySelection.threshold)
    assert binom.sf(found - 1, KEYS, float(FIFTH)) > 1e-9
    assert found > KEYS * float(FIFTH) / 8


@every_twin
def test_the_statistics_catch_every_twin(name: str, twin: Any) -> None:
    assert binom.sf(published(name, twin) - 1, KEYS, float(FIFTH)) < 1e-9


Outcome = dict[Any, float]


def outcomes(selection: KeySelection, counts: tuple[int, int], threshold: Any) -> Outcome:
    """Return the law of both ticks' releases of one key with these counts, summed noise."""
    (term,) = selection.counter.noise_at(1).terms
    law: Outcome = {}
    places = range(-25, 26)
    for first, second in product(places, places):
        chance = term.distribution.pmf(first) * term.distribution.pmf(second)
        noisy = (counts[0] + first, counts[1] + first + second)
        answer: list[Any] = []
        for tick in (1, 2):
            shown = noisy[tick - 1] > threshold(tick) and counts[tick - 1] >= selection.at_least
            answer.append(noisy[tick - 1] if shown or (answer and answer[0] is not None) else None)
        law[tuple(answer)] = law.get(tuple(answer), 0.0) + chance
    return law


def slack(one: Outcome, two: Outcome, epsilon: float) -> float:
    """The least delta with P(one in S) <= e^epsilon P(two in S) + delta for all S."""
    return sum(max(0.0, p - exp(epsilon) * two.get(answer, 0.0)) for answer, p in one.items())


NEIGHBOURS = [
    ((0, 0), (1, 1)),
    ((0, 0), (0, 1)),
    ((0, 1), (1, 2)),
    ((0, 3), (1, 4)),
    ((2, 2), (3, 3)),
    ((1, 9), (1, 10)),
]


def worst_slack(selection: KeySelection, threshold: Any) -> float:
    pairs = [(outcomes(selection, a, threshold), outcomes(selection, b, threshold)) for a, b in NEIGHBOURS]
    return max(max(slack(a, b, 1.0), slack(b, a, 1.0)) for a, b in pairs)


@pytest.mark.one_of_each
@pytest.mark.parametrize("at_least", [1, 2, 3])
def test_all_that_two_ticks_release_keeps_epsilon_and_delta(at_least: int) -> None:
    """This includes keys that another person adds later, and keys at the pre-threshold."""
    selection = pure({"horizon": 2, "mechanism": SimpleII, "at_least": at_least})
    assert worst_slack(selection, selection.threshold) <= float(FIFTH) + 1e-9


def test_twins_do_not_keep_epsilon_and_delta() -> None:
    plain = pure({"horizon": 2, "mechanism": SimpleII})
    assert worst_slack(plain, lambda t: plain.threshold(t) - 2) > float(FIFTH)
    raised = pure({"horizon": 2, "mechanism": SimpleII, "at_least": 3})
    assert worst_slack(raised, lambda t: raised.threshold(t) - 2) > float(FIFTH)


UNITS = [
    sg.Event(),
    sg.Event(replace=True),
    sg.Event(replace=True, moves=True),
    sg.WEvent(2),
    sg.WEvent(2, replace=True),
    Tick(2),
    sg.User(1, 2),
    sg.User(2, 1),
]
PLACES = list(product(range(3), "ab"))  # (tick, key)
Placed = tuple[tuple[int, str], ...]


def worlds(unit: Any) -> Iterator[tuple[Placed, Placed]]:
    """Yield every placement of one unit's events in the two streams."""
    whole = unit.events * (1 if isinstance(unit, sg.Event) else unit.ticks)
    own = [p for size in range(whole + 1) for p in combinations([*PLACES, *PLACES], size) if fits(unit, p)]
    for one in set(own):
        yield from ((one, two) for two in set(own) if unit.replace and replaced(unit, one, two))
        yield one, ()


def fits(unit: Any, own: Placed) -> bool:
    ticks = sorted({tick for tick, _ in own})
    most = max((sum(p[0] == tick for p in own) for tick in ticks), default=0)
    near = not unit.consecutive or not ticks or ticks[-1] - ticks[0] < unit.ticks
    return most <= unit.events and len(ticks) <= unit.ticks and near


def replaced(unit: Any, one: Placed, two: Placed) -> bool:
    return getattr(unit, "moves", False) or sorted(p[0] for p in one) == sorted(p[0] for p in two)


def trajectory(claim: TopK, events: Placed) -> tuple[np.ndarray, np.ndarray]:
    """Return the eligibility of a and b at each tick, and the exact vectors."""
    memory = claim.initial_memory(1)
    eligible, vectors = np.zeros((3, 2), bool), np.zeros((3, 2), np.int64)
    for tick in range(3):
        keys = np.array([key for at, key in events if at == tick], object)
        marks = claim.build_increments([keys], np.zeros(len(keys), int), 1, memory)
        columns = ["ab".index(key) for key in memory.keys]
        eligible[tick, columns] = memory.find_eligible(claim.at_least, claim.window_ticks)[: len(columns)]
        np.add.at(vectors[tick], [columns[place] for place in marks.places[:, 0]], 1)
    return eligible, vectors


def in_window(vectors: np.ndarray, span: int | None) -> np.ndarray:
    return np.array([vectors[max(0, t + 1 - (span or 9)) : t + 1].sum(axis=0) for t in range(3)])


OTHERS: list[Placed] = [(), ((1, "a"),), ((0, "a"), (2, "b")), ((1, "a"), (1, "a"), (2, "a"))]


@pytest.mark.one_of_each
@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("window", ["running", "each", "sliding 2"])
def test_no_unit_exposes_more_keys_ticks_or_events_than_declared(unit: Any, window: str) -> None:
    others = [()] if isinstance(unit, Tick) else OTHERS  # another's event of that tick might be cut off
    for at_least in (1, 2) if window != "sliding 2" else (1,):
        claim = TopK(LOSS, k=1, horizon=3, window=window, unit=unit, at_least=at_least)
        exposure, differences = claim.exposure, []
        for rest, (one, two) in product(others, worlds(unit)):
            (on, x), (off, y) = trajectory(claim, rest + one), trajectory(claim, rest + two)
            differ = on != off
            most = max(
                in_window(x, claim.window_ticks)[differ].max(initial=0),
                in_window(y, claim.window_ticks)[differ].max(initial=0),
            )
            assert differ.any(axis=0).sum() <= exposure.keys
            assert differ.sum() <= (exposure.pairs or 0)
            assert most <= exposure.max_per_key + at_least - 1
            differences.append(x - y)
        assert worst(claim, differences) <= declared(claim) * (1 + 1e-12)


BOUNDED = [(1, 1), (2, 1), (1, 3), (2, 2), (3, 2)]


@pytest.mark.parametrize(("max_keys", "max_per_key"), BOUNDED)
@pytest.mark.parametrize("mechanism", [SimpleII, Kary, SquareRoot])
def test_a_user_bounded_by_key_loses_no_more_than_declared(max_keys: int, max_per_key: int, mechanism: Any) -> None:
    """All placements of one user's events on three ticks and two keys."""
    loss = sg.Approx(1, Fraction(1, 100))
    unit = sg.User(2, 3)
    bounds = {"max_keys": max_keys, "max_per_key": max_per_key}
    claim = TopK(loss, k=1, horizon=3, unit=unit, mechanism=mechanism, **bounds)
    own = [np.array(cells).reshape(3, 2) for cells in product(range(3), repeat=6)]
    allowed = [
        d
        for d in own
        if (d.sum(axis=1) <= 2).all() and (d.sum(axis=0) <= max_per_key).all() and (d.sum(axis=0) > 0).sum() <= max_keys
    ]
    assert worst(claim, allowed) <= declared(claim) * (1 + 1e-12)
    assert max(int(d.sum()) for d in allowed) <= claim.exposure.events


def test_a_bound_by_key_is_worth_its_noise() -> None:
    unit = sg.User(1, 30)
    loose = TopK(sg.Approx(1, 1e-6), k=1, horizon=100, unit=unit)
    tight = TopK(sg.Approx(1, 1e-6), k=1, horizon=100, unit=unit, max_keys=30, max_per_key=1)
    assert tight.tick_sensitivity == Sensitivity(30, 30, 30)
    assert tight.selection.threshold(100) < loose.selection.threshold(100) / 2


def test_exposures_are_those_of_the_claim() -> None:
    assert KeyExposure.from_unit(sg.Event(), None, 10) == KeyExposure(1, 1, 1, 10)
    assert KeyExposure.from_unit(sg.Event(replace=True), None, 10) == KeyExposure(2, 1, 1, 20)
    assert KeyExposure.from_unit(sg.Event(replace=True, moves=True), 1, 10) == KeyExposure(2, 1, 1, 2)
    assert KeyExposure.from_unit(sg.User(2, 5), 3, None) == KeyExposure(10, 6, 10, 30)
    assert KeyExposure.from_unit(sg.User(4, 1), 1, 8, 1) == KeyExposure(1, 4, 4, 1)
    assert KeyExposure.from_unit(sg.User(2, 5), None, 10, 4, 1) == KeyExposure(4, 1, 4, 40)
    endless = KeyExposure.from_unit(sg.Event(), None, None)
    assert endless.pairs is None
    assert sum(endless.delta_share(FIFTH, t) for t in range(1, 1000)) < FIFTH


def test_the_split_of_the_lower_threshold_is_chosen() -> None:
    claim = TopK(sg.Approx(1, 1e-6), k=1, horizon=1000, unit=sg.User(1, 20), max_keys=20, max_per_key=1)
    assert claim.counter.loss == sg.Approx(1, 5e-7)
    assert claim.selection.delta == Fraction(1, 2 * 10**6)
    plain = TopK(sg.Approx(1, 1e-6), k=1, horizon=100)
    assert (plain.counter.loss, plain.selection.delta) == (sg.Pure(1), Fraction(1, 10**6))
    assert isinstance(TopK(LOSS, k=1, window="each").counter, WindowSum)
