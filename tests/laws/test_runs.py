"""Laws of runs: blocks equal steps, saved runs continue, failed runs do not."""

import copy
import pickle
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import InvalidSaveError, LimitExceededError, Run, RunFailedError
from streamgauge.noise import Ints
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.catalogue import Case, every_case
from tests.support.forging import altered, forged
from tests.support.forked import forked
from tests.support.saved_states import check_refused_in_child

TICKS = 60
CUTS = [0, 1, 2, 9, 10, 33, 33, 60]


def stream(ticks: int = TICKS, width: int = 3) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 9, (ticks, width))


def same(one: np.ndarray, two: np.ndarray) -> None:
    """Compare integers bit for bit, and floats (decoded after noise) to their last digits."""
    assert one.dtype == two.dtype
    if one.dtype.kind == "i":
        np.testing.assert_array_equal(one, two)
    else:
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-7)


@pytest.mark.one_of_each("case")
@every_case
def test_feed_equals_steps(case: Case) -> None:
    claim, values = case.claim(TICKS), stream()
    stepped = claim.start(3, InsecureNoise(1))
    fed = claim.start(3, InsecureNoise(1))
    one = np.array([stepped.step(row) for row in values])
    two = np.concatenate([fed.feed(values[a:b]) for a, b in pairwise(CUTS)])
    same(one, two)
    assert fed.tick == stepped.tick == TICKS
    assert fed.stddev() == pytest.approx(stepped.stddev(), rel=1e-12)


@pytest.mark.one_of_each("case")
@every_case
def test_a_block_of_one_group_equals_its_column(case: Case) -> None:
    claim, values = case.claim(TICKS), stream(width=1)
    same(claim.start(1, InsecureNoise(2)).feed(values[:, 0]), claim.start(1, InsecureNoise(2)).feed(values)[:, 0])


@every_case
def test_saved_run_continues_bit_for_bit(case: Case) -> None:
    claim, values = case.claim(TICKS), stream()
    for tick in (0, 1, 16, 37):
        noise = InsecureNoise(4)
        run = claim.start(3, noise)
        run.feed(values[:tick])
        twin = claim.load(run.save(), noise.clone())
        assert twin.tick == tick
        np.testing.assert_array_equal(run.feed(values[tick:]), twin.feed(values[tick:]))
        assert run.save() == twin.save(), f"saved after tick {tick}"


@every_case
def test_save_of_other_settings_or_truncated_is_refused(case: Case) -> None:
    claim = case.claim(TICKS)
    saved = claim.start(2, SilentNoise()).save()
    with pytest.raises(InvalidSaveError, match=r"^saved must be a run of .*, got one of "):
        case.claim(TICKS, bound=2).load(saved)
    for broken in (saved[:-1], saved[:100], altered(saved)):
        with pytest.raises(InvalidSaveError, match=r"^saved must be whole, got a truncated or altered run$"):
            claim.load(broken)
    for other in (pickle.dumps(1), b""):
        with pytest.raises(InvalidSaveError, match=r"^saved must be a run of 'streamgauge run 1', got other bytes$"):
            claim.load(other)
    with pytest.raises(InvalidSaveError, match=r"^saved must be bytes, got str$"):
        claim.load("text")
    assert claim.load(memoryview(saved)).tick == 0


@every_case
def test_a_state_that_cannot_be_this_claims_is_refused(case: Case) -> None:
    claim = case.claim(TICKS)
    saved = claim.start(2, SilentNoise()).save()
    for old, new in (
        (b'"tick": 0', b'"tick": -1'),
        (b'"tick": 0', b'"tick": 1.5'),
        (b'"width": 2', b'"width": 7'),
        (b'"saves"', b'"seals"'),
    ):
        with pytest.raises(InvalidSaveError, match=r"^saved must hold a state of its claim, got another$"):
            claim.load(forged(saved, old, new))


@every_case
def test_whole_numbers_of_numpy_are_those_of_python(case: Case) -> None:
    claim, twin = case.claim(TICKS, bound=2), case.claim(np.int64(TICKS), bound=np.int32(2))
    assert claim == twin
    assert claim.identity() == twin.identity()
    assert claim.start(np.int64(3), SilentNoise()).width == 3


@every_case
def test_past_the_horizon_is_a_typed_refusal_that_changes_nothing(case: Case) -> None:
    claim = case.claim(5)
    if claim.horizon is None or claim.horizon > 5:
        claim = case.claim(20)
    run = claim.start(1, SilentNoise())
    if claim.horizon is None or claim.horizon > 20:
        return
    run.feed(np.ones((claim.horizon, 1), int))
    with pytest.raises(LimitExceededError, match=rf"^tick must be at most the horizon {claim.horizon}, got"):
        run.step([1])
    assert run.tick == claim.horizon


