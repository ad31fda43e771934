"""Draws of open ticks are overwritten: together with the register, a draw would reveal data."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import Kary, Run, SimpleII, TwoLevel, TwoPart, WindowSum
from streamgauge.continual.run import RunFailedError, wipe_state
from streamgauge.memory import WipedArrays
from streamgauge.noise import EphemeralNoise, Ints
from tests.support.saved_states import live_state

SMALL = sg.Pure(Fraction(1, 1000))  # so that five draws are never all 0
OPEN: dict[str, Any] = {"pan_private": True, "open_ticks": True}
CLAIMS = [
    Kary(SMALL, horizon=9, branching=3, **OPEN),
    SimpleII(sg.Zcdp(Fraction(1, 10**6)), **OPEN),
    WindowSum(SMALL, window=4, branching=2, **OPEN),
    TwoPart(SMALL, horizon=9, **OPEN),
]
every_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)


class Overheard(EphemeralNoise):
    """Noise that records all its draws."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: list[Ints] = []

    def laplace(self, scale: Any, size: int) -> Ints:
        self.handed.append(super().laplace(scale, size))
        return self.handed[-1]

    def gaussian(self, variance: Any, size: int) -> Ints:
        self.handed.append(super().gaussian(variance, size))
        return self.handed[-1]


def left_by(claim: Any) -> list[Ints]:
    """Return the draws that remain after a run used every operation."""
    noise = Overheard()
    run: Run[Any, Any] = claim.start(5, noise)
    run.add_partial(range(5))
    run.step(range(5))
    run.feed(np.ones((4, 5), np.int64))
    run.intrude()
    run.rerandomize()
    assert len(noise.handed) >= 9
    return [draws for draws in noise.handed if draws.any()]


@every_claim
def test_draws_are_overwritten_after_use(claim: Any) -> None:
    assert left_by(claim) == []


@every_claim
def test_draws_that_are_not_overwritten_are_found(claim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WipedArrays, "__exit__", lambda *given: None)
    assert len(left_by(claim)) >= 9


@every_claim
def test_wiped_run_is_empty_and_cannot_continue(claim: Any) -> None:
    run = claim.start(5)
    state = live_state(run)
    released = run.step(range(5)).copy()
    run.wipe()
    assert not any(array.any() for array in arrays_of(state))
    assert released.any()
    with pytest.raises(RunFailedError):
        run.step(range(5))
    run.wipe()


def test_a_step_that_fails_leaves_nothing_of_the_state() -> None:
    class Broken(SimpleII):
        def step(self, state: Any, values: Ints, noise: Any) -> Ints:
            state.total += values
            raise MemoryError

    run = Broken(sg.Pure(1), **OPEN).start(5)
    state = live_state(run)
    with pytest.raises(MemoryError):
        run.step(range(5))
    assert not any(array.any() for array in arrays_of(state))


def arrays_of(state: Any) -> list[Ints]:
    return [each for name in state.__slots__ if isinstance(each := getattr(state, name), np.ndarray)]


def test_wiping_a_state_clears_its_nested_arrays() -> None:
    run = TwoLevel(sg.Pure(1), horizon=9).start(5)
    inner = live_state(run)
    wipe_state({"no": "state"})
    wipe_state(run)
    assert not any(array.any() for array in arrays_of(inner))
