"""Laws of every statistic's runs: exact without noise, blocks equal steps, saves continue."""

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge import statistics
from streamgauge.continual import InvalidSaveError, LimitExceededError, RunFailedError
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.forging import altered, forged
from tests.support.forked import forked
from tests.support.saved_states import check_refused_in_child
from tests.support.statistics_catalogue import (
    CASES,
    RUNNING,
    WIDTH,
    Case,
    every_case,
    every_kept_case,
    every_running_case,
    given,
    same,
    statistics_found,
    stream,
)

TICKS = 9
SAVED = (1, 7, TICKS)  # a run is saved and loaded after these ticks
NUMBERS: list[Any] = [float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), 2**63, -(2**63), 1e308]
OTHERS: list[Any] = ["", "text", b"\xff", "\ud800", [1, 2], {}, object(), 1 + 2j, np.ma.masked, True, 0.1, -0.0]
HOSTILE = [*NUMBERS, *OTHERS, np.datetime64("NaT"), np.float16("inf")]


class Raising:
    """An item that raises on every operation."""

    def __float__(self) -> float:
        raise RuntimeError("private")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("private")

    def __hash__(self) -> int:
        raise RuntimeError("private")

    def __index__(self) -> int:
        raise RuntimeError("private")

    def __repr__(self) -> str:
        raise RuntimeError("private")


def test_every_statistic_is_exported() -> None:
    assert {cls.__name__ for cls in statistics_found()} <= set(statistics.__all__)


