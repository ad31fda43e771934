"""Games: attacks bring plain sketches down, and the wrapped ones withstand them."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.robust import (
    AdaptiveDeletionError,
    AnswerLimitError,
    BatchAttack,
    CopiesUsedError,
    ExactMoment,
    MomentAttack,
    PointEstimator,
    PrivateMedian,
    RandomAdversary,
    SketchSwitching,
    find_sizes,
    measure_generalisation,
    play,
)
from streamgauge.sketches import CellHash, ItemHash, SecondMoment, SketchTable
from streamgauge.statistics import private_median
from streamgauge.testing.noise import CountedNoise, InsecureNoise
from tests.support.sketch_streams import key

ROWS = 40


def counted(rows: int = ROWS) -> Callable[[], SecondMoment]:
    """Return a factory of sketches with keys in a row."""
    numbers = iter(range(10**6))
    return lambda: SecondMoment(rows, key(next(numbers)))


def test_the_attack_brings_a_plain_sketch_down() -> None:
    found = play(SecondMoment(ROWS, key(1)), MomentAttack(ROWS), 600)
    assert found.ratios[-1] < 0.4
    assert found.worst_ratio == found.least_ratio
    assert (found.ratios < 0.6).argmax() < 300


def test_a_stream_that_looks_away_does_not() -> None:
    found = play(SecondMoment(ROWS, key(1)), RandomAdversary(10**6, InsecureNoise(1)), 600)
    assert found.least_ratio > 0.4
    assert found.largest_ratio < 2


def test_switching_withstands_the_attack() -> None:
    robust = SketchSwitching(counted(rows=200), copies=15, alpha=0.3)
    found = play(robust, MomentAttack(200), 300)
    assert found.least_ratio > 0.65
    assert found.largest_ratio < 1.5
    assert 1 <= robust.switches < 10


def test_a_private_median_of_copies_withstands_the_attack() -> None:
    robust = PrivateMedian(counted(), copies=61, alpha=0.3, largest=10**6, noise=InsecureNoise(3))
    found = play(robust, MomentAttack(ROWS), 150)
    assert found.least_ratio > 0.55
    assert found.largest_ratio < 1.7
    assert 1 <= robust.phases < 60


def test_one_copy_for_all_answers_is_no_switching() -> None:
    """Broken twin: a copy that goes on after its answer was shown falls like a plain sketch."""

    class Sticky(SketchSwitching):
        def estimate(self) -> float:
            return self._copies[0].estimate()

    assert play(Sticky(counted(), copies=3, alpha=0.3), MomentAttack(ROWS), 600).ratios[-1] < 0.4


def test_batches_move_an_absent_item_of_count_sketch() -> None:
    attacked = PointEstimator(SketchTable(CellHash(ItemHash(key(1)), 3, 16)), 0)
    found = play(attacked, BatchAttack(16), 16 * 300, ExactMoment())
    spread = (found.truths[-1] / 16) ** 0.5 * 1.25 / 3**0.5
    assert found.answers[-1] > 4 * spread


def test_batches_fail_against_private_answers() -> None:
    """Noise of each release blunts the attack; no proof."""

    class Noisy:
        def __init__(self) -> None:
            self.table = SketchTable(CellHash(ItemHash(key(1)), 3, 16))
            self.noise = InsecureNoise(1)

        def update(self, item: Any, weight: int = 1) -> None:
            self.table.update([item], [weight])

        def estimate(self) -> float:
            cells = self.table.hash.read(self.table.cells, self.table.hash.items.names([0]))[:, 0]
            return float(np.median(cells + self.noise.gaussian(Fraction(1200), 3)))

    attacked = Noisy()
    found = play(attacked, BatchAttack(16), 16 * 300, ExactMoment())
    spread = (found.truths[-1] / 16) ** 0.5 * 1.25 / 3**0.5
    assert abs(attacked.table.estimate([0])[0]) < 4 * spread


@pytest.mark.parametrize(
    "robust",
    [SketchSwitching(counted(), copies=2, alpha=0.3), PrivateMedian(counted(), copies=3, alpha=0.3, largest=10**6)],
)
def test_deletions_are_refused_with_the_reason(robust: Any) -> None:
    robust.update("tea", 3)
    before = robust.estimate()
    with pytest.raises(AdaptiveDeletionError, match=r"weight must be at least 0 under .* use exact counters"):
        robust.update("tea", -1)
    assert robust.estimate() == before


def test_switching_ends_when_no_fresh_copy_is_left() -> None:
    robust = SketchSwitching(counted(), copies=2, alpha=0.3)
    for weight in (10, 100):
        robust.update("tea", weight)
        robust.estimate()
    with pytest.raises(CopiesUsedError, match="copies must be more than 2 for this stream"):
        robust.update("tea", 1000), robust.estimate()


def test_each_phase_pays_for_one_vector_and_one_median() -> None:
    """Scales 4/epsilon and 8/epsilon each lose a quarter of epsilon, and the median half."""
    noise = CountedNoise(InsecureNoise(1))
    robust = PrivateMedian(counted(), copies=61, alpha=0.3, largest=10**6, epsilon=3, noise=noise)
    phases = []
    for weight in (100, 1, 1, 10**2, 1):
        robust.update("tea", weight)
        robust.estimate()
        phases.append(robust.phases)
    laplace = [(scale, size) for kind, scale, size in noise.requests if kind == "laplace"]
    thresholds, queries = (laplace.count((Fraction(each, 3), 1)) for each in (4, 8))
    assert phases[-1] == 2
    assert (thresholds, queries) == (3, 5)
    assert len(laplace) == 8
    medians = [each for each in noise.requests if each[0] == "uniform"]
    assert len(medians) == 2


def test_the_median_of_a_phase_has_half_of_its_epsilon() -> None:
    """Half of a small epsilon accepts many points, so another share would choose others."""
    phases, epsilon = 0, Fraction(1, 10)
    for seed in range(20):
        noise, twin = InsecureNoise(seed), InsecureNoise(seed)
        robust = PrivateMedian(ExactMoment, copies=61, alpha=0.3, largest=1000, epsilon=epsilon, noise=noise)
        robust.update("tea", 5)
        answer = robust.estimate()
        for scale in (4, 8):
            twin.laplace(scale / epsilon, 1)
        if robust.phases:
            phases += 1
            assert answer == private_median([25.0] * 61, robust.grid, sg.Pure(epsilon / 2), noise=twin)
    assert phases > 5


def test_a_median_beyond_its_grid_ends_without_further_phases() -> None:
    robust = PrivateMedian(counted(), copies=61, alpha=0.3, largest=1000, noise=InsecureNoise(1))
    robust.update("tea", 20)
    assert 300 < robust.estimate() < 600
    for _ in range(3):
        robust.update("tea", 1000)
        with pytest.raises(AnswerLimitError, match="largest must be above the values of this stream, got 1"):
            robust.estimate()
    assert robust.phases == 2


def test_an_answer_that_is_read_twice_is_one_query() -> None:
    noise = InsecureNoise(1)
    robust = PrivateMedian(counted(), copies=5, alpha=0.3, largest=10**6, noise=noise)
    robust.update("tea", 100)
    assert robust.estimate() == robust.estimate()
    twin = noise.clone()
    robust.estimate()
    assert noise.laplace(Fraction(4), 9).tolist() == twin.laplace(Fraction(4), 9).tolist()


def test_exact_counters_are_robust_and_allow_deletions() -> None:
    class Deleting:
        def choose(self, answer: float) -> tuple[int, int]:
            return 1, -1 if answer > 4 else 1

    assert play(ExactMoment(), Deleting(), 20).largest_error == 0


def test_proved_sizes_are_those_of_the_formula() -> None:
    sizes = find_sizes(0.3, 3000)
    assert sizes.switching_copies - 2 == 107
    assert sizes.switching_rows == pytest.approx(1.02e5, rel=0.01)
    assert sizes.median_copies > 10**5
    printed = str(sizes)
    assert printed.count("proved") == 3
    assert printed.count("in practice") == 2
    assert "use exact counters" in printed
    assert "use SketchSwitching" in str(find_sizes(0.9, 10**9))


def test_private_fits_generalise_and_exact_ones_do_not() -> None:
    exact = [measure_generalisation(500, 300, None, InsecureNoise(seed)) for seed in range(5)]
    private = [measure_generalisation(500, 300, 1, InsecureNoise(seed)) for seed in range(5)]
    assert np.mean([each.gap for each in exact]) > 0.15
    assert np.mean([each.gap for each in private]) < 0.08
    assert np.mean([each.fresh_rate for each in exact + private]) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: SketchSwitching(counted(), copies=0, alpha=0.3), "copies must be a whole number of at least 1"),
        (lambda: SketchSwitching(counted(), copies=1, alpha=1), "alpha must be between 0 and 1, got 1"),
        (lambda: PrivateMedian(counted(), copies=1, alpha=0.3, largest=1), "largest must be above 1"),
        (lambda: PrivateMedian(counted(), copies=1, alpha=0.3, largest=9, epsilon=0), "epsilon must be above 0, got 0"),
        (lambda: find_sizes(2, 10), "alpha and beta must be between 0 and 1"),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        make()
