"""Blocks of a live source: late and early events, and users bounded in the order of arrival."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.engines.duckdb.connection import DuckConnection
from streamgauge.engines.duckdb.user_bounds import MIN_SAVED_ROWS, NUMBERED_ROW, USED_ROW
from streamgauge.privacy import User
from streamgauge.records.blocks import Block, DroppedRecord
from tests.support.declared import (
    ALL,
    HEADER,
    REGIONS,
    TICKS,
    at,
    counted,
    csv_line,
    engine,
    engine_with,
    expected,
    json_line,
    stream,
    sums,
)

UNIT = User(max_events_per_tick=2, max_ticks=3)
Records = list[dict[str, Any]]


def lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json_line(record).encode() + b"\n" for record in records)


def some(*hours: float, **more: Any) -> Records:
    return [{"hours": hour, "region": "north", "temperature": 37} | more for hour in hours]


def test_a_block_is_added_up_like_a_file() -> None:
    records = [{"hours": i * 5 % 24, "region": REGIONS[i % 4], "temperature": 35 + i % 80 / 10} for i in range(500)]
    with engine(stream()) as running:
        assert sums([running.scan_block(Block(lines(records), 0), 1, TICKS, False)]) == expected(records)
    with engine(stream("csv")) as running:
        data = b"".join(csv_line(record).encode() + b"\n" for record in records)
        assert sums([running.scan_block(Block(data, 0), 1, TICKS, False, HEADER)]) == expected(records)


def test_late_events_are_dropped_or_carried_and_early_ones_dropped() -> None:
    data = lines(some(0, 1, 2, 3, 4, 30))
    with engine(stream(), [ALL]) as running:
        dropped = running.scan_block(Block(data, 0), 3, 4, carry=False)
        carried = running.scan_block(Block(data, 0), 3, 4, carry=True)
    assert sums([dropped]) == {(3, 0, 0): (1,), (4, 0, 0): (1,)}
    assert sums([carried]) == {(3, 0, 0): (3,), (4, 0, 0): (1,)}
    assert [counted([one])[rule] for one in (dropped, carried) for rule in ("late", "early", "outside")] == [
        2,
        1,
        1,
        0,
        1,
        1,
    ]


def test_an_empty_block_adds_nothing() -> None:
    with engine(stream(unit=UNIT)) as running:
        one = running.scan_block(Block(b"", 0), 1, TICKS, False)
    assert sums([one]) == {}
    assert counted([one])["records"] == 0


def by_hand(records: Records, unit: User) -> Counter[tuple[int, str]]:
    """Events that are admitted, one after another."""
    admitted: Counter[tuple[int, str]] = Counter()
    observed: Counter[tuple[str, int]] = Counter()
    for record in records:
        who, tick = record["who"], int(record["hours"]) + 1
        ticks = {t for (user, t), count in observed.items() if user == who and count}
        if observed[who, tick] < unit.max_events_per_tick and (tick in ticks or len(ticks) < unit.max_ticks):
            observed[who, tick] += 1
            admitted[tick, record["region"]] += 1
    return admitted


visits = st.fixed_dictionaries(
    {
        "hours": st.integers(0, 5),
        "region": st.sampled_from(REGIONS),
        "who": st.sampled_from(["ann", "bob", "cleo", "7"]),
    }
)


@settings(max_examples=25)
@given(records=st.lists(visits, max_size=80), cuts=st.lists(st.integers(0, 80), max_size=4))
def test_users_are_bounded_in_arrival_order_for_any_cut(records: Records, cuts: list[int]) -> None:
    ends = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    with engine(stream(unit=UNIT), threads=2) as running:
        found = [running.scan_block(Block(lines(records[a:b]), 0), 1, TICKS, False) for a, b in pairwise(ends)]
    assert {(tick, REGIONS[place]): row[0] for (tick, place, _), row in sums(found).items()} == by_hand(records, UNIT)
    assert counted(found)["bounded"] == len(records) - sum(by_hand(records, UNIT).values())


def test_large_blocks_keep_the_order_of_arrival() -> None:
    """More rows than DuckDB gives to one thread: those of the second half come too late."""
    head, tail = (f'{{"ts":"{at(0)}","region":"{region}","who":' for region in REGIONS[:2])
    data = "".join(f"{begin}{i}}}\n" for begin in (head, tail) for i in range(120_000)).encode()
    with engine(stream(unit=User(1, 1)), threads=2) as running:
        found = sums([running.scan_block(Block(data, 0), 1, TICKS, False)])
    assert {key: row[0] for key, row in found.items()} == {(1, 0, 0): 120_000}


def test_database_replaced_after_its_share_gives_equal_tallies(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"hours": i % 6, "region": "north", "who": f"u{i % 7}"} for i in range(200)]
    cuts = [lines(records[begin : begin + 25]) for begin in range(0, 200, 25)]
    begun: list[object] = []
    connect = duckdb.connect

    def counted_connect(*given: Any, **settings: Any) -> Any:
        begun.append(given)
        return connect(*given, **settings)

    monkeypatch.setattr(duckdb, "connect", counted_connect)
    for unit in (None, UNIT):
        found, before = [], len(begun)
        for share in (100, 3):
            limited = type("LimitedConnection", (DuckConnection,), {"MAX_BLOCKS": share})
            with engine(stream(unit=unit), kind=engine_with(CONNECTION=limited)) as running:
                found.append(sums([running.scan_block(Block(cut, 0), 1, TICKS, False) for cut in cuts]))
        assert found[0] == found[1]
        assert len(begun) - before == 1 + 3


EMPTY_SIZES = {f"users/{group}/0": MIN_SAVED_ROWS * USED_ROW.itemsize for group in ("base", "recent", "changed")}
EMPTY_SIZES |= {"users/open/0": MIN_SAVED_ROWS * NUMBERED_ROW.itemsize}


def remembered(running: Any) -> tuple[dict[Any, int], dict[Any, int]]:
    """Return the used ticks of each user, and the events of each user and open tick, as they are saved."""
    saved = running.bounds.save(TICKS)
    used = np.frombuffer(saved["users/base/0"], USED_ROW)
    visits = np.frombuffer(saved["users/open/0"], NUMBERED_ROW)
    return (
        {(high, low): count for high, low, count in used.tolist() if count},
        {(high, low, tick): count for high, low, count, tick in visits.tolist() if count},
    )


def test_saved_bounds_continue_in_another_engine() -> None:
    records = [{"hours": i % 6, "region": "north", "who": f"u{i % 7}"} for i in range(200)]
    with engine(stream(unit=UNIT)) as whole, engine(stream(unit=UNIT)) as first, engine(stream(unit=UNIT)) as second:
        straight = [whole.scan_block(Block(lines(part), 0), 1, TICKS, False) for part in (records[:90], records[90:])]
        begun = first.scan_block(Block(lines(records[:90]), 0), 1, TICKS, False)
        second.bounds.restore(first.bounds.save(TICKS) | {"position": b"not ours"})
        assert sums([begun, second.scan_block(Block(lines(records[90:]), 0), 1, TICKS, False)]) == sums(straight)


def test_changed_users_are_saved_between_ticks_and_after_restarts() -> None:
    """`ann` changes in one process, `bob` in the next and `cleo` in a third. The last save has all changes."""
    everything: dict[str, bytes] = {}
    with engine(stream(unit=UNIT)) as running:
        running.scan_block(Block(lines(some(0, who="ann")), 0), 1, TICKS, False)
        everything |= running.bounds.save(TICKS)
        assert set(everything) == set(EMPTY_SIZES)
    for who in ("ann", "bob", "cleo"):
        with engine(stream(unit=UNIT)) as running:
            running.bounds.restore(everything)
            running.scan_block(Block(lines(some(1, 1, who=who)), 0), 1, TICKS, False)
            changed = running.bounds.save_changed()
            assert set(changed) == {"users/changed/0", "users/open/0"}
            everything |= changed
    with engine(stream(unit=UNIT)) as other:
        other.bounds.restore(everything)
        assert remembered(other) == remembered(running)
        used, visits = remembered(other)
        assert (sorted(used.values()), sorted(visits.values())) == ([1, 1, 2], [1, 2, 2, 2])


def test_closed_ticks_are_forgotten_but_their_number_is_not() -> None:
    with engine(stream(unit=UNIT), [ALL]) as running:
        running.scan_block(Block(lines(some(0, 1, 2, who="ann")), 0), 1, TICKS, False)
        before = running.bounds.save(TICKS)
        running.bounds.forget(3)
        after = running.bounds.save(TICKS)
        assert before.keys() == after.keys()
        assert [any(saved["users/open/0"]) for saved in (before, after)] == [True, False]
        assert sums([running.scan_block(Block(lines(some(4, 5, who="ann")), 0), 4, TICKS, False)]) == {}
        assert sums([running.scan_block(Block(lines(some(4, who="bob")), 0), 4, TICKS, False)]) == {(5, 0, 0): (1,)}


def test_a_memory_that_forgets_ticks_is_caught() -> None:
    """A broken twin: a memory without the number of ticks admits users for ever."""
    with engine(stream(unit=UNIT), [ALL]) as running:
        running.scan_block(Block(lines(some(0, 1, 2, who="ann")), 0), 1, TICKS, False)
        assert sums([running.scan_block(Block(lines(some(4, who="ann")), 0), 4, TICKS, False)]) == {}
    with engine(stream(unit=UNIT), [ALL]) as forgetful:
        assert sums([forgetful.scan_block(Block(lines(some(4, who="ann")), 0), 4, TICKS, False)]) != {}


def sizes(saved: dict[str, bytes]) -> dict[str, int]:
    return {name: len(part) for name, part in saved.items()}


def test_saved_size_does_not_reveal_number_of_users() -> None:
    found = []
    for count in (0, 1, 50, 3000):
        with engine(stream(unit=UNIT, max_users=3000)) as running:
            records = [{"hours": 0, "who": f"user {i}"} for i in range(count)]
            running.scan_block(Block(lines(records), 0), 1, TICKS, False)
            found.append(sizes(running.bounds.save(TICKS)))
    assert found == [found[0]] * 4


@pytest.mark.parametrize(("count", "times"), [(MIN_SAVED_ROWS, 1), (MIN_SAVED_ROWS + 1, 2), (3 * MIN_SAVED_ROWS, 4)])
def test_excess_users_are_saved_in_power_of_two_sizes(count: int, times: int) -> None:
    records = [{"hours": 0, "who": f"user {i}"} for i in range(count)]
    with engine(stream(unit=UNIT, max_users=1)) as running, engine(stream(unit=UNIT)) as other:
        running.scan_block(Block(lines(records), 0), 1, TICKS, False)
        saved = running.bounds.save(1)
        other.bounds.restore(saved)
        assert remembered(other) == remembered(running)
        large = {name: times * size for name, size in EMPTY_SIZES.items() if name in ("users/base/0", "users/open/0")}
        assert sizes(saved) == EMPTY_SIZES | large


def test_all_open_ticks_of_a_user_are_remembered() -> None:
    unit = User(1, 20)
    with engine(stream(unit=unit, allowed_lateness=0)) as running, engine(stream(unit=unit)) as other:
        running.scan_block(Block(lines(some(*range(20), who="ann")), 0), 1, TICKS, False)
        other.bounds.restore(running.bounds.save(20))
        assert remembered(other) == remembered(running)
        assert len(remembered(other)[1]) == 20
        assert sums([other.scan_block(Block(lines(some(3, who="ann")), 0), 1, TICKS, False)]) == {}


def test_events_of_any_unit_but_users_are_not_remembered() -> None:
    with engine(stream()) as running:
        running.bounds.restore({"users/000": b"old"})
        running.scan_block(Block(lines(some(1)), 0), 1, TICKS, False)
        running.bounds.forget(1)
        assert running.bounds.save(TICKS) == running.bounds.save_changed() == {}


def test_bad_records_are_located_by_place_length_and_rule() -> None:
    records = [
        '{"ts":"2026-01-05T01:00:00Z","who":1}',
        "né",
        "",
        "{}",
        '{"ts":"1999-01-01"}',
        '{"ts":"2026-01-05T01:00:00Z"}',
    ]
    data = "".join(record + "\n" for record in records).encode()
    with engine(stream(unit=UNIT)) as running:
        found = running.locate(Block(data, 1000))
    starts = [1000 + len("".join(r + "\n" for r in records[:i]).encode()) for i in range(len(records))]
    assert found == (
        DroppedRecord(starts[1], 3, "not readable"),
        DroppedRecord(starts[3], 2, "no time"),
        DroppedRecord(starts[4], 19, "outside"),
        DroppedRecord(starts[5], 29, "no user"),
    )


def test_not_more_than_ten_thousand_bad_records_are_located() -> None:
    with engine(stream()) as running:
        assert len(running.locate(Block(b"x\n" * 20_000, 0))) == 10_000
        assert running.locate(Block(b"", 0)) == ()
