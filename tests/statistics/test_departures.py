"""Distinct users who leave: exact histories, what they cost, and what a run remembers."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import BufferedToeplitz, Kary
from streamgauge.noise import DiscreteLaplace
from streamgauge.privacy import Sensitivity, Tick
from streamgauge.statistics import Count, Distinct
from streamgauge.statistics.mechanism_config import MechanismConfig
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.saved_states import live_state

HALF = sg.Zcdp("1/2")
USER = sg.User(9, 9)
TICKS, GROUPS = 4, 2
History = tuple[tuple[tuple[int, int], ...], ...]  # of one user: (group, weight) of the events of each tick


def claimed(changes: int, unit: Any = USER, loss: Any = HALF, **settings: Any) -> Distinct:
    return Distinct(loss, **{"universe": 4, "horizon": TICKS, "max_changes": changes, "unit": unit, **settings})


def histories() -> Iterator[History]:
    """All histories of at most one event a tick, in two groups, and some of two events a tick."""
    event = [(), ((0, 1),), ((0, -1),), ((1, 1),)]
    yield from product(event, repeat=TICKS)
    pairs = [((0, 1), (1, 1)), ((0, -1), (1, -1)), ((0, 1), (0, 1)), ((0, -1), (1, 1))]
    yield from product(pairs, repeat=TICKS)


def vectors(claim: Distinct, history: History) -> np.ndarray:
    """Return the vectors of the counter, by tick and group."""
    memory = claim.initial_memory(GROUPS)
    found = []
    for events in history:
        groups, weights = (np.array([event[side] for event in events], np.int64) for side in (0, 1))
        rows = [np.full(len(events), 2), weights]
        marks = claim.build_increments(rows, groups, GROUPS, memory)
        vector = np.zeros(GROUPS, np.int64)
        np.add.at(vector, marks.places.reshape(-1), marks.amounts.reshape(-1))
        found.append(vector)
    return np.array(found)


def lost(claim: Distinct, moves: np.ndarray) -> float:
    """Return the loss of moves, by tick and group, under the claim's counter."""
    strategy = claim.linear_counter.strategy(TICKS)
    total = 0.0
    for row, law, grid in zip(strategy.measure @ moves, strategy.distributions, strategy.grids, strict=True):
        if isinstance(law, DiscreteLaplace):
            total += float(np.abs(row).sum() * grid / law.scale)
        else:
            total += float((row**2).sum() * grid**2 / (2 * law.parameter))
    return total


@pytest.mark.parametrize("changes", [1, 2, 3, 4])
@pytest.mark.parametrize("loss", [HALF, sg.Pure(1)])
@pytest.mark.parametrize("mechanism", [None, Kary])
def test_no_history_of_a_user_loses_more_than_the_claim(changes: int, loss: Any, mechanism: Any) -> None:
    claim, most = claimed(changes, loss=loss, mechanism=mechanism), float(loss.amount)
    distinct = {vectors(claim, history).tobytes() for history in histories()}
    losses = [lost(claim, np.frombuffer(each, np.int64).reshape(TICKS, GROUPS)) for each in distinct]
    assert max(losses) <= most * (1 + 1e-9)
    assert max(losses) >= most * (0.45 if loss is HALF else 0.99)


@pytest.mark.one_of_each("loss")
@pytest.mark.parametrize("changes", [2, 1, 3])
@pytest.mark.parametrize("loss", [HALF, sg.Pure(1)])
def test_no_event_more_loses_more_than_the_claim(changes: int, loss: Any) -> None:
    claim, whole = claimed(changes, sg.Event(), loss), claimed(changes, loss=loss)
    worst = 0.0
    for history, tick, event in product(list(histories())[:256], range(TICKS), [(0, 1), (0, -1), (1, 1)]):
        more = (*history[:tick], (*history[tick], event), *history[tick + 1 :])
        worst = max(worst, lost(claim, vectors(claim, more) - vectors(claim, history)))
    assert worst <= float(loss.amount) * (1 + 1e-9)
    assert claim.linear_counter.stddev(TICKS) > 1.3 * whole.linear_counter.stddev(TICKS)


def test_an_event_charged_as_a_user_loses_too_much() -> None:
    """The broken twin: one event changes a whole history, up to 2 w moves."""
    twin = claimed(1)
    stay, leave = [((0, 1),), (), (), ((0, 1),)], [((0, 1), (0, -1)), (), (), ((0, 1),)]
    assert lost(twin, vectors(twin, tuple(leave)) - vectors(twin, tuple(stay))) > 0.6


def test_events_beyond_the_declared_number_of_a_tick_change_nothing() -> None:
    """Later events of a tick are in no vector and in no memory: ten users come, one counts."""
    claim = claimed(2, Tick(1), universe=16)
    memory = claim.initial_memory(GROUPS)
    rows, groups = [np.arange(10), np.ones(10, np.int64)], np.zeros(10, np.int64)
    marks = claim.build_increments(rows, groups, GROUPS, memory)
    assert marks.amounts.sum() == 1
    assert (memory.sums.sum(), memory.changes.sum()) == (1, 1)


class FreeUsers(Distinct):
    """The broken twin: changes are bounded in every group by itself."""

    def build_increments(self, rows: Any, groups: Any, width: int, memory: Any) -> Any:
        marks = super().build_increments(rows, groups, width, memory)
        memory.changes[:] = 0
        return marks


