"""Private CountSketch: exact sensitivity, exact sums, intervals, merges, saves."""

from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import streamgauge as sg
from streamgauge.audit import CallableSubject, Pair, audit
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.sketches import CellHash, CountSketch, CountSketchRun, HeavyKeys, ItemHash, SketchTable
from streamgauge.sketches.count_sketch import clip_vectors, find_order
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.sketch_streams import KEY, exact_total, key, zipf_items

SMALL: dict[str, Any] = {"horizon": 3, "rows": 3, "columns": 2}


class Captured:
    """A counter that shows what it is given."""

    tick = 1

    def step(self, values: np.ndarray) -> np.ndarray:
        return values

    def stddev(self) -> float:
        return 0.0


def moved(claim: CountSketch, seed: int, items: Any, weights: Any = None, events: Any = None) -> np.ndarray:
    """Return the vector that the counter is given for one tick."""
    run = CountSketchRun(claim, key(seed), Captured())  # type: ignore[arg-type]
    return run.step(items, weights, events).cells.ravel()


def assert_inside(move: np.ndarray, claim: CountSketch) -> None:
    assert np.abs(move).sum() <= claim.sensitivity.l1
    assert (move**2).sum() <= claim.sensitivity.l2_squared
    assert np.count_nonzero(move) <= claim.sensitivity.coordinates


@pytest.mark.parametrize("replace", [False, True])
def test_one_event_moves_at_most_the_sensitivity_for_every_key(replace: bool) -> None:
    claim = CountSketch(sg.Zcdp(1), bound=2, unit=sg.Event(replace=replace), **SMALL)
    worst = 0.0
    for seed in range(40):
        vectors = [moved(claim, seed, [item], [weight]) for item in range(4) for weight in (-2, -1, 1, 2)]
        others = vectors if replace else [0 * vectors[0]]
        for one in vectors:
            for other in others:
                assert_inside(one - other, claim)
                worst = max(worst, float(((one - other) ** 2).sum()))
    assert worst == claim.sensitivity.l2_squared == (48 if replace else 12)


def test_an_event_of_two_items_is_clipped_for_every_key() -> None:
    claim = CountSketch(sg.Zcdp(1), items_per_event=2, bound=2, **SMALL)
    unclipped = CountSketch(sg.Zcdp(1), bound=2, **SMALL)
    exceeded = 0
    for seed in range(60):
        for items in combinations_with_replacement(range(4), 2):
            vector = moved(claim, seed, [*items], [2, 2], [7, 7])
            assert_inside(vector, claim)
            raw = moved(unclipped, seed, [*items], [2, 2])
            exceeded += (raw**2).sum() > claim.sensitivity.l2_squared
            if (raw**2).sum() <= claim.sensitivity.l2_squared:
                assert vector.tolist() == raw.tolist()
    assert exceeded > 60  # two items in one cell: the bound K V^2 D without clipping is false


def test_an_event_keeps_its_first_items_whatever_others_do() -> None:
    claim = CountSketch(sg.Zcdp(1), items_per_event=2, horizon=1, rows=3, columns=1024)
    alone = moved(claim, 1, [1, 2, 3], None, [5, 5, 5])
    assert alone.tolist() == moved(claim, 1, [1, 2], None, [5, 5]).tolist()
    both = moved(claim, 1, [9, 1, 8, 2, 3], None, [4, 5, 4, 5, 5])
    assert (both - alone).tolist() == moved(claim, 1, [9, 8], None, [4, 4]).tolist()


def test_clipping_shrinks_huge_vectors_towards_zero_exactly() -> None:
    owners, places, moves = (np.array(x) for x in ([0, 0, 1, 1], [3, 3, 1, 2], [2**31, 2**31, -(2**31), 2**30]))
    place, move = clip_vectors(owners, places, moves, 100)
    assert place.tolist() == [3, 1, 2]
    assert move[0] == 10
    assert move[1] < 0 < move[2]
    assert move[1] ** 2 + move[2] ** 2 <= 100
    assert clip_vectors(*(np.empty(0, np.int64),) * 3, 5)[0].size == 0


