"""Coins and dice are exact: every random word has its exact probability and is wiped."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from streamgauge.noise import EphemeralNoise, SecureNoise
from streamgauge.noise.bernoulli import WORD_RANGE, bernoulli, uniform_int
from streamgauge.testing.noise import CountedNoise, InsecureNoise
from tests.support.chi_square import NEVER


class Words:
    """Entropy with scripted words."""

    def __init__(self, *words):
        self.words = list(words)

    def fill(self, out):
        part = [self.words.pop(0) for _ in range(len(out) // 4)]
        out[:] = np.array(part, np.uint32).view(np.uint8)


@pytest.mark.parametrize("k", [1, 2**31, WORD_RANGE - 1])
def test_probability_of_k_words_is_exact(k):
    assert bernoulli(Words(k - 1, k, 0, WORD_RANGE - 1), Fraction(k, WORD_RANGE), 4).tolist() == [1, 0, 1, 0]


def test_a_tie_is_decided_by_further_words():
    chance = Fraction(5, WORD_RANGE) + Fraction(3, WORD_RANGE**2)
    assert bernoulli(Words(4, 5, 5, 6, 2, 3), chance, 4).tolist() == [1, 1, 0, 0]


def test_impossible_and_certain_coins_take_no_words():
    assert bernoulli(Words(), Fraction(0), 3).tolist() == [0, 0, 0]
    assert bernoulli(Words(), Fraction(1), 3).tolist() == [1, 1, 1]


def test_dice_reject_words_beyond_a_whole_multiple():
    last = WORD_RANGE // 3 * 3
    assert uniform_int(Words(last - 1, last, 4), 3, 2).tolist() == [2, 1]
    assert uniform_int(Words(0, 1, WORD_RANGE - 1), 1, 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("noise", [EphemeralNoise(), SecureNoise(), InsecureNoise(3)])
def test_every_source_has_fair_coins_and_dice(noise):
    coins, dice = noise.coins(Fraction(1, 3), 100_000), noise.uniform(7, 70_000)
    assert coins.dtype == np.uint8
    assert binomtest(int(coins.sum()), 100_000, 1 / 3).pvalue > NEVER
    assert chisquare(np.bincount(dice, minlength=7)).pvalue > NEVER
    assert binomtest(int(noise.coins(Fraction(3, 8), 100_000).sum()), 100_000, 1 / 3).pvalue < NEVER


def test_insecure_coins_do_not_depend_on_request_sizes():
    one, two = InsecureNoise(5), InsecureNoise(5)
    third = Fraction(1, 3)
    assert (one.coins(third, 9000) == np.concatenate([two.coins(third, 4500) for _ in range(2)])).all()
    assert (one.clone().uniform(6, 50) == two.uniform(6, 50)).all()


def test_counted_coins_are_counted():
    noise = CountedNoise(InsecureNoise(1))
    noise.coins(Fraction(1, 2), 3)
    noise.uniform(6, 2)
    assert noise.requests == [("coins", Fraction(1, 2), 3), ("uniform", Fraction(6), 2)]


@pytest.mark.parametrize("noise", [EphemeralNoise(), SecureNoise(), InsecureNoise(3)])
def test_bad_chances_and_sides_are_refused(noise):
    with pytest.raises(ValueError, match="chance must be between 0 and 1, got 3/2"):
        noise.coins(Fraction(3, 2), 1)
    with pytest.raises(ValueError, match=r"sides must be between 1 and 2\*\*31, got 0"):
        noise.uniform(0, 1)
    with pytest.raises(ValueError, match="size must be a whole number of at least 0, got -1"):
        noise.coins(Fraction(1, 2), -1)
