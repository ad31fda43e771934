"""Laws of dormant groups: a late group has the law of an earlier group with only zeros.

Exact: without noise the releases are the truth, and every draw of a dormant state decodes like a draw of the
strategy at all later ticks. Statistical: variances and covariances match the claim.
"""

from collections import Counter
from copy import deepcopy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.continual import Kary, LinearMechanism, RunFailedError, Strategy
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise
from tests.support.catalogue import Case, every_case, every_kept_case
from tests.support.saved_states import live_state

TICKS = 24
MOMENTS = [0, 1, 7, 13, 16]  # ticks at which groups join
WIDTH = 4000
Z = 6.5  # standard errors: p below 1e-10 each


class Switched:
    """Noise with a replaceable source."""

    def __init__(self, inner: Noise) -> None:
        self.inner = inner

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self.inner.laplace(scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self.inner.gaussian(variance, size)


class Failing:
    """Noise that fails."""

    def laplace(self, scale: Fraction, size: int) -> Ints:
        raise OSError("no entropy")

    gaussian = laplace


def stream(ticks: int, width: int) -> np.ndarray:
    return np.random.default_rng(8).integers(-5, 50, (ticks, width))


def widened(case: Case) -> bool:
    return not case.claim(TICKS).pan_private


@pytest.mark.one_of_each("case")
@every_case
def test_without_noise_a_widened_run_releases_the_truth(case: Case) -> None:
    claim = case.claim(TICKS)
    workload = claim.strategy(TICKS).workload
    for moment in MOMENTS:
        check_truth(claim, workload, moment)


def check_truth(claim: LinearMechanism[Any], workload: np.ndarray, moment: int) -> None:
    values = stream(TICKS, 5)
    values[:moment, 2:] = 0
    run = claim.start(2, SilentNoise())
    run.feed(values[:moment, :2])
    if claim.pan_private:
        with pytest.raises(TypeError, match=r"^pan_private must be False to widen a run, got True$"):
            run.widen(3)
        assert run.step(values[moment, :2]).shape == (2,)
        return
    run.widen(1)
    run.widen(2)
    assert (run.width, run.tick) == (5, moment)
    released = [run.step(values[moment])[None], run.feed(values[moment + 1 :])]
    truth = (workload @ values)[moment:]
    off = np.array([claim.deviation(t) for t in range(moment + 1, TICKS + 1)])[:, None]
    allowed = off * np.cumsum(np.abs(values), axis=0)[moment:] + 1e-9
    assert (np.abs(np.concatenate(released) - truth) <= allowed).all()


@pytest.mark.one_of_each("case")
@every_kept_case
def test_widened_run_equals_two_separate_runs(case: Case) -> None:
    claim = case.claim(TICKS)
    for moment in [] if claim.pan_private else MOMENTS:
        check_sides(claim, moment)


def check_sides(claim: LinearMechanism[Any], moment: int) -> None:
    values, noise = stream(TICKS, 5), Switched(InsecureNoise(1))
    run = claim.start(2, noise)
    for row in values[:moment, :2]:  # one by one, so that capacity grew at other ticks
        run.step(row)
    old = deepcopy(live_state(run))
    noise.inner = InsecureNoise(2)
    run.widen(3)
    new = claim.zero_state(3, moment, InsecureNoise(2))
    noise.inner = SilentNoise()
    together = run.feed(values[moment:])
    apart = [claim.feed(s, v, SilentNoise()) for s, v in ((old, values[moment:, :2]), (new, values[moment:, 2:]))]
    np.testing.assert_allclose(together, np.hstack(apart), rtol=1e-12, atol=1e-9)


@every_case
def test_a_widened_run_is_saved_and_loaded_bit_for_bit(case: Case) -> None:
    if not widened(case):
        return
    claim, values, noise = case.claim(TICKS), stream(TICKS, 5), InsecureNoise(3)
    run = claim.start(2, noise)
    run.feed(values[:7, :2])
    run.widen(3)
    twin = claim.load(run.save(), noise.clone())
    assert (twin.width, twin.tick) == (5, 7)
    np.testing.assert_array_equal(run.feed(values[7:]), twin.feed(values[7:]))
    assert run.save() == twin.save()


@every_case
def test_run_with_failed_noise_during_widening_refuses_to_continue(case: Case) -> None:
    if not widened(case):
        return
    noise = Switched(SilentNoise())
    run = case.claim(TICKS).start(2, noise)
    run.feed(stream(7, 2))
    noise.inner = Failing()
    with pytest.raises(OSError, match="no entropy"):
        run.widen(1)
    for act in (run.save, lambda: run.widen(1), lambda: run.tick):
        with pytest.raises(RunFailedError, match=r"^run must be whole to continue"):
            act()


@every_case
def test_bad_widths_are_refused_and_change_nothing(case: Case) -> None:
    run = case.claim(TICKS).start(2, SilentNoise())
    for bad in (0, -1, True, 1.5, "3"):
        with pytest.raises(ValueError, match=r"^more must be a whole number of at least 1, got"):
            run.widen(bad)
    with pytest.raises(ValueError, match=r"^width must be at most 2\*\*40, got"):
        run.widen(2**40)
    assert run.step([1, 2]).shape == (2,)


def test_step_of_old_width_is_refused_after_concurrent_widening() -> None:
    run = Kary(Pure(1), horizon=TICKS).start(1, SilentNoise())
    run.step([1])
    part = run._exclusive

    def late(check: Any) -> Any:
        """Enter after the values were checked and after the other thread widened."""
        run._exclusive = part
        run.widen(2)
        return part(check)

    run._exclusive = late
    with pytest.raises(ValueError, match=r"^width must be that of the run, 3 by now, got 1$"):
        run.step([1])
    assert run.step([1, 2, 3]).tolist() == [2, 2, 3]


def drawn_patterns(claim: LinearMechanism[Any], dormant: Any, moment: int) -> Counter[Any]:
    """Count (law, effect on each later release) of all visible draws of a dormant state."""
    counted, strategy = CountedNoise(SilentNoise()), claim.strategy(TICKS)
    dormant(1, moment, counted)
    grids = {law_of(d): g for d, g in zip(strategy.distributions, strategy.grids, strict=True)}
    requests = [(kind, scale) for kind, scale, size in counted.requests for _ in range(size)]
    found: Counter[Any] = Counter()
    for number, law in enumerate(requests):
        state = dormant(1, moment, ImpulseNoise(number, grids[law]))
        releases = claim.feed(state, np.zeros((TICKS - moment, 1), np.int64), SilentNoise())[:, 0]
        found[law, rounded(releases)] += 1
    return visible(found)


def law_of(distribution: Any) -> tuple[str, Fraction]:
    if isinstance(distribution, DiscreteLaplace):
        return "laplace", distribution.scale
    return "gaussian", distribution.parameter


def rounded(pattern: np.ndarray) -> tuple[float, ...]:
    return tuple((np.round(pattern.astype(float), 5) + 0.0).tolist())


def visible(patterns: Counter[Any]) -> Counter[Any]:
    return Counter({key: count for key, count in patterns.items() if any(key[1])})


def strategy_patterns(strategy: Strategy, drawn: int, moment: int) -> Counter[Any]:
    """Count the same from the matrices, for the first `drawn` draws."""
    columns = [(law_of(strategy.distributions[r]), rounded(strategy.decode[moment:, r])) for r in strategy.draws]
    return visible(Counter(columns[:drawn]))


@pytest.mark.one_of_each("case")
@every_kept_case
def test_draws_of_dormant_states_decode_like_the_strategy(case: Case) -> None:
    """Dormant states are built by feeding zeros and by the mechanism's own method."""
    claim = case.claim(TICKS)

    def fed(width: int, tick: int, noise: Noise) -> Any:
        return LinearMechanism.zero_state(claim, width, tick, noise)

    for moment in (0, 1, 7, 16):
        counted = CountedNoise(SilentNoise())
        fed(1, moment, counted)
        expected = strategy_patterns(claim.strategy(TICKS), counted.total, moment)
        assert drawn_patterns(claim, fed, moment) == expected, moment
        assert drawn_patterns(claim, claim.zero_state, moment) == expected, moment


@every_case
def test_a_dormant_state_knows_its_noise(case: Case) -> None:
    claim = case.claim(TICKS)
    for tick in (1, 13):
        state = claim.zero_state(2, tick, InsecureNoise(5))
        assert state.tick == tick
        assert claim.current_noise(state).variance == pytest.approx(claim.noise_at(tick).variance, rel=1e-12)
        claim.step(state, np.zeros(2, np.int64), InsecureNoise(5))
        assert claim.current_noise(state).variance == pytest.approx(claim.noise_at(tick + 1).variance, rel=1e-12)


def later_releases(claim: LinearMechanism[Any], moment: int) -> np.ndarray:
    noise = InsecureNoise(31)
    state = claim.zero_state(WIDTH, moment, noise)
    released = claim.feed(state, np.zeros((TICKS - moment, WIDTH), np.int64), noise)
    return np.asarray(released, float)


def agrees(products: np.ndarray, expected: float) -> bool:
    """Return True if products of two centred releases have the expected mean."""
    uncertainty = products.std() / np.sqrt(WIDTH)
    return bool(abs(products.mean() - expected) < Z * uncertainty + 1e-9)


@pytest.mark.one_of_each("case", "moment")
@every_kept_case
@pytest.mark.parametrize("moment", [7, 16])
def test_later_releases_have_the_claimed_variances_and_covariances(case: Case, moment: int) -> None:
    claim = case.claim(TICKS)
    released, expected = later_releases(claim, moment), covariances(claim)[moment:, moment:]
    for later in range(TICKS - moment):
        claimed = claim.stddev(moment + 1 + later) ** 2
        squares = released[later] ** 2
        assert agrees(squares, claimed)
        assert not agrees(squares, claimed * 0.7**2)
        assert not agrees(squares, claimed * 1.3**2)
        assert agrees(released[0] * released[later], expected[0, later])


def covariances(claim: LinearMechanism[Any]) -> np.ndarray:
    strategy = claim.strategy(TICKS)
    one = np.array([d.variance / g**2 for d, g in zip(strategy.distributions, strategy.grids, strict=True)])
    weighted = strategy.decode * (one * np.bincount(strategy.draws, minlength=len(one)))
    return weighted @ strategy.decode.T


class NoPast(Kary):
    """A broken twin: new groups start without the noise of past ticks."""

    def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
        state = self.initial(width, noise)
        state.tick = tick
        return state


class ShortMemory(Kary):
    """A broken twin: the right number of draws, but the next block drops all of them."""

    def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
        state = super().zero_state(width, tick, noise)
        state.entries[1:] = 0
        return state


class LongMemory(Kary):
    """A broken twin: the draws of items stay when their block is complete."""

    def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
        state = super().zero_state(width, tick, noise)
        state.entries[1:] = state.entries[0]
        return state


@pytest.mark.parametrize("twin", [NoPast, ShortMemory, LongMemory])
def test_a_broken_twin_is_caught(twin: type[Kary]) -> None:
    moment = 16  # two blocks of 7 and two of 1
    claim = twin(Pure(1), horizon=TICKS, branching=7)
    released, expected = later_releases(claim, moment), covariances(claim)[moment:, moment:]
    ahead = range(TICKS - moment)
    variances = [agrees(released[later] ** 2, expected[later, later]) for later in ahead]
    covaried = [agrees(released[0] * released[later], expected[0, later]) for later in ahead]
    assert not all(variances + covaried)
    patterns = drawn_patterns(claim, claim.zero_state, moment)
    assert patterns != drawn_patterns(claim, super(twin, claim).zero_state, moment)
