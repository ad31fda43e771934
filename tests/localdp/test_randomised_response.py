"""Randomised response: a twin that is not private or not unbiased is caught, and lists are checked."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.localdp import RandomisedResponse
from streamgauge.localdp.report_bytes import pack_codes
from streamgauge.noise.bernoulli import WORD_RANGE, keep_probability
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_report import keeps, law
from tests.support.stated_error import assert_stated_error

ITEMS = ("a", "b", "c", 7)
CLAIM = RandomisedResponse(Pure(1), items=ITEMS)


@dataclass(frozen=True)
class RoundedUp(RandomisedResponse):
    """The next chance of k/2^32, which is closer to the exact one for some losses."""

    @property
    def chances(self):
        return {"kept": keep_probability(self.loss.epsilon, self.codes) + Fraction(1, WORD_RANGE)}


@dataclass(frozen=True)
class FirstInstead(RandomisedResponse):
    """A twin that always sends the first code for an unlisted item."""

    def privatise_many(self, items, noise=None):
        honest = super().privatise_many(items, noise)
        return np.where((self.find_places(items) < 0)[:, None], np.uint8(0), honest)


@dataclass(frozen=True)
class ElseAny(RandomisedResponse):
    """A twin that draws among all sides, its own included, if the coin fails."""

    def privatise_many(self, items, noise=None):
        coins = noise.coins(self.chances["kept"], len(items))
        any_side = noise.uniform(self.codes, len(items))
        return pack_codes(np.where(coins, self.find_places(items), any_side), self.report_size)


@pytest.mark.parametrize("epsilon", ["1/100", 1, 4])
@pytest.mark.parametrize("sides", [2, 5])
def test_chance_is_rounded_to_the_largest_private_one(epsilon, sides):
    items = tuple(range(sides))
    claim, broken = (kind(Pure(epsilon), items=items) for kind in (RandomisedResponse, RoundedUp))
    assert keeps(claim, [law(claim, item) for item in items])
    assert not keeps(broken, [law(broken, item) for item in items])


def test_twin_that_marks_unlisted_items_is_caught():
    broken = FirstInstead(Pure(1), items=ITEMS)
    with pytest.raises(AssertionError, match="some item never sends what another does"):
        keeps(broken, [law(broken, item) for item in (*ITEMS, "not listed")])


def test_errors_in_runs_are_the_stated_ones():
    assert_stated_error(CLAIM, ElseAny(Pure(1), items=ITEMS))


def test_unlisted_item_adds_equally_to_all_listed_ones():
    claim = RandomisedResponse(Pure(4), items=ITEMS)
    collector = claim.build_collector()
    collector.add(claim.privatise_many(["not listed"] * 40_000, InsecureNoise(1)))
    found = collector.estimate(ITEMS)
    assert found.count.sum() == pytest.approx(40_000)
    assert (np.abs(found.count - 10_000) < 6.5 * found.stddev).all()


def test_two_sides_are_the_response_of_warner():
    claim = RandomisedResponse(Pure(2), items=("no", "yes"))
    assert (claim.report_bits, claim.report_size) == (1, 1)
    assert float(claim.chances["kept"]) == pytest.approx(1 / (1 + np.exp(-2)))
    assert claim.encode("yes", 1, 0) == claim.encode("no", 0, 0) == b"\1"


def test_items_with_equal_texts_are_one_item():
    assert (
        CLAIM.find_place("7")
        == CLAIM.find_place(np.int64(7))
        == CLAIM.find_place(7.0)
        == CLAIM.find_place(np.float32(7))
        == 3
    )
    assert CLAIM.find_place(True) == CLAIM.find_place(7.5) == CLAIM.find_place(None) == -1


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ("abc", "items must be a tuple of texts and whole numbers, got 'abc'"),
        (3, "items must be a tuple of texts and whole numbers, got 3"),
        (("a",), r"items must be at least 2 and at most 2\*\*20, got 1"),
        (("a", "b", "a"), "items must be distinct as texts, got 'a' twice"),
        ((7, "7"), "items must be distinct as texts, got '7' twice"),
        (("a", 1.5), r"items must be texts and whole numbers below 2\*\*63, got 1.5"),
        (("a", True), r"items must be texts and whole numbers below 2\*\*63, got True"),
        (("a", 2**63), r"items must be texts and whole numbers below 2\*\*63, got"),
    ],
)
def test_invalid_items_are_refused(items, words):
    with pytest.raises(ValueError, match=words):
        RandomisedResponse(Pure(1), items=items)


def test_items_of_any_sequence_become_a_tuple():
    claim = RandomisedResponse(Pure(1), items=np.arange(3))
    assert claim == RandomisedResponse(Pure(1), items=[0, 1, 2])
    assert repr(claim) == "RandomisedResponse(loss=Pure(epsilon=1), items=(0, 1, 2))"


def test_estimates_of_unlisted_items_are_refused():
    with pytest.raises(ValueError, match="items must be among those of the claim, got 'zebra'"):
        CLAIM.build_collector().estimate(["a", "zebra"])
