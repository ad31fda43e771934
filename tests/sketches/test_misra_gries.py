"""Private Misra-Gries: the neighbour lemma, the exact loss by enumeration, thresholds, broken twins."""

from fractions import Fraction
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.noise import DiscreteLaplace
from streamgauge.sketches import MisraGries
from streamgauge.sketches.misra_gries import (
    MisraGriesTable,
    count_all,
    encode_key,
    find_threshold,
    publication_probability,
)
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise
from tests.support.sketch_streams import zipf_items

Table = dict[bytes, int]
MILLIONTH = Fraction(1, 10**6)


def build_misra_gries(size: int, stream: Any) -> MisraGriesTable:
    """Return the table after a stream."""
    table = MisraGriesTable(size)
    table.update([encode_key(item) for item in stream])
    return table


def tables(size: int, universe: int, events: int) -> set[tuple[tuple[tuple[bytes, int], ...], ...]]:
    """Return the pairs of tables of all streams and of those with one event less."""
    found = set()
    for stream in product(range(universe), repeat=events):
        whole = tuple(build_misra_gries(size, stream).items())
        for place in range(events):
            found.add((whole, tuple(build_misra_gries(size, stream[:place] + stream[place + 1 :]).items())))
    return found


@pytest.mark.parametrize(("size", "universe", "events"), [(2, 4, 5), (3, 4, 5), (2, 3, 7)])
def test_neighbouring_tables_differ_in_one_counter_or_in_all(size: int, universe: int, events: int) -> None:
    kinds = set()
    for one, other in tables(size, universe, events):
        whole, less = dict(one), dict(other)
        for here, there in ((whole, less), (less, whole)):
            foreign = here.keys() - there.keys()
            assert len(foreign) <= 2
            assert all(here[key] <= 1 for key in foreign)
        moves = {key: whole.get(key, 0) - less.get(key, 0) for key in whole.keys() | less.keys()}
        changed = sum(move != 0 for move in moves.values())
        kinds.add("one" if changed <= 1 else "all")
        assert set(moves.values()) <= {0, 1} or set(moves.values()) <= {0, -1}
    assert kinds == {"one", "all"}


def hockey_stick(one: Table, other: Table, epsilon: float, threshold: int, shared: bool = True) -> float:
    """Return the exact delta at epsilon of two tables, over all published counts."""
    noise, far = DiscreteLaplace(Fraction(1) / Fraction(epsilon)), int(25 / epsilon)
    counts = np.arange(threshold, threshold + far)
    pmf = np.array([noise.pmf(k) for k in range(3 * far + 2 * threshold)])
    keys = sorted(one)  # outputs with other keys have no probability under `one`
    laws = []
    for table in (one, other):
        joint: Any = 0.0
        for eta in range(-far, far + 1) if shared else [0]:
            weight = noise.pmf(eta) if shared else 1.0
            outcome: Any = np.array(weight)
            for key in keys:
                if key in table:
                    reached = pmf[np.abs(counts - table[key] - eta)]
                    law = np.append(reached, 1 - noise.tail(threshold - table[key] - eta))
                else:
                    law = np.append(np.zeros(len(counts)), 1.0)
                outcome = outcome[..., None] * law
            for key in table.keys() - one.keys():
                outcome = outcome * (1 - noise.tail(threshold - table[key] - eta))
            joint = joint + outcome
        laws.append(joint)
    return float(np.maximum(laws[0] - exp(epsilon) * laws[1], 0).sum())


@pytest.mark.parametrize("epsilon", [1, 2])
def test_the_loss_of_every_pair_of_tables_is_as_claimed(epsilon: int) -> None:
    delta = Fraction(1, 1000)
    claim = MisraGries(sg.Approx(epsilon, delta), counters=2)
    pairs = {pair for pair in tables(2, 3, 4) if pair[0] != pair[1]}
    ordered = [order for pair in pairs for order in (pair, pair[::-1])]
    deltas = [hockey_stick(dict(one), dict(other), epsilon, claim.threshold) for one, other in ordered]
    assert 0.1 * claim.missed < max(deltas) <= claim.missed <= delta


def test_without_shared_noise_the_loss_is_exceeded() -> None:
    """Broken twin: a common decrement moves every counter, so that two keys cost twice epsilon."""
    one, other = {b"n1": 30, b"n2": 30}, {b"n1": 29, b"n2": 29}
    assert hockey_stick(one, other, 1, 18) < 1e-6
    assert hockey_stick(one, other, 1, 18, shared=False) > 0.05


def test_a_lower_threshold_exceeds_delta() -> None:
    """Broken twin: one less than the bound allows is not covered by it; four less breaks the claim."""
    noise, threshold = DiscreteLaplace(Fraction(1)), find_threshold(Fraction(1), MILLIONTH)
    assert publication_probability(noise, threshold - 1) > 1e-6 >= publication_probability(noise, threshold)
    assert hockey_stick({b"n1": 1, b"n2": 1}, {b"n1": 1}, 1, threshold - 4) > 1e-6


@pytest.mark.parametrize(
    ("epsilon", "delta", "threshold"),
    [("1", "1e-6", 18), ("1", "1e-9", 26), ("1/2", "1e-6", 35), ("1/10", "1e-6", 168)],
)
def test_thresholds_are_those_of_the_exact_tail(epsilon: str, delta: str, threshold: int) -> None:
    assert find_threshold(Fraction(epsilon), Fraction(delta)) == threshold


def test_the_least_delta_has_an_exact_threshold() -> None:
    claim = MisraGries(sg.Approx(1, Fraction(1, 10**280)), counters=4)
    assert 0 < claim.missed <= 1e-280 < publication_probability(claim.distribution, claim.threshold - 1)


