"""Optimised unary encoding: a twin that is not private or not unbiased is caught."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.localdp import UnaryEncoding
from streamgauge.noise.bernoulli import WORD_RANGE, flip_probability
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_report import keeps, law
from tests.support.saved_states import read_state
from tests.support.stated_error import assert_stated_error

ITEMS = ("a", "b", "c", 7)
CLAIM = UnaryEncoding(Pure(1), items=ITEMS)


@dataclass(frozen=True)
class WholeLossEachBit(UnaryEncoding):
    """A twin whose own bit stays 1 as often as the others stay 0: two differ, and each loses epsilon."""

    @property
    def chances(self):
        return {"own": 1 - flip_probability(self.loss.epsilon), "flip": flip_probability(self.loss.epsilon)}


@dataclass(frozen=True)
class RoundedDown(UnaryEncoding):
    @property
    def chances(self):
        return {"own": Fraction(1, 2), "flip": flip_probability(self.loss.epsilon) - Fraction(1, WORD_RANGE)}


@dataclass(frozen=True)
class HalfLossEachBit(UnaryEncoding):
    """The symmetric chances of RAPPOR, which are private but not these."""

    @property
    def chances(self):
        return {"own": 1 - flip_probability(self.loss.epsilon / 2), "flip": flip_probability(self.loss.epsilon / 2)}


@pytest.mark.parametrize("twin", [WholeLossEachBit, RoundedDown])
def test_a_twin_that_loses_more_is_caught(twin):
    broken = twin(Pure(1), items=("a", "b"))
    assert not keeps(broken, [law(broken, item) for item in broken.items])


def test_errors_in_runs_are_the_stated_ones():
    twin = HalfLossEachBit(Pure(1), items=ITEMS)
    assert_stated_error(CLAIM, twin)
    assert twin.stddev(0, 100) > CLAIM.stddev(0, 100)


def test_unlisted_item_counts_zero():
    collector = CLAIM.build_collector()
    collector.add(CLAIM.privatise_many(["not listed"] * 40_000, InsecureNoise(1)))
    found = collector.estimate(ITEMS)
    assert (np.abs(found.count) < 6.5 * found.stddev).all()


def test_bits_are_least_significant_first_with_zeros_behind_them():
    claim = UnaryEncoding(Pure(1), items=tuple(range(10)))
    flips = [1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert (claim.report_bits, claim.report_size) == (10, 2)
    assert claim.encode(0, 0, flips) == b"\0\3"
    assert claim.encode(2, 1, flips) == b"\5\3"
    assert claim.encode("not listed", 1, flips) == b"\1\3"
    assert claim.build_collector().add([b"\0\3", b"\0\4", b"\0\x80"]) == 1


@pytest.mark.parametrize("count", [7, 8, 9])
def test_many_reports_are_added_in_parts_as_at_once(count, monkeypatch):
    claim = UnaryEncoding(Pure(1), items=tuple(range(count)))
    bits = np.random.default_rng(1).integers(0, 2, (64, count), np.uint8)
    for at_once in (1 << 20, 5 * count):
        monkeypatch.setattr("streamgauge.localdp.report_bytes.CHUNK_BITS", at_once)
        collector = claim.build_collector()
        assert collector.add(np.packbits(bits, 1, bitorder="little")) == 64
        assert (read_state(collector).table == bits.sum(0)).all()


def test_devices_that_are_drawn_in_parts_are_drawn_alike(monkeypatch):
    whole = CLAIM.privatise_many(ITEMS * 9, InsecureNoise(1))
    monkeypatch.setattr("streamgauge.localdp.report_bytes.CHUNK_BITS", 20)
    assert (CLAIM.privatise_many(ITEMS * 9, InsecureNoise(1)) == whole).all()
