"""Frequent keys of an unknown domain, by prefixes."""

from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.sketches import HeavyKeys
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.sketch_streams import KEY, key


def test_one_event_moves_at_most_the_sensitivity_for_every_key() -> None:
    claim = HeavyKeys(sg.Zcdp(1), levels=3, horizon=1, rows=3, columns=2, bound=2)
    for seed in range(30):
        release = claim.start(key(seed), SilentNoise()).step([291], [-2])
        move = np.concatenate([level.cells.ravel() for level in release.levels])
        assert np.abs(move).sum() == claim.sensitivity.l1 == 18
        assert (move**2).sum() == claim.sensitivity.l2_squared == 36
        assert np.count_nonzero(move) == claim.sensitivity.coordinates == 9


def test_frequent_keys_are_found_and_rare_ones_are_not() -> None:
    claim = HeavyKeys(sg.Zcdp("1/2"), levels=8, horizon=3)
    rng, run = np.random.default_rng(1), claim.start(KEY, InsecureNoise(1))
    heavy = {0xDEADBEEF: 900, 0xDEADBEEE: 500, 7: 300}
    for _ in range(3):
        keys = np.concatenate([np.full(count, each, np.int64) for each, count in heavy.items()])
        release = run.step(np.concatenate([keys, rng.integers(0, 2**32, 2000)]))
    found = release.find(400)
    assert [each.key for each in found] == list(heavy)
    for each in found:
        assert each.lower <= 3 * heavy[each.key] <= each.upper
        assert each.value == pytest.approx(3 * heavy[each.key], abs=100)


def test_deleted_keys_are_gone() -> None:
    run = HeavyKeys(sg.Zcdp(1), levels=4, horizon=2).start(KEY, SilentNoise())
    run.step([5] * 90 + [6] * 50)
    assert [(each.key, each.value) for each in run.step([5] * 90, [-1] * 90).find(20)] == [(6, 50)]


def test_keys_outside_of_the_domain_are_dropped_one_by_one() -> None:
    claim = HeavyKeys(sg.Zcdp(1), levels=2, horizon=1)
    plain: Any = [1, 255]
    for given in (
        [*plain, 256, -1, None, "x", float("nan"), 2**70, True],
        np.array([*plain, 256, -1]),
        np.array([*plain, 2**64 - 1], np.uint64),
        np.array(plain, np.uint8),
    ):
        releases = [claim.start(KEY, SilentNoise()).step(each) for each in (given, plain)]
        for one, other in zip(*(release.levels for release in releases), strict=True):
            assert (one.cells == other.cells).all()


def test_a_tick_as_the_unit_counts_its_first_keys() -> None:
    claim = HeavyKeys(sg.Zcdp(1), levels=2, horizon=1, rows=3, columns=64, unit=sg.Tick(3))
    assert claim.sensitivity == sg.privacy.Sensitivity(18, 54, 18)
    releases = [claim.start(KEY, SilentNoise()).step(keys) for keys in ([999, 5, None, 6, 5, 7, 8], [5, 6, 5])]
    for one, other in zip(*(release.levels for release in releases), strict=True):
        assert (one.cells == other.cells).all()
        assert np.abs(one.cells).sum() <= 9


def test_a_loaded_run_continues_bit_for_bit() -> None:
    claim = HeavyKeys(sg.Zcdp(1), levels=2, horizon=2, rows=3, columns=8)
    noise, other = InsecureNoise(1), InsecureNoise(1)
    run, twin = claim.start(KEY, noise), claim.start(KEY, other)
    run.step([1]), twin.step([1])
    twin = claim.load(twin.save(), other)
    assert all((a.cells == b.cells).all() for a, b in zip(run.step([2]).levels, twin.step([2]).levels, strict=True))
    assert twin.tick == 2


def test_settings_and_searches_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="levels must be at most 15, got 16"):
        HeavyKeys(sg.Zcdp(1), levels=16, horizon=1)
    release = HeavyKeys(sg.Zcdp(1), levels=1, horizon=1, rows=3, columns=8).start().step([1])
    with pytest.raises(ValueError, match="max_keys must be at most 4096"):
        release.find(1, max_keys=10**6)