@pytest.mark.parametrize(
    ("unit", "l1", "l2_squared"), [(sg.Tick(3), 9, 27), (sg.Event(replace=True), 6, 12), (sg.WEvent(2), 3, 3)]
)
def test_units_scale_the_sensitivity(unit: Any, l1: int, l2_squared: int) -> None:
    claim = CountSketch(sg.Zcdp(1), unit=unit, **SMALL)
    assert (claim.sensitivity.l1, claim.sensitivity.l2_squared) == (l1, l2_squared)


def test_a_tick_as_the_unit_counts_its_first_items() -> None:
    claim = CountSketch(sg.Zcdp(1), unit=sg.Tick(3), bound=2, **SMALL)
    for seed in range(20):
        assert_inside(moved(claim, seed, [1] * 50, [2] * 50), claim)
    assert moved(claim, 1, [4, 5, 6, 7]).tolist() == moved(claim, 1, [4, 5, 6]).tolist()
    keys = HeavyKeys(sg.Zcdp(1), horizon=1, levels=2, columns=256, unit=sg.Tick(3)).start(KEY, SilentNoise())
    assert [found.value for found in keys.step([7] * 50).find(1)] == [3.0]


def test_units_that_a_sketch_does_not_bound_are_refused() -> None:
    for build in (CountSketch, partial(HeavyKeys, levels=1)):
        with pytest.raises(ValueError, match="unit must be Event, WEvent or Tick"):
            build(sg.Zcdp(1), horizon=1, unit=sg.User(2, 2))
    with pytest.raises(ValueError, match="items_per_event must be 1 where ticks are the unit, got 2"):
        CountSketch(sg.Zcdp(1), horizon=1, unit=sg.Tick(3), items_per_event=2)
    with pytest.raises(ValueError, match="unit must be one event for tables"):
        CountSketch(sg.Zcdp(1), horizon=1, unit=sg.Tick(3)).table(KEY)


def test_a_table_counts_in_one_tick_only() -> None:
    claim = CountSketch(sg.Zcdp(1), horizon=2, rows=3, columns=64)
    run, table = claim.start(KEY, SilentNoise()), claim.table(KEY)
    table.update(["tea"])
    assert [run.step(table).estimate(["tea"], 0).value[0] for _ in range(2)] == [1.0, 1.0]
    assert not table.cells.any()


def test_pure_noise_of_one_release_fits_the_loss_exactly() -> None:
    claim = CountSketch(sg.Pure("1/2"), horizon=1, rows=3, columns=2)
    assert claim.counter.distribution == sg.noise.DiscreteLaplace(Fraction(6))
    assert claim.stddev(1) == pytest.approx(sg.noise.DiscreteLaplace(Fraction(6)).variance ** 0.5)


def test_estimates_without_noise_are_exact_totals_with_deletions() -> None:
    run = CountSketch(sg.Zcdp(1), horizon=4, rows=5, columns=2**12, bound=3).start(KEY, SilentNoise())
    items, weights = ["tea", "salt", "tea", "", 7, -7], [3, -2, -1, 1, 2, 5]
    for _ in range(4):
        release = run.step(items, weights)
    asked = ["tea", "salt", "", 7, -7, "rice"]
    truth = [4 * exact_total(items, np.clip(weights, -3, 3), item) for item in asked]
    assert release.estimate(asked).value.tolist() == truth
    assert release.tick == run.tick == 4


def test_small_and_large_batches_add_up_alike() -> None:
    items = zipf_items(1, 5000)
    weights = np.random.default_rng(2).integers(-3, 4, 5000)
    for given in (None, weights):
        whole, parts = (SketchTable(CellHash(ItemHash(KEY), 5, 1024), 3) for _ in range(2))
        whole.update(items, given)
        for start in range(0, 5000, 50):
            parts.update(items[start : start + 50], None if given is None else given[start : start + 50])
        assert (whole.cells == parts.cells).all()


