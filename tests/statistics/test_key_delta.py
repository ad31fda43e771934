"""Discovered keys with a separate delta, and keys counted externally."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import SimpleII
from streamgauge.statistics.keys.top_k import TopK
from streamgauge.testing.noise import InsecureNoise, SilentNoise

DELTA = Fraction(1, 10**6)
LOSSES = [sg.Pure(1), sg.Zcdp("1/20")]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("window", ["running", "each"])
@pytest.mark.parametrize("unit", [sg.Event(), sg.WEvent(3)], ids=repr)
def test_counters_keep_the_loss_and_thresholds_take_the_delta(loss: Any, window: str, unit: Any) -> None:
    mechanism = SimpleII if window == "running" else None  # its noise is integers, so tails are exact
    claim = TopK(loss, k=3, delta=DELTA, horizon=20, window=window, unit=unit, mechanism=mechanism)
    assert claim.native_charge == (loss, DELTA)
    assert claim.counter.loss == loss
    for tick in (1, 10, 20):
        most, share = claim.exposure.max_per_key, claim.exposure.delta_share(DELTA, tick)
        noise = claim.counter.noise_at(tick)
        beyond = claim.selection.threshold(tick) - most
        assert noise.upper_tail(np.nextafter(beyond, np.inf)) <= float(share)
        assert share * (claim.exposure.pairs or 0) <= DELTA


def test_separate_delta_equals_an_approximate_loss() -> None:
    """The thresholds use all of delta in both."""
    extra, inside = TopK(sg.Pure(1), k=1, delta=DELTA, horizon=9), TopK(sg.Approx(1, DELTA), k=1, horizon=9)
    assert inside.native_charge == extra.native_charge
    assert [inside.selection.threshold(t) for t in range(1, 10)] == [extra.selection.threshold(t) for t in range(1, 10)]


def test_a_lower_threshold_is_caught_by_the_exact_tail() -> None:
    """A unique key at one tick is published with the probability of the noise alone."""
    claim = TopK(sg.Pure(1), k=1, delta=Fraction(1, 5), horizon=1, mechanism=SimpleII)
    (term,) = claim.counter.noise_at(1).terms

    def chance(threshold: float) -> float:
        return sum(term.distribution.pmf(noise) for noise in range(-200, 201) if 1 + noise > threshold)

    threshold = claim.selection.threshold(1)
    assert chance(threshold) <= 1 / 5 < chance(threshold - 1)


def test_delta_without_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^delta must be None where the loss has one, got 1e-06"):
        TopK(sg.Approx(1, DELTA), k=1, delta=1e-6)
    with pytest.raises(ValueError, match=r"^delta must be None where the domain is declared, got"):
        TopK(sg.Pure(1), k=1, domain=["a"], delta=DELTA)
    for delta in (0, 1, -1):
        with pytest.raises(ValueError, match=r"^delta must be "):
            TopK(sg.Zcdp(1), k=1, delta=delta)
    with pytest.raises(ValueError, match=r"^delta must leave every key and tick a share"):
        TopK(sg.Zcdp(1), k=1, delta=Fraction(1, 10**400), horizon=9)


@pytest.mark.parametrize("window", ["running", "each", "sliding 2"])
def test_counted_keys_equal_repeated_events(window: str) -> None:
    claim = TopK(sg.Pure(1), k=200, delta=Fraction(1, 5), horizon=9, window=window)
    by_events, by_counts = (claim.start(noise=InsecureNoise(3)) for _ in range(2))
    rng = np.random.default_rng(1)
    for _ in range(9):
        keys = [f"k{i}" for i in rng.permutation(100)]
        counts = rng.integers(0, 40, 100)
        one = by_events.step([key for key, n in zip(keys, counts, strict=True) for _ in range(n)])
        two = by_counts.step_keys(keys, counts)
        assert one.keys == two.keys
        np.testing.assert_array_equal(one.counts[0], two.counts[0])


def test_counted_keys_are_read_item_by_item() -> None:
    run = TopK(sg.Pure(1), k=9, delta=DELTA, horizon=9).start(noise=SilentNoise())
    ranking = run.step_keys(["a", None, "b", 0.5, "a", "c"], [100, 500, 0, 500, 150, -7])
    assert ranking.keys == (("a",),)
    assert ranking.counts[0].tolist() == [250]


def test_counted_keys_are_refused_without_discovery_or_with_bounds() -> None:
    users = TopK(sg.Pure(1), k=1, delta=DELTA, horizon=9, unit=sg.User(1, 1)).start()
    with pytest.raises(ValueError, match=r"^keys must be given as events where units are bounded"):
        users.step_keys(["a"], [1])
    with pytest.raises(ValueError, match=r"^keys must be of a statistic that discovers them, got Count"):
        sg.statistics.Count(sg.Pure(1), horizon=9).start().step_keys(["a"], [1])
    with pytest.raises(ValueError, match=r"^counts must be one for each of 1 keys"):
        TopK(sg.Pure(1), k=1, delta=DELTA, horizon=9).start().step_keys(["a"], [1, 2])


def test_saved_size_reveals_keys_in_powers_of_two() -> None:
    def size(count: int, length: int = 3) -> int:
        run = TopK(sg.Pure(1), k=9, delta=DELTA, horizon=9).start(noise=SilentNoise())
        run.step_keys([f"{i:0{length}}" for i in range(count)], [1] * count)
        return len(run.save())

    assert size(0) == size(1) == size(63) == size(64) == size(64, 60) < size(65) == size(128) < size(128, 60)
