"""The Hadamard count-mean sketch: private, unbiased and with the stated error, exactly and in runs."""

from dataclasses import dataclass

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.localdp import HadamardCountMeanSketch
from streamgauge.localdp.protocols.hadamard_response import hadamard_matrix, hadamard_transform
from streamgauge.noise.bernoulli import flip_probability
from tests.support.every_report import assert_encoded, assert_exact, assert_squares, keeps, law, moved, worst_ratio
from tests.support.replicates import assert_coverage, runs, squared_error_fits

ITEMS = ["a", "b", "c", 7]
TINY = HadamardCountMeanSketch(Pure(1), hashes=2, width=2)
SMALL = HadamardCountMeanSketch(Pure(2), hashes=8, width=16)
POPULATION = ["a"] * 150 + ["b"] * 200 + [f"rare {number}" for number in range(50)]


@dataclass(frozen=True)
class HalfLoss(HadamardCountMeanSketch):
    """A twin with the flip chance of the survey, which is that of the vector version."""

    @property
    def chances(self):
        return {"flip": flip_probability(self.loss.epsilon / 2)}


@dataclass(frozen=True)
class DoubleLoss(HadamardCountMeanSketch):
    @property
    def chances(self):
        return {"flip": flip_probability(2 * self.loss.epsilon)}


@dataclass(frozen=True)
class FlippedTwice(HadamardCountMeanSketch):
    @property
    def chances(self):
        once = flip_probability(self.loss.epsilon)
        return {"flip": 2 * once * (1 - once)}


def as_device(kind):
    """Return a device with other chances than its collector assumes."""
    return lambda claim: kind(claim.loss, hashes=claim.hashes, width=claim.width, seed=claim.seed)


@pytest.mark.parametrize("epsilon", ["1/10", 1, 4, 40])
@pytest.mark.parametrize(("hashes", "width"), [(1, 2), (2, 4)])
def test_likelihood_ratio_of_reports_is_bounded_by_the_loss(epsilon, hashes, width):
    claim = HadamardCountMeanSketch(Pure(epsilon), hashes=hashes, width=width)
    laws = [law(claim, item) for item in ITEMS]
    assert all(sum(each.values()) == 1 and len(each) == claim.codes for each in laws)
    assert keeps(claim, laws)


def test_loss_is_tight_and_twin_with_double_loss_fails():
    laws = [law(TINY, item) for item in ITEMS]
    assert float(worst_ratio(laws)) == pytest.approx(np.e, rel=1e-8)
    assert not keeps(TINY, [law(as_device(DoubleLoss)(TINY), item) for item in ITEMS])


@pytest.mark.parametrize(("hashes", "width"), [(2, 2), (1, 4)])
def test_estimates_are_unbiased_with_exact_variance(hashes, width, monkeypatch):
    assert_exact(HadamardCountMeanSketch(Pure(1), hashes=hashes, width=width), monkeypatch)


def test_the_sum_of_squares_is_estimated_without_bias(monkeypatch):
    assert_squares(HadamardCountMeanSketch(Pure(1), hashes=1, width=2), monkeypatch)


def test_errors_in_runs_are_those_stated_and_twins_are_caught():
    squares = 200**2 + 50
    stated = SMALL.stddev(150, 400, squares)
    fits = {
        kind: squared_error_fits(
            runs(SMALL, POPULATION, ["a"], times=100, device=kind and as_device(kind))[0], 150, stated
        )
        for kind in (None, HalfLoss, DoubleLoss, FlippedTwice)
    }
    assert fits == {None: True, HalfLoss: False, DoubleLoss: False, FlippedTwice: False}


def test_constants_of_the_survey_are_unbiased_with_larger_errors():
    survey = HalfLoss(SMALL.loss, hashes=SMALL.hashes, width=SMALL.width)
    count = runs(survey, POPULATION, ["a"], times=100)[0]
    assert squared_error_fits(count, 150, survey.stddev(150, 400, 200**2 + 50))
    assert not squared_error_fits(count, 150, SMALL.stddev(150, 400, 200**2 + 50))


def test_intervals_cover_the_truth_as_stated_and_need_collisions():
    assert_coverage(HadamardCountMeanSketch(Pure(8), hashes=32, width=4))


def test_sent_report_is_the_encoding_of_its_draws():
    claim = HadamardCountMeanSketch(Pure(1), hashes=300, width=64, seed=5)
    assert_encoded(
        claim,
        lambda noise, size: (
            noise.uniform(300, size),
            noise.uniform(64, size),
            noise.coins(claim.chances["flip"], size),
        ),
    )


@pytest.mark.parametrize("width", [2, 4, 8, 64])
def test_the_transform_is_the_product_with_the_hadamard_matrix(width):
    rows = np.random.default_rng(1).integers(-9, 9, (3, width), np.int32)
    assert (hadamard_transform(rows) == rows @ hadamard_matrix(width)).all()
    assert (hadamard_matrix(width) @ hadamard_matrix(width) == width * np.eye(width)).all()


def test_parameters_of_apple_give_reports_of_27_bits():
    claim = HadamardCountMeanSketch(Pure(4), hashes=65536, width=1024)
    assert (claim.report_bits, claim.report_size) == (27, 4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 12}, "width must be a power of 2, got 12"),
        ({"width": 1}, "width must be a whole number of at least 2, got 1"),
        ({"hashes": 0}, "hashes must be a whole number of at least 1, got 0"),
        ({"hashes": 2**20, "width": 2**11}, r"width must be at most 2\*\*30 / hashes, got 2048"),
        ({"seed": 2**53}, "seed must be at most 9007199254740991, got"),
        ({"loss": Zcdp(1)}, "loss must be Pure for HadamardCountMeanSketch, got"),
        ({"loss": Pure("1/100000000000")}, "loss must be large enough for a chance of"),
    ],
)
def test_invalid_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        HadamardCountMeanSketch(**{"loss": Pure(1), **settings})


def test_line_0_moves_all_items_by_less_than_the_influence():
    claim = HadamardCountMeanSketch(Pure(2), hashes=4, width=64)
    moves = moved(claim, (1).to_bytes(claim.report_size, "little"), ITEMS)
    assert moves == pytest.approx([claim.stretch * (claim.scale - 1 / 64)] * len(ITEMS))
    assert (moves < claim.influence).all()
