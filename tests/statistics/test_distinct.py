"""Laws of distinct users: all short streams of two users, three ticks and two groups are enumerated."""

from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import Kary, SimpleI, SimpleII, SquareRoot
from streamgauge.privacy import Sensitivity, Tick
from streamgauge.statistics.keys.distinct import Distinct
from streamgauge.statistics.statistic import sum_increments
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.exact_loss import declared, distinct, worst
from tests.support.saved_states import live_state

TICKS, WIDTH, USERS = 3, 2, 2
EVENTS = list(product(range(TICKS), range(USERS), range(WIDTH)))  # (tick, user, group), in order of ticks
STREAMS = [tuple(e for i, e in enumerate(EVENTS) if code >> i & 1) for code in range(2 ** len(EVENTS))]
Events = tuple[tuple[int, int, int], ...]
UNITS = [
    sg.Event(),
    sg.Event(replace=True),
    sg.Event(replace=True, moves=True),
    sg.WEvent(2),
    Tick(2),
    sg.User(1, 2),
    sg.User(4, 3),
]
COUNTERS = [
    (sg.Pure(1), SimpleI),
    (sg.Pure(1), SimpleII),
    (sg.Pure(1), Kary),
    (sg.Zcdp(1), Kary),
    (sg.Zcdp(1), SquareRoot),
]
every_unit = pytest.mark.parametrize("unit", UNITS, ids=repr)
every_window = pytest.mark.parametrize("window", ["running", "each"])


def vectors(claim: Distinct, events: Events) -> np.ndarray:
    """Return the vectors that enter the counter."""
    run = claim.start(WIDTH, SilentNoise())
    release: list[np.ndarray] = []
    run._release_vector = lambda state, vector, counts: release.append(vector)  # type: ignore[method-assign,assignment,return-value]
    for tick in range(TICKS):
        own = [event for event in events if event[0] == tick]
        run.step(users=np.array([e[1] for e in own], int), groups=np.array([e[2] for e in own], int))
    return np.stack(release)


def table(unit: Any, window: str, max_groups: int = 1) -> dict[Events, np.ndarray]:
    """Return the vectors of all streams. Units without bounds share one table."""
    alike = sg.Event() if isinstance(unit, sg.Event | sg.WEvent) else unit
    return made(sg.User(4, 3) if isinstance(unit, sg.User) and window == "running" else alike, window, max_groups)


@cache
def made(unit: Any, window: str, max_groups: int) -> dict[Events, np.ndarray]:
    request = {"universe": USERS, "horizon": TICKS, "window": window, "max_groups": max_groups}
    claim = Distinct(sg.Pure(1), unit=unit, **request)
    return {stream: quick(claim, stream) for stream in STREAMS}


def quick(claim: Distinct, events: Events) -> np.ndarray:
    """Return `vectors` without a run, if no user's contributions are bounded."""
    memory, rows = claim.initial_memory(WIDTH), []
    for tick in range(TICKS):
        own = np.array([event[1:] for event in events if event[0] == tick], int).reshape(-1, 2)
        own = own[admissible(claim, own[:, 0])]
        marks = claim.build_increments([own[:, 0]], own[:, 1], WIDTH, memory)
        rows.append(sum_increments(marks, WIDTH))
    return np.stack(rows)


def admissible(claim: Distinct, users: np.ndarray) -> np.ndarray:
    most = claim.unit.events if claim.bounds_users else len(users)
    return np.flatnonzero([list(users[:i]).count(u) < most for i, u in enumerate(users)])


def without(stream: Events, gone: Any) -> Events:
    return tuple(event for event in stream if event not in gone)


def neighbours(unit: Any) -> Iterator[tuple[Events, Events]]:
    """All pairs of streams that differ in one unit."""
    for stream in STREAMS:
        if isinstance(unit, sg.User):
            gone = [e for e in stream if e[1] == 0]
            few = len({e[0] for e in gone}) <= unit.max_ticks
            yield from [(stream, without(stream, gone))] if few else []
        elif isinstance(unit, Tick):
            yield from ((stream, without(stream, [e for e in stream if e[0] == t])) for t in range(TICKS))
        elif isinstance(unit, sg.WEvent):
            for a, b in combinations(stream, 2):
                if b[0] - a[0] == 1:
                    yield stream, without(stream, [a, b])
        else:
            yield from of_event(unit, stream)


