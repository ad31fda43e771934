"""A tick that comes in parts rests in memory as noisy as all else: a look in the middle of it costs no more.

What an intruder sees is linear in data and draws; both maps are found by trying, as in the laws of
pan-privacy, with the look after the whole of a tick was absorbed and before the tick is closed. (A look
before it is absorbed is one between ticks, which the laws try.)
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit.intruders import layout
from streamgauge.audit.worst_views import worst_tried
from streamgauge.continual import Binary, Kary, Mechanism, SimpleII, WindowSum, choose, compare
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import InsecureNoise, SilentNoise

TICKS = 4
OPEN: dict[str, Any] = {"pan_private": True, "open_ticks": True}
CLAIMS = [
    lambda loss: Kary(loss, horizon=TICKS, branching=2, **OPEN),
    lambda loss: Kary(loss, horizon=TICKS, branching=3, **OPEN),
    lambda loss: SimpleII(loss, **OPEN),
    lambda loss: WindowSum(loss, window=1, **OPEN),
    lambda loss: WindowSum(loss, window=4, branching=2, **OPEN),
]
every_claim = pytest.mark.parametrize("make", CLAIMS, ids=["binary", "kary", "simple", "each", "sliding"])


def mid_tick(claim: Mechanism[Any], peek: int, asked: bool, values: Ints, noise: Noise) -> Floats:
    """All releases, and the memory once tick `peek` is absorbed and not closed; or handed over as well."""
    table = np.stack([values, np.zeros_like(values)], axis=1)
    state, seen = claim.initial(2, noise), []
    for tick, row in enumerate(table, 1):
        claim.absorb(state, row)
        if tick == peek:
            seen.append(layout(claim).of_each(state, 2))
            if asked:
                seen.append(layout(claim).of_each(claim.intrude(state, noise), 2))
        release = claim.step(state, np.zeros(2, np.int64), noise)
        seen.append(np.asarray(release, np.float64)[None].copy())
    return np.concatenate(seen)[:, 0]


def worst(claim: Mechanism[Any], peek: int, asked: bool = False) -> Any:
    return worst_tried(claim, partial(mid_tick, claim, peek, asked), TICKS, f"in tick {peek}")


@every_claim
def test_a_look_in_the_middle_of_any_tick_loses_no_more_than_declared(make: Any) -> None:
    claim = make(sg.Pure(1))
    for peek in range(1, TICKS + 1):
        assert worst(claim, peek).amount <= 1 + 1e-6


@pytest.mark.parametrize("make", [CLAIMS[0], CLAIMS[4]], ids=["binary", "sliding"])
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/2")], ids=["pure", "zcdp"])
def test_the_same_where_it_is_handed_over_as_well(make: Any, loss: Any) -> None:
    assert worst(make(loss), 3, asked=True).amount <= float(loss.amount) * (1 + 1e-6)


class BareTick(Kary):
    """A broken twin: the open tick rests without a draw of its own, as if it never rested."""

    resting = 1


class BareWindow(WindowSum):
    """A broken twin: the register of the open tick begins at 0."""

    def initial(self, width: int, noise: Noise) -> Any:
        state = super().initial(width, noise)
        state.opens[0] = 0
        return state


@pytest.mark.parametrize(
    "twin",
    [
        BareTick(sg.Pure(1), horizon=TICKS, branching=2, **OPEN),
        Kary(sg.Pure(1), horizon=TICKS, branching=2, pan_private=True),
        BareWindow(sg.Pure(1), window=4, branching=2, **OPEN),
    ],
    ids=["bare tick", "ticks not open", "bare window"],
)
def test_a_tick_that_rests_without_a_draw_of_its_own_is_caught(twin: Mechanism[Any]) -> None:
    def absorbed(state: Any, values: Ints) -> None:
        state.total += values

    if not twin.open_ticks:
        object.__setattr__(twin, "absorb", absorbed)
    assert worst(twin, 1).floor > 1 + 1e-6


@every_claim
def test_parts_and_the_rest_are_the_same_as_the_whole(make: Any) -> None:
    claim, values = make(sg.Pure(1)), np.random.default_rng(5).integers(-9, 9, (TICKS, 3))
    whole, parted = claim.start(3, InsecureNoise(1)), claim.start(3, InsecureNoise(1))
    for row in values:
        parted.absorb(row // 2)
        moved = claim.load(parted.save(), InsecureNoise(2))
        assert moved.tick == parted.tick
        parted.absorb(row - row // 2 - 1)
        np.testing.assert_array_equal(parted.step([1, 1, 1]), whole.step(row))
    assert parted.stddev() == whole.stddev() == claim.stddev(TICKS)


@every_claim
def test_every_draw_of_a_release_is_there_twice(make: Any) -> None:
    claim = make(sg.Pure(1))
    single: Any = replace(claim, pan_private=False, open_ticks=False)
    for tick in range(1, TICKS + 1):
        assert claim.stddev(tick) == pytest.approx(2**0.5 * single.stddev(tick))


def test_an_intrusion_in_the_middle_of_a_tick_widens_the_error_as_told() -> None:
    for make in CLAIMS:
        run = make(sg.Pure(1)).start(4000, InsecureNoise(9))
        run.step(np.zeros(4000, int))
        run.absorb(np.ones(4000, int))
        before = run.stddev()
        run.intrude()
        assert run.stddev() == before, "the newest release is what it was"
        errors = run.step(np.zeros(4000, int)) - 1.0
        assert abs((errors**2).mean() / run.stddev() ** 2 - 1) < 6.5 * np.sqrt(8 / 4000)
        assert run.stddev() > run.mechanism.stddev(2)


def test_the_planner_takes_those_whose_ticks_can_be_open() -> None:
    for asked in ({"horizon": 1000}, {}, {"window": "each"}, {"window": "sliding 24"}):
        assert choose(sg.Pure(1), **asked, **OPEN).open_ticks
    assert choose(sg.Pure(1), horizon=1000, **OPEN).stddev(999) > choose(sg.Pure(1), horizon=1000).stddev(999)
    refused = {each.name: each.refused for each in compare(sg.Pure(1), horizon=9, **OPEN).candidates}
    assert refused["Binary"] == "open_ticks must be False for Binary, got True"
    with pytest.raises(ValueError, match="open_ticks must be False for ExponentialDecay, got True"):
        choose(sg.Pure(1), window="decayed 3", **OPEN)


def test_open_ticks_are_for_pan_private_runs_and_parts_of_ticks_for_open_ones() -> None:
    for cls, settings in ((Kary, {"horizon": 9}), (SimpleII, {}), (WindowSum, {"window": 2})):
        with pytest.raises(ValueError, match=r"^pan_private must be True where ticks are open, got False$"):
            cls(sg.Pure(1), open_ticks=True, **settings)
    for claim in (Kary(sg.Pure(1), horizon=9, pan_private=True), Binary(sg.Pure(1), horizon=9)):
        run = claim.start(1, SilentNoise())
        with pytest.raises(TypeError, match=r"^open_ticks must be True to take part of a tick, got False$"):
            run.absorb([1])
        assert run.step([1]).tolist() == [1]


def test_runs_that_were_saved_before_ticks_could_be_open_go_on() -> None:
    assert "open_ticks" not in Kary(sg.Pure(1), horizon=9).identity()
    assert "open_ticks" not in Binary(sg.Pure(1), horizon=9).identity()
    assert "open_ticks=True" in Kary(sg.Pure(1), horizon=9, **OPEN).identity()
