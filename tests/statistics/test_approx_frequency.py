"""Totals of texts of a large domain: keys, intervals, stated errors, saved runs, hostile items."""

from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.sketches import CountSketch
from streamgauge.statistics import ApproxFrequency
from streamgauge.statistics.keys.approx_frequency import find_order_bounds
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.sketch_streams import KEY, key, zipf_items

ITEMS = [f"t{i}" for i in range(1, 60)]


def build(**settings: Any) -> ApproxFrequency:
    return ApproxFrequency(**{"loss": sg.Zcdp(1), "items": ITEMS, "horizon": 2, "hash_columns": 64, **settings})


def test_each_run_draws_a_key_of_its_own() -> None:
    claim = build(hash_columns=2, rows=1)
    cells = {claim.start(noise=SilentNoise()).step(["t1", "x", "y", "z"]).value.tobytes() for _ in range(30)}
    assert len(cells) > 1
    fixed = build(hash_columns=2, rows=1, key=KEY)
    assert len({fixed.start(noise=SilentNoise()).step(["t1", "x", "y"]).value.tobytes() for _ in range(5)}) == 1
    assert "key" not in repr(fixed)
    assert fixed.identity() == claim.identity()


def test_a_loaded_run_has_the_same_key() -> None:
    claim, noise = build(), InsecureNoise(1)
    run = claim.start(2, noise)
    run.step(["t1", "t2"], groups=[0, 1])
    twin = claim.load(run.save(), noise.clone())
    one, other = (each.step(["t1"] * 9, groups=[1] * 9).value for each in (run, twin))
    assert np.array_equal(one, other)
    with pytest.raises(InvalidSaveError):
        build(rows=5).load(run.save())


def test_hostile_items_count_nowhere() -> None:
    run = build(key=KEY, hash_columns=2**12).start(noise=SilentNoise())
    hostile = [None, 7, 2.5, b"t1", object(), float("nan"), True, 2**70, ["t1"], "\ud800", "x" * 10**5, ""]
    release = run.step([*hostile, "t1"])
    assert release.value[0, 0] == 1
    assert not np.signbit(release.value).any()


@pytest.mark.statistical
@pytest.mark.parametrize("loss", [sg.Zcdp(1), sg.Zcdp("1/200"), sg.Pure(1)])
def test_intervals_cover_and_stated_errors_are_right(loss: Any) -> None:
    numbers = zipf_items(3, 2000)
    truth = np.array([(numbers == i).sum() for i in range(1, 60)])
    texts, covered, errors, stated = [f"t{number}" for number in numbers], [], [], []
    for seed in range(60):
        release = build(loss=loss, horizon=1, key=key(seed)).start(noise=InsecureNoise(seed)).step(texts)
        low, high = release.interval(0.95)
        covered.append(((low[:, 0] <= truth) & (truth <= high[:, 0])).mean())
        errors.append(release.value[30:, 0] - truth[30:])  # items that are not the largest
        stated.append(release.stddev[30:, 0])
    assert np.mean(covered) > 0.95 - 6 * np.std(covered) / 60**0.5
    assert 0.7 < np.std(errors) / np.mean(stated) < 1.7  # the largest texts collide with few


def test_too_few_rows_are_certain_of_nothing() -> None:
    release = build(rows=3).start(noise=SilentNoise()).step(["t1"])
    low, high = release.interval(0.95)
    assert set(low.ravel()) == {-inf}
    assert set(high.ravel()) == {inf}
    assert not release.columns(0.95)["item 0"].reliable.any()
    assert find_order_bounds(np.arange(3.0)[:, None], 0.7)[0] == [0.0]


def test_noise_is_that_of_a_count_sketch() -> None:
    ours, theirs = build(rows=5), CountSketch(sg.Zcdp(1), horizon=2, rows=5, columns=64)
    assert ours.stddev(2) == theirs.stddev(2)
    assert ours.tick_sensitivity == theirs.sensitivity


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"items": None}, "items must be declared"),
        ({"items": []}, "items must be 1 to 1024 different texts, got 0 items"),
        ({"items": ["a", "a"]}, "items must be 1 to 1024 different texts, got 2 items"),
        ({"items": [1]}, "items must be 1 to 1024 different texts"),
        ({"rows": 2}, "rows must be an odd number"),
        ({"hash_columns": 3}, "columns must be a power of 2"),
        ({"key": b"short"}, "key must be 32 bytes"),
    ],
)
def test_impossible_settings_are_refused(settings: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        build(**settings)