def of_event(unit: sg.Event, stream: Events) -> Iterator[tuple[Events, Events]]:
    for gone in stream:
        rest = without(stream, [gone])
        yield stream, rest
        for new in EVENTS if unit.replace else []:
            if new not in rest and (unit.moves or new[0] == gone[0]):
                yield stream, tuple(sorted((*rest, new)))


@cache
def differences(unit: Any, window: str, max_groups: int = 1) -> list[np.ndarray]:
    known = table(unit, window, max_groups)
    return distinct(known[a] - known[b] for a, b in neighbours(unit))


@pytest.mark.one_of_each
@every_unit
@every_window
@pytest.mark.parametrize(("loss", "mechanism"), COUNTERS, ids=lambda x: getattr(x, "__name__", x))
def test_no_two_neighbours_lose_more_than_declared(unit: Any, window: str, loss: Any, mechanism: Any) -> None:
    request = mechanism if window == "running" else None
    claim = Distinct(loss, universe=USERS, horizon=TICKS, window=window, unit=unit, mechanism=request)
    assert worst(claim, differences(unit, window)) <= declared(claim) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("window", ["running", "each"])
def test_a_user_in_several_groups_loses_no_more_than_declared(window: str) -> None:
    for loss in (sg.Pure(1), sg.Zcdp(1)):
        unit = sg.User(4, 3)
        claim = Distinct(loss, universe=USERS, horizon=TICKS, window=window, unit=unit, max_groups=2)
        found = worst(claim, differences(unit, window, 2))
        assert declared(claim) * 0.999 <= found <= declared(claim) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("unit", "tight"), [(sg.Event(), True), (sg.Event(replace=True), True), (sg.User(4, 3), True)], ids=repr
)
def test_running_claim_is_tight_with_simple_two(unit: Any, tight: bool) -> None:
    claim = Distinct(sg.Pure(1), universe=USERS, horizon=TICKS, unit=unit, mechanism=SimpleII)
    assert worst(claim, differences(unit, "running")) >= declared(claim) * 0.999


def test_twin_with_counter_for_single_events_is_caught() -> None:
    class Twin(Distinct):
        counter_unit = sg.Event()

    twin = Twin(sg.Pure(1), universe=USERS, horizon=TICKS, mechanism=SimpleII)
    assert worst(twin, differences(sg.Event(), "running")) > 1.9 * declared(twin)


def test_twin_that_counts_all_groups_of_users_is_caught() -> None:
    claim = Distinct(sg.Pure(1), universe=USERS, horizon=TICKS, unit=sg.User(4, 3))
    assert worst(claim, differences(sg.User(4, 3), "running", 2)) > 1.9 * declared(claim)


@every_unit
@every_window
def test_run_vectors_match_the_enumeration(unit: Any, window: str) -> None:
    claim = Distinct(sg.Pure(1), universe=USERS, horizon=TICKS, window=window, unit=unit)
    for stream in STREAMS[::251]:
        few = not isinstance(unit, sg.User) or unit.max_ticks == TICKS
        assert not few or (vectors(claim, stream) == table(unit, window)[stream]).all()


def test_without_noise_the_distinct_users_of_each_group_are_counted() -> None:
    chance = np.random.default_rng(2)
    for window in ("running", "each"):
        run = Distinct(sg.Pure(1), universe=50, horizon=9, window=window).start(3, SilentNoise())
        known: list[set[int]] = [set() for _ in range(3)]
        for _ in range(9):
            users, groups = chance.integers(-5, 60, 40), chance.integers(0, 3, 40)
            known = known if window == "running" else [set() for _ in range(3)]
            for user, group in zip(users.tolist(), groups.tolist(), strict=True):
                known[group] |= {user} & set(range(50))
            assert run.step(users=users, groups=groups).value.tolist() == [len(k) for k in known]


def test_first_groups_of_each_user_count_independently_of_others() -> None:
    unit = sg.User(9, 9)
    run = Distinct(sg.Pure(1), universe=9, horizon=9, unit=unit, max_groups=2).start(4, SilentNoise())
    assert run.step(users=[1, 2, 1, 1], groups=[3, 0, 3, 1]).value.tolist() == [1, 1, 0, 1]
    assert run.step(users=[1, 2, 2], groups=[0, 0, 2]).value.tolist() == [1, 1, 1, 1]
    assert run.step(users=[1, 2], groups=[2, 1]).value.tolist() == [1, 1, 1, 1]


