"""Modular incidence: residues wrap exactly, and estimates have the stated error."""

from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.panprivate import ModularIncidence
from streamgauge.testing.noise import InsecureNoise
from tests.support.saved_states import read_state

PLAIN = sg.Pure(4000)  # noise is almost always 0
every_modulus = pytest.mark.parametrize("modulus", [2, 3, 8, 200, 256, 300, 65535, 65536])


def entries(run: Any) -> np.ndarray:
    found: np.ndarray = read_state(run).entries
    return found


@every_modulus
def test_residues_wrap_for_any_number_of_repeated_users(modulus: int) -> None:
    claim = ModularIncidence(PLAIN, universe=9, modulus=modulus, split="1/2")
    run, counts, chance = claim.start(InsecureNoise(1)), np.zeros(9, np.int64), np.random.default_rng(modulus)
    start = entries(run).astype(np.int64)
    for size in (0, 1, 700, 20_000):
        more, less = chance.integers(0, 9, size), chance.integers(0, 4, size)
        run.add(more)
        run.remove(less)
        np.add.at(counts, more, 1)
        np.subtract.at(counts, less, 1)
        assert np.array_equal(entries(run), (start + counts) % modulus)


def test_entry_is_one_byte_for_powers_of_two_else_two() -> None:
    sizes = {
        k: ModularIncidence(PLAIN, universe=9, modulus=k, split="1/2").blank_table(1).entries.itemsize for k in (8, 10)
    }
    assert sizes == {8: 1, 10: 2}


@every_modulus
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(30)])
def test_residue_likelihood_ratio_is_at_most_the_loss(modulus: int, epsilon: Fraction) -> None:
    claim = ModularIncidence(sg.Pure(2 * epsilon), universe=9, modulus=modulus, split="1/2")
    rest = claim.offset_probability / modulus
    assert claim.state_loss == sg.Pure(epsilon)
    ratio = (1 - claim.offset_probability + rest) / rest
    assert 1 < ratio <= Fraction(exp(float(epsilon))) * (1 + Fraction(1, 10**12))
    assert epsilon > 20 or ratio > Fraction(exp(float(epsilon))) * (1 - Fraction(1, 10**2))


def test_one_user_moves_one_unit_from_one_bin_to_another() -> None:
    claim = ModularIncidence(sg.Pure(1), universe=5, modulus=3, split="1/2")
    run = claim.start()
    for times in (1, 2, 4):
        before = np.bincount(entries(run), minlength=3)
        run.add([2] * times)
        after = np.bincount(entries(run), minlength=3)
        assert np.abs(after - before).sum() in {0, claim.BIN_SENSITIVITY}
    assert claim.noise.scale == claim.BIN_SENSITIVITY / claim.output_loss.epsilon
    both = ModularIncidence(sg.Pure(1), universe=5, modulus=3, split="1/2", replace=True)
    assert both.noise.scale == 2 * claim.noise.scale


