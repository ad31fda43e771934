"""Sketch-Flip-Merge: exact losses of releases, looks and merges; estimates; broken twins."""

from fractions import Fraction
from itertools import permutations, product
from math import exp, log
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import streamgauge as sg
from streamgauge.continual.run import LimitExceededError
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.noise import EphemeralNoise, SecureNoise
from streamgauge.noise.bernoulli import flip_probability
from streamgauge.sketches import BitTable, DistinctEstimate, FlipMerge, ItemHash
from streamgauge.sketches.flip_merge import find_bits
from streamgauge.testing.noise import InsecureNoise
from tests.support.sketch_streams import KEY, key

Law = dict[tuple[int, ...], Fraction]
FLIPS = [Fraction(1, 3), Fraction(1, 10)]


def flipped(bit: int, flip: Fraction) -> dict[int, Fraction]:
    return {bit: 1 - flip, 1 - bit: flip}


def view_law(plan: str, visits: set[int], memory: Fraction, out: Fraction, second_flip: bool = True) -> Law:
    """Return the exact law of all that is seen of one bit: "r" a release, "l" a look at the memory.

    `visits` are the moments, before each place of the plan, at which the item comes.
    """
    laws: dict[tuple[int, tuple[int, ...]], Fraction] = {(1, ()): memory, (0, ()): 1 - memory}
    for place in range(len(plan) + 1):
        if place in visits:
            drawn: dict[tuple[int, tuple[int, ...]], Fraction] = {}
            for (_, seen), chance in laws.items():
                for bit, part in ((1, 1 - memory), (0, memory)):
                    drawn[bit, seen] = drawn.get((bit, seen), Fraction(0)) + chance * part
            laws = drawn
        if place == len(plan):
            break
        following: dict[tuple[int, tuple[int, ...]], Fraction] = {}
        for (bit, seen), chance in laws.items():
            shown = flipped(bit, out) if plan[place] == "r" and second_flip else {bit: Fraction(1)}
            for value, part in shown.items():
                following[bit, (*seen, value)] = following.get((bit, (*seen, value)), Fraction(0)) + chance * part
        laws = following
    found: Law = {}
    for (_, seen), chance in laws.items():
        found[seen] = found.get(seen, Fraction(0)) + chance
    return found


def worst_loss(plan: str, memory: Fraction, out: Fraction, second_flip: bool = True) -> float:
    """Return the largest log ratio between an absent item and any visits of it."""
    places, worst = range(len(plan)), 0.0
    absent = view_law(plan, set(), memory, out, second_flip)
    for pattern in product([0, 1], repeat=len(places)):
        present = view_law(plan, {p for p in places if pattern[p]}, memory, out, second_flip)
        for seen in absent.keys() | present.keys():
            one, other = absent.get(seen, Fraction(0)), present.get(seen, Fraction(0))
            if min(one, other) == 0 < max(one, other):
                return float("inf")
            if one:
                worst = max(worst, abs(log(one / other)))
    return worst


@pytest.mark.parametrize(("plan", "releases"), [("lr", 1), ("rl", 1), ("r", 1), ("rlr", 2), ("lrr", 2), ("rrl", 2)])
def test_a_look_and_all_releases_lose_at_most_the_claim(plan: str, releases: int) -> None:
    for epsilon, share in ((1, "1/2"), (3, "1/2"), (2, "3/4")):
        claim = FlipMerge(sg.Pure(epsilon), pan_private=True, releases=releases, memory_share=Fraction(share))
        assert worst_loss(plan, claim.memory_flip, claim.release_flip) <= epsilon
    assert worst_loss("lr", claim.memory_flip, claim.release_flip) > 0.7 * epsilon or releases > 1


def test_a_look_and_a_release_lose_as_computed_by_hand() -> None:
    one, half = flip_probability(Fraction(1)), flip_probability(Fraction(1, 2))
    assert worst_loss("lr", one, one) == pytest.approx(1.62, abs=0.01)
    assert worst_loss("lr", one, half) == pytest.approx(1.34, abs=0.01)


def test_a_release_without_second_flip_after_a_look_loses_everything() -> None:
    """Broken twin: the release shows the very bit that the look saw."""
    claim = FlipMerge(sg.Pure(1), pan_private=True)
    assert worst_loss("lr", claim.memory_flip, claim.release_flip, second_flip=False) == float("inf")


def test_one_release_of_exact_memory_loses_exactly_the_claim() -> None:
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(4)):
        claim = FlipMerge(sg.Pure(epsilon))
        assert claim.memory_flip == 0
        ratio = (1 - claim.flip) / claim.flip
        assert exp(epsilon) * (1 - 1e-7) < ratio <= exp(epsilon)


