"""All that a state holds, as numbers of each group: what one sees who has the memory, and knows the code.

Dataclasses, mappings and sequences are opened; arrays are numbers; bytes are numbers too, and text is what it
is encoded as; everything is told as readers are told it (see `outputs`), so nothing is rounded away.

    an axis that is as long as there are groups     each group sees its own part, whichever axis it is
    anything else                                   all groups share it, and each of them sees it

Which axis that is, is found by making blank states of 2 and of 3 groups; what only comes later is told by its
size.

Promise
    Nothing that a state holds is left out, but for how it is nested, and the sign of a zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.audit.outputs import boxed, encoded
from streamgauge.continual import Claim
from streamgauge.continual.saved import NoNoise
from streamgauge.noise.numbers import Floats

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Memory:
    """How the states of a mechanism are laid out: the axis of the groups in each of its arrays."""

    axes: tuple[int | None, ...]

    @classmethod
    def of(cls, mechanism: Claim[Any, Any]) -> "Memory":
        few, more = (leaves(mechanism.initial(width, NoNoise())) for width in (2, 3))
        return cls(tuple(longer(one, other) for one, other in zip(few, more, strict=True)))

    def of_each(self, state: Any, width: int) -> Floats:
        """All numbers that each group sees, (numbers, width)."""
        parts = [
            np.repeat(told(leaf.reshape(1, -1)).T, width, axis=1) if axis is None else of_groups(leaf, axis)
            for leaf, axis in self._placed(state, width)
        ]
        return np.concatenate([np.zeros((0, width)), *parts])

    def of_all(self, state: Any, width: int) -> Floats:
        """What no group has to itself."""
        parts = [told(leaf.reshape(1, -1))[0] for leaf, axis in self._placed(state, width) if axis is None]
        return np.concatenate([np.zeros(0), *parts])

    def _placed(self, state: Any, width: int) -> Iterator[tuple[Array, int | None]]:
        for place, leaf in enumerate(leaves(state)):
            axis = self.axes[place] if place < len(self.axes) else by_size(leaf, width)
            fits = axis is not None and axis < leaf.ndim and leaf.shape[axis] == width
            yield leaf, axis if fits else by_size(leaf, width) if axis is not None else None


def longer(one: Array, other: Array) -> int | None:
    """The axis that is longer with more groups."""
    changed = (
        axis for axis, sizes in enumerate(zip(one.shape, other.shape, strict=True)) if len({*sizes}) > 1
    )
    return next(changed, None)


def by_size(leaf: Array, width: int) -> int | None:
    """The last axis that is as long as there are groups."""
    return max((axis for axis, size in enumerate(leaf.shape) if size == width), default=None)


def of_groups(leaf: Array, axis: int) -> Floats:
    return told(np.moveaxis(leaf, axis, 0).reshape(leaf.shape[axis], -1)).T


def leaves(state: Any) -> Iterator[Array]:
    """The arrays of a state, in order; what is no array is one of one item."""
    if isinstance(state, np.ndarray):
        yield state
    elif is_dataclass(state) and not isinstance(state, type):
        names = [each.name for each in fields(state)]
        for name in dict.fromkeys([*names, *getattr(state, "__dict__", ())]):
            yield from leaves(getattr(state, name))
    elif isinstance(state, Mapping):
        yield from leaves(list(state.items()))
    elif isinstance(state, str | bytes | bytearray | memoryview):
        raw = state.encode("utf-8", "surrogatepass") if isinstance(state, str) else bytes(state)
        yield np.frombuffer(raw, np.uint8)
    elif isinstance(state, list | tuple | set | frozenset):
        yield np.array(len(state))
        for each in state:
            yield from leaves(each)
    else:
        yield boxed(state)


def told(rows: Array) -> Floats:
    """A zero that a sum came to has either sign, by chance."""
    plain = rows + 0.0 if rows.dtype.kind == "f" else rows
    return encoded(plain, plain.shape[1:])
