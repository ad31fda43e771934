"""Histograms without negative bins: the nearest one in least squares.

Without a total, every negative bin becomes 0. With one, the nearest point of the simplex
{x >= 0, sum x = total} is x = max(v - s, 0), with s such that the remaining bins add up. They are
the largest ones. Sorted downwards, bin j remains if it is above the shift (v_1 + ... + v_j - total)/j that
would fit the first j.

Privacy
    Post-processing: the input is releases only. The total must be public, or a release itself.

Error
    Both sets are convex and, if the total is right, contain the truth. So the squared error of a histogram
    never grows. Single bins are biased, since noise below 0 no longer cancels noise above. Add up bins before
    they are clipped, not after, or give the total.

Reference
    Held, Wolfe, Crowder: Validation of subgradient optimization, Mathematical Programming 6, 1974.
"""

from typing import Any

import numpy as np
import numpy.typing as npt


def project_nonnegative(values: npt.ArrayLike, total: npt.ArrayLike | None = None) -> npt.NDArray[Any]:
    """Return the nearest histogram without negative bins, along the last axis.

    It adds up to `total` if given: one number, or one for each histogram (the leading axes). A total below 0 counts
    as 0.

    >>> project_nonnegative([5, -2, 1])
    array([5, 0, 1])
    >>> project_nonnegative([5.0, -2.0, 1.0], total=4)
    array([4., 0., 0.])
    >>> project_nonnegative([5.0, -2.0, 1.0], total=5)
    array([4.5, 0. , 0.5])
    """
    bins: npt.NDArray[Any] = np.asarray(values)
    if bins.dtype.kind not in "iuf":
        raise ValueError(f"values must be numbers, got {bins.dtype}")
    if bins.ndim == 0 or bins.shape[-1] == 0:
        raise ValueError(f"values must have bins along the last axis, got shape {bins.shape}")
    if total is None:
        return np.asarray(np.maximum(bins, 0))
    sums = np.asarray(total, np.float64)
    if sums.shape not in ((), bins.shape[:-1]):
        raise ValueError(f"total must be one number, or one for each of {bins.shape[:-1]}, got {sums.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        return project_to_simplex(bins.astype(np.float64), np.maximum(sums, 0.0)[..., None])


def project_to_simplex(bins: npt.NDArray[np.float64], total: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Project bins onto the simplex of this total.

    Bins are counted from the largest, which changes nothing but the rounding: the rest is then no larger than the
    total. The shift is summed again over the remaining bins, pairwise.
    """
    below = bins - bins.max(axis=-1, keepdims=True)
    falling = -np.sort(-below, axis=-1)
    place = np.arange(1, bins.shape[-1] + 1)
    remains = falling * place > np.cumsum(falling, axis=-1) - total
    number = np.maximum(remains.sum(axis=-1, keepdims=True), 1)
    clipped = np.where(place <= number, falling, 0.0)
    shift = (clipped.sum(axis=-1, keepdims=True) - total) / number
    return np.asarray(np.maximum(below - shift, 0.0))