class Failing:
    """Noise that fails after `requests` requests."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def laplace(self, scale: Fraction, size: int) -> Ints:
        self.left -= 1
        if self.left < 0:
            raise OSError("no entropy")
        return np.zeros(size, np.int64)

    gaussian = laplace


def consume(run: Run[Any, Any]) -> None:
    for value in range(TICKS):
        run.step([value])


@every_case
def test_run_with_failed_noise_refuses_to_continue(case: Case) -> None:
    run = case.claim(TICKS).start(1, Failing(6))
    with pytest.raises(OSError, match="no entropy"):
        consume(run)
    for act in (lambda: run.step([1]), run.save, lambda: run.feed([[1]]), lambda: run.tick):
        with pytest.raises(RunFailedError, match=r"^run must be whole to continue"):
            act()


@every_case
def test_a_run_cannot_be_copied_or_pickled(case: Case) -> None:
    run = case.claim(TICKS).start()
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must not be"):
            act(run)


@every_case
def test_values_are_refused_by_shape_or_type_only(case: Case) -> None:
    run = case.claim(TICKS).start(2)
    with pytest.raises(ValueError, match=r"^values must be integers, got float64$"):
        run.step([1.0, 2.0])
    with pytest.raises(ValueError, match=r"^values must be one number per group \(2\), got 3$"):
        run.step([1, 2, 3])
    with pytest.raises(ValueError, match=r"^block must be of shape \(ticks, 2\), got \(4, 3\)$"):
        run.feed(np.zeros((4, 3), int))
    with pytest.raises(ValueError, match=r"^block must be integers in rows of one length, got ragged rows$"):
        run.feed([[1, 2], [3]])
    with pytest.raises(ValueError, match=r"^values must be integers without a mask, got a masked array$"):
        run.step(np.ma.array([1, 2], mask=[False, True]))
    assert run.feed([]).shape == (0, 2)
    extremes = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    for _ in range(3):
        assert run.step(extremes).shape == (2,)
    assert run.step(np.array([2**64 - 1, 0], np.uint64)).shape == (2,)
    assert run.step(np.array([True, False])).shape == (2,)
    assert run.feed(np.zeros((0, 2), int)).shape == (0, 2)
    assert run.step([2**63, -1]).shape == (2,)
    assert run.step([2**70, 5]).shape == (2,)
    assert run.tick == 7


@every_case
def test_invalid_settings_are_refused(case: Case) -> None:
    for bad in (0, -1, True, 1.5, "3"):
        with pytest.raises(
            ValueError, match=r"^bound must be a whole number of at least 1 or a Sensitivity above 0, got"
        ):
            case.claim(TICKS, bound=bad)
        with pytest.raises(ValueError, match=r"^width must be a whole number of at least 1, got"):
            case.claim(TICKS).start(bad)
    if "horizon" in case.cls.__dataclass_fields__:
        for bad in (0, -3, True, 2.0):
            with pytest.raises(ValueError, match=r"^horizon must be a whole number of at least 1, got"):
                case.claim(bad)
    for bad in (0, 1.5, float("nan"), "3", True):
        for act in ("stddev", "rmse", "strategy"):
            with pytest.raises(ValueError, match=r"^tick must be a whole number of at least 1, got"):
                getattr(case.claim(TICKS), act)(bad)
    with pytest.raises(ValueError, match=r"^unit must be an Event, Tick, WEvent or User, got"):
        case.claim(TICKS, unit=sg.WEvent)
    with pytest.raises(ValueError, match=r"^bound must be at least the unit's 5 events a tick, got 2$"):
        case.claim(TICKS, unit=sg.User(5, 1), bound=2)
    with pytest.raises(ValueError, match=r"^pan_private must be True or False, got 'no'$"):
        case.claim(TICKS, pan_private="no")
    with pytest.raises(ValueError, match=r"^noise must be a source with laplace and gaussian, got 'os'$"):
        case.claim(TICKS).start(noise="os")
    with pytest.raises(ValueError, match="must be"):
        case.claim(TICKS, bound=2**61).start()
    with pytest.raises(ValueError, match=r"^loss must be "):
        Case(case.cls, "a lot", case.settings).claim(TICKS)


@every_case
def test_a_claim_is_frozen_hashable_and_printable(case: Case) -> None:
    claim, twin = case.claim(TICKS), case.claim(TICKS)
    assert claim == twin
    assert hash(claim) == hash(twin)
    assert repr(claim).startswith(case.cls.__name__)
    with pytest.raises(AttributeError):
        claim.loss = sg.Pure(9)


@pytest.mark.one_of_each("case")
@every_case
def test_forked_child_cannot_continue_its_parents_run(case: Case) -> None:
    run = case.claim(TICKS).start()
    assert forked(partial(check_refused_in_child, partial(run.step, [1]), run.save)) == 0


@pytest.mark.one_of_each("case")
@every_case
def test_wrap_probability_is_small_and_bounded(case: Case) -> None:
    claim = case.claim(TICKS)
    assert claim.wrap_probability(TICKS) < 1e-30
    assert claim.wrap_probability(TICKS, largest=claim.overflow_limit() - 1) > 0.01
    assert claim.wrap_probability(TICKS, largest=claim.overflow_limit()) == 1
