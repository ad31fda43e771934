"""An intruder sees the whole state: every change in it changes the view."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.adaptive import Pegasus
from streamgauge.audit import PanPrivateSubject, audit, worst_intrusion
from streamgauge.audit.broken.memory import LogKeepingTree, TotalKeepingTree
from streamgauge.audit.subjects.pan_private import Intruder, StateLayout, list_leaves
from streamgauge.continual import Kary
from streamgauge.testing.noise import InsecureNoise, SilentNoise

WIDTH = 5
TICKS = 4


@dataclass
class Inner:
    """A nested part of the state."""

    ratio: Fraction = Fraction(1, 3)
    flags: tuple[bool, ...] = (True, False)


@dataclass
class Everything:
    """A state with every supported kind of field."""

    tick: int = 3
    mean: float = 0.5
    done: bool = False
    key: bytes = b"\x00\x01"
    name: str = "a"
    own: Any = field(default_factory=lambda: np.arange(WIDTH))
    turned: Any = field(default_factory=lambda: np.arange(WIDTH * 2).reshape(WIDTH, 2))
    middle: Any = field(default_factory=lambda: np.zeros((2, WIDTH, 3)))
    public: Any = field(default_factory=lambda: np.arange(7))
    whole: Any = field(default_factory=lambda: np.array(9))
    inner: Inner = field(default_factory=Inner)
    table: dict[str, Any] = field(default_factory=lambda: {"a": [1, None], "b": 2**60})


def changed(array: Any, place: int) -> Any:
    other = array.copy()
    other.flat[place] += 1
    return other


STATE = Everything()
LAYOUT = StateLayout(())  # without known axes, they are inferred from their size
OTHERS = [
    *(replace(STATE, tick=4), replace(STATE, mean=0.25), replace(STATE, done=True), replace(STATE, name="b")),
    *(replace(STATE, key=b"\x00\x02"), replace(STATE, inner=Inner(Fraction(1 / 3)))),
    *(replace(STATE, inner=Inner(flags=(True, True))), replace(STATE, table={"a": [1, None], "b": 2**60 + 1})),
    *(replace(STATE, table={"a": [1, 0], "b": 2**60}), replace(STATE, table={"a": [1, None], "c": 2**60})),
    *(replace(STATE, whole=changed(STATE.whole, 0)), replace(STATE, public=changed(STATE.public, 6))),
]


@pytest.mark.parametrize("other", OTHERS, ids=range(len(OTHERS)))
def test_shared_state_is_visible_to_each_group(other: Everything) -> None:
    before, after = (LAYOUT.read_groups(state, WIDTH) for state in (STATE, other))
    assert (before != after).any(axis=0).all()


@pytest.mark.parametrize("name", ["own", "turned", "middle"])
def test_state_of_a_group_is_visible_to_it_alone(name: str) -> None:
    array = getattr(STATE, name)
    for place in range(array.size):
        before = LAYOUT.read_groups(STATE, WIDTH)
        after = LAYOUT.read_groups(replace(STATE, **{name: changed(array, place)}), WIDTH)
        assert (before != after).any(axis=0).sum() == 1


def test_state_besides_fields_is_visible() -> None:
    other = Everything()
    other.secret = 7  # type: ignore[attr-defined]
    assert len(LAYOUT.read_groups(other, WIDTH)) > len(LAYOUT.read_groups(STATE, WIDTH))


def test_group_axis_is_known_if_another_has_its_length() -> None:
    claim = Kary(sg.Pure(1), branching=2, levels=2, horizon=TICKS, pan_private=True)
    layout = StateLayout.from_mechanism(claim)
    places = [leaf.shape for leaf in list_leaves(claim.initial(2, InsecureNoise(1)))]
    assert places == [(), (2,), (2, 2), (2, 1), (0,)]
    assert layout.axes == (None, 0, 1, None, None)


@pytest.mark.parametrize("kind", [TotalKeepingTree, LogKeepingTree])
def test_an_exact_number_anywhere_in_the_memory_is_condemned(kind: Any) -> None:
    claim = kind(sg.Pure(1), branching=2, levels=2, horizon=TICKS, pan_private=True)
    assert worst_intrusion(claim, TICKS).floor == inf
    subject = PanPrivateSubject(claim, TICKS, Intruder(1), noise=InsecureNoise(72))
    verdict = audit(subject, 500, 1 - 1e-9)
    assert len(verdict.reasons) == 2
    assert subject.has_varying_shared_state == (kind is TotalKeepingTree)


def test_a_noisy_number_that_all_groups_share_is_acquitted() -> None:
    """Groups that share a number cannot serve as runs, so every run has its own start."""

    class SharesNoisyTotal(TotalKeepingTree):
        def step(self, state: Any, values: Any, noise: Any) -> Any:
            state.events += int(noise.laplace(Fraction(4), 1)[0])
            return super().step(state, values, noise)

    claim = SharesNoisyTotal(sg.Pure(1), branching=2, levels=2, horizon=TICKS, pan_private=True)
    verdict = audit(PanPrivateSubject(claim, 1, Intruder(1), noise=InsecureNoise(73)), 500, 1 - 1e-9)
    assert verdict.measurement is not None
    assert verdict.measurement.amount <= 1.25


def test_sum_of_an_open_block_is_visible() -> None:
    """The sum is exact in memory: a mechanism with two scales cannot be pan-private."""
    claim = Pegasus(sg.Pure(1), block=4)
    state = claim.initial(3, SilentNoise())
    claim.feed(state, np.array([[100, 200, 300], [1, 2, 3]]), SilentNoise())
    before = StateLayout.from_mechanism(claim).read_groups(state, 3)
    state.block.total += [7, 8, 9]
    after = StateLayout.from_mechanism(claim).read_groups(state, 3)
    assert [101.0, 202.0, 303.0] in before.tolist()
    assert [108.0, 210.0, 312.0] in after.tolist()
    with pytest.raises(ValueError, match=r"^pan_private must be False"):
        Pegasus(sg.Pure(1), block=4, pan_private=True)
