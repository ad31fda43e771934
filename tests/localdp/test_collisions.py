"""Collisions: intervals hold next to a dominant item, and dishonest reports widen them little."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from streamgauge import Pure
from streamgauge.localdp import CountMeanSketch, HadamardCountMeanSketch, LocalHashing
from streamgauge.localdp.collisions import GRID, ITEM_COUNTS, MAX_BINOMIAL_MEAN, ErrorModel, tail_quantile
from streamgauge.localdp.oracle import Spread
from streamgauge.testing.noise import InsecureNoise
from tests.support.replicates import FLUKE
from tests.support.saved_states import read_state

RARE = [f"rare {number}" for number in range(3000)]
KINDS = [HadamardCountMeanSketch, CountMeanSketch, LocalHashing]
CELLS = "streamgauge.localdp.protocols.{}.bound_part_reports"
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def standardised(rows, width):
    """Return the collisions of some rows, in standard deviations from their mean, and their chances."""
    law, counts = binom(rows, 1 / width), np.arange(rows + 1)
    return (counts - law.mean()) / law.std(), law.pmf(counts)


@pytest.mark.parametrize(("hashes", "width"), [(16, 1024), (64, 256), (64, 64), (256, 16), (1, 2)])
@pytest.mark.parametrize("tail", [0.05, 0.025, 5e-4, 1e-8])
def test_worst_tail_with_other_items_is_the_stated_one(hashes, width, tail):
    share, normal = GRID[:-1] ** 2, norm.isf(tail)
    said, tails = tail_quantile(hashes, width, tail, share), []
    for items in (each for each in ITEM_COUNTS if each * hashes <= MAX_BINOMIAL_MEAN * width):
        deviations, chances = standardised(items * hashes, width)
        noise = (said[:, None] - np.sqrt(share)[:, None] * deviations) / np.sqrt(1 - share)[:, None]
        tails.append(norm.sf(noise) @ chances)
    assert said[0] == pytest.approx(normal)
    assert (said > normal - 1e-6).all()
    assert np.max(tails) <= 1.001 * tail
    assert (np.max(tails, 0)[said > normal + 1e-6] > 0.999 * tail).all()


def test_tail_quantile_is_continuous_and_normal_for_many_rows():
    few, many = (tail_quantile(hashes, 64, 1e-4, GRID**2) for hashes in (6400, 6401))
    assert few == pytest.approx(many, rel=0.003)
    assert tail_quantile(65536, 4, 1e-4, 1.0) == pytest.approx(norm.isf(1e-4), rel=0.01)


def misses(confidence):
    """Count intervals of absent items that do not begin at 0, next to an item of all devices.

    The counts are by the law of collisions and by the normal law.
    """
    found = []
    for seed in range(4):
        claim = HadamardCountMeanSketch(Pure(8), hashes=64, width=256, seed=seed)
        collector = claim.build_collector()
        collector.add(claim.privatise_many(["everybody's"] * 60_000, InsecureNoise(seed)))
        told = collector.estimate(RARE)
        normal = told.count - norm.isf((1 - confidence) / 2) * told.stddev
        found.append([(told.interval(confidence)[0] > 0).sum(), (normal > 0).sum()])
    return np.sum(found, 0), 4 * len(RARE)


def test_intervals_of_rare_items_hold_next_to_a_dominant_one():
    (said, normal), asked = misses(0.999)
    assert binom(asked, 0.001 / 2).sf(said - 1) > FLUKE
    assert binom(asked, 0.001 / 2).sf(normal - 1) < FLUKE


def test_intervals_of_items_that_share_no_cells_are_normal():
    errors = ErrorModel(Spread(1.0, 2.0), None, 100, 0.0)
    assert errors.upper_margin(np.array([0.0, 100.0]), 0.025) == pytest.approx(norm.isf(0.025) * np.sqrt([200, 100]))


def collected(kind, items, **settings):
    claim = kind(Pure(4), **{"hashes": 64, "width": 64, **settings})
    collector = claim.build_collector()
    collector.add(claim.privatise_many(items, InsecureNoise(2)))
    return collector


@kinds
@pytest.mark.parametrize("common", [0, 4000])
def test_no_honest_table_is_cut(kind, common, monkeypatch):
    rest = [f"item {number % 50}" for number in range(5000 - common)]
    collector = collected(kind, ["all"] * common + rest)
    cut = kind.squares(collector.mechanism, read_state(collector).table, 5000)
    monkeypatch.setattr(CELLS.format(kind.__module__.rpartition(".")[2]), lambda *_: np.inf)
    assert kind.squares(collector.mechanism, read_state(collector).table, 5000) == pytest.approx(cut, rel=1e-12)


def widened(collector, liars, cells):
    """Return the growth of a standard error if dishonest devices send one report for each of some cells."""
    before = collector.estimate(["nobody's"]).stddev[0]
    both = collector.mechanism.load(collector.save())
    codes = 2 * (64 * np.arange(cells) + 1) + 1  # the second line of rows one after the other: +1
    sent = np.repeat(codes, liars // cells).astype("<u2")
    both.add(sent.view(np.uint8).reshape(-1, 2))
    assert both.reports == collector.reports + liars // cells * cells
    return both.estimate(["nobody's"]).stddev[0] / before


def test_identical_dishonest_reports_widen_errors_little(monkeypatch):
    collector = collected(HadamardCountMeanSketch, [f"item {number % 500}" for number in range(200_000)])
    assert widened(collector, 2000, 1) < 1.1
    assert widened(collector, 2000, 20) < 1.6
    monkeypatch.setattr(CELLS.format("hadamard_count_mean_sketch"), lambda *_: np.inf)
    assert widened(collector, 2000, 1) > 3
