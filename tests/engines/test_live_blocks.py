"""Blocks of a live source: late and early events, and users bounded in the order of arrival."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pytest
from declared import (
    ALL,
    HEADER,
    REGIONS,
    TICKS,
    at,
    counted,
    csv_line,
    engine,
    expected,
    json_line,
    stream,
    sums,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.engines import connection
from streamgauge.engines.user_bounds import CHANGED, FEWEST, UserBounds
from streamgauge.privacy import User
from streamgauge.query.blocks import Block, Dropped

UNIT = User(max_events_per_tick=2, max_ticks=3)
Records = list[dict[str, Any]]


def lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json_line(record).encode() + b"\n" for record in records)


def some(*hours: float, **more: Any) -> Records:
    return [{"hours": hour, "region": "north", "temperature": 37} | more for hour in hours]


def test_a_block_is_added_up_like_a_file() -> None:
    records = [
        {"hours": i * 5 % 24, "region": REGIONS[i % 4], "temperature": 35 + i % 80 / 10} for i in range(500)
    ]
    with engine(stream()) as running:
        assert sums([running.block(lines(records), 1, TICKS, False)]) == expected(records)
    with engine(stream("csv")) as running:
        data = b"".join(csv_line(record).encode() + b"\n" for record in records)
        assert sums([running.block(data, 1, TICKS, False, HEADER)]) == expected(records)


def test_late_events_are_dropped_or_carried_and_early_ones_dropped() -> None:
    data = lines(some(0, 1, 2, 3, 4, 30))
    with engine(stream(), [ALL]) as running:
        dropped = running.block(data, 3, 4, carry=False)
        carried = running.block(data, 3, 4, carry=True)
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
        one = running.block(b"", 1, TICKS, False)
    assert sums([one]) == {}
    assert counted([one])["records"] == 0


def by_hand(records: Records, unit: User) -> Counter[tuple[int, str]]:
    """Events that are admitted, one after another."""
    admitted: Counter[tuple[int, str]] = Counter()
    seen: Counter[tuple[str, int]] = Counter()
    for record in records:
        who, tick = record["who"], int(record["hours"]) + 1
        ticks = {t for (user, t), count in seen.items() if user == who and count}
        if seen[who, tick] < unit.max_events_per_tick and (tick in ticks or len(ticks) < unit.max_ticks):
            seen[who, tick] += 1
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
def test_users_are_bounded_in_the_order_of_arrival_however_the_source_is_cut(
    records: Records, cuts: list[int]
) -> None:
    ends = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    with engine(stream(unit=UNIT), threads=2) as running:
        found = [running.block(lines(records[a:b]), 1, TICKS, False) for a, b in pairwise(ends)]
    assert {(tick, REGIONS[place]): row[0] for (tick, place, _), row in sums(found).items()} == by_hand(
        records, UNIT
    )
    assert counted(found)["bounded"] == len(records) - sum(by_hand(records, UNIT).values())


def test_large_blocks_keep_the_order_of_arrival() -> None:
    """More rows than DuckDB gives to one thread: those of the second half come too late."""
    head, tail = (f'{{"ts":"{at(0)}","region":"{region}","who":' for region in REGIONS[:2])
    data = "".join(f"{begin}{i}}}\n" for begin in (head, tail) for i in range(120_000)).encode()
    with engine(stream(unit=User(1, 1)), threads=2) as running:
        found = sums([running.block(data, 1, TICKS, False)])
    assert {key: row[0] for key, row in found.items()} == {(1, 0, 0): 120_000}


def test_a_database_that_has_read_its_share_is_replaced_and_nobody_notices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
            monkeypatch.setattr(connection, "WORN", share)
            with engine(stream(unit=unit)) as running:
                found.append(sums([running.block(cut, 1, TICKS, False) for cut in cuts]))
        assert found[0] == found[1]
        assert len(begun) - before == 1 + 3


def test_what_was_saved_goes_on_elsewhere() -> None:
    records = [{"hours": i % 6, "region": "north", "who": f"u{i % 7}"} for i in range(200)]
    with (
        engine(stream(unit=UNIT)) as whole,
        engine(stream(unit=UNIT)) as first,
        engine(stream(unit=UNIT)) as second,
    ):
        straight = [whole.block(lines(part), 1, TICKS, False) for part in (records[:90], records[90:])]
        begun = first.block(lines(records[:90]), 1, TICKS, False)
        second.bounds.restore(first.bounds.saved(TICKS) | {"position": b"not ours"})
        assert sums([begun, second.block(lines(records[90:]), 1, TICKS, False)]) == sums(straight)


def test_between_two_ticks_those_who_changed_are_saved_and_over_a_restart_too() -> None:
    """Saved with everything, `ann` changes, then, in another process, `bob`: in a third both have changed."""
    everything: dict[str, bytes] = {}
    with engine(stream(unit=UNIT)) as running:
        running.block(lines(some(0, who="ann")), 1, TICKS, False)
        everything |= running.bounds.saved(TICKS)
        assert set(everything) == {"users/0", CHANGED}
    for who in ("ann", "bob", "cleo"):
        with engine(stream(unit=UNIT)) as running:
            running.bounds.restore(everything)
            running.block(lines(some(1, 1, who=who)), 1, TICKS, False)
            changed = running.bounds.changed()
            assert list(changed) == [CHANGED]
            everything |= changed
    with engine(stream(unit=UNIT)) as other:
        other.bounds.restore(everything)
        assert other.bounds._used == running.bounds._used
        assert other.bounds._open == running.bounds._open
        assert sorted(other.bounds._used.values()) == [1, 1, 2]


def test_what_was_saved_in_buckets_is_taken_back_and_its_parts_go() -> None:
    with engine(stream(unit=UNIT)) as running, engine(stream(unit=UNIT)) as other:
        running.block(lines(some(0, 1, who="ann") + some(1, who="bob")), 1, TICKS, False)
        rows = running.bounds._rows(running.bounds._used)
        other.bounds.restore({f"bounds/{bucket:03x}": row.tobytes() for bucket, row in enumerate(rows)})
        assert other.bounds._used == running.bounds._used
        assert other.bounds._open == running.bounds._open
        saved = other.bounds.saved(TICKS)
        assert saved | {"bounds/000": None, "bounds/001": None} == saved
        assert all(other.bounds.saved(TICKS).values())


def test_closed_ticks_are_forgotten_but_not_how_many_there_were() -> None:
    with engine(stream(unit=UNIT), [ALL]) as running:
        running.block(lines(some(0, 1, 2, who="ann")), 1, TICKS, False)
        before = running.bounds.saved(TICKS)
        running.bounds.forget(3)
        after = running.bounds.saved(TICKS)
        assert before.keys() == after.keys()
        rows = [np.frombuffer(part, running.bounds._entry) for part in (before["users/0"], after["users/0"])]
        assert [np.any(each["ticks"]) for each in rows] == [True, False]
        assert sums([running.block(lines(some(4, 5, who="ann")), 4, TICKS, False)]) == {}
        assert sums([running.block(lines(some(4, who="bob")), 4, TICKS, False)]) == {(5, 0, 0): (1,)}


def test_a_memory_that_forgets_ticks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: whoever forgets the number of ticks admits users for ever."""
    monkeypatch.setattr(UserBounds, "forget", lambda bounds, tick: bounds.__init__(bounds_of, UNIT))
    bounds_of = stream(unit=UNIT)
    with engine(stream(unit=UNIT), [ALL]) as running:
        running.block(lines(some(0, 1, 2, who="ann")), 1, TICKS, False)
        running.bounds.forget(3)
        assert sums([running.block(lines(some(4, who="ann")), 4, TICKS, False)]) != {}