def test_tables_merge_in_every_order_into_one_release() -> None:
    claim = CountSketch(sg.Zcdp(1), horizon=2, rows=3, columns=64)
    parts = [zipf_items(seed, 300) for seed in range(3)]
    found = set()
    for order in permutations(range(3)):
        run = claim.start(KEY, InsecureNoise(3))
        total = claim.table(KEY)
        for place in order:
            table = claim.table(KEY)
            table.update(parts[place])
            total.merge(table)
        found.add(run.step(total).cells.tobytes())
    assert found == {claim.start(KEY, InsecureNoise(3)).step(np.concatenate(parts)).cells.tobytes()}


def test_tables_of_other_keys_shapes_and_bounds_are_refused() -> None:
    claim = CountSketch(sg.Zcdp(1), horizon=2, rows=3, columns=64)
    run = claim.start(KEY)
    for other in (claim.table(key(1)), CountSketch(sg.Zcdp(1), horizon=2, rows=5, columns=64).table(KEY)):
        with pytest.raises(ValueError, match="table must have the key and shape of this run"):
            run.step(other)
        with pytest.raises(ValueError, match="other must be a table of the same key, shape and bound"):
            other.merge(claim.table(KEY))
    with pytest.raises(ValueError, match="table must have the bound 1, got 2"):
        run.step(CountSketch(sg.Zcdp(1), bound=2, horizon=2, rows=3, columns=64).table(KEY))
    assert run.tick == 0


def test_a_loaded_run_continues_bit_for_bit() -> None:
    claim = CountSketch(sg.Zcdp(1), horizon=4, rows=3, columns=16)
    first, second = InsecureNoise(1), InsecureNoise(1)
    run, other = claim.start(KEY, first), claim.start(KEY, second)
    run.step([1, 2, 3]), other.step([1, 2, 3])
    other = claim.load(other.save(), second)
    assert other.key == KEY
    assert (run.step([3]).cells == other.step([3]).cells).all()
    for wrong in (
        CountSketch(sg.Zcdp(1), horizon=4, rows=3, columns=32),
        CountSketch(sg.Zcdp(2), horizon=4, rows=3, columns=16),
    ):
        with pytest.raises(InvalidSaveError, match="saved must be a run of"):
            wrong.load(run.save())


@pytest.mark.statistical
@pytest.mark.parametrize("loss", [sg.Zcdp(1), sg.Zcdp("1/200")])
def test_intervals_hold_for_noise_and_collisions(loss: sg.Zcdp) -> None:
    claim = CountSketch(loss, horizon=1, rows=5, columns=32)
    items, asked = zipf_items(5, 1000), np.concatenate([np.arange(1, 50), 10**6 + np.arange(51)])
    truth = (items == asked[:, None]).sum(axis=1)
    covered = []
    for seed in range(60):
        release = claim.start(key(seed), InsecureNoise(seed)).step(items)
        found = [release.estimate(asked, confidence) for confidence in (0.9375, 0.6)]
        covered.append([((each.lower <= truth) & (truth <= each.upper)).mean() for each in found])
    wide, narrow = np.mean(covered, axis=0)
    tolerance = 6 * np.std(covered, axis=0) / 60**0.5
    assert wide > 0.9375 - tolerance[0]
    assert 0.625 - tolerance[1] < narrow < 0.9375 - tolerance[1]  # a narrower one would not be enough


@pytest.mark.statistical
def test_items_chosen_in_view_of_the_key_break_intervals() -> None:
    """Broken twin: the key is drawn before, but known to those who write the stream."""
    claim = CountSketch(sg.Zcdp(1), horizon=1, rows=5, columns=8)
    run = claim.start(KEY, InsecureNoise(1))
    others = np.arange(1, 4000)
    signs = run.hash.read(np.ones((5, 8)), run.hash.items.names(others))
    places = np.array([slots & 7 for slots in run.hash.slots(run.hash.items.names(others))])
    mine = np.array([slots & 7 for slots in run.hash.slots(run.hash.items.names([0]))])
    sign = run.hash.read(np.ones((5, 8)), run.hash.items.names([0]))
    pushing = ((places == mine) * signs * sign).sum(axis=0) >= 2
    found = run.step(others[pushing]).estimate([0], 0.9)
    assert found.lower[0] > 10


