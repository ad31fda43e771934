"""Sensitivity of a linear strategy to one unit, and parallel composition.

Native calibration
    A strategy measures C x, one column of C a tick. A unit changes x by at most 1 at the ticks W (m events:
    by m). It moves the measurements by the sum of its columns, with any signs. Group scaling charges |W|
    times the largest column, as if all columns were the same. The columns themselves give a smaller bound.
    Let G = C'C, and |G| its entries without sign. For every x with |x_t| <= 1 on W and 0 elsewhere

    |C x|_2^2 = sum_{s,t in W} x_s G_st x_t <= sum_{s,t in W} |G_st|      with equality at x = 1 if G >= 0
    |C x|_1   <= sum_{t in W} |c_t|_1                                      with equality at x = 1 if C >= 0

    - Windows (Event, WEvent): all are tried. The result is exact if C >= 0, else an upper bound.
    - Sets of k ticks (User): sum_{s in W} (sum_{t in W} |G_st|) <= sum_{s in W} h_s, with h_s the sum of the k
      largest entries of row s of |G|. So the sum of the k largest h_s bounds every W. In L1, the sum of the k
      largest |c_t|_1, exact if C >= 0.

    Neither exceeds the group bound k^2 max_t |c_t|_2^2, k max_t |c_t|_1, since |G_st| <= |c_s|_2 |c_t|_2.

Parallel composition: the loss of one unit to releases over disjoint groups, one release a group
    An event is in one group, so one release depends on it, and the largest loss counts. If replaced, it may
    leave one group and enter another: the two largest losses add. Other units have many events in as many
    groups, so all losses add. An exception are units whose bounds are enforced across groups and before filters.
    Such a unit gains nothing by spreading: pure losses are linear in the places of its events, zCDP losses
    convex. So the worst unit is in the group of the largest loss.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.privacy.losses import Pure, Zcdp
from streamgauge.privacy.sensitivity import Sensitivity
from streamgauge.privacy.units import Unit

Matrix = npt.NDArray[Any]  # of int64 where no sum below can overflow, else of Python integers


def worst_case_participation(columns: npt.ArrayLike, unit: Unit) -> Sensitivity:
    """Return how far one unit moves C x.

    Each of its events moves one tick of x by at most 1.

    >>> tree = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]
    >>> from streamgauge.privacy import User, WEvent
    >>> worst_case_participation(tree, WEvent(2)), worst_case_participation(tree, User(1, 2)).l1
    (Sensitivity(l1=5, l2_squared=9, coordinates=4), Fraction(5, 1))
    """
    C = check_integers(columns)
    k = min(unit.ticks, C.shape[1])
    l1, l2_squared = (_worst_case_window if unit.consecutive else _worst_case_set_bound)(C, k)
    return Sensitivity(l1, l2_squared, len(C)).scale(unit.events)


def check_integers(columns: npt.ArrayLike) -> Matrix:
    """Return a matrix of integers whose sums of products cannot overflow."""
    C = np.asarray(columns)
    if C.ndim != 2 or not C.size:
        raise ValueError(f"columns must be a matrix with rows and ticks, got shape {C.shape}")
    if C.dtype.kind not in "iuO" or (C.dtype.kind == "O" and not all(isinstance(entry, int) for entry in C.flat)):
        raise ValueError(f"columns must be integers, got {C.dtype}")
    largest, (rows, ticks) = max(abs(int(entry)) for entry in (C.max(), C.min())), C.shape
    return C.astype(np.int64 if rows * (largest * ticks) ** 2 < 2**62 else object)


def _worst_case_window(C: Matrix, k: int) -> tuple[int, int]:
    """Return the largest of all windows of k ticks."""
    sums = np.abs(C).sum(axis=0)
    l1 = max(sums[s : s + k].sum() for s in range(len(sums) - k + 1))
    if (C >= 0).all():
        total = np.concatenate([np.zeros((len(C), 1), C.dtype), C.cumsum(axis=1)], axis=1)
        moved = total[:, k:] - total[:, :-k]
        return int(l1), int((moved * moved).sum(axis=0).max())
    gram = np.abs(C.T @ C)
    return int(l1), int(max(gram[s : s + k, s : s + k].sum() for s in range(len(gram) - k + 1)))


def _worst_case_set_bound(C: Matrix, k: int) -> tuple[int, int]:
    """Return the bound over all sets of k ticks."""
    l1 = np.sort(np.abs(C).sum(axis=0))[-k:].sum()
    rows = np.sort(np.abs(C.T @ C), axis=1)[:, -k:].sum(axis=1)
    return int(l1), int(np.sort(rows)[-k:].sum())


Additive = TypeVar("Additive", Pure, Zcdp)


def compose_groups(losses: Sequence[Additive], unit: Unit, *, bounded_across: bool = False) -> Additive:
    """Return the loss of one event to all groups together, to be charged once.

    Each of `losses` must cover all that one event can do inside its group, including a replacement if the unit
    is replaced. `bounded_across` promises that the unit's bounds hold over all groups together.

    >>> from streamgauge.privacy import Event, User
    >>> parts = [Pure(1), Pure(2), Pure(3)]
    >>> [compose_groups(parts, unit) for unit in (Event(), Event(replace=True), User(1, 5))]
    [Pure(epsilon=3), Pure(epsilon=5), Pure(epsilon=6)]
    """
    if not losses:
        raise ValueError("losses must be at least one, got none")
    if unit.spans_groups and not bounded_across:
        return reduce(add, losses)
    return reduce(add, sorted(losses)[-2 if unit.replace else -1 :])