@every_running_case
def test_silent_noise_gives_the_exact_statistic_at_every_tick(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, TICKS)
    run = claim.start(WIDTH, SilentNoise())
    for tick in range(1, TICKS + 1):
        release = run.step(**given(case, claim, events.tick(tick)))
        for group in range(WIDTH):
            view = events.only(np.flatnonzero((events.ticks <= tick) & (events.groups == group)))
            expected, found = case.kind.truth(claim, view, tick), case.kind.read_off(release, group)
            if isinstance(expected, list):
                assert found == expected
            elif expected is not None:
                promised = np.where(np.isnan(expected), np.nan, found)
                np.testing.assert_allclose(promised, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.one_of_each("case")
@every_kept_case
def test_feed_equals_steps(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, TICKS)
    stepped, fed = claim.start(WIDTH, InsecureNoise(1)), claim.start(WIDTH, InsecureNoise(1))
    one = claim.join_releases([stepped.step(**given(case, claim, events.tick(t))) for t in range(1, TICKS + 1)])
    shuffled = events.only(np.argsort(np.random.default_rng(2).random(len(events.ticks)), kind="stable"))
    in_order = shuffled.only(np.argsort(shuffled.ticks % 3, kind="stable"))
    early = in_order.only(np.flatnonzero(in_order.ticks <= 5))
    two = [fed.feed(**given(case, claim, early), ticks=early.ticks, until=5)]
    two += [fed.feed(**given(case, claim, in_order), ticks=in_order.ticks, until=TICKS)]
    assert fed.tick == stepped.tick == TICKS
    if not claim.HAS_MEMORY and not claim.bounds_users:  # these depend on the order inside a tick
        same(claim.join_releases([*split(two[0], 5), *split(two[1], TICKS - 5)]), one)


def split(release: Any, ticks: int) -> list[Any]:
    return list(release) if isinstance(release, tuple) else [release.select_tick(row) for row in range(ticks)]


@pytest.mark.one_of_each("case")
@every_kept_case
def test_saved_run_continues_bit_for_bit(case: Case) -> None:
    """The run is saved before its first tick and several times later."""
    claim, events, noise = case.claim(TICKS), stream(case, TICKS), InsecureNoise(4)
    run = claim.start(WIDTH, noise)
    twin = claim.load(run.save(), noise.clone())
    for tick in range(1, TICKS + 1):
        columns = given(case, claim, events.tick(tick))
        same(run.step(**columns), twin.step(**columns), close=False)
        if tick in SAVED:
            saved = run.save()
            assert twin.save() == saved
            twin = claim.load(saved, noise.clone())
            assert twin.tick == tick


@every_running_case
def test_save_of_another_claim_or_truncated_is_refused(case: Case) -> None:
    claim = case.claim(TICKS)
    saved = claim.start(WIDTH, SilentNoise()).save()
    with pytest.raises(InvalidSaveError, match=r"^saved must be a run of .*, got one of "):
        case.claim(TICKS + 1).load(saved)
    for broken in (saved[:-1], altered(saved)):
        with pytest.raises(InvalidSaveError, match=r"^saved must be whole, got a truncated or altered run$"):
            claim.load(broken)
    assert claim.load(saved).tick == 0


@every_running_case
def test_a_save_that_cannot_be_this_claims_is_refused(case: Case) -> None:
    claim = case.claim(TICKS)
    saved = claim.start(noise=SilentNoise(), groups=["a", "b"]).save()
    for old, new in ((b'"width": 2', b'"width": 7'), (b'"state"', b'"stale"'), (b"{", b"["), (b"{", b"7 {")):
        with pytest.raises(InvalidSaveError, match=r"^saved must hold a state of its claim, got another$"):
            claim.load(forged(saved, old, new))


@pytest.mark.one_of_each("case")
@every_case
def test_labels_are_groups_and_other_labels_are_dropped(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, 1, events=30)
    numbered = claim.start(WIDTH, InsecureNoise(3))
    labelled = claim.start(noise=InsecureNoise(3), groups=["a", "b", "c"])
    assert labelled.width == WIDTH
    columns = given(case, claim, events)
    named = {**columns, "groups": np.array(["a", "b", "c"])[events.groups]}
    same(numbered.step(**columns), labelled.step(**named))
    outside = given(case, claim, events)
    outside["groups"] = np.full(len(events.groups), "d")
    nothing = given(case, claim, events.only(np.zeros(0, int)))
    same(labelled.step(**outside), numbered.step(**nothing))
    twin = claim.load(labelled.save(), SilentNoise())
    assert twin.domain == labelled.domain


@pytest.mark.one_of_each("case")
@every_running_case
def test_hostile_item_cannot_raise_or_change_other_items(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, 1, events=20)
    for hostile in [*HOSTILE, Raising()]:
        rows = [hostile, *events.rows, hostile]
        outside = hostile if not isinstance(hostile, bool | float) or hostile not in (0, 1) else "d"
        columns: dict[str, Any] = {
            case.kind.column: case.kind.columns(rows),
            "groups": [outside, *events.groups.tolist(), outside],
        }
        if claim.bounds_users and case.kind.column != "users":
            columns["users"] = [hostile, *events.users.tolist(), hostile]
        one, two = claim.start(WIDTH, SilentNoise()), claim.start(WIDTH, SilentNoise())
        same(one.step(**columns), two.step(**given(case, claim, events)))
        one.step(**{**columns, "groups": [0] * len(rows)})
        two.feed(**columns, ticks=[hostile, *[1] * 20, 2], until=2)


@every_running_case
def test_past_the_horizon_is_a_typed_refusal_that_changes_nothing(case: Case) -> None:
    claim, events = case.claim(3), stream(case, 3)
    run = claim.start(WIDTH, SilentNoise())
    for tick in (1, 2, 3):
        run.step(**given(case, claim, events.tick(tick)))
    if claim.counter.horizon is None:
        return
    before = run.save()
    with pytest.raises(LimitExceededError, match=r"^tick must be at most the horizon 3, got 4$"):
        run.step(**given(case, claim, events.tick(1)))
    assert run.tick == 3
    assert len(run.save()) == len(before)


class Failing:
    """Noise that fails after `requests` requests."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def laplace(self, scale: Any, size: int) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise OSError("no entropy")
        return np.zeros(size, np.int64)

    gaussian = laplace


def consume(run: Any) -> None:
    for _ in range(TICKS):
        run.step()


@every_running_case
def test_run_with_failed_noise_refuses_to_continue(case: Case) -> None:
    run = case.claim(TICKS).start(1, Failing(4))
    with pytest.raises(OSError, match="no entropy"):
        consume(run)
    for act in (run.step, run.save, lambda: run.tick):
        with pytest.raises(RunFailedError, match=r"^run must be whole to continue"):
            act()


@pytest.mark.one_of_each("case")
@every_running_case
def test_a_run_cannot_be_copied_pickled_or_forked(case: Case) -> None:
    run = case.claim(TICKS).start()
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must not be"):
            act(run)
    assert forked(partial(check_refused_in_child, run.step)) == 0


@every_running_case
def test_a_claim_is_frozen_hashable_and_printable(case: Case) -> None:
    claim, twin = case.claim(TICKS), case.claim(TICKS)
    assert claim == twin
    assert hash(claim) == hash(twin)
    assert repr(claim).startswith(case.cls.__name__)
    assert claim.identity() == twin.identity()
    with pytest.raises(AttributeError):
        claim.loss = sg.Pure(9)


@every_running_case
def test_invalid_settings_are_refused(case: Case) -> None:
    for setting, bad, words in (
        ("loss", "a lot", "loss must be "),
        ("unit", sg.WEvent, "unit must be an Event, WEvent, Tick or User, got"),
        ("pan_private", "no", "pan_private must be True or False, got 'no'"),
        ("mechanism", "Binary", "mechanism must be one of the mechanisms in continual or adaptive, got 'Binary'"),
        ("window", "weekly", "window must be "),
        ("horizon", 0, "horizon must be "),
        ("horizon", 2.5, "horizon must be "),
    ):
        with pytest.raises(ValueError, match="^" + words):
            case.cls(**{"loss": case.loss, "horizon": TICKS, **dict(case.settings), setting: bad})
    for bad in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match=r"^width must be a whole number of at least 1, got"):
            case.claim(TICKS).start(bad)
    with pytest.raises(ValueError, match=r"^groups must be distinct, got 'a' twice$"):
        case.claim(TICKS).start(groups=["a", "b", "a"])


@every_running_case
def test_columns_are_refused_without_revealing_their_length(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, 1, events=7)
    run = claim.start(WIDTH, SilentNoise())
    columns = given(case, claim, events)
    with pytest.raises(ValueError, match=r"^columns must have one item for every event, got different lengths$"):
        run.step(**{**columns, "groups": events.groups[:3]})
    with pytest.raises(ValueError, match=r"^groups must be given in a run of 3 groups, got None$"):
        run.step(**{**columns, "groups": None})
    with pytest.raises(ValueError, match=r"^groups must be a column of events, got str$"):
        run.step(**{**columns, "groups": "north"})
    with pytest.raises(ValueError, match=r"^ticks must be whole numbers, counted from 1, got datetime64"):
        run.feed(**columns, ticks=np.zeros(7, "datetime64[s]"), until=1)
    run.step(**columns)
    with pytest.raises(ValueError, match=r"^until must not be before the run's tick"):
        run.feed(**columns, ticks=events.ticks, until=0)
    assert run.tick == 1


@every_running_case
def test_an_empty_tick_releases_like_any_other(case: Case) -> None:
    claim = case.claim(TICKS)
    one, two = claim.start(WIDTH, InsecureNoise(5)), claim.start(WIDTH, InsecureNoise(5))
    columns = given(case, claim, stream(case, 1, events=0))
    same(one.step(), two.step(**columns))


@pytest.mark.one_of_each("case")
@every_case
def test_feed_without_ticks_releases_nothing_and_changes_nothing(case: Case) -> None:
    claim, events = case.claim(TICKS), stream(case, 1, events=9)
    run, twin = claim.start(WIDTH, InsecureNoise(6)), claim.start(WIDTH, InsecureNoise(6))
    columns = given(case, claim, events)
    for tick in range(3):
        run.feed(**columns, ticks=events.ticks, until=tick)
        assert run.tick == tick
        same(run.step(**columns), twin.step(**columns), close=False)


def test_case_list_exceeds_the_running_cases() -> None:
    assert len(CASES) > len(RUNNING) > 0
