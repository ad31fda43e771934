"""Laws of rankings: published items, order, intervals, and items that leave no trace."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import ExponentialDecay, Kary, SquareRoot
from streamgauge.continual.mechanism import MAX_CHEAP_DRAWS
from streamgauge.privacy import Tick
from streamgauge.statistics.keys.discovery import MIN_COLUMNS, KeyContributions
from streamgauge.statistics.keys.ranking import Ranking, join_keys, split_keys, to_plain_keys
from streamgauge.statistics.keys.top_k import TopK
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise
from tests.support.saved_states import live_state

APPROX = sg.Approx(1, 1e-6)
UNIT = sg.User(4, 3)


def answer(ranking: Ranking) -> Any:
    """Return all data of a ranking, bit for bit."""
    arrays = [*ranking.counts, *(bound for pair in ranking.interval() for bound in pair)]
    numbers = ranking.stddev, ranking.candidate_count, [array.tobytes() for array in arrays]
    return ranking.keys, numbers, repr(ranking), str(ranking)


def same(one: Ranking, two: Ranking) -> bool:
    return bool(answer(one) == answer(two))


def test_declared_domain_is_ranked_by_count_then_declared_order() -> None:
    run = TopK(sg.Pure(1), k=2, domain=["c", "a", "b"], horizon=9).start(2, SilentNoise())
    ranking = run.step(["a", "a", "b", "x", "b"], groups=[0, 0, 0, 0, 1])
    assert ranking.keys == (("a", "b"), ("b", "c"))
    assert [counts.tolist() for counts in ranking.counts] == [[2, 1], [1, 0]]
    everything = TopK(sg.Pure(1), k=9, domain=["c", "a", "b"], horizon=9).start(1, SilentNoise())
    assert everything.step(["b"]).keys == (("b", "c", "a"),)


def test_intervals_hold_for_selected_keys_unlike_single_key_intervals() -> None:
    """The largest of 200 noisy zeros, in 2000 groups."""
    claim = TopK(sg.Pure(1), k=1, domain=range(200), horizon=1)
    ranking = claim.start(2000, InsecureNoise(2)).step()
    coverage = np.mean([low[0] <= 0 <= high[0] for low, high in ranking.interval(0.9)])
    single = ranking.noise.half_width(0.9)
    assert coverage >= 0.9
    assert np.mean([counts[0] <= single for counts in ranking.counts]) < 0.1
    assert coverage < 0.97  # and not too wide


def test_a_declared_ranking_fed_is_stepped() -> None:
    claim = TopK(sg.Zcdp(1), k=2, domain=list("abc"), horizon=9, pan_private=True)
    keys, ticks = ["a", "b", "b", "c"], [1, 1, 2, 3]
    steps, fed = claim.start(1, InsecureNoise(1)), claim.start(1, InsecureNoise(1))
    many = fed.feed(keys, ticks=ticks, until=3)
    one = [steps.step([k for k, t in zip(keys, ticks, strict=True) if t == tick]) for tick in (1, 2, 3)]
    assert len(many) == 3
    assert all(map(same, many, one))


def test_without_noise_keys_above_the_threshold_are_published_and_stay() -> None:
    claim = TopK(APPROX, k=5, horizon=9, window="each")
    run = claim.start(2, SilentNoise())
    enough = int(claim.selection.threshold(1)) + 1
    assert run.step(["a"] * (enough - 1) + ["b"] * enough, groups=[0] * (2 * enough - 1)).keys == (("b",), ())
    assert run.step(["a"] * enough, groups=[1] * enough).keys == (("b",), ("a",))
    later = run.step()
    assert later.keys == (("b",), ("a",))
    assert [counts.tolist() for counts in later.counts] == [[0], [0]]
    assert str(claim.start(1, SilentNoise()).step()) == "no keys"


def test_key_without_events_in_window_is_not_published() -> None:
    """Delta covers a key only for the ticks of its windows."""
    for window, span in (("each", 1), ("sliding 3", 3)):
        claim = TopK(sg.Approx(1, "1/5"), k=10**6, horizon=30, window=window)
        run = claim.start(noise=InsecureNoise(1))
        run.step(range(3000))
        known = [len(run.step().keys[0]) for _ in range(20)]
        assert known[0] > 0
        assert len(set(known[span - 1 :])) == 1


def test_a_running_key_may_be_published_long_after_its_event() -> None:
    run = TopK(sg.Approx(1, "1/5"), k=10**6, horizon=30, mechanism=Kary).start(noise=InsecureNoise(1))
    run.step(range(3000))
    known = [len(run.step().keys[0]) for _ in range(20)]
    assert known[-1] > known[5]


@pytest.mark.parametrize("mechanism", [None, Kary, SquareRoot])
def test_an_undiscovered_key_leaves_no_trace(mechanism: Any) -> None:
    """With the same noise in the columns of the others, releases are the same to the last bit."""
    claim = TopK(APPROX, k=5, horizon=9, mechanism=mechanism)
    without, inside = claim.start(2, InsecureNoise(3)), claim.start(2, InsecureNoise(3))
    for tick in range(9):
        keys, groups = ["tea"] * 90 + ["rare"] + ["ale"] * 80, [0] * 91 + [1] * 80
        secret = [] if tick % 2 else ["secret"]
        one = without.step(keys, groups=groups)
        two = inside.step(keys + secret, groups=groups + [1] * len(secret))
        assert same(one, two)
        assert "secret" not in repr(two) + str(two) + repr(inside)
    assert one.keys == (("tea",), ("ale",))


def test_ranking_is_ordered_by_count_and_key() -> None:
    names = ["b", "c", 3, b"a", "a", 20]
    for order in (names, names[::-1]):
        run = TopK(APPROX, k=9, horizon=9).start(noise=SilentNoise())
        assert run.step([name for name in order for _ in range(200)]).keys == ((3, 20, "a", "b", "c", b"a"),)
    run = TopK(APPROX, k=2, horizon=9).start(noise=SilentNoise())
    assert run.step(names * 200 + ["c"]).keys == (("c", 3),)


def test_equal_keys_of_different_columns_are_one_key() -> None:
    columns = [["a", 1], np.array(["a"]), [True, "x"], [True, 2], np.array([1], np.uint8), np.array([True])]
    keys = [key for values in columns for key in to_plain_keys(TopK(APPROX, k=1).read_columns(values)[0]).tolist()]
    assert keys == ["a", 1, "a", 1, "x", 1, 2, 1, 1]
    assert [type(key) for key in keys if key == 1] == [int] * 5
    hostile = [0.5, None, [1], float("nan"), 2**64, -(2**63) - 1, 10**5000, object(), np.datetime64("2020-01-01")]
    assert to_plain_keys(TopK(APPROX, k=1).read_columns([*hostile, "a"])[0]).tolist() == [None] * len(hostile) + ["a"]
    assert to_plain_keys(np.array([0.5, 1.0])).tolist() == [None, 1]


def test_all_keys_are_written_and_read() -> None:
    keys: list[Any] = ["", "ä", "\ud83d\ude00", "\ud83d", "😀", 0, -(2**63), 2**64 - 1, b"", b"\x00s", "i0"]
    assert split_keys(*join_keys(keys)) == keys
    assert len({key if isinstance(key, int) else (type(key), key) for key in split_keys(*join_keys(keys))}) == len(keys)


def test_at_least_adds_to_the_threshold() -> None:
    plain, raised = TopK(APPROX, k=1, horizon=9), TopK(APPROX, k=1, horizon=9, at_least=50)
    assert raised.selection.threshold(1) == plain.selection.threshold(1) + 49


def test_events_beyond_a_ticks_bound_leave_no_key() -> None:
    claim = TopK(sg.Approx(1, "1/5"), k=9, horizon=9, unit=Tick(3))
    memory = claim.initial_memory(1)
    keys = claim.read_columns([None, "a", "b", "c", "d", "e"])
    assert len(claim.build_increments(keys, np.zeros(6, int), 1, memory).events) == 3
    assert memory.keys == ["a", "b", "c"]


def test_users_keys_are_bounded_first_come() -> None:
    bounds = KeyContributions(2, 3)
    users, keys = np.array([7] * 8), np.array(["a", "b", "c", "a", "a", "a", "b", None], object)
    assert bounds.admit_events(users, keys, np.zeros(8, int)).tolist() == [0, 1, 3, 4, 6]
    assert bounds.admit_events(users[:2], keys[:2], np.zeros(2, int)).tolist() == [1]
    assert bounds.admit_events(users[:1], keys[:1], np.ones(1, int)).tolist() == []


def test_no_user_displaces_another() -> None:
    chance = np.random.default_rng(6)
    users, groups = chance.integers(0, 5, 300), chance.integers(0, 2, 300)
    keys = np.array(list("abcdefgh"), object)[chance.integers(0, 8, 300)]
    together, alone = KeyContributions(3, 4), KeyContributions(3, 4)
    own = np.flatnonzero(users == 2)
    rest = [own[alone.admit_events(users[own], keys[own], groups[own])]]
    all_rest = together.admit_events(users, keys, groups)
    assert rest[0].tolist() == [place for place in all_rest if users[place] == 2]
    for user in range(5):
        mine = [(keys[place], groups[place]) for place in all_rest if users[place] == user]
        assert len(set(mine)) <= 3
        assert max(mine.count(pair) for pair in set(mine)) <= 4


def test_one_event_per_user_and_key_counts_users() -> None:
    claim = TopK(APPROX, k=3, horizon=9, unit=sg.User(9, 9), max_keys=2, max_per_key=1)
    run = claim.start(noise=SilentNoise())
    users = np.repeat(np.arange(500), 3)
    assert run.step(["a"] * 1500, users=users).counts[0].tolist() == [500]
    ranking = run.step(["a", "b", "c"] * 500, users=users)
    assert (ranking.keys, [counts.tolist() for counts in ranking.counts]) == ((("a", "b"),), [[500, 500]])


def discovering() -> list[TopK]:
    bounded = {"unit": UNIT, "max_keys": 3, "max_per_key": 2}
    return [
        TopK(sg.Approx(2, 0.1), k=4, horizon=40),
        TopK(sg.Approx(2, 0.1), k=4, horizon=40, window="each", at_least=2),
        TopK(sg.Approx(2, 0.1), k=4, window="sliding 3"),
        TopK(sg.Approx(2, 0.1), k=4, horizon=40, window="decayed 5"),
        TopK(sg.Approx(2, 0.1), k=4, horizon=40, mechanism=SquareRoot, **bounded),
        TopK(sg.Approx(2, 0.1), k=4),
    ]


def stream(ticks: int) -> dict[str, Any]:
    """Return events with more and more keys, so that a run grows several times."""
    chance = np.random.default_rng(8)
    at = np.repeat(np.arange(1, ticks + 1), 60)
    return {
        "values": (chance.integers(0, 12, len(at)) ** 2 * at // 4).tolist(),
        "ticks": at,
        "groups": chance.integers(0, 2, len(at)),
        "users": chance.integers(0, 200, len(at)),
    }


def at_tick(events: dict[str, Any], tick: int) -> dict[str, Any]:
    own = np.flatnonzero(events["ticks"] == tick)
    return {name: [column[place] for place in own] for name, column in events.items() if name != "ticks"}


@pytest.mark.parametrize("claim", discovering(), ids=lambda claim: f"{claim.window} {claim.horizon} {claim.unit}")
def test_feed_equals_steps_and_saved_run_continues_bit_for_bit(claim: TopK) -> None:
    events, noise = stream(12), InsecureNoise(5)
    fed = claim.start(2, InsecureNoise(5)).feed(**events, until=12)
    run = claim.start(2, noise)
    for tick in range(1, 13):
        assert same(run.step(**at_tick(events, tick)), fed[tick - 1])
        run = claim.load(run.save(), noise.clone() if tick % 2 else noise)
        noise = live_state(run).counter.source
    state = live_state(run)
    assert state.memory.capacity == state.counter.width > MIN_COLUMNS


def test_growing_run_preserves_counts_of_published_keys() -> None:
    run = TopK(APPROX, k=2, horizon=9).start(noise=SilentNoise())
    run.step(["hot"] * 100)
    ranking = run.step([*(f"key {i}" for i in range(50_000)), "hot"])
    assert (ranking.keys, ranking.counts[0].tolist()) == ((("hot",),), [101])
    assert run.step(["key 7"] * 200).keys == (("key 7", "hot"),)


GROWING: list[dict[str, Any]] = [
    {"horizon": 100},
    {"horizon": 10**6},
    {},
    {"window": "sliding 20"},
    {"horizon": 3000, "unit": sg.User(1, 1000)},
    {"horizon": 3000, "unit": sg.User(1, 20), "max_keys": 20, "max_per_key": 1},
    {"unit": sg.User(1, 20), "max_keys": 20, "max_per_key": 1},
]


@pytest.mark.parametrize("settings", GROWING, ids=str)
def test_counter_for_discovered_keys_adds_columns_with_few_draws(settings: dict[str, Any]) -> None:
    claim, noise = TopK(APPROX, k=1, **settings), CountedNoise(SilentNoise())
    assert claim.counter.cheap_zero_state
    claim.counter.zero_state(1, claim.horizon or 10**6, noise)
    assert noise.total <= 2 * MAX_CHEAP_DRAWS


def test_new_key_costs_few_draws_per_column() -> None:
    drawn = {}
    for mechanism in (None, SquareRoot):
        noise = CountedNoise(SilentNoise())
        run = TopK(APPROX, k=1, horizon=300, mechanism=mechanism).start(noise=noise)
        run.feed(list(range(MIN_COLUMNS)), ticks=[1] * MIN_COLUMNS, until=299)
        before = noise.total
        run.step(["one more"])
        drawn[mechanism] = (noise.total - before) / MIN_COLUMNS
    assert drawn[None] <= MAX_CHEAP_DRAWS < 299 <= drawn[SquareRoot]


def test_counter_with_costly_columns_is_used_if_best_or_named() -> None:
    decayed = TopK(APPROX, k=1, horizon=1000, window="decayed 20")
    assert isinstance(decayed.counter, ExponentialDecay)
    assert not decayed.counter.cheap_zero_state
    assert isinstance(TopK(APPROX, k=1, horizon=1000, mechanism=SquareRoot).counter, SquareRoot)


def test_few_draws_cost_little_of_the_threshold() -> None:
    """The literal numbers are thresholds of the best counters, with a draw per tick."""
    free: dict[int, float] = {100: 68, 10**6: 189}
    for horizon, best in free.items():
        assert TopK(APPROX, k=1, horizon=horizon).selection.threshold(horizon) <= 1.7 * best
    users: dict[str, Any] = {"unit": sg.User(1, 20), "max_keys": 20, "max_per_key": 1}
    assert TopK(APPROX, k=1, horizon=1000, **users).selection.threshold(1000) <= 2.4 * 457
    assert TopK(APPROX, k=1, **users).selection.threshold(2**20) <= 2.4 * 1352


@pytest.mark.slow
def test_oversized_windows_and_too_small_deltas_are_refused() -> None:
    with pytest.raises(ValueError, match=r"window must be at most 2\*\*26 ticks"):
        TopK(APPROX, k=1, window="sliding 10000000000")
    with pytest.raises(ValueError, match=r"^window must leave the first 64 columns at most 2\*\*31 numbers"):
        TopK(APPROX, k=1, window="sliding 60000000")
    for horizon in (9, None):
        with pytest.raises(ValueError, match=r"^delta must leave every key and tick a share of at least"):
            TopK(sg.Approx(1, Fraction(1, 10**400)), k=1, horizon=horizon)
        small = TopK(sg.Approx(1, Fraction(1, 2**700)), k=1, horizon=horizon)
        assert 0 < small.selection.threshold(horizon or 2**62) < 10**6


def test_invalid_top_k_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^loss must be Approx where keys are discovered \(no other can hide"):
        TopK(sg.Pure(1), k=1, horizon=9)
    with pytest.raises(ValueError, match=r"^loss must be Approx where keys are discovered"):
        TopK(sg.Zcdp(1), k=1, horizon=9)
    with pytest.raises(ValueError, match=r"^pan_private must be False where keys are discovered"):
        TopK(APPROX, k=1, horizon=9, pan_private=True)
    with pytest.raises(ValueError, match=r"^k must be a whole number of at least 1, got 0"):
        TopK(APPROX, k=0, horizon=9)
    with pytest.raises(ValueError, match=r"^max_keys must be None unless units are Users, got 3"):
        TopK(APPROX, k=1, horizon=9, max_keys=3)
    with pytest.raises(ValueError, match=r"^max_per_key must be a whole number of at least 1, got 0"):
        TopK(APPROX, k=1, horizon=9, unit=UNIT, max_per_key=0)
    with pytest.raises(ValueError, match=r"^at_least must be 1 in windows that slide, got 2"):
        TopK(APPROX, k=1, window="sliding 3", at_least=2)
    with pytest.raises(ValueError, match=r"^at_least must be 1 where the domain is declared, got 2"):
        TopK(APPROX, k=1, domain=["a"], horizon=9, at_least=2)
    with pytest.raises(ValueError, match=r"^window must be"):
        TopK(APPROX, k=1, window="sliding x")
    with pytest.raises(ValueError, match=r"^confidence must be above 0 and below 1, got 1"):
        TopK(APPROX, k=1, horizon=9).start().step().interval(1)


def test_feed_without_ticks_ranks_nothing_and_changes_nothing() -> None:
    run = TopK(APPROX, k=2, horizon=24).start(noise=SilentNoise())
    run.step(["a"] * 100)
    assert run.feed(["a"], ticks=[1], until=1) == ()
    assert run.step(["a"] * 100).counts[0].tolist() == [200]
