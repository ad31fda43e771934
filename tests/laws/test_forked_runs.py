"""Laws of two runs that continue from one save, the second after `redraw_future_noise`.

Both publish later ticks, possibly of different data. So the second run must hide a later event by draws of its own, at
the declared loss. Draws of the save hide nothing: with them, the difference of the two runs would be exact.
"""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from streamgauge import Pure
from streamgauge.continual import BridgeTree, Hybrid, LinearMechanism, SubtractiveTree, WindowBridge
from streamgauge.noise import Noise
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise
from tests.support.catalogue import Case, every_case, every_kept_case

TICKS = 32
SAVE_TICKS = (0, 1, 4, 6, 13, 18, 27)
UNIT = 2**20  # large, so that grids do not show
TOLERANCE = 1e-6
Mechanism = LinearMechanism[Any]
WINDOW = WindowBridge(Pure(1), window=6, radices=(5,))


class StaleWindow(WindowBridge):
    """A twin that redraws the noise of its bridge, and keeps that of the stored sums."""

    def redraw_future_noise(self, state: Any, noise: Noise) -> None:
        noises, rests = state.noises.copy(), state.rests.copy()
        super().redraw_future_noise(state, noise)
        state.noises[:], state.rests[:] = noises, rests


def redraw_errors(claim: WindowBridge, groups: int = 20_000) -> np.ndarray:
    """Return the variance after a redraw over the stated one, tick by tick."""
    run = claim.start(groups, InsecureNoise(7))
    run.feed(np.zeros((13, groups), np.int64))
    run.redraw_future_noise()
    released = np.asarray(run.feed(np.zeros((8, groups), np.int64)))
    return np.array([row.var() / claim.stddev(14 + tick) ** 2 for tick, row in enumerate(released)])


def test_windows_have_their_stated_error_after_a_redraw() -> None:
    assert np.abs(redraw_errors(WINDOW) - 1).max() < 0.15  # over 8 standard errors of a variance
    stale = StaleWindow(Pure(1), window=6, radices=(5,))
    assert np.abs(redraw_errors(stale) - 1).max() > 0.3


def build_save(claim: Mechanism, tick: int, values: np.ndarray, noise: Noise) -> bytes:
    run = claim.start(1, noise)
    run.feed(values[:tick])
    return run.save()


def continue_run(claim: Mechanism, saved: bytes, values: np.ndarray, noise: Noise) -> np.ndarray:
    """Return the releases after the save."""
    run = claim.load(saved, noise)
    run.redraw_future_noise()
    return np.asarray(run.feed(values[run.tick :]), np.float64)[:, 0]


def find_loss(claim: Mechanism, saved_at: int) -> float:
    """Return the least cost of fresh draws that hide the worst event after the save; infinity if none do."""
    zeros = np.zeros((TICKS, 1), np.int64)
    saved = build_save(claim, saved_at, zeros, SilentNoise())
    noise = CountedNoise(SilentNoise())
    continue_run(claim, saved, zeros, noise)
    scales = [float(scale) for _, scale, size in noise.requests for _ in range(size)]
    draws = [continue_run(claim, saved, zeros, ImpulseNoise(index, UNIT)) for index in range(noise.total)]
    effects = []
    for event_tick in {saved_at + 1, saved_at + 2, TICKS}:
        event = zeros.copy()
        event[event_tick - 1] = UNIT
        effects.append(continue_run(claim, saved, event, SilentNoise()) / UNIT)
    if not draws:
        return np.inf if np.any(effects) else 0.0
    decode = np.stack(draws, axis=1) / UNIT
    find_cost = l1_cost if isinstance(claim.loss, Pure) else l2_cost
    return max(find_cost(decode, effect, scales) for effect in effects)


def l1_cost(decode: np.ndarray, effect: np.ndarray, scales: list[float]) -> float:
    """Return the least sum of |shift| / scale that moves the releases by `effect` (Laplace noise)."""
    costs = 1 / np.array(scales)
    found = linprog(np.r_[costs, costs], A_eq=np.c_[decode, -decode], b_eq=effect, bounds=(0, None))
    return float(found.fun) if found.status == 0 else np.inf


def l2_cost(decode: np.ndarray, effect: np.ndarray, variances: list[float]) -> float:
    """Return the least sum of shift^2 / (2 variance) that moves the releases by `effect` (Gaussian noise)."""
    scaled = decode * np.sqrt(variances)
    shift = np.linalg.lstsq(scaled, effect, rcond=None)[0]
    is_hidden = np.allclose(scaled @ shift, effect, atol=TOLERANCE)
    return float(shift @ shift / 2) if is_hidden else np.inf


def find_worst_loss(claim: Mechanism) -> float:
    return max(find_loss(claim, saved_at) for saved_at in SAVE_TICKS)


def can_redraw(case: Case) -> bool:
    """Return whether a mechanism continues after a redraw. One that does not must give the reason."""
    run = case.claim(TICKS).start(1, SilentNoise())
    try:
        run.redraw_future_noise()
    except TypeError as refusal:
        return "must draw all its noise once" not in str(refusal)
    return True


@pytest.mark.one_of_each("case")
@every_kept_case
def test_fresh_draws_alone_hide_an_event_after_the_save(case: Case) -> None:
    if can_redraw(case):
        claim = case.claim(TICKS)
        declared = claim.loss.epsilon if isinstance(claim.loss, Pure) else claim.loss.rho
        assert find_worst_loss(claim) <= float(declared) * (1 + TOLERANCE)


@pytest.mark.one_of_each("case")
@every_case
def test_a_redraw_leaves_the_data_as_it_is(case: Case) -> None:
    if can_redraw(case):
        claim = case.claim(TICKS)
        values = np.random.default_rng(8).integers(-5, 50, (TICKS, 1))
        truth = np.asarray(claim.start(1, SilentNoise()).feed(values))[:, 0]
        for saved_at in SAVE_TICKS:
            saved = build_save(claim, saved_at, values, SilentNoise())
            assert np.allclose(continue_run(claim, saved, values, SilentNoise()), truth[saved_at:])


class SharingTree(SubtractiveTree):
    """A broken twin: it continues with the draws of the save."""

    def redraw_future_noise(self, state: object, noise: Noise) -> None:
        pass


class SharingBridge(BridgeTree):
    """A broken twin: the same."""

    def redraw_future_noise(self, state: object, noise: Noise) -> None:
        pass


TWINS = {
    "bridge": SharingBridge(Pure(1), horizon=TICKS, radices=(4, 4)),
    "tree": SharingTree(Pure(1), horizon=TICKS, branching=3),
    "hybrid": Hybrid(Pure(1), inner=SharingTree, growth=8, first=2),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_tree_that_shares_its_draws_is_caught(name: str) -> None:
    assert find_worst_loss(TWINS[name]) == np.inf


@pytest.mark.parametrize(("cls", "is_private"), [(SubtractiveTree, True), (SharingTree, False)])
def test_two_histories_differ_by_noise(cls: type[SubtractiveTree], is_private: bool) -> None:
    claim = cls(Pure("1/1000"), horizon=TICKS, branching=3)
    zeros, sevens = np.zeros((TICKS, 1), np.int64), np.full((TICKS, 1), 7)
    saves = {tick: build_save(claim, tick, zeros, InsecureNoise(1)) for tick in range(1, TICKS)}
    differences = {
        tick: continue_run(claim, saved, sevens, InsecureNoise(3))[0] - claim.load(saved, InsecureNoise(2)).step([0])[0]
        for tick, saved in saves.items()
    }
    assert (7 not in differences.values()) == is_private
