"""The count-mean sketch: private, unbiased and with the stated error, exactly and in runs."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.localdp import CountMeanSketch, HadamardCountMeanSketch
from streamgauge.noise.bernoulli import flip_probability, keep_probability
from tests.support.every_draw import power
from tests.support.every_report import assert_encoded, assert_exact, assert_squares, keeps, law, worst_ratio
from tests.support.replicates import assert_coverage, runs, squared_error_fits

ITEMS = ["a", "b", "c", 7]
SMALL = CountMeanSketch(Pure(2), hashes=8, width=15)


@dataclass(frozen=True)
class WholeLossEachBit(CountMeanSketch):
    """A twin that spends the whole loss on each of the two signs that differ."""

    @property
    def chances(self):
        return {"flip": flip_probability(self.loss.epsilon)}


@dataclass(frozen=True)
class FlippedTwice(CountMeanSketch):
    @property
    def chances(self):
        once = flip_probability(self.loss.epsilon / 2)
        return {"flip": 2 * once * (1 - once)}


@pytest.mark.parametrize("epsilon", ["1/10", 1, 4, 60])
@pytest.mark.parametrize(("hashes", "width"), [(1, 2), (2, 3)])
def test_likelihood_ratio_of_reports_is_bounded_by_the_loss(epsilon, hashes, width):
    claim = CountMeanSketch(Pure(epsilon), hashes=hashes, width=width)
    laws = [law(claim, item) for item in ITEMS]
    assert all(sum(each.values()) == 1 and len(each) == hashes << width for each in laws)
    assert keeps(claim, laws)


def test_loss_is_tight_and_twin_that_doubles_it_fails():
    claim, broken = (kind(Pure(1), hashes=2, width=3) for kind in (CountMeanSketch, WholeLossEachBit))
    assert float(worst_ratio([law(claim, item) for item in ITEMS])) == pytest.approx(np.e, rel=1e-8)
    assert not keeps(broken, [law(broken, item) for item in ITEMS])


@pytest.mark.parametrize(("hashes", "width"), [(2, 2), (1, 3)])
def test_estimates_are_unbiased_with_exact_variance(hashes, width, monkeypatch):
    assert_exact(CountMeanSketch(Pure(1), hashes=hashes, width=width), monkeypatch)


def test_the_sum_of_squares_is_estimated_without_bias(monkeypatch):
    assert_squares(CountMeanSketch(Pure(1), hashes=1, width=2), monkeypatch)


def test_errors_in_runs_are_those_stated_and_twins_are_caught():
    """For an absent item, signs flipped too seldom or too often move the part of all others."""
    population = ["a"] * 150 + ["b"] * 200 + [f"rare {number}" for number in range(50)]
    stated = SMALL.stddev(0, 400, 150**2 + 200**2 + 50)
    devices = [None, *(partial(another, kind) for kind in (WholeLossEachBit, FlippedTwice))]
    found = [runs(SMALL, population, ["nobody's"], times=80, device=device)[0] for device in devices]
    assert [squared_error_fits(each, 0, stated) for each in found] == [True, False, False]


def another(kind, claim):
    return kind(claim.loss, hashes=claim.hashes, width=claim.width, seed=claim.seed)


def test_intervals_cover_the_truth_as_stated_and_need_collisions():
    assert_coverage(CountMeanSketch(Pure(8), hashes=32, width=4))


def test_sent_report_is_the_encoding_of_its_draws():
    claim = CountMeanSketch(Pure(1), hashes=300, width=20, seed=5)
    assert_encoded(
        claim,
        lambda noise, size: (noise.uniform(300, size), noise.coins(claim.chances["flip"], 20 * size).reshape(size, 20)),
    )


def test_vectors_have_smaller_errors_than_bits_at_equal_loss():
    vector, bit = (kind(Pure(4)) for kind in (CountMeanSketch, HadamardCountMeanSketch))
    assert vector.stddev(0, 10**6) < 0.42 * bit.stddev(0, 10**6)
    assert (vector.report_size, bit.report_size) == (130, 3)


@pytest.mark.parametrize("epsilon", ["1/1000", 1, "7/3", 21, 100])
@pytest.mark.parametrize("sides", [2, 3, 1000])
def test_chances_are_rounded_towards_more_privacy(epsilon, sides):
    epsilon = Pure(epsilon).epsilon
    chance = keep_probability(epsilon, sides)
    truth = 1 / (1 + (sides - 1) * np.exp(-float(epsilon)))
    assert 2**32 % chance.denominator == 0
    assert chance < 1
    assert float(chance) == pytest.approx(truth, abs=2**-31)
    assert chance * (sides - 1) / (1 - chance) <= power(epsilon)
