"""Laws of external vectors, from sums or cells, and of releases as columns."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import LimitExceededError
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.statistics_catalogue import CASES, WIDTH, Case, every_case, every_running_case, numbers, same, stream

TICKS = 5
CLAIMED = [(case, case.claim(TICKS)) for case in CASES]
POWERS = [case for case, claim in CLAIMED if claim.max_power is not None]
AXES = [case for case, claim in CLAIMED if hasattr(claim, "axis")]
every_power = pytest.mark.parametrize("case", POWERS, ids=str)
every_axis = pytest.mark.parametrize("case", AXES, ids=str)


def vectors(case: Case, claim: Any, ticks: int = TICKS) -> np.ndarray:
    """Return the vectors of some events, of shape (ticks, channels, width)."""
    events = stream(case, ticks)
    parts = [events.tick(tick) for tick in range(1, ticks + 1)]
    made = [claim.compute_totals(case.kind.columns(part.rows), part.groups, WIDTH) for part in parts]
    return np.array(made).reshape(ticks, claim.channels, WIDTH)


def refused(case: Case, claim: Any) -> bool:
    """Return True if the claim refuses vectors. A refusal must give a reason."""
    if not claim.HAS_MEMORY:
        return False
    run = claim.start(WIDTH, SilentNoise())
    with pytest.raises(ValueError, match=r"^totals must be those of a statistic without memory, got another"):
        run.feed_totals(np.zeros((2, 1, WIDTH), int))
    return True


@pytest.mark.one_of_each("case")
@every_case
def test_many_ticks_at_once_release_the_same_as_single_steps(case: Case) -> None:
    claim = case.claim(TICKS)
    if refused(case, claim):
        return
    totals = vectors(case, claim)
    for noise in (SilentNoise, lambda: InsecureNoise(8)):
        one, two = claim.start(WIDTH, noise()), claim.start(WIDTH, noise())
        singly = claim.join_releases([one.step_totals(vector) for vector in totals])
        if isinstance(singly, tuple | list):  # a statistic with separate releases of ticks
            together = [*two.feed_totals(totals[:2]), *two.feed_totals(totals[2:])]
            same(list(singly), together)
            continue
        early, late = two.feed_totals(totals[:2]), two.feed_totals(totals[2:])
        rows = [early.select_tick(row) for row in range(2)] + [late.select_tick(row) for row in range(TICKS - 2)]
        same(claim.join_releases(rows), singly)
        assert two.tick == one.tick == TICKS


@pytest.mark.one_of_each("case")
@every_running_case
def test_too_many_ticks_are_refused_before_anything_is_drawn(case: Case) -> None:
    claim = case.claim(3)
    if refused(case, claim) or claim.counter.horizon is None:
        return
    totals = vectors(case, claim, 3)
    run, twin = claim.start(WIDTH, InsecureNoise(9)), claim.start(WIDTH, InsecureNoise(9))
    with pytest.raises(LimitExceededError, match=r"^tick must be at most the horizon 3, got 4$"):
        run.feed_totals(np.concatenate([totals, totals[:1]]))
    for wrong in (totals[:, :, :2], totals[0, 0], totals[:, None]):
        with pytest.raises(ValueError, match=rf"^totals must be of shape \(ticks, {claim.channels}, 3\), got"):
            run.feed_totals(wrong)
    run.feed_totals(totals[:0])
    assert run.tick == 0
    for vector in totals:
        same(run.step_totals(vector), twin.step_totals(vector), close=False)


@every_power
def test_power_sums_give_the_vector_of_their_events(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, 1)
    exact = claim.compute_totals(case.kind.columns(events.rows), events.groups, WIDTH).reshape(-1, WIDTH)
    np.testing.assert_array_equal(claim.vectors_from_power_sums(*power_sums(claim, events)), exact)
    with pytest.raises(ValueError, match=r"^sums must be n.*, got 0 of them$"):
        claim.vectors_from_power_sums()


def power_sums(claim: Any, events: Any) -> list[np.ndarray]:
    """Return n, s1 and s2 of every group, as an engine sums them."""
    made = np.zeros((3, WIDTH), np.int64)
    for group in range(WIDTH):
        own = events.only(np.flatnonzero(events.groups == group))
        if claim.grid is None:
            made[0, group] = sum(row is not None for row in own.rows)
            continue
        whole = claim.grid.integers(numbers(own))
        made[:, group] = [(whole**power).sum() for power in range(3)]
    return list(made[: claim.max_power + 1])


@every_power
def test_power_sums_wrap_around_like_counters(case: Case) -> None:
    claim = case.claim(TICKS)
    rng = np.random.default_rng(1)
    sums = [rng.integers(-(2**63), 2**63, (2, WIDTH), np.int64) for _ in range(claim.max_power + 1)]
    found = claim.vectors_from_power_sums(*sums)
    assert found.shape == (claim.channels, 2, WIDTH)
    for channel, weights in zip(found, claim.power_weights, strict=True):
        exact = sum(int(w) * s.astype(object) for w, s in zip(weights, sums, strict=True))
        assert ((exact - channel.astype(object)) % 2**64 == 0).all()


@every_axis
def test_cells_give_the_vectors_of_their_events(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, TICKS)
    exact = vectors(case, claim)
    rest = np.array([isinstance(row, int | float) for row in events.rows])
    own = events.only(np.flatnonzero(rest))
    cells, places, rows = claim.axis.encode(np.array(own.rows, float))[0], own.groups, own.ticks - 1
    outside = [np.array([-1, claim.axis.cells, 0, 0, 0, 0]), np.array([0, 0, -1, WIDTH, 0, 0])]
    beyond = np.array([0, 0, 0, 0, -1, TICKS])
    all_of = [np.append(cells, outside[0]), np.append(places, outside[1]), np.append(rows, beyond)]
    ones = np.ones(len(all_of[0]), np.int64)
    found = claim.vectors_from_cells(*all_of[:2], ones, WIDTH, all_of[2], TICKS)
    np.testing.assert_array_equal(found, exact)
    first = rows == 0
    single = claim.vectors_from_cells(cells[first], places[first], 3 * ones[: first.sum()], WIDTH)
    np.testing.assert_array_equal(single, 3 * exact[0])


@every_case
def test_statistics_without_power_sums_or_cells_refuse_them(case: Case) -> None:
    claim = case.claim(TICKS)
    nothing = np.zeros(0, np.int64)
    if claim.max_power is None:
        with pytest.raises(ValueError, match=r"^sums must be of a statistic of powers, got [A-Z]"):
            claim.vectors_from_power_sums(nothing)
    if type(claim).vectors_from_cells is sg.statistics.Statistic.vectors_from_cells:
        with pytest.raises(ValueError, match=r"^cells must be of a statistic along an axis, got [A-Z]"):
            claim.vectors_from_cells(nothing, nothing, nothing, WIDTH)


@every_running_case
def test_a_release_has_a_column_for_each_measure(case: Case) -> None:
    claim = case.claim(TICKS)
    if not claim.measures or claim.HAS_MEMORY or case.cls is sg.statistics.Histogram:
        return
    totals = vectors(case, claim)[:3]
    run, twin = claim.start(WIDTH, InsecureNoise(3)), claim.start(WIDTH, InsecureNoise(3))
    many = run.feed_totals(totals)
    answer, single = many.columns(0.9), [twin.step_totals(vector).columns(0.9) for vector in totals]
    for columns in answer.values():
        assert ((columns.low <= columns.value) & (columns.value <= columns.high)).all()
        assert columns.confidence == 0.9
    for row, alone in enumerate(single):
        assert tuple(answer) == tuple(alone) == claim.measures
        for name, field in product(answer, ("value", "stddev", "low", "high", "reliable")):
            here, there = getattr(answer[name], field), getattr(alone[name], field)
            assert (here.shape, there.shape) == ((3, WIDTH), (WIDTH,))
            np.testing.assert_allclose(here[row].astype(float), there.astype(float), rtol=1e-7, atol=1e-7)
    with pytest.raises(ValueError, match=r"^confidence must be above 0 and below 1, got 1$"):
        many.columns(1)


@every_running_case
def test_errors_are_predicted_for_every_measure_and_no_other(case: Case) -> None:
    claim = case.claim(TICKS)
    with pytest.raises(ValueError, match=r"^measure must be one of .*, got 'median'$"):
        claim.predict_stddev("median", 1)
    few = [claim.predict_stddev(measure, 5, count=100) for measure in claim.measures]
    many = [claim.predict_stddev(measure, 5, count=10**6) for measure in claim.measures]
    for one, two in zip(few, many, strict=True):
        assert np.isnan(one) == np.isnan(two) == (case.cls is sg.statistics.Extremes)
        assert not one < two