def simulated(claim: ModularIncidence, intrusions: int) -> tuple[np.ndarray, Any]:
    """Return estimates of many runs, with 50, 30 and 20 percent of users at 0, 1, 2 visits."""
    source, found = InsecureNoise(3), []
    users = np.arange(claim.universe)
    for _ in range(60):
        run = claim.start(source)
        run.add(users[: claim.universe // 2])
        for _ in range(intrusions):
            run.intrude()
        run.add(users[: claim.universe // 5])
        found.append(run.estimate())
    return np.array([each.value for each in found]), found


@pytest.mark.parametrize("intrusions", [0, 1])
def test_estimates_are_right_and_err_as_predicted(intrusions: int) -> None:
    claim = ModularIncidence(sg.Pure(6), universe=1000, modulus=4, intrusions=intrusions)
    values, found = simulated(claim, intrusions)
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    predicted = np.array([claim.stddev(each, intrusions) for each in truth])
    assert np.all(np.abs(values.mean(0) - truth) < 7 * predicted / np.sqrt(len(values)))
    measured = values.std(0, ddof=1)
    assert np.all((0.5 * predicted < measured) & (measured < 1.6 * predicted))
    heavy = np.array([each.at_least(1).value for each in found])
    crop = np.array([each.cropped_mean(3).value for each in found])
    for each, right in ((heavy, 0.5), (crop, 0.7)):
        assert abs(each.mean() - right) < 7 * each.std() / np.sqrt(len(each))
    for name, series in (("at_least", heavy), ("cropped_mean", crop)):
        stated = np.median([getattr(each, name)(1 if name == "at_least" else 3).stddev for each in found])
        assert 0.5 * stated < series.std() < 1.6 * stated
    low, high = found[0].interval(1 - 1e-9)
    assert np.all((low <= truth) & (truth <= high))


def test_announced_intrusions_raise_the_gap_to_an_odd_power() -> None:
    claim = ModularIncidence(sg.Pure(6), universe=10, modulus=4, intrusions=3, split="1/2")
    assert [claim.gap_after(done) for done in range(4)] == [
        (1 - claim.offset_probability) ** power for power in (1, 3, 5, 7)
    ]


def test_twin_that_ignores_noise_before_intrusion_is_biased() -> None:
    """The broken twin: exponents of J + 1 instead of 2 J + 1."""
    claim = ModularIncidence(sg.Pure(6), universe=1000, modulus=4, intrusions=1)
    values, found = simulated(claim, 1)
    wrong = float(claim.gap_after(0) ** 2)
    biased = [(each.released_counts[0] / 1000 - (1 - wrong) / 4) / wrong for each in found]
    assert abs(np.mean(biased) - 0.5) > 7 * np.std(biased) / np.sqrt(len(biased))
    assert abs(values[:, 0].mean() - 0.5) < 7 * values[:, 0].std() / np.sqrt(len(values))


@pytest.mark.parametrize("sample", [None, 100])
def test_the_largest_error_is_the_largest(sample: int | None) -> None:
    claim = ModularIncidence(sg.Pure(3), universe=1000, modulus=3, sample=sample)
    tried = max(claim.stddev(each) for each in np.linspace(0, 1, 1001))
    assert claim.stddev() == pytest.approx(tried, rel=1e-6)


def test_bin_error_matches_the_predicted_one() -> None:
    claim = ModularIncidence(sg.Pure(3), universe=1000, modulus=5, sample=100)
    told = claim.build_estimate(np.array([60, 10, 10, 10, 10]), 0)
    each = told.exactly(0)
    assert each.stddev == pytest.approx(claim.stddev(min(max(each.value, 0), 1)), rel=0.05)


def test_a_sample_of_the_universe_is_in_the_error() -> None:
    whole, part = (ModularIncidence(sg.Pure(2), universe=4000, modulus=4, sample=size) for size in (None, 400))
    assert part.stddev(0.5) ** 2 > (1 / 400 - 1 / 4000) / 4 + whole.stddev(0.5) ** 2
    low, high = part.start().estimate().exactly(0).interval(1 - 1e-9)
    assert low < 1 <= high


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modulus": 1}, "modulus must be a whole number of at least 2, got 1"),
        ({"modulus": 2**16 + 1}, r"modulus must be at most 2\*\*16, got 65537"),
        ({"modulus": 4, "hashed": True}, "hashed must be False here"),
        ({"modulus": 4, "law": "paper"}, "law must be symmetric for ModularIncidence"),
    ],
)
def test_invalid_modular_incidence_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        ModularIncidence(sg.Pure(1), universe=10, **settings)


def test_queries_for_counts_beyond_the_modulus_are_refused() -> None:
    told = ModularIncidence(sg.Pure(1), universe=10, modulus=4).start().estimate()
    for asked in (told.exactly, told.at_least):
        with pytest.raises(ValueError, match=r"^times must be at most 3 with a modulus of 4, got 4$"):
            asked(4)
    with pytest.raises(ValueError, match=r"^limit must be at most 3 with a modulus of 4, got 4$"):
        told.cropped_mean(4)
