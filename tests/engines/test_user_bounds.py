"""Bounds of users in sorted arrays: equal to dictionaries for every stream, block and restart."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.engines.duckdb.user_bounds import MIN_SAVED_ROWS, NUMBERED_ROW, STATE_PREFIX, UserBounds
from streamgauge.engines.duckdb.user_counts import UserCounts, sort_users
from streamgauge.privacy import Tick, User
from tests.support.bounds_by_hand import BoundsByHand, Event
from tests.support.declared import stream

UNITS = (User(1, 1), User(2, 3), User(3, 50), User(2, 2, per=6, renewal=3), User(1, 1, per=2), User(2, per=3), Tick(3))
State = dict[str, bytes]
WORDS = (0, 1, 2**63, 2**64 - 1)
steps = st.one_of(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS), st.integers(0, 6)), min_size=1, max_size=30),
    st.sampled_from(["close", "save", "save changed", "restart"]),
)


def admit(bounds: UserBounds, events: list[Event]) -> list[bool]:
    high, low, ticks = zip(*events, strict=True)
    found = bounds.admit_events(np.array(high, np.uint64), np.array(low, np.uint64), np.array(ticks, np.int64))
    return [bool(each) for each in found]


def keep(state: State, parts: dict[str, bytes | None]) -> None:
    """Write parts into a state as a commit does."""
    for name, part in parts.items():
        if part is None:
            state.pop(name)
        else:
            state[name] = part


class Twins:
    """The memory and its reference, with the state of the last commit of each."""

    def __init__(self, unit: User | Tick, max_users: int | None = None, kind: type[UserBounds] = UserBounds) -> None:
        self.stream, self.unit, self.kind = stream(unit=unit, max_users=max_users), unit, kind
        self.bounds, self.by_hand, self.state = kind(self.stream, unit), BoundsByHand(unit), State()
        self.first_open = 1

    def restart(self) -> None:
        """Commit the changes, and continue in another process."""
        keep(self.state, self.bounds.save_changed())
        self.bounds = self.kind(self.stream, self.unit)
        self.bounds.restore(self.state | {"position": b"not ours"})

    def close(self) -> None:
        """Close the first open tick."""
        self.bounds.forget(self.first_open)
        self.by_hand.forget(self.first_open)
        self.first_open += 1
        keep(self.state, self.bounds.save(7))

    def admit(self, events: list[Event]) -> None:
        assert admit(self.bounds, events) == self.by_hand.admit_events(events)


@settings(max_examples=150)
@given(unit=st.sampled_from(UNITS), steps=st.lists(steps, max_size=25), max_users=st.sampled_from([None, 1, 1000]))
def test_any_stream_admits_the_same_events_as_dictionaries(unit: Any, steps: list[Any], max_users: int | None) -> None:
    twins = Twins(unit, max_users)
    for step in steps:
        if isinstance(step, list):
            users = [(0, 0)] * len(step) if isinstance(unit, Tick) else [(high, low) for high, low, _ in step]
            twins.admit([(*user, twins.first_open + late) for user, (_, _, late) in zip(users, step, strict=True)])
        elif step == "close":
            twins.close()
        elif step == "restart":
            twins.restart()
        else:
            keep(twins.state, twins.bounds.save(7) if step == "save" else twins.bounds.save_changed())


@pytest.mark.parametrize("unit", [User(2, 3), User(2, 6, per=12, renewal=4)], ids=str)
def test_thousands_of_users_continue_from_bases_and_deltas(unit: User) -> None:
    """Streams large enough for every group, several runs of a table and several parts."""
    chance, twins, writes = np.random.default_rng(8), Twins(unit), set()
    crowd = chance.integers(0, 2**64, (30_000, 2), dtype=np.uint64)
    for tick in range(1, 25):
        users = crowd[chance.integers(0, len(crowd) if tick % 8 == 1 else 300, 20_000 if tick % 8 == 1 else 200)]
        late = chance.integers(0, 3, len(users))
        twins.admit([(int(high), int(low), tick + int(more)) for (high, low), more in zip(users, late, strict=True)])
        if tick % 5 == 0:
            twins.restart()
        before = dict(twins.state)
        twins.close()
        writes |= {name.split("/")[1] for name, part in twins.state.items() if part is not before.get(name)}
    assert writes == {"base", "recent", "changed", "open"}


def test_memory_without_its_deltas_admits_too_many() -> None:
    """A broken twin: a restart from the base alone."""
    crowd = [(user, 0, 1) for user in range(17 * MIN_SAVED_ROWS)]
    twins = Twins(User(1, 2))
    twins.admit(crowd)
    twins.close()
    twins.admit([(high, low, 2) for high, low, _ in crowd[:9]])
    twins.close()
    twins.state = {name: part for name, part in twins.state.items() if "base" in name}
    twins.bounds.restore(twins.state)
    assert sum(admit(twins.bounds, [(high, low, 3) for high, low, _ in crowd])) == len(crowd)


def sizes(parts: dict[str, bytes | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, part in parts.items():
        found[name.split("/")[1]] = found.get(name.split("/")[1], 0) + len(part or b"")
    return found


@pytest.mark.parametrize("visitors", [0, 1, 5000])
def test_declared_users_hide_every_size_of_closed_ticks(visitors: int) -> None:
    bounds = UserBounds(stream(unit=User(1, 9), max_users=5000), User(1, 9))
    before = sizes(bounds.save(3))
    admit(bounds, [(user, user, 1 + user % 3) for user in range(visitors)] or [(0, 1, 1)])
    bounds.forget(1)
    assert sizes(bounds.save(3)) == before


def test_few_visitors_among_many_write_few_bytes() -> None:
    """Sizes are powers of two, and equal for any numbers between two of them."""
    found = []
    for visitors in (1, MIN_SAVED_ROWS, MIN_SAVED_ROWS + 1):
        bounds = UserBounds(stream(unit=User(1, 9)), User(1, 9))
        admit(bounds, [(user, 0, 1) for user in range(40_000)])
        bounds.forget(1)
        bounds.save(3)
        admit(bounds, [(user, 1, 2) for user in range(visitors)])
        found.append(sizes(bounds.save(3)))
    assert found[0] == found[1]
    assert {name: found[2][name] / size for name, size in found[0].items()} == {"recent": 2, "changed": 1, "open": 2}


def test_expired_blocks_leave_the_disk_at_the_next_tick() -> None:
    unit = User(1, 1, per=3)
    twins = Twins(unit)
    twins.admit([(user, 0, 1) for user in range(17 * MIN_SAVED_ROWS)])
    for _ in range(3):
        twins.close()
    assert not any(any(part) for part in twins.state.values())
    assert len(twins.state[f"{STATE_PREFIX}base/0"]) == 32 * MIN_SAVED_ROWS * NUMBERED_ROW.itemsize


class SmallParts(UserBounds):
    PART_ROWS = 2 * MIN_SAVED_ROWS


def test_large_groups_are_cut_and_their_old_parts_deleted() -> None:
    twins = Twins(User(1, 9), kind=SmallParts)
    twins.admit([(user, 0, 1) for user in range(9 * MIN_SAVED_ROWS)])
    keep(twins.state, twins.bounds.save_changed())
    assert {f"{STATE_PREFIX}changed/{number}" for number in range(8)} < set(twins.state)
    twins.restart()
    twins.close()
    assert [name for name in sorted(twins.state) if "changed" in name] == [f"{STATE_PREFIX}changed/0"]
    twins.admit([(user, 0, 2) for user in range(9 * MIN_SAVED_ROWS)])


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-2, 2)), max_size=40), shift=st.booleans()
)
def test_users_are_sorted_stably(rows: list[tuple[int, int, int]], shift: bool) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 3)
    high, low = columns[:, 0].astype(np.uint64) << np.uint64(60 if shift else 0), columns[:, 1].astype(np.uint64)
    numbers = columns[:, 2] * (10**12 if shift else 1)
    assert sort_users(high, low, numbers).tolist() == np.lexsort((numbers, low, high)).tolist()


@given(batches=st.lists(st.sets(st.tuples(st.sampled_from(WORDS), st.integers(0, 200)), max_size=60), max_size=8))
def test_table_finds_exactly_the_users_that_it_has(batches: list[set[tuple[int, int]]]) -> None:
    table, counts = UserCounts(), dict[tuple[int, int], int]()
    queries = np.array([(high, low) for high in WORDS for low in range(0, 202, 3)], np.uint64)
    for batch in batches:
        users = np.array(sorted(batch), np.uint64).reshape(-1, 2)
        table.add(users[:, 0], users[:, 1], table.find(users[:, 0], users[:, 1]), np.ones(len(users), np.int64), 1)
        counts |= {user: counts.get(user, 0) + 1 for user in batch}
        found = table.read(table.find(queries[:, 0], queries[:, 1]))
        assert found.tolist() == [counts.get((int(high), int(low)), 0) for high, low in queries]
        assert len(table) == len(counts)