@pytest.mark.parametrize(("left", "right"), [*product(FLIPS, FLIPS), (Fraction(0), Fraction(1, 3))])
def test_merged_bits_have_exactly_the_law_of_the_union(left: Fraction, right: Fraction) -> None:
    one, two = (BitTable(np.zeros((1, 2), np.uint8), flip, KEY) for flip in (left, right))
    chances: dict[tuple[int, int], Fraction] = {(0, 0): Fraction(0)}

    class Recorded:
        """Coins that record their chances."""

        def coins(self, chance: Fraction, size: int) -> Any:
            asked.append(chance)
            return np.zeros(size, np.uint8)

    asked: list[Fraction] = []
    merged = one.merge(two, Recorded())  # type: ignore[arg-type]
    chances |= dict(zip([(1, 0), (0, 1), (1, 1)], asked, strict=True))
    assert all(0 <= chance <= 1 for chance in chances.values())
    for first, second in product([0, 1], repeat=2):
        ones = sum(
            flipped(first, left).get(a, Fraction(0)) * flipped(second, right).get(b, Fraction(0)) * chances[a, b]
            for a, b in product([0, 1], repeat=2)
        )
        assert ones == (1 - merged.flip if first | second else merged.flip)


def test_merged_losses_are_those_of_the_formula() -> None:
    for one, two, merged in ((1, 1, 0.51), (4, 2, 1.89)):
        tables = [BitTable(np.zeros((1, 2), np.uint8), flip_probability(Fraction(e)), KEY) for e in (one, two)]
        flip = tables[0].merge(tables[1]).flip
        assert log((1 - flip) / flip) == pytest.approx(merged, abs=0.01)


def test_plain_or_of_flipped_bits_is_found_out() -> None:
    """Broken twin: a merge without new coins sets too many bits for the flip that it states."""
    claim, total, wrong = FlipMerge(sg.Pure(1), buckets=256, levels=8), 0, 0
    runs = [claim.start(KEY, InsecureNoise(seed)) for seed in range(2)]
    one, two = (run.release() for run in runs)
    right = one.merge(two, InsecureNoise(5))
    total, wrong = int(right.bits.sum()), int((one.bits | two.bits).sum())
    law = binom(right.bits.size, float(right.flip))
    assert 1e-9 < law.cdf(total) < 1 - 1e-9
    assert law.sf(wrong) < 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("pan_private", [False, True])
def test_bits_in_memory_and_in_releases_have_their_chances(pan_private: bool) -> None:
    claim = FlipMerge(sg.Pure(2), buckets=1024, levels=8, pan_private=pan_private)
    items = np.arange(400)
    places = np.unique(find_bits(ItemHash(KEY), items, 1024, 8))
    run = claim.start(KEY, InsecureNoise(1))
    for _ in range(3):
        run.update(items)
    released = run.release().bits.ravel()
    absent = np.setdiff1d(np.arange(1024 * 8), places)
    assert binomtest(int(released[places].sum()), len(places), 1 - float(claim.flip)).pvalue > 1e-9
    assert binomtest(int(released[absent].sum()), len(absent), float(claim.flip)).pvalue > 1e-9
    memory = np.unpackbits(np.frombuffer(run.save(), np.uint8)[-32 - 1024 : -32])
    assert binomtest(int(memory[absent].sum()), len(absent), float(claim.memory_flip)).pvalue > 1e-9
    assert binomtest(int(memory[places].sum()), len(places), 1 - float(claim.memory_flip)).pvalue > 1e-9


def test_levels_are_geometric_and_buckets_uniform() -> None:
    places = find_bits(ItemHash(KEY), np.arange(1 << 16), 4, 4)
    for level, chance in enumerate([1 / 2, 1 / 4, 1 / 8, 1 / 8]):
        for bucket in range(4):
            count = int((places == bucket * 4 + level).sum())
            assert binomtest(count, 1 << 16, chance / 4).pvalue > 1e-10


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "number", "error"), [(1, 1000, 0.105), (1, 10**5, 0.027), (4, 10**4, 0.008)])
def test_estimates_have_the_documented_error_and_intervals_cover(epsilon: int, number: int, error: float) -> None:
    claim, runs = FlipMerge(sg.Pure(epsilon)), 40
    rng, flip = np.random.default_rng(1), float(claim.flip)
    depths = np.minimum(np.arange(1, 25), 23)
    errors, covered, stated = [], 0, []
    for _ in range(runs):
        per_level = rng.multinomial(number, 0.5**depths)
        filled = np.array([len(np.unique(rng.integers(0, 4096, count))) for count in per_level])
        ones = rng.binomial(filled, 1 - flip) + rng.binomial(4096 - filled, flip)
        found = DistinctEstimate(tuple(ones.tolist()), 4096, claim.flip)
        low, high = found.interval(0.95)
        errors.append(found.value / number - 1)
        covered += low <= number <= high
        stated.append(found.stddev / number)
    spread = float(np.std(errors))
    assert 0.6 * error < spread < 1.5 * error
    assert 0.7 < np.mean(stated) / spread < 1.9
    assert binom.cdf(covered, runs, 0.93) > 1e-6
    assert abs(np.mean(errors)) < 6 * spread / runs**0.5


