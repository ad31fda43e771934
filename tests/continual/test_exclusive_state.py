"""Parts of a run that work without it: an exclusive state and a packed state."""

import copy
import pickle
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from streamgauge.continual import InvalidSaveError, RunFailedError
from streamgauge.continual.run import ExclusiveState
from streamgauge.continual.state_io import pack, unpack
from streamgauge.noise import Ints
from tests.support.forked import forked
from tests.support.saved_states import check_refused_in_child


@dataclass
class Inner:
    weights: Ints
    rows: Ints


@dataclass
class Counted:
    total: int
    name: str
    sums: Ints
    inner: Inner
    moments: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # public: a list that grows


def blank(width: int) -> Counted:
    inner = Inner(np.zeros((3, 1), np.int64), np.zeros((0, 2 * width), np.int64))
    return Counted(0, "", np.zeros(width, np.int64), inner)


class Counting(ExclusiveState[Counted]):
    def add(self, amount: int) -> int:
        with self._exclusive(lambda state: refuse_after(state, 2)) as state:
            state.total += 1
            return state.total // amount

    def total(self) -> int:
        with self._locked() as state:
            return state.total


def refuse_after(state: Counted, most: int) -> None:
    if state.total >= most:
        raise ValueError("seen must be at most 2, got 3")


def test_refusal_changes_nothing_and_failure_is_final() -> None:
    counting = Counting(blank(1))
    assert [counting.add(1), counting.add(1)] == [1, 2]
    with pytest.raises(ValueError, match=r"^seen must be"):
        counting.add(1)
    assert counting.total() == 2
    failing = Counting(blank(1))
    with pytest.raises(ZeroDivisionError):
        failing.add(0)
    for act in (failing.total, lambda: failing.add(1)):
        with pytest.raises(RunFailedError, match=r"^run must be whole to continue, got one whose last step failed$"):
            act()


def test_it_is_not_copied_pickled_or_forked() -> None:
    counting = Counting(blank(1))
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"^a run must not be"):
            act(counting)
    assert forked(partial(check_refused_in_child, counting.total)) == 0


def build_state(width: int = 2) -> Counted:
    inner = Inner(np.arange(3)[:, None], np.arange(8 * width).reshape(4, 2 * width))
    return Counted(7, "a", np.arange(width), inner, np.array([5, 6, 7]))


def test_a_state_without_a_mechanism_is_packed_and_unpacked() -> None:
    width, record, state = unpack(pack("claim", 2, {"saves": 1}, build_state()), "claim", blank)
    assert (width, record, state.total, state.name) == (2, {"saves": 1}, 7, "a")
    for one, two in zip(arrays(state), arrays(build_state()), strict=True):
        np.testing.assert_array_equal(one, two)


def arrays(state: Counted) -> list[np.ndarray]:
    return [state.sums, state.inner.weights, state.inner.rows, state.moments]


@pytest.mark.parametrize(
    ("identity", "width", "words"),
    [
        ("other", 2, "saved must be a run of other, got one of claim"),
        ("claim", 3, "saved must hold a state of its claim, got another"),
        ("claim", 0, "saved must hold a state of its claim, got another"),
        ("claim", -1, "saved must hold a state of its claim, got another"),
    ],
)
def test_state_of_another_claim_or_width_is_refused(identity: str, width: int, words: str) -> None:
    with pytest.raises(InvalidSaveError, match=f"^{words}$"):
        unpack(pack("claim", width, {}, build_state()), identity, blank)


@pytest.mark.parametrize("part", ["sums", "inner", "total", "moments"])
def test_state_with_a_part_of_another_kind_is_refused(part: str) -> None:
    wrong: Any = build_state()
    setattr(wrong, part, "nothing of the kind")
    with pytest.raises(InvalidSaveError, match=r"^saved must hold a state of its claim, got another$"):
        unpack(pack("claim", 2, {}, wrong), "claim", blank)
