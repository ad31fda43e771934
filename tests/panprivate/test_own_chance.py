"""Sums of bits are protected by the bits' own chance too: exactly as much as is left of the loss."""

from fractions import Fraction
from functools import cached_property

import pytest
from every_draw import BITS, power, views, worst

from streamgauge.noise import DiscreteLaplace
from streamgauge.noise.enclosure import exp_minus
from streamgauge.panprivate import Density
from streamgauge.panprivate.own_chance import sums_epsilon, surest
from streamgauge.panprivate.randomised_response import BITS as WORK
from streamgauge.panprivate.randomised_response import response
from streamgauge.privacy import Pure

HALF = Fraction(1, 2)
LEFT = [Fraction(1, 10**6), Fraction(1, 50), HALF, Fraction(3), Fraction(40), Fraction(100)]


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("chance", [HALF, Fraction(7, 10), 1 - Fraction(1, 2**32), Fraction(1)])
def test_what_chance_leaves_of_a_sum_is_within_the_loss_and_close_to_it(left, chance):
    found = sums_epsilon(left, chance)
    assert left <= found
    assert 1 - chance + chance * Fraction(2**BITS, exp_minus(found, BITS).low) <= power(left) * (
        1 + Fraction(1, 2**100)
    )
    if left <= 40:
        more = found + Fraction(1, 10**9)
        assert 1 - chance + chance * Fraction(2**BITS, exp_minus(more, BITS).high) > power(left)


def test_where_no_power_can_be_enclosed_nothing_is_gained():
    left = Fraction(60)
    assert exp_minus(left + 6, WORK).low == 1
    assert exp_minus(left + 7, WORK).low == 0
    assert sums_epsilon(left, Fraction(1, 1000)) == left


def test_a_bit_is_surer_of_a_value_where_a_hand_over_shows_it_once_more():
    laws = response("symmetric", HALF)
    p = laws.present
    assert surest(laws, 0) == p
    assert surest(laws, 2) == p**2 / (p**2 + (1 - p) ** 2)
    assert surest(response("paper", HALF), 0) == HALF + HALF / 4


class AsIfFair(Density):
    """Believes that bits move with chance 1/2."""

    @cached_property
    def noise(self):
        left = self.releases * self.output_loss.epsilon
        return DiscreteLaplace(self.releases / sums_epsilon(left, HALF))


class OneByOne(Density):
    """Believes that each release is of another bit."""

    @cached_property
    def noise(self):
        return DiscreteLaplace(1 / sums_epsilon(self.output_loss.epsilon, surest(self.response, 0)))


def lost(kind, releases):
    """The worst ratio where the user came after the releases, and before the look."""
    claim = kind(Pure(1), universe=1, releases=releases, split=HALF)
    outputs = ["release"] * releases
    return worst(*(views(claim, [*outputs, came, "see"]) for came in ([0], [])), claim.noise.scale)


@pytest.mark.parametrize("releases", [1, 2, 3])
def test_the_whole_loss_is_used_and_no_more(releases):
    assert power(1) * (1 - Fraction(1, 10**8)) < lost(Density, releases) <= power(1)


def test_who_believes_in_more_chance_than_there_is_is_caught():
    assert lost(AsIfFair, 1) > power(1)
    assert lost(OneByOne, 3) > power(1)
