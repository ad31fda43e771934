"""Native calibration: how far one unit moves what a linear strategy measures.

A strategy measures C x, one column of C a tick. A unit that changes x by at most 1 at the ticks W (m events:
by m) moves the measurements by the sum of its columns, with whatever signs; group scaling charges |W| times
the dearest column, as if all columns were the same. The columns themselves know better.

Let G = C'C, and |G| its entries without sign. For every x with |x_t| <= 1 on W and 0 elsewhere

    |C x|_2^2 = sum_{s,t in W} x_s G_st x_t <= sum_{s,t in W} |G_st|      with equality at x = 1 if G >= 0
    |C x|_1   <= sum_{t in W} |c_t|_1                                      with equality at x = 1 if C >= 0

- Windows (Event, WEvent): all are tried; exact if C >= 0, else at most this bound.
- Sets of k ticks (User): sum_{s in W} (sum_{t in W} |G_st|) <= sum_{s in W} h_s with h_s the sum of the k
  largest entries of row s of |G|; so the sum of the k largest h_s bounds every W. In L1, the sum of the k
  largest |c_t|_1, exact if C >= 0.

Neither exceeds the group bound k^2 max_t |c_t|_2^2, k max_t |c_t|_1, since |G_st| <= |c_s|_2 |c_t|_2.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.privacy.reach import Reach
from streamgauge.privacy.units import Unit

Matrix = npt.NDArray[Any]  # of int64 where no sum below can overflow, else of Python integers


def worst_participation(columns: npt.ArrayLike, unit: Unit) -> Reach:
    """How far one unit moves C x, if each of its events moves one tick of x by at most 1.

    >>> tree = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]
    >>> from streamgauge.privacy import User, WEvent
    >>> worst_participation(tree, WEvent(2)), worst_participation(tree, User(1, 2)).l1
    (Reach(l1=5, l2_squared=9, coordinates=4), Fraction(5, 1))
    """
    C = integers(columns)
    k = min(unit.ticks, C.shape[1])
    l1, l2_squared = (_windows if unit.consecutive else _sets)(C, k)
    return Reach(l1, l2_squared, len(C)).times(unit.events)


def integers(columns: npt.ArrayLike) -> Matrix:
    """A matrix of integers whose sums of products cannot overflow; refuses anything else."""
    C = np.asarray(columns)
    if C.ndim != 2 or not C.size:
        raise ValueError(f"columns must be a matrix with rows and ticks, got shape {C.shape}")
    if C.dtype.kind not in "iuO" or (
        C.dtype.kind == "O" and not all(isinstance(entry, int) for entry in C.flat)
    ):
        raise ValueError(f"columns must be integers, got {C.dtype}")
    largest, (rows, ticks) = max(abs(int(entry)) for entry in (C.max(), C.min())), C.shape
    return C.astype(np.int64 if rows * (largest * ticks) ** 2 < 2**62 else object)


def _windows(C: Matrix, k: int) -> tuple[int, int]:
    """The largest of all windows of k ticks."""
    sums = np.abs(C).sum(axis=0)
    l1 = max(sums[s : s + k].sum() for s in range(len(sums) - k + 1))
    if (C >= 0).all():
        total = np.concatenate([np.zeros((len(C), 1), C.dtype), C.cumsum(axis=1)], axis=1)
        moved = total[:, k:] - total[:, :-k]
        return int(l1), int((moved * moved).sum(axis=0).max())
    gram = np.abs(C.T @ C)
    return int(l1), int(max(gram[s : s + k, s : s + k].sum() for s in range(len(gram) - k + 1)))


def _sets(C: Matrix, k: int) -> tuple[int, int]:
    """The bound over all sets of k ticks."""
    l1 = np.sort(np.abs(C).sum(axis=0))[-k:].sum()
    rows = np.sort(np.abs(C.T @ C), axis=1)[:, -k:].sum(axis=1)
    return int(l1), int(np.sort(rows)[-k:].sum())