def sizes(saved: dict[str, bytes]) -> dict[str, int]:
    return {name: len(part) for name, part in saved.items()}


def test_who_was_active_and_how_many_there_are_is_not_told_by_what_is_saved() -> None:
    found = []
    for count in (0, 1, 50, 3000):
        with engine(stream(unit=UNIT, max_users=3000)) as running:
            records = [{"hours": 0, "who": f"user {i}"} for i in range(count)]
            running.block(lines(records), 1, TICKS, False)
            found.append(sizes(running.bounds.saved(TICKS)))
    assert found == [found[0]] * 4


@pytest.mark.parametrize(("count", "times"), [(FEWEST, 1), (FEWEST + 1, 2), (3 * FEWEST, 4)])
def test_more_users_than_declared_are_told_in_powers_of_two_and_nobody_is_forgotten(
    count: int, times: int
) -> None:
    records = [{"hours": 0, "who": f"user {i}"} for i in range(count)]
    with engine(stream(unit=UNIT, max_users=1)) as running, engine(stream(unit=UNIT)) as other:
        running.block(lines(records), 1, TICKS, False)
        saved = running.bounds.saved(1)
        other.bounds.restore(saved)
        assert other.bounds._used == running.bounds._used
        assert other.bounds._open == running.bounds._open
        rows = FEWEST * running.bounds._entry.itemsize
        assert sizes(saved) == {"users/0": times * rows, CHANGED: rows}


def test_more_open_ticks_than_slots_are_all_remembered() -> None:
    unit = User(1, 20)
    with engine(stream(unit=unit, lateness=0)) as running, engine(stream(unit=unit)) as other:
        running.block(lines(some(*range(20), who="ann")), 1, TICKS, False)
        other.bounds.restore(running.bounds.saved(20))
        assert other.bounds._open == running.bounds._open
        assert sums([other.block(lines(some(3, who="ann")), 1, TICKS, False)]) == {}


def test_events_of_any_unit_but_users_are_not_remembered() -> None:
    with engine(stream()) as running:
        running.bounds.restore({"bounds/000": b"old"})
        running.block(lines(some(1)), 1, TICKS, False)
        running.bounds.forget(1)
        assert running.bounds.saved(TICKS) == running.bounds.changed() == {}


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
        Dropped(starts[1], 3, "not readable"),
        Dropped(starts[3], 2, "no time"),
        Dropped(starts[4], 19, "outside"),
        Dropped(starts[5], 29, "no user"),
    )


def test_not_more_than_ten_thousand_bad_records_are_located() -> None:
    with engine(stream()) as running:
        assert len(running.locate(Block(b"x\n" * 20_000, 0))) == 10_000
        assert running.locate(Block(b"", 0)) == ()