def test_users_who_are_never_frozen_lose_too_much() -> None:
    twin = FreeUsers(HALF, universe=4, horizon=TICKS, max_changes=1, unit=USER)
    worst = max(lost(twin, vectors(twin, history)) for history in histories())
    assert worst > 1.0


@pytest.mark.parametrize("seed", range(4))
def test_silent_runs_count_who_is_there_until_changes_run_out(seed: int) -> None:
    chance = np.random.default_rng(seed)
    changes, users, ticks = 3, 30, 40
    run = claimed(changes, universe=users, horizon=ticks).start(GROUPS, SilentNoise())
    sums, shown, used = np.zeros((GROUPS, users), int), np.zeros((GROUPS, users), bool), np.zeros(users, int)
    for _ in range(ticks):
        who, where, how = (chance.integers(low, high, 12) for low, high in ((0, users), (0, GROUPS), (-1, 2)))
        np.add.at(sums, (where, who), how)
        for user, group in product(range(users), range(GROUPS)):
            if (sums[group, user] > 0) != shown[group, user] and used[user] < changes:
                shown[group, user] = not shown[group, user]
                used[user] += 1
        released = run.step(users=who, groups=where, weights=how)
        assert np.array_equal(released.value, shown.sum(axis=1))


def test_items_that_change_seldom_are_counted_exactly() -> None:
    run = claimed(2, universe=9, horizon=9).start(noise=SilentNoise())
    assert run.step(users=[1, 2, 2], weights=[1, 1, 1]).value == 2
    assert run.step(users=[1, 2], weights=[-1, -1]).value == 1
    assert run.step(users=[2, 7], weights=[-1, 1]).value == 1
    assert run.step(users=[1, 2, 7], weights=[1, 1, -1]).value == 0


@pytest.mark.parametrize("bad", [0.5, "x", None, float("nan"), 2.0**70])
def test_fractional_weight_drops_its_event_alone(bad: Any) -> None:
    run = claimed(2).start(noise=SilentNoise())
    assert run.step(users=[1, 2, 9, -1], weights=[1, bad, 1, 1]).value == 1
    assert run.step(users=[1, 2], weights=[bad, 1]).value == 2
    assert run.step(users=[3]).value == 3  # an event without a weight comes


def test_feeding_and_loading_are_stepping() -> None:
    claim, chance = claimed(2, universe=20, horizon=30), np.random.default_rng(2)
    columns: dict[str, Any] = {
        "ticks": np.sort(chance.integers(1, 31, 300)),
        "users": chance.integers(0, 20, 300),
        "weights": chance.choice([-1, 1], 300),
        "groups": chance.integers(0, GROUPS, 300),
    }
    fed = claim.start(GROUPS, InsecureNoise(1)).feed(**columns, until=30)
    noise = InsecureNoise(1)
    run, found = claim.start(GROUPS, noise), []
    for tick in range(1, 31):
        now = columns["ticks"] == tick
        found.append(run.step(**{name: column[now] for name, column in columns.items() if name != "ticks"}).value)
        run = claim.load(run.save(), noise)
    assert np.array_equal(fed.value, np.array(found))
    memory = live_state(run).memory
    assert memory.sums.shape == (GROUPS, 20)
    assert memory.changes.max() <= 2


def test_price_grows_with_the_root_of_changes() -> None:
    errors = {changes: claimed(changes, horizon=2**16).stddev(2**16) for changes in (1, 4, 16)}
    assert errors[4] == pytest.approx(2 * errors[1], rel=1e-3)
    assert errors[16] == pytest.approx(4 * errors[1], rel=1e-3)
    assert claimed(4, horizon=2**16).counter.rmse() == pytest.approx(8.8, abs=0.05)
    assert claimed(3, loss=sg.Pure(1)).counter.tick_sensitivity.l1 == 3


@pytest.mark.parametrize(
    ("unit", "reach"),
    [
        (USER, Sensitivity(3, 3, 3)),
        (sg.Event(), Sensitivity(6, 12, 6)),
        (sg.Event(replace=True), Sensitivity(12, 48, 12)),
        (sg.WEvent(5), Sensitivity(30, 300, 30)),
        (Tick(4), Sensitivity(24, 192, 24)),
    ],
)
def test_the_reach_of_each_unit_is_that_of_its_users(unit: Any, reach: Sensitivity) -> None:
    claim = claimed(3, unit)
    assert claim.tick_sensitivity == reach
    assert claim.counter_unit == Tick(1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_changes": 0}, "max_changes must be a whole number of at least 1, got 0"),
        ({"max_changes": 2**16}, "max_changes must be at most 65535, got 65536"),
        ({"window": "each"}, "window must be \"running\" where users leave, got 'each'"),
        ({"max_groups": 2}, "max_groups must be 1 where users leave"),
        ({"pan_private": True}, "pan_private must be False for running Distinct"),
        (
            {"mechanism": MechanismConfig.build(BufferedToeplitz, normalised=True)},
            "mechanism must be one whose columns overlap less with distance where items leave, got BufferedToeplitz",
        ),
    ],
)
def test_settings_that_make_no_claim_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="must be") as refusal:
        Distinct(**{"loss": HALF, "universe": 4, "horizon": 9, "max_changes": 2, "unit": USER, **settings})
    assert words in str(refusal.value)


def test_what_reads_no_weights_refuses_them() -> None:
    with pytest.raises(ValueError, match="weights must be left out for Count"):
        Count(HALF, horizon=9).start().step([1], weights=[1])
    with pytest.raises(ValueError, match="universe must make at most 2"):
        claimed(2, universe=2**31).start(2)
