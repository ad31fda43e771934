"""Laws of adaptive runs: blocks equal steps, saved runs continue, failed runs do not."""

import copy
import pickle
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import InvalidSaveError, LimitExceededError, Run, RunFailedError
from streamgauge.noise import EphemeralNoise, SecureNoise
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.laws.test_runs import Failing
from tests.support.adaptive_catalogue import Adapting, every_adapting, shown
from tests.support.forging import altered, forged
from tests.support.forked import forked
from tests.support.saved_states import check_refused_in_child

TICKS = 24
CUTS = [0, 1, 2, 9, 10, 10, TICKS]
JOINED = 7  # groups join after this tick


def stream(width: int, ticks: int = TICKS) -> np.ndarray:
    """Return a stream of constant levels, jumps, and numbers below 0."""
    random = np.random.default_rng(3)
    levels = np.repeat(random.integers(-5, 60, (-(-ticks // 6), width)), 6, axis=0)[:ticks]
    return levels + random.integers(0, 3, (ticks, width))


def consume(run: Run[Any, Any]) -> None:
    for row in stream(run.width):
        run.step(row)


def same(one: Any, two: Any) -> None:
    for left, right in zip(shown(one), shown(two), strict=True):
        np.testing.assert_array_equal(left, right)


@every_adapting
def test_feed_equals_steps(case: Adapting) -> None:
    claim, values = case.claim(TICKS), stream(case.width)
    stepped, fed = (claim.start(case.width, InsecureNoise(1)) for _ in range(2))
    one = [stepped.step(row) for row in values]
    two = claim.join_releases([fed.feed(values[a:b]) for a, b in pairwise(CUTS)])
    for tick, release in enumerate(one):
        for name in release.array_names:
            np.testing.assert_array_equal(getattr(release, name), getattr(two, name)[tick])
    same(one[-1], two.select_tick(-1))
    assert fed.tick == stepped.tick == TICKS
    assert fed.save() == stepped.save()


@every_adapting
def test_a_block_of_one_group_equals_its_column(case: Adapting) -> None:
    claim, values = case.claim(TICKS), stream(1)
    if hasattr(claim, "hierarchy"):
        return  # as wide as it has leaves
    column = claim.start(1, InsecureNoise(2)).feed(values[:, 0])
    assert column.value.shape == (TICKS,)
    same(column, claim.start(1, InsecureNoise(2)).feed(values).select_group(0))


@every_adapting
@pytest.mark.parametrize("tick", [0, 1, 13])
def test_saved_run_continues_bit_for_bit(case: Adapting, tick: int) -> None:
    claim, values, noise = case.claim(TICKS), stream(case.width), InsecureNoise(4)
    run = claim.start(case.width, noise)
    run.feed(values[:tick])
    twin = claim.load(run.save(), noise.clone())
    assert twin.tick == tick
    same(run.feed(values[tick:]), twin.feed(values[tick:]))
    assert run.save() == twin.save()


@every_adapting
def test_save_of_other_settings_or_truncated_is_refused(case: Adapting) -> None:
    claim = case.claim(TICKS)
    saved = claim.start(case.width, SilentNoise()).save()
    with pytest.raises(InvalidSaveError, match=r"^saved must be a run of .*, got one of "):
        case.claim(TICKS, bound=2).load(saved)
    with pytest.raises(InvalidSaveError, match=r"^saved must be whole, got a truncated or altered run$"):
        claim.load(altered(saved))
    with pytest.raises(InvalidSaveError, match=r"^saved must be a run of 'streamgauge run 1', got other bytes$"):
        claim.load(b"")
    tampered = [(b'"tick": 0', b'"tick": -1'), (b'"tick": 0', b'"tick": 1.5'), (b'"saves"', b'"seals"')]
    if claim.memory():  # a claim without memory accepts any width
        tampered.append((b'"width": ' + str(case.width).encode(), b'"width": 9'))
    for old, new in tampered:
        with pytest.raises(InvalidSaveError, match=r"^saved must hold a state of its claim, got another$"):
            claim.load(forged(saved, old, new))


@every_adapting
def test_past_the_horizon_is_a_typed_refusal_that_changes_nothing(case: Adapting) -> None:
    run = case.claim(5).start(case.width, SilentNoise())
    run.feed(stream(case.width, 5))
    with pytest.raises(LimitExceededError, match=r"^tick must be at most the horizon 5, got 6$"):
        run.step(np.ones(case.width, int))
    with pytest.raises(ValueError, match=r"^tick must be at most the horizon 5, got 6$"):
        case.claim(5).check_tick(6)
    assert run.tick == 5


@every_adapting
def test_run_with_failed_noise_refuses_to_continue(case: Adapting) -> None:
    run = case.claim(TICKS).start(case.width, Failing(6))
    with pytest.raises(OSError, match="no entropy"):
        consume(run)
    for act in (lambda: run.step(np.ones(case.width, int)), run.save, lambda: run.tick):
        with pytest.raises(RunFailedError, match=r"^run must be whole to continue"):
            act()


@every_adapting
def test_run_cannot_be_copied_pickled_or_continued_in_child(case: Adapting) -> None:
    run = case.claim(TICKS).start(case.width)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must not be"):
            act(run)
    assert forked(partial(check_refused_in_child, run.save)) == 0


@every_adapting
def test_a_pan_private_run_keeps_no_key_and_answers_intrusions(case: Adapting) -> None:
    if case.cls.EXACT_MEMORY:
        with pytest.raises(ValueError, match=r"^pan_private must be False for .* \(.*\), got True$"):
            case.claim(TICKS, pan_private=True)
        return
    claim = case.claim(TICKS, pan_private=True)
    with pytest.raises(ValueError, match=r"^noise must keep no key in a pan-private run, got SecureNoise$"):
        claim.start(case.width, SecureNoise())
    run = claim.start(case.width)
    assert type(run.source) is EphemeralNoise
    run.feed(stream(case.width, 5))
    view = run.intrude()
    assert (view.tick, run.intrusions) == (5, 1)
    run.step(np.ones(case.width, int))
    assert view.tick == 5  # the intrusion view is a copy
    with pytest.raises(TypeError, match=r"^pan_private must be True to survive an intrusion, got False$"):
        case.claim(TICKS, pan_private=False).start(case.width).intrude()


@every_adapting
def test_late_groups_equal_zero_groups_or_are_refused(case: Adapting) -> None:
    claim, values = case.claim(TICKS), stream(5)
    run = claim.start(case.width, SilentNoise())
    run.feed(values[:JOINED, : case.width])
    if claim.HAS_JOINT_GROUPS or claim.pan_private:
        with pytest.raises(TypeError, match=r"^(pan_private must be False to widen|width must stay as it is)"):
            run.widen(2)
        assert run.step(values[JOINED, : case.width]).value.size, "a run that was refused goes on"
        return
    run.widen(5 - case.width)
    values[:JOINED, case.width :] = 0
    whole = claim.start(5, SilentNoise())
    whole.feed(values[:JOINED])
    one, other = run.feed(values[JOINED:]), whole.feed(values[JOINED:])
    np.testing.assert_array_equal(one.value, other.value)
    np.testing.assert_array_equal(one.centre, other.centre)


@every_adapting
def test_values_are_refused_by_shape_or_type_only(case: Adapting) -> None:
    claim, width = case.claim(TICKS), case.width
    run = claim.start(width)
    with pytest.raises(ValueError, match=r"^values must be integers, got float64$"):
        run.step([1.0] * width)
    with pytest.raises(ValueError, match=rf"^values must be one number per group \({width}\), got 9$"):
        run.step([1] * 9)
    assert len(run.feed(np.zeros((0, width), int)).error_bounds) == 0
    nodes = len(getattr(claim, "hierarchy", range(width)))
    ends = np.resize([np.iinfo(np.int64).min, np.iinfo(np.int64).max], width)
    for row in [ends, ends[::-1], ends, ends, np.zeros(width, int), ends]:
        release = run.step(row)
        assert release.value.shape == release.centre.shape == (nodes,)
        low, high = release.interval(0.9)
        assert (low <= high).all()


REFUSED: dict[str, tuple[str, list[Any]]] = {
    "bound": ("bound must be a whole number of at least 1 or a Sensitivity above 0, got", [0, -1, True, 1.5, "3"]),
    "horizon": ("horizon must be a whole number of at least 1, got", [0, -3, True, 2.0]),
    "loss": ("loss must be ", [sg.Zcdp(1), "a lot"]),
    "unit": ("unit must be an Event, Tick, WEvent or User, got", [sg.WEvent]),
    "pan_private": ("pan_private must be True or False, got", ["no"]),
}


@every_adapting
def test_invalid_settings_are_refused(case: Adapting) -> None:
    for name, (words, bad) in REFUSED.items():
        for value in bad:
            with pytest.raises(ValueError, match=f"^{words}"):
                case.claim(**{"horizon": TICKS, name: value})
    for width in (0, True, 1.5):
        with pytest.raises(ValueError, match=r"^width must be a whole number of at least 1, got"):
            case.claim(TICKS).start(width)
    with pytest.raises(ValueError, match=r"^noise must be a source with laplace and gaussian, got 'os'$"):
        case.claim(TICKS).start(case.width, noise="os")
    with pytest.raises(ValueError, match="must be"):
        case.claim(TICKS, bound=2**62).start(case.width)


@every_adapting
def test_claim_is_frozen_hashable_and_describes_its_error(case: Adapting) -> None:
    claim, twin = case.claim(TICKS, bound=2), case.claim(np.int64(TICKS), bound=np.int32(2))
    assert claim == twin
    assert hash(claim) == hash(twin)
    assert claim.identity() == twin.identity()
    assert repr(claim).startswith(case.cls.__name__)
    with pytest.raises(AttributeError):
        claim.loss = sg.Pure(9)
    assert claim.ERROR_DEPENDS_ON
    assert not claim.ERROR_DEPENDS_ON.endswith(".")
    assert {*claim.WINDOWS} <= {"each", "sliding", "running"}
    assert claim.memory() >= 0
