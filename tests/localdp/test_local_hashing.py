"""Optimised local hashing: private, unbiased and with the stated error, exactly and in runs."""

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.localdp import LocalHashing
from streamgauge.localdp.report_bytes import pack_codes
from streamgauge.noise.bernoulli import WORD_RANGE, keep_probability
from tests.support.every_report import keeps, law, mean_squares, moments
from tests.support.replicates import assert_coverage
from tests.support.stated_error import assert_stated_error

ITEMS = ["a", "b", "c", 7]
SMALL = LocalHashing(Pure(2), hashes=8, width=7)


@dataclass(frozen=True)
class RoundedUp(LocalHashing):
    @property
    def chances(self):
        return {"kept": keep_probability(self.loss.epsilon, self.width) + Fraction(1, WORD_RANGE)}


@dataclass(frozen=True)
class ElseAny(LocalHashing):
    """A twin that draws among all columns, its own included, if the coin fails."""

    def privatise_many(self, items, noise=None):
        row, any_column = (noise.uniform(sides, len(items)) for sides in (self.hashes, self.width))
        coins = noise.coins(self.chances["kept"], len(items))
        column = np.where(coins, self.family.columns(row, self.family.words(items)), any_column)
        return pack_codes(row * self.width + column, self.report_size)


@dataclass(frozen=True)
class WithoutCollisions(LocalHashing):
    """A twin whose variance ignores that reports collide together."""

    @property
    def shared(self):
        return 0.0


def as_device(kind):
    return lambda claim: kind(claim.loss, hashes=claim.hashes, width=claim.width, seed=claim.seed)


@pytest.mark.parametrize(("hashes", "width"), [(1, 3), (2, 5)])
def test_twin_that_rounds_up_is_caught(hashes, width):
    claim, broken = (kind(Pure(1), hashes=hashes, width=width, seed=4) for kind in (LocalHashing, RoundedUp))
    assert keeps(claim, [law(claim, item) for item in ITEMS])
    assert not keeps(broken, [law(broken, item) for item in ITEMS])


def test_estimates_are_unbiased_with_exact_variance(monkeypatch):
    claim = LocalHashing(Pure(1), hashes=2, width=2)
    counts = Counter({"a": 5, "b": 3, "c": 0})
    found = moments(claim, counts, monkeypatch)
    stated, alone = (
        [kind.variance(count, 8, 34 - count**2) for count in counts.values()]
        for kind in (claim, as_device(WithoutCollisions)(claim))
    )
    assert found.mean == pytest.approx([5, 3, 0])
    assert found.variance == pytest.approx(stated)
    assert found.variance != pytest.approx(alone)


def test_the_sum_of_squares_is_estimated_without_bias(monkeypatch):
    claim = LocalHashing(Pure(1), hashes=1, width=2)
    assert mean_squares(claim, Counter({"a": 1, "b": 1, "c": 1}), monkeypatch) == pytest.approx(3)


def test_errors_in_runs_are_the_stated_ones():
    assert_stated_error(SMALL, as_device(ElseAny)(SMALL))


def test_intervals_cover_the_truth_as_stated_and_need_collisions():
    assert_coverage(LocalHashing(Pure(8), hashes=32, width=4))


@pytest.mark.parametrize("epsilon", ["1/2", 1, 2, 4])
def test_default_width_has_the_least_variance(epsilon):
    claim = LocalHashing(Pure(epsilon))
    others = [replace(claim, width=claim.width + step).stddev(0, 1000) for step in (-1, 1) if claim.width + step > 1]
    assert claim.stddev(0, 1000) <= min(others) * 1.002
    e = exp(claim.loss.epsilon)
    assert claim.variance(0, 1000) == pytest.approx(1000 * 4 * e / (e - 1) ** 2, rel=0.01)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 1}, "width must be a whole number of at least 2, got 1"),
        ({"width": 2.5}, "width must be a whole number of at least 2, got 2.5"),
        ({"hashes": 0}, "hashes must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_invalid_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        LocalHashing(Pure(1), **settings)
