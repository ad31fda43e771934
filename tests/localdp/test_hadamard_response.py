"""Hadamard response: a twin that is not private or not unbiased is caught."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.localdp import HadamardCountMeanSketch, HadamardResponse
from streamgauge.localdp.protocols.hadamard_response import hadamard_matrix, negative_signs
from streamgauge.localdp.report_bytes import pack_codes
from streamgauge.noise.bernoulli import WORD_RANGE, flip_probability
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_report import keeps, law, moved
from tests.support.stated_error import assert_stated_error

ITEMS = ("a", "b", "c", 7)
CLAIM = HadamardResponse(Pure(1), items=ITEMS)


@dataclass(frozen=True)
class RoundedDown(HadamardResponse):
    @property
    def chances(self):
        return {"flip": flip_probability(self.loss.epsilon) - Fraction(1, WORD_RANGE)}


@dataclass(frozen=True)
class FromRowNought(HadamardResponse):
    """A twin that gives the first item the row without -1."""

    def find_places(self, items):
        return super().find_places(items) - 1


@dataclass(frozen=True)
class AnotherCode(HadamardResponse):
    """A twin that flips the lowest bit, which swaps the halves for odd rows only."""

    def privatise_many(self, items, noise=None):
        row = self.find_places(items) + 1
        code = noise.uniform(self.codes, len(row))
        flipped = noise.coins(self.chances["flip"], len(row))
        return pack_codes(code ^ (negative_signs(code, row) ^ flipped), self.report_size)


def test_a_twin_that_loses_more_is_caught():
    broken = RoundedDown(Pure(1), items=ITEMS)
    assert not keeps(broken, [law(broken, item) for item in ITEMS])


def test_errors_in_runs_are_the_stated_ones():
    assert_stated_error(CLAIM, FromRowNought(Pure(1), items=ITEMS))


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_every_code_has_the_chance_of_its_half(count):
    claim = HadamardResponse(Pure(1), items=tuple(range(count)))
    turned = claim.chances["flip"]
    for item in range(count):
        signs = hadamard_matrix(claim.codes)[item + 1]
        assert law(claim, item) == {
            bytes([code]): 2 * (1 - turned if sign > 0 else turned) / claim.codes for code, sign in enumerate(signs)
        }


def test_twin_that_flips_another_bit_has_another_law():
    broken = AnotherCode(Pure(1), items=ITEMS)
    assert law(broken, "a") == law(CLAIM, "a")
    assert law(broken, "b") != law(CLAIM, "b")


def test_unlisted_item_sends_any_code_and_counts_zero():
    assert set(law(CLAIM, "not listed").values()) == {Fraction(1, 8)}
    collector = CLAIM.build_collector()
    collector.add(CLAIM.privatise_many(["not listed"] * 40_000, InsecureNoise(1)))
    found = collector.estimate(ITEMS)
    assert (np.abs(found.count) < 6.5 * found.stddev).all()


@pytest.mark.parametrize(("count", "codes"), [(2, 4), (3, 4), (4, 8), (7, 8), (255, 256), (256, 512)])
def test_codes_are_the_least_power_of_2_above_the_items(count, codes):
    claim = HadamardResponse(Pure(1), items=tuple(range(count)))
    assert (claim.codes, 2**claim.report_bits, claim.report_size) == (codes, codes, 1 + (codes > 256))


def test_error_equals_that_of_sketch_without_collisions():
    sketch = HadamardCountMeanSketch(CLAIM.loss, hashes=2**10, width=2**20)
    assert CLAIM.stddev(0, 1000) == pytest.approx(sketch.stddev(0, 1000), rel=1e-5)
    assert CLAIM.stddev(500, 1000) == pytest.approx(sketch.stddev(500, 1000), rel=1e-5)


def test_code_0_moves_all_items_by_the_influence():
    moves = moved(CLAIM, pack_codes(np.array([0]), CLAIM.report_size).tobytes(), list(ITEMS))
    assert moves == pytest.approx([CLAIM.influence] * len(ITEMS))
