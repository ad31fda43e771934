"""Users are bounded by their own events only, and one user moves at most the unit."""

from itertools import product
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamgauge as sg
from streamgauge.statistics import Count, Distinct, TopK
from streamgauge.statistics.events import to_column
from streamgauge.statistics.user_bounds import UserContributions, rank_by_code
from streamgauge.testing.noise import SilentNoise

USERS = st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5)  # tick by tick


def survivors(unit: sg.User, ticks: list[list[Any]]) -> list[list[int]]:
    bounded = UserContributions(unit)
    return [bounded.admit_events(to_column("users", users), tick).tolist() for tick, users in enumerate(ticks, 1)]


@given(USERS, st.integers(1, 3), st.integers(1, 3))
def test_the_first_events_of_a_users_first_ticks_survive(ticks: list[list[int]], most: int, days: int) -> None:
    rest = survivors(sg.User(most, days), ticks)
    for user in range(4):
        days_seen = [tick for tick, users in enumerate(ticks) if user in users][:days]
        for tick, users in enumerate(ticks):
            places = [i for i, other in enumerate(users) if other == user]
            expected = places[:most] if tick in days_seen else []
            assert [i for i in rest[tick] if users[i] == user] == expected


@given(USERS, st.integers(1, 2), st.integers(1, 3))
def test_each_block_of_renewing_users_is_bounded_alone(ticks: list[list[int]], days: int, block: int) -> None:
    unit = sg.User(1, min(days, block), per=block)
    blocks = [ticks[first : first + block] for first in range(0, len(ticks), block)]
    alone = [each for part in blocks for each in survivors(sg.User(1, min(days, block)), part)]
    assert survivors(unit, ticks) == alone


def test_resumed_run_knows_the_ticks_of_its_block() -> None:
    claim = Count(sg.Pure(1), window="each", horizon=9, unit=sg.User(1, 1, per=3))
    run, counts = claim.start(noise=SilentNoise()), []
    for _ in range(9):
        counts.append(int(run.step(groups=[0], users=["ann"]).value[0]))
        run = claim.load(run.save(), SilentNoise())
    assert counts == [1, 0, 0] * 3
    fed = claim.start(noise=SilentNoise()).feed(groups=[0] * 9, users=["ann"] * 9, ticks=range(1, 10), until=9)
    assert fed.value[:, 0].tolist() == counts


def test_running_distinct_refuses_users_who_renew() -> None:
    unit = sg.User(1, 1, per=3)
    with pytest.raises(ValueError, match=r"^unit must not renew for running Distinct"):
        Distinct(sg.Pure(1), universe=9, unit=unit)
    assert Distinct(sg.Pure(1), universe=9, window="each", unit=unit).counter_unit == unit
    with pytest.raises(ValueError, match=r"^max_keys must be None where users renew, got 3$"):
        TopK(sg.Approx(1, 1e-6), k=3, unit=unit, max_keys=3, horizon=9)


@given(USERS, st.integers(0, 3))
def test_no_user_displaces_another(ticks: list[list[int]], gone: int) -> None:
    unit = sg.User(1, 2)
    with_all = survivors(unit, ticks)
    without = survivors(unit, [[user for user in users if user != gone] for users in ticks])
    for users, one, two in zip(ticks, with_all, without, strict=True):
        left = [user for user in users if user != gone]
        assert [users[i] for i in one if users[i] != gone] == [left[i] for i in two]


@pytest.mark.slow
def test_every_user_behaviour_moves_vectors_at_most_the_unit() -> None:
    """All behaviours of one user over three ticks and two groups, in front of another user."""
    unit = sg.User(max_events_per_tick=2, max_ticks=2)
    claim = Count(sg.Pure(1), horizon=3, window="each", unit=unit)
    acts = [acts for n in range(4) for acts in product((0, 1), repeat=n)]
    other, alone, worst = [0, 1, 1], claim.start(2, SilentNoise()), 0
    without = [alone.step(groups=other, users=["you"] * 3).value for _ in range(3)]
    for days in product(acts, repeat=3):
        run, moved = claim.start(2, SilentNoise()), []
        for groups, unmoved in zip(days, without, strict=True):
            all_groups, users = [*groups, *other], ["me"] * len(groups) + ["you"] * 3
            with_me = run.step(groups=all_groups, users=users).value
            moved.append(np.abs(with_me - unmoved).sum())
        assert max(moved) <= 2
        assert np.count_nonzero(moved) <= 2
        worst = max(worst, sum(moved))
    assert worst == 4


def test_users_of_every_type_are_distinct_and_others_dropped() -> None:
    unit = sg.User(1, 1)
    users = [7, "7", b"7", 7, None, 1.5, float("nan"), [1], 7.0, UUID(int=7), UUID(int=7), 10**5000]
    assert survivors(unit, [users]) == [[0, 1, 2, 9, 11]]
    assert survivors(unit, [[7], np.array([7.0]), ["a\0"], np.array(["a"])]) == [[0], [], [0], []]
    assert survivors(unit, [np.array([5, 5, 6])]) == [[0, 2]]
    assert survivors(unit, [np.array(["a", "b", "a"])]) == [[0, 1]]
    assert survivors(unit, [np.array(["a"]), ["a"], [np.str_("a")]]) == [[0], [], []]
    assert survivors(unit, [np.array([5], np.uint8), [5]]) == [[0], []]


def test_saved_run_contains_no_user_names() -> None:
    claim = Count(sg.Pure(1), horizon=9, unit=sg.User(1, 3))
    run = claim.start(noise=SilentNoise())
    run.step(groups=[0, 0], users=["patient-471147114711", "patient-471147114712"])
    saved = run.save()
    assert b"471147114711" not in saved
    twin = claim.load(saved, SilentNoise())
    for _ in range(3):
        assert (
            twin.step(groups=[0], users=["patient-471147114711"]).value
            == run.step(groups=[0], users=["patient-471147114711"]).value
        )
    assert twin.step(groups=[0], users=["patient-471147114711"]).value == 4
    assert claim.start().save() != claim.start().save()  # a key of its own


@given(st.lists(st.integers(0, 3)))
def test_rank_counts_earlier_equals(codes: list[int]) -> None:
    expected = [codes[:i].count(code) for i, code in enumerate(codes)]
    assert rank_by_code(np.array(codes, np.int64)).tolist() == expected