def test_publication_probability_matches_simulation() -> None:
    noise = DiscreteLaplace(Fraction(2))
    draws = noise.draw(InsecureNoise(4), 5 * 200_000).reshape(5, -1)
    found = (draws[0] + draws[1:].max(axis=0) >= 5).mean()
    assert found == pytest.approx(publication_probability(noise, 6), abs=6 * 0.5 / 200_000**0.5)


def test_counters_are_short_by_at_most_their_bound() -> None:
    items = zipf_items(1, 20_000)
    truth = count_all(items)
    for size in (5, 30, 100, 20_000):
        run = MisraGries(sg.Approx(1, MILLIONTH), counters=size).start(SilentNoise())
        run.update(items)
        found = run.release()
        short = [truth[item] - count for item, count in found.counts.items()]
        assert min(short) >= 0
        assert max(short) <= run.claim.largest_shortfall(20_000)
        missing = max([count for item, count in truth.items() if item not in found.counts], default=0)
        assert missing < run.claim.threshold + run.claim.largest_shortfall(20_000)


def test_tables_match_the_algorithm_written_plainly() -> None:
    """The smallest key at 0 is replaced; dummies are smaller than items."""

    def plainly(size: int, stream: Any) -> Table:
        counts = {b"d%d" % place: 0 for place in range(size)}
        for item in stream:
            key = b"n%d" % item
            if key in counts:
                counts[key] += 1
            elif zeros := sorted(each for each, count in counts.items() if not count):
                del counts[zeros[0]]
                counts[key] = 1
            else:
                counts = {each: count - 1 for each, count in counts.items()}
        return {each: count for each, count in counts.items() if each[:1] != b"d"}

    rng = np.random.default_rng(3)
    for _ in range(200):
        stream = rng.integers(0, 6, 30).tolist()
        assert dict(build_misra_gries(3, stream).items()) == plainly(3, stream)


def test_each_release_begins_an_empty_epoch() -> None:
    run = MisraGries(sg.Approx(1, MILLIONTH), counters=4).start(SilentNoise())
    run.update(["tea"] * 50)
    assert run.release().counts == {"tea": 50}
    run.update(["salt"] * 20 + ["tea"] * 30 + [""] * 19 + [7] * 18)
    second = run.release()
    assert list(second.counts.items()) == [("tea", 30), ("salt", 20), ("", 19), (7, 18)]
    assert second.epoch == run.epochs == 2
    assert run.release().counts == {}


def test_all_keys_share_one_draw() -> None:
    run = MisraGries(sg.Approx(1, MILLIONTH), counters=2).start(InsecureNoise(1))
    sums, differences = [], []
    for _ in range(800):
        run.update([1] * 40 + [2] * 40)
        counts = run.release().counts
        sums.append(counts[1] + counts[2] - 80)
        differences.append(counts[1] - counts[2])
    variance = DiscreteLaplace(Fraction(1)).variance
    assert np.var(sums) == pytest.approx(6 * variance, rel=0.4)
    assert np.var(differences) == pytest.approx(2 * variance, rel=0.4)


@pytest.mark.parametrize("items", [[], ["tea"], ["tea"] * 50 + ["salt"] * 30])
def test_the_number_of_draws_does_not_depend_on_items(items: list[str]) -> None:
    noise = CountedNoise(SilentNoise())
    run = MisraGries(sg.Approx(1, MILLIONTH), counters=4).start(noise)
    run.update(items)
    run.release()
    assert noise.requests == [("laplace", Fraction(1), 5)]


def test_a_loaded_run_continues_alike() -> None:
    claim = MisraGries(sg.Approx(1, MILLIONTH), counters=5)
    noise = InsecureNoise(2)
    run = claim.start(noise)
    run.update(["ä", 3, -4, 2**64 - 1, "", *[5] * 30, *["x"] * 25, *range(10)])
    twin = claim.load(run.save(), noise.clone())
    for each in (run, twin):
        each.update([5] * 10 + [1, 2, 3])
    assert run.release() == twin.release()
    with pytest.raises(InvalidSaveError):
        MisraGries(sg.Approx(1, MILLIONTH), counters=6).load(run.save())


def test_hostile_items_are_counted_as_the_empty_text() -> None:
    run = MisraGries(sg.Approx(1, MILLIONTH), counters=8).start(SilentNoise())
    run.update([None, True, float("nan"), object(), 2**70, b"x"] * 10 + ["y" * 10**5] * 30)
    assert run.release().counts == {"": 60, "y" * 10**5: 30}


def test_several_items_of_a_unit_cost_by_group_privacy() -> None:
    claim = MisraGries(sg.Approx(1, MILLIONTH), items_per_unit=4)
    part = claim.item_loss
    assert part.epsilon == Fraction(1, 4)
    assert float(part.delta) * (exp(1) - 1) / (exp(0.25) - 1) <= 1e-6
    assert claim.threshold == find_threshold(part.epsilon, part.delta) > 4 * 18


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"loss": sg.Pure(1)}, "loss must be Approx"),
        ({"counters": 0}, "counters must be a whole number of at least 1, got 0"),
        ({"counters": 2**25}, "counters must be at most 2\\*\\*24"),
        ({"items_per_unit": 0}, "items_per_unit must be a whole number of at least 1"),
        ({"loss": sg.Approx(1, Fraction(1, 10**400))}, "delta of an item must be at least 1e-280"),
        ({"loss": sg.Approx(1, Fraction(1, 10**280)), "items_per_unit": 2}, "delta of an item must be at least 1e-280"),
        ({"loss": sg.Approx(800, MILLIONTH)}, "epsilon must be at most 256, got 800"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        MisraGries(**{"loss": sg.Approx(1, MILLIONTH), **settings})