@pytest.mark.statistical
def test_stated_errors_match_simulated_ones() -> None:
    claim = CountSketch(sg.Zcdp("1/8"), horizon=1, rows=7, columns=256)
    items, errors, stated = zipf_items(6, 2000, exponent=2.0), [], []
    for seed in range(60):
        release = claim.start(key(seed), InsecureNoise(seed)).step(items)
        errors.append(release.estimate(-np.arange(1, 30)).value)
        stated.append(release.stddev)
    spread = float(np.std(errors))
    assert 0.7 < spread / claim.stddev(1) * 7**0.5 / 1.25 < 1.4  # the median takes the rows back
    assert np.median(stated) > 0.8 * spread


def test_order_statistics_are_the_widest_needed() -> None:
    for rows in (5, 7, 21):
        for confidence in (0, 0.5, 0.75, 0.9):
            place = find_order(rows, confidence)
            assert 2 * binom.cdf(place, rows, 0.5) <= 1 - confidence + 1e-12 or place == 0
            assert place == rows // 2 or 2 * binom.cdf(place + 1, rows, 0.5) > 1 - confidence
    with pytest.raises(ValueError, match=r"confidence must be between 0 and 0.9375 for 5 rows, got 0.95"):
        find_order(5, 0.95)


def views(rows_with_noise: int, key_from_data: bool = False) -> Any:
    claim = CountSketch(sg.Pure(1), horizon=1, rows=3, columns=2)

    def run(items: Any) -> Any:
        chosen = key(len(items)) if key_from_data else KEY
        given = np.array(items, np.int64)
        shown = claim.start(chosen).step(given).cells
        if rows_with_noise < 3:
            shown[rows_with_noise:] = claim.start(chosen, SilentNoise()).step(given).cells[rows_with_noise:]
        return [*shown.ravel().tolist(), chosen[0]]

    return CallableSubject("sketch", run, sg.Pure(1), [Pair("one item", [5, 6], [5])])


@pytest.mark.statistical
def test_the_audit_condemns_bare_rows_and_keys_from_data() -> None:
    assert not audit(views(3), runs=150).is_condemned
    assert audit(views(2), runs=150).is_condemned
    assert audit(views(3, key_from_data=True), runs=150).is_condemned


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"rows": 4}, "rows must be an odd number between 1 and 63, got 4"),
        ({"columns": 100}, "columns must be a power of 2 between 2 and 2\\*\\*24, got 100"),
        ({"bound": 0}, "bound must be a whole number of at least 1, got 0"),
        ({"items_per_event": 0}, "items_per_event must be a whole number of at least 1"),
        ({"bound": 2**32}, "bound must be at most 2\\*\\*31"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        CountSketch(sg.Zcdp(1), horizon=1, **settings)  # type: ignore[arg-type]


def test_wrong_ways_to_step_are_refused_before_a_draw() -> None:
    one, several = (CountSketch(sg.Zcdp(1), horizon=1, rows=3, columns=2, items_per_event=k).start() for k in (1, 2))
    with pytest.raises(ValueError, match="events must be None where an event has one item"):
        one.step([1], events=[1])
    with pytest.raises(ValueError, match="events must be a whole number for each item"):
        several.step([1])
    with pytest.raises(ValueError, match="items must be a list where events have several"):
        several.step(several.claim.table(several.key))
    assert one.tick == several.tick == 0


def test_a_pan_private_sketch_counts_in_noisy_cells() -> None:
    claim = CountSketch(sg.Pure(1), horizon=8, rows=3, columns=4, pan_private=True)
    assert claim.counter.pan_private
    with pytest.raises(ValueError, match="noise must keep no key in a pan-private run, got SecureNoise"):
        claim.start(noise=sg.noise.SecureNoise())
    run = claim.start(KEY)
    assert run.step([1]).cells.shape == (3, 4)
