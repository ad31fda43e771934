"""Bounds that renew: users by blocks of ticks, and ticks as the unit, in files and in any cuts of a live source."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.engines.duckdb.user_bounds import MIN_SAVED_ROWS, NUMBERED_ROW, UserBounds
from streamgauge.privacy import Tick, User
from streamgauge.records.blocks import Block
from tests.support.declared import ALL, REGIONS, TICKS, counted, engine, json_line, part, stream, sums

RENEWED = User(2, 2, per=6, renewal=3)
UNITS = (RENEWED, User(1, 1, per=2), User(2, per=3), Tick(3))
Records = list[dict[str, Any]]

visits = st.fixed_dictionaries(
    {"hours": st.integers(0, 8), "region": st.sampled_from(REGIONS), "who": st.sampled_from(["ann", "bob", "7"])}
)


def lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json_line(record).encode() + b"\n" for record in records)


def by_hand(records: Records, unit: User | Tick) -> Counter[int]:
    """Count the admitted events of each tick, one after another."""
    admitted: Counter[int] = Counter()
    events: Counter[tuple[str, int]] = Counter()
    for record in records:
        who, tick = record["who"] if isinstance(unit, User) else "everybody", int(record["hours"]) + 1
        block = (tick - 1) // unit.block_ticks
        used = {t for user, t in events if user == who and (t - 1) // unit.block_ticks == block}
        if events[who, tick] < unit.events and (tick in used or len(used) < unit.ticks_per_block):
            events[who, tick] += 1
            admitted[tick] += 1
        events += Counter()  # without zeros
    return admitted


def by_tick(passes: Iterable[Any]) -> Counter[int]:
    return Counter({tick: row[0] for (tick, _, _), row in sums(passes).items()})


@settings(max_examples=15)
@given(
    records=st.lists(visits, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4), unit=st.sampled_from(UNITS)
)
def test_any_cuts_and_restarts_admit_the_same_events(records: Records, cuts: list[int], unit: User | Tick) -> None:
    ends = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    found, saved = [], {}
    for a, b in pairwise(ends):
        with engine(stream(unit=unit), [ALL]) as running:
            running.bounds.restore(saved)
            found.append(running.scan_block(Block(lines(records[a:b]), 0), 1, TICKS, False))
            saved = running.bounds.save(TICKS)
    assert by_tick(found) == by_hand(records, unit)
    assert counted(found)["bounded"] == len(records) - by_hand(records, unit).total()


@settings(max_examples=10)
@given(records=st.lists(visits, max_size=60), unit=st.sampled_from(UNITS), first=st.integers(1, 9))
def test_file_and_live_source_in_order_admit_alike(
    tmp_path_factory: pytest.TempPathFactory, records: Records, unit: User | Tick, first: int
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "renewed.jsonl"
    path.write_bytes(lines(reversed(records)))
    expected = by_hand(sorted(records, key=lambda record: record["hours"]), unit)
    with engine(stream(unit=unit), [ALL]) as running:
        whole = by_tick(running.scan_ranges([part(path)], 1, TICKS))
        resumed = by_tick(running.scan_ranges([part(path)], first, TICKS))
    assert whole == expected
    assert resumed == {tick: count for tick, count in expected.items() if tick >= first}


def ann(*hours: float) -> bytes:
    return lines({"hours": hour, "region": "north", "who": "ann"} for hour in hours)


def admit(bounds: UserBounds, users: Iterable[int], tick: int) -> int:
    """Admit one event of each user in a tick; return the number that is admitted."""
    low = np.array([*users], np.uint64)
    return int(bounds.admit_events(np.zeros_like(low), low, np.full(len(low), tick, np.int64)).sum())


def admit_in_turn(unit: User | Tick, kind: type[UserBounds] = UserBounds) -> list[int]:
    """Admit an event of one user in each of nine ticks, each of which closes and is saved before the next."""
    bounds, found = kind(stream(unit=unit), unit), []
    for tick in range(1, 10):
        found.append(admit(bounds, [7], tick))
        bounds.forget(tick)
        state = bounds.save(1)
        bounds = kind(stream(unit=unit), unit)
        bounds.restore({name: data for name, data in state.items() if data})
    return found


def test_users_are_forgotten_with_their_block_and_not_before() -> None:
    assert admit_in_turn(User(1, 2, per=3)) == [1, 1, 0] * 3
    assert admit_in_turn(User(1, 1, per=2)) == [1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert admit_in_turn(Tick(1)) == [1] * 9


class EarlyRenewal(UserBounds):
    """Forgets users one tick too early, while the last tick of their block is open."""

    def forget(self, tick: int) -> None:
        super().forget(tick + 1)


def test_renewal_one_tick_early_admits_more_than_the_allowance() -> None:
    assert admit_in_turn(User(1, 2, per=3), EarlyRenewal) == [1, 1, 1] * 3


def test_memory_of_renewing_users_ends_and_its_size_stays() -> None:
    made = stream(unit=RENEWED, max_users=MIN_SAVED_ROWS)
    bounds, sizes = UserBounds(made, RENEWED), []
    for tick in range(1, 10):
        admit(bounds, range(200 * tick, 200 * tick + 200), tick)
        bounds.forget(tick)
        rows = np.frombuffer(bounds.save(1)["users/base/0"] or b"", NUMBERED_ROW)
        assert np.count_nonzero(rows["count"]) == 200 * (tick % RENEWED.block_ticks)
        sizes.append(len(rows))
    assert sizes == [MIN_SAVED_ROWS] + [2 * MIN_SAVED_ROWS] * 8


def test_tick_counts_late_events_that_are_carried_into_it() -> None:
    with engine(stream(unit=Tick(3)), [ALL]) as running:
        found = [running.scan_block(Block(ann(*hours), 0), 4, 6, True) for hours in ((3, 0), (1, 5), (3, 2, 3))]
    assert by_tick(found) == {4: 3, 6: 1}


def test_events_without_a_user_count_where_ticks_are_the_unit() -> None:
    data = lines([{"hours": 0, "region": "north"}, {"hours": 0, "region": "north", "who": None}])
    with engine(stream(unit=Tick(3), user=None), [ALL]) as running:
        assert by_tick([running.scan_block(Block(data, 0), 1, TICKS, False)]) == {1: 2}
