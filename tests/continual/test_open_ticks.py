"""Open ticks: a tick that arrives in parts is stored as noisy as all else, so a peek costs no more.

The view of an intruder is linear in data and draws. The tests find both maps by probing, as the laws of
pan-privacy do. The peek happens after a whole tick is absorbed and before the tick is closed. (The laws
try peeks between ticks.)
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.adaptive import CascadingBuffers
from streamgauge.audit.exact.costs import compute_probed_worst
from streamgauge.audit.subjects.pan_private import find_state_layout
from streamgauge.continual import Binary, Hybrid, Kary, LinearMechanism, SimpleII, WindowSum, choose, compare
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.testing.noise import InsecureNoise, SilentNoise

TICKS = 4
OPEN: dict[str, Any] = {"pan_private": True, "open_ticks": True}
CLAIMS = [
    lambda loss: Kary(loss, horizon=TICKS, branching=2, **OPEN),
    lambda loss: Kary(loss, horizon=TICKS, branching=3, **OPEN),
    lambda loss: SimpleII(loss, **OPEN),
    lambda loss: Hybrid(loss, growth=2, first=2, **OPEN),
    lambda loss: WindowSum(loss, window=1, **OPEN),
    lambda loss: WindowSum(loss, window=4, branching=2, **OPEN),
]
every_claim = pytest.mark.parametrize("make", CLAIMS, ids=["binary", "kary", "simple", "hybrid", "each", "sliding"])


def mid_tick(claim: LinearMechanism[Any], peek: int, request: bool, values: Ints, noise: Noise) -> Floats:
    """Return all releases, and the memory in open tick `peek`, also of an intrusion if `request`."""
    table = np.stack([values, np.zeros_like(values)], axis=1)
    state, view = claim.initial(2, noise), []
    for tick, row in enumerate(table, 1):
        claim.add_partial(state, row)
        if tick == peek:
            view.append(find_state_layout(claim).read_groups(state, 2))
            if request:
                view.append(find_state_layout(claim).read_groups(claim.intrude(state, noise), 2))
        release = claim.step(state, np.zeros(2, np.int64), noise)
        view.append(np.asarray(release, np.float64)[None].copy())
    return np.concatenate(view)[:, 0]


def worst(claim: LinearMechanism[Any], peek: int, request: bool = False) -> Any:
    return compute_probed_worst(claim, partial(mid_tick, claim, peek, request), TICKS, f"in tick {peek}")


@every_claim
def test_peek_during_any_tick_loses_at_most_the_claim(make: Any) -> None:
    claim = make(sg.Pure(1))
    for peek in range(1, TICKS + 1):
        assert worst(claim, peek).amount <= 1 + 1e-6


@pytest.mark.parametrize("make", [CLAIMS[0], CLAIMS[3], CLAIMS[5]], ids=["binary", "hybrid", "sliding"])
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/2")], ids=["pure", "zcdp"])
def test_peek_with_announced_intrusion_loses_at_most_the_claim(make: Any, loss: Any) -> None:
    assert worst(make(loss), 3, request=True).amount <= float(loss.amount) * (1 + 1e-6)


@dataclass(frozen=True)
class Lost:
    """A peek during tick `peek`, and a crash during tick `crash`, after which a saved run continues.

    The save is from before the tick, or (`rest`) from inside it, and its absorbed part is discarded.
    """

    peek: int
    crash: int
    fresh: bool = True
    rest: bool = False


def view_and_lose(claim: LinearMechanism[Any], how: Lost, values: Ints, noise: Noise) -> Floats:
    """Return all releases, and the memory at the peek."""
    table = np.stack([values, np.zeros_like(values)], axis=1)
    state, view = claim.initial(2, noise), []
    for tick, row in enumerate(table, 1):
        saved = deepcopy(state)
        claim.add_partial(state, row)
        if tick == how.peek:
            view.append(find_state_layout(claim).read_groups(state, 2))
        if tick == how.crash:
            state = state if how.rest else saved
            if how.fresh:
                claim.rerandomize(state, noise)
        release = claim.step(state, np.zeros(2, np.int64), noise)
        view.append(np.asarray(release, np.float64)[None].copy())
    return np.concatenate(view)[:, 0]


def worst_lost(claim: LinearMechanism[Any], how: Lost) -> Any:
    return compute_probed_worst(claim, partial(view_and_lose, claim, how), TICKS, str(how))


@every_claim
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/2")], ids=["pure", "zcdp"])
def test_peek_before_a_lost_run_loses_at_most_the_claim(make: Any, loss: Any) -> None:
    claim = make(loss)
    places = [(1, 1), (2, 2), (3, 3), (4, 4), (1, 2), (1, 3), (2, 3), (3, 2), (4, 3)]
    for peek, crash in places if loss == sg.Pure(1) else places[2:7:2]:
        for rest in (False, True):
            found = worst_lost(claim, Lost(peek, crash, rest=rest))
            assert found.amount <= float(loss.amount) * (1 + 1e-6)


@pytest.mark.parametrize("make", [CLAIMS[0], CLAIMS[5]], ids=["binary", "sliding"])
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/2")], ids=["pure", "zcdp"])
def test_unit_across_a_lost_run_loses_at_most_claim(make: Any, loss: Any) -> None:
    claim = replace(make(loss), unit=sg.WEvent(2))
    for how in (Lost(2, 2), Lost(3, 3), Lost(2, 3)):
        assert worst_lost(claim, how).amount <= float(loss.amount) * (1 + 1e-6)
    twins = [worst_lost(claim, Lost(tick, tick, fresh=False)).floor for tick in range(1, TICKS + 1)]
    assert max(twins) > float(loss.amount) * 1.05, "a broken twin"


@every_claim
def test_registers_without_rerandomizing_after_loss_lose_twice_the_claim(make: Any) -> None:
    """A broken twin: the peeked memory and the later releases share their draws."""
    assert worst_lost(make(sg.Pure(1)), Lost(1, 1, fresh=False)).floor > 2 - 1e-6


class BareTick(Kary):
    """A broken twin: the open tick is stored without a draw of its own."""

    lowest_register = 1


class BareWindow(WindowSum):
    """A broken twin: the register of the open tick starts at 0."""

    def initial(self, width: int, noise: Noise) -> Any:
        state = super().initial(width, noise)
        state.open_sums[0] = 0
        return state


class Absorbing(Kary):
    """Adds parts of a tick to the total, without open registers."""

    def add_partial(self, state: Any, values: Ints) -> None:
        state.total += values


@pytest.mark.parametrize(
    "twin",
    [
        BareTick(sg.Pure(1), horizon=TICKS, branching=2, **OPEN),
        Absorbing(sg.Pure(1), horizon=TICKS, branching=2, pan_private=True),
        BareWindow(sg.Pure(1), window=4, branching=2, **OPEN),
    ],
    ids=["bare tick", "ticks not open", "bare window"],
)
def test_open_tick_without_its_own_draw_is_caught(twin: LinearMechanism[Any]) -> None:
    assert worst(twin, 1).floor > 1 + 1e-6


@every_claim
def test_parts_and_the_rest_are_the_same_as_the_whole(make: Any) -> None:
    claim, values = make(sg.Pure(1)), np.random.default_rng(5).integers(-9, 9, (TICKS, 3))
    whole, parted = claim.start(3, InsecureNoise(1)), claim.start(3, InsecureNoise(1))
    for row in values:
        parted.add_partial(row // 2)
        moved = claim.load(parted.save(), InsecureNoise(2))
        assert moved.tick == parted.tick
        parted.add_partial(row - row // 2 - 1)
        np.testing.assert_array_equal(parted.step([1, 1, 1]), whole.step(row))
    assert parted.stddev() == whole.stddev() == claim.stddev(TICKS)


@every_claim
def test_open_ticks_double_the_variance_of_releases(make: Any) -> None:
    claim = make(sg.Pure(1))
    single: Any = replace(claim, pan_private=False, open_ticks=False)
    for tick in range(1, TICKS + 1):
        assert claim.stddev(tick) == pytest.approx(2**0.5 * single.stddev(tick))


def test_an_intrusion_inside_a_tick_widens_the_error_as_stated() -> None:
    for make in CLAIMS:
        run = make(sg.Pure(1)).start(4000, InsecureNoise(9))
        run.step(np.zeros(4000, int))
        run.add_partial(np.ones(4000, int))
        before = run.stddev()
        run.intrude()
        assert run.stddev() == before, "the newest release is what it was"
        errors = run.step(np.zeros(4000, int)) - 1.0
        assert abs((errors**2).mean() / run.stddev() ** 2 - 1) < 6.5 * np.sqrt(8 / 4000)
        assert run.stddev() > run.mechanism.stddev(2)


@every_claim
def test_rerandomized_registers_release_unbiased_with_stated_error(make: Any) -> None:
    """Released ticks stay counted. Absorbed parts are discarded."""
    claim, wide = make(sg.Pure(1)), 4000
    run = claim.start(wide, InsecureNoise(9))
    for tick in range(1, TICKS + 1):
        run.add_partial(np.full(wide, 5))
        if tick == 2:
            run.intrude()
        if tick in (2, 4):
            run = claim.load(run.save(), InsecureNoise(10 + tick))
            before = run.stddev()
            run.rerandomize()
            assert run.stddev() == before, "the newest release is what it was"
        release = run.step(np.ones(wide, int))
        truth = {1: 6, 2: 7, 3: 13, 4: 14}
        window = getattr(claim, "window", TICKS)
        errors = release - float(truth[tick] - truth.get(tick - window, 0))
        assert abs(errors.mean()) < 6.5 * run.stddev() / wide**0.5
        assert abs((errors**2).mean() / run.stddev() ** 2 - 1) < 6.5 * np.sqrt(8 / wide)
    assert run.record == {"intrusions": 1, "saves": 2, "rerandomizations": 2}


@pytest.mark.parametrize(
    "claim",
    [
        WindowSum(sg.Pure(1), window=11, branching=2, **OPEN),
        WindowSum(sg.Pure(1), window=11, branching=3, **OPEN),
        Kary(sg.Pure(1), horizon=900, branching=3, **OPEN),
        SimpleII(sg.Pure(1), **OPEN),
    ],
    ids=["window 2", "window 3", "kary", "simple"],
)
def test_draws_after_rerandomizing_are_counted_one_by_one(claim: Any) -> None:
    """Every draw is 1 and all else 0: a release is the number of its draws."""
    chance, run = np.random.default_rng(7), claim.start(1, Ones())
    for _ in range(90):
        for act in chance.choice(["none", "anew", "intrude"], 2, p=[0.7, 0.2, 0.1]):
            if act != "none":
                run.add_partial([int(chance.integers(9))] if act == "anew" else [0])
                (run.rerandomize if act == "anew" else run.intrude)()
        release = run.feed(np.zeros(int(chance.choice([1, 1, 2, 9])), int))
        assert release[-1] == run.noise().terms[0].count


class Ones(SilentNoise):
    """Every draw is 1."""

    def laplace(self, scale: Any, size: int) -> Ints:
        return super().laplace(scale, size) + 1


def test_planner_chooses_mechanisms_that_support_open_ticks() -> None:
    for request in ({"horizon": 1000}, {}, {"window": "each"}, {"window": "sliding 24"}):
        assert choose(sg.Pure(1), **request, **OPEN).open_ticks
    assert choose(sg.Pure(1), horizon=1000, **OPEN).stddev(999) > choose(sg.Pure(1), horizon=1000).stddev(999)
    refused = {each.name: each.refusal for each in compare(sg.Pure(1), horizon=9, **OPEN).candidates}
    assert refused["Binary"] == "open_ticks must be False for Binary, got True"
    assert refused["Segments"].startswith("open_ticks must be False for Segments (its first draw lasts for the whole")
    assert CascadingBuffers.open_ticks_refusal().startswith("open_ticks must be False for CascadingBuffers (the value")
    assert type(choose(sg.Zcdp("1/2"), **OPEN)) is Hybrid
    with pytest.raises(ValueError, match="open_ticks must be False for ExponentialDecay, got True"):
        choose(sg.Pure(1), window="decayed 3", **OPEN)


def test_open_ticks_require_pan_privacy_and_partial_ticks_open_ticks() -> None:
    for cls, settings in ((Kary, {"horizon": 9}), (SimpleII, {}), (WindowSum, {"window": 2})):
        with pytest.raises(ValueError, match=r"^pan_private must be True where ticks are open, got False$"):
            cls(sg.Pure(1), open_ticks=True, **settings)
    for claim in (Kary(sg.Pure(1), horizon=9, pan_private=True), Binary(sg.Pure(1), horizon=9)):
        run = claim.start(1, SilentNoise())
        with pytest.raises(TypeError, match=r"^open_ticks must be True to take part of a tick, got False$"):
            run.add_partial([1])
        with pytest.raises(TypeError, match=r"^open_ticks must be True to rerandomize registers, got False$"):
            run.rerandomize()
        assert run.step([1]).tolist() == [1]


def test_identities_state_whether_ticks_are_open() -> None:
    assert "open_ticks=False" in Kary(sg.Pure(1), horizon=9).identity()
    assert "open_ticks=False" in Binary(sg.Pure(1), horizon=9).identity()
    assert "open_ticks=True" in Kary(sg.Pure(1), horizon=9, **OPEN).identity()
