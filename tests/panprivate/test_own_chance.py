"""Amplification: the randomness of bits also protects their sums, exactly as claimed."""

from fractions import Fraction
from functools import cached_property

import pytest

from streamgauge.noise import DiscreteLaplace
from streamgauge.noise.sampler_table import enclose_exp_minus
from streamgauge.panprivate import Density
from streamgauge.panprivate.density import amplified_epsilon, max_bit_probability
from streamgauge.panprivate.randomised_response import PRECISION_BITS as WORK
from streamgauge.panprivate.randomised_response import build_response_law
from streamgauge.privacy import Pure
from tests.support.every_draw import BITS, power, views, worst

HALF = Fraction(1, 2)
LEFT = [Fraction(1, 10**6), Fraction(1, 50), HALF, Fraction(3), Fraction(40), Fraction(100)]


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("chance", [HALF, Fraction(7, 10), 1 - Fraction(1, 2**32), Fraction(1)])
def test_amplified_epsilon_is_below_the_loss_and_nearly_tight(left, chance):
    found = amplified_epsilon(left, chance)
    assert left <= found
    assert 1 - chance + chance * Fraction(2**BITS, enclose_exp_minus(found, BITS).low) <= power(left) * (
        1 + Fraction(1, 2**100)
    )
    if left <= 40:
        more = found + Fraction(1, 10**9)
        assert 1 - chance + chance * Fraction(2**BITS, enclose_exp_minus(more, BITS).high) > power(left)


def test_epsilon_too_large_to_enclose_is_not_amplified():
    left = Fraction(60)
    assert enclose_exp_minus(left + 6, WORK).low == 1
    assert enclose_exp_minus(left + 7, WORK).low == 0
    assert amplified_epsilon(left, Fraction(1, 1000)) == left


def test_intrusions_increase_the_maximal_bit_probability():
    laws = build_response_law("symmetric", HALF)
    p = laws.present
    assert max_bit_probability(laws, 0) == p
    assert max_bit_probability(laws, 2) == p**2 / (p**2 + (1 - p) ** 2)
    assert max_bit_probability(build_response_law("paper", HALF), 0) == HALF + HALF / 4


class AsIfFair(Density):
    """A broken twin: it assumes bits that flip with probability 1/2."""

    @cached_property
    def noise(self):
        left = self.releases * self.output_loss.epsilon
        return DiscreteLaplace(self.releases / amplified_epsilon(left, HALF))


class OneByOne(Density):
    """A broken twin: it assumes that each release uses another bit."""

    @cached_property
    def noise(self):
        return DiscreteLaplace(1 / amplified_epsilon(self.output_loss.epsilon, max_bit_probability(self.response, 0)))


def lost(kind, releases):
    """Return the worst ratio if the user came after the releases and before the peek."""
    claim = kind(Pure(1), universe=1, releases=releases, split=HALF)
    outputs = ["release"] * releases
    return worst(*(views(claim, [*outputs, came, "see"]) for came in ([0], [])), claim.noise.scale)


@pytest.mark.parametrize("releases", [1, 2, 3])
def test_the_whole_loss_is_used_and_no_more(releases):
    assert power(1) * (1 - Fraction(1, 10**8)) < lost(Density, releases) <= power(1)


def test_twins_that_overestimate_randomness_of_bits_are_caught():
    assert lost(AsIfFair, 1) > power(1)
    assert lost(OneByOne, 3) > power(1)