def test_users_in_many_groups_are_counted_correctly() -> None:
    """With many groups a run stores each user's number of groups, else it sums bits."""
    unit, chance = sg.User(99, 9), np.random.default_rng(5)
    events = [(chance.integers(0, 30, 200), chance.integers(0, 6, 200)) for _ in range(5)]
    for most in (1, 2, 300):
        claim = Distinct(sg.Pure(1), universe=30, horizon=9, unit=unit, max_groups=most)
        narrow, noise = claim.start(6, SilentNoise()), SilentNoise()
        wide = claim.start(400, noise)
        for users, groups in events:
            few, many = narrow.step(users=users, groups=groups), wide.step(users=users, groups=groups)
            assert few.value.tolist() == many.value[:6].tolist()
            wide = claim.load(wide.save(), noise)
        large, small, everybody = live_state(wide).memory, live_state(narrow).memory, np.arange(30)
        assert len(small.counts) == 0
        assert (large.count_groups(everybody) == small.count_groups(everybody)).all()
        assert large.counts.max() == min(most, 6)
        assert large.counts.dtype == (np.uint16 if most > 255 else np.uint8)


def test_table_larger_than_memory_limit_is_refused_at_start() -> None:
    claim = Distinct(sg.Pure(1), universe=2**31, horizon=9)
    with pytest.raises(ValueError, match=r"^universe must make at most 2\*\*36 bits .take fewer users or"):
        claim.start(2000)
    assert Distinct(sg.Pure(1), universe=2**31, horizon=9, window="each").start(2000).step() is not None


def test_users_cost_no_more_than_one_first_appearance() -> None:
    claim = Distinct(sg.Zcdp(1), universe=9, horizon=100, unit=sg.User(50, 100))
    assert (claim.counter_unit, claim.tick_sensitivity) == (sg.Event(), Sensitivity(1, 1))
    assert claim.stddev(50) < Distinct(sg.Zcdp(1), universe=9, horizon=100).stddev(50)


def test_feed_equals_steps_and_saved_run_continues_bit_for_bit() -> None:
    claim, noise = Distinct(sg.Pure(1), universe=20, horizon=9), InsecureNoise(4)
    steps, fed = claim.start(2, InsecureNoise(4)), claim.start(2, noise)
    chance = np.random.default_rng(3)
    users, groups, ticks = chance.integers(0, 20, 60), chance.integers(0, 2, 60), np.repeat(range(1, 7), 10)
    block = fed.feed(users=users, groups=groups, ticks=ticks, until=6)
    one = [steps.step(users=users[ticks == t], groups=groups[ticks == t]).value for t in range(1, 7)]
    assert (block.value == np.stack(one)).all()
    loaded = claim.load(fed.save(), noise.clone())
    assert (loaded.step(users=users, groups=groups).value == steps.step(users=users, groups=groups).value).all()


def test_items_that_are_no_users_are_dropped_silently() -> None:
    run = Distinct(sg.Pure(1), universe=5, horizon=9).start(noise=SilentNoise())
    assert run.step(users=["x", None, 2.5, -1, 5, 2**70, 4, 4.0, float("nan")]).value.tolist() == [1]
    assert run.step().value.tolist() == [1]


def test_invalid_distinct_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^universe must be declared"):
        Distinct(sg.Pure(1), horizon=9)
    for window in ("sliding 3", "decayed 3"):
        with pytest.raises(ValueError, match=r'^window must be "running" or "each" \(a user who comes again'):
            Distinct(sg.Pure(1), universe=5, horizon=9, window=window)
    with pytest.raises(ValueError, match=r"^pan_private must be False for running Distinct"):
        Distinct(sg.Pure(1), universe=5, horizon=9, pan_private=True)
    with pytest.raises(ValueError, match=r"^max_groups must be 1 unless units are Users, got 2"):
        Distinct(sg.Pure(1), universe=5, horizon=9, max_groups=2)
    with pytest.raises(ValueError, match=r"^users must be given, since they are what is counted, got None"):
        Distinct(sg.Pure(1), universe=5, horizon=9).start(2).step(groups=[1])
    assert Distinct(sg.Pure(1), universe=5, horizon=9, window="each", pan_private=True).counter.pan_private