def test_estimates_of_empty_and_full_sketches_are_finite() -> None:
    for ones in ((0,) * 8, (256,) * 8):
        found = DistinctEstimate(ones, 256, Fraction(1, 4))
        low, high = found.interval()
        assert 0 <= low <= found.value <= high < float("inf")
        assert found.stddev > 0


def test_exact_tables_merge_in_every_order() -> None:
    claim = FlipMerge(sg.Pure(1), buckets=64, levels=4)
    states = set()
    for order in permutations(range(3)):
        runs = [claim.start(KEY, InsecureNoise(9)) for _ in range(3)]
        for place, run in enumerate(runs):
            run.update(range(20 * place, 20 * place + 30))
        for place in order[1:]:
            runs[order[0]].merge_exact(runs[place])
        states.add(runs[order[0]].release().bits.tobytes())
    whole = claim.start(KEY, InsecureNoise(9))
    whole.update(range(70))
    assert states == {whole.release().bits.tobytes()}


def test_flipped_tables_merge_to_one_law_in_every_order() -> None:
    tables = [BitTable(np.zeros((2, 2), np.uint8), flip, KEY) for flip in (*FLIPS, Fraction(1, 4))]
    flips = {a.merge(b).merge(c).flip for a, b, c in permutations(tables)}
    assert len(flips) == 1


def test_releases_end_as_the_claim_says() -> None:
    run = FlipMerge(sg.Pure(1), buckets=16, levels=4).start()
    run.release()
    with pytest.raises(LimitExceededError, match="releases must be at most 1, got 1 more"):
        run.release()
    merged, other = (run.claim.start(KEY) for _ in range(2))
    merged.merge_exact(other)
    with pytest.raises(LimitExceededError):  # its items are in the other's release
        other.release()
    with pytest.raises(ValueError, match="other must be a run of the same claim and key"):
        merged.merge_exact(merged)
    fresh = merged.claim.start(KEY)
    merged.release()
    with pytest.raises(LimitExceededError, match="releases must be 0 before a merge"):
        merged.merge_exact(fresh)
    fresh.release()  # a refused merge takes nothing
    several = FlipMerge(sg.Pure(1), buckets=16, levels=4, pan_private=True, releases=2).start()
    several.release(), several.release()
    with pytest.raises(LimitExceededError):
        several.claim.load(several.save()).release()


@pytest.mark.parametrize("pan_private", [False, True])
def test_a_loaded_run_continues_bit_for_bit(pan_private: bool) -> None:
    claim = FlipMerge(sg.Pure(1), buckets=16, levels=4, pan_private=pan_private)
    noise = InsecureNoise(3)
    run = claim.start(None, noise)
    run.update(["tea", None, "", 2**70])
    twin = claim.load(run.save(), noise.clone())
    assert twin.key == run.key
    for each in (run, twin):
        each.update(["salt", object()])
    assert (run.release().bits == twin.release().bits).all()
    with pytest.raises(InvalidSaveError):
        FlipMerge(sg.Pure(2), buckets=16, levels=4).load(run.save())


def test_pan_private_runs_keep_no_key_of_noise() -> None:
    claim = FlipMerge(sg.Pure(1), buckets=16, levels=4, pan_private=True)
    with pytest.raises(ValueError, match="noise must keep no key in a pan-private run, got SecureNoise"):
        claim.start(noise=SecureNoise())
    assert isinstance(claim.start().source, EphemeralNoise)
    with pytest.raises(ValueError, match="other must be a run of the same claim and key with exact memory"):
        claim.start(KEY).merge_exact(claim.start(KEY))


def test_tables_of_other_keys_are_refused() -> None:
    one, two = (FlipMerge(sg.Pure(1), buckets=16, levels=4).start(key(i)) for i in range(2))
    with pytest.raises(ValueError, match="other must be a run of the same claim and key"):
        one.merge_exact(two)
    with pytest.raises(ValueError, match="other must be a table of the same key and shape"):
        one.release().merge(two.release())


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"loss": sg.Zcdp(1)}, "loss must be Pure and above 0"),
        ({"buckets": 100}, "buckets must be a power of 2"),
        ({"levels": 1}, "levels must be between 2 and 32"),
        ({"releases": 2}, "releases must be 1 unless pan_private is True, got 2"),
        ({"memory_share": 1}, "memory_share must be above 0 and below 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        FlipMerge(**{"loss": sg.Pure(1), **settings})
