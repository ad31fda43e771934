"""Running counts that look like counts: whole, never falling, and rising by at most N a tick.

With m_t the release at tick t, rounded, and out_0 = 0,

    out_t = out_(t-1) + min(max(m_t - out_(t-1), 0), N)

so that the published count goes towards the release as far as a count may go in one tick.

Privacy
    None is spent: this looks at releases only. Its results must never be fed back into a mechanism.

Error
    Never worse than the worst so far: if the true count c starts at 0 and rises by 0 to N a tick, then
    |out_t - c_t| <= max over s <= t of |m_s - c_s|. Proof: let e be that maximum. Where out_t = m_t there is
    nothing to show. Where out stood still, m_t < out_t = out_(t-1), and c_t - e <= m_t < out_t <= c_(t-1) + e
    <= c_t + e; where it rose by N and fell short of m_t, the same the other way round.
    The price is bias: a running maximum is drawn upwards by noise, up to e.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011, for streams of bits;
    here for any N, or none, each group having its own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

HIGHEST = 2**63 - 1
NARROW = 32  # groups up to which Python's integers are faster than NumPy's rows


def consistent(
    releases: npt.ArrayLike, most: npt.ArrayLike | None = None, after: npt.ArrayLike | None = None
) -> Ints:
    """Releases of running counts, (ticks,) or (ticks, width), made whole, monotone and bounded in increment.

    `most` is N, one for all groups or one each; None sets no bound. `after` is the last row of the block
    before, so that blocks can be worked on as they come. Counts are kept in 0 ... 2^63 - 1, and what is
    not a number changes nothing.

    >>> consistent([0.7, -2.0, 1.6, 9.0, 8.0], most=3)
    array([1, 1, 2, 5, 8])
    >>> consistent([9.0, 8.0], most=3, after=2)
    array([5, 8])
    """
    wanted = counts("releases", releases)
    if wanted.ndim not in (1, 2):
        raise ValueError(f"releases must be of shape (ticks,) or (ticks, width), got {wanted.shape}")
    groups = wanted.shape[1:]
    start = of_groups("after", counts("after", 0 if after is None else after), groups)
    if most is None:
        return np.maximum.accumulate(np.maximum(wanted, start), axis=0)
    rise = of_groups("most", increments(most), groups)
    follow = by_group if rise.size <= NARROW else by_tick
    columns = wanted.reshape(len(wanted), rise.size)
    return follow(columns, start.reshape(-1), rise.reshape(-1)).reshape(wanted.shape)


def by_tick(wanted: Ints, start: Ints, most: Ints) -> Ints:
    """All groups at once. Counts are not negative, so that no difference leaves int64."""
    out, now, gap = np.empty_like(wanted), start, np.empty_like(start)
    for row, aim in zip(out, wanted, strict=True):
        np.subtract(aim, now, out=gap)
        np.maximum(gap, 0, out=gap)
        np.minimum(gap, most, out=gap)
        now = np.add(now, gap, out=row)
    return out


def by_group(wanted: Ints, start: Ints, most: Ints) -> Ints:
    """The same, one group after the other."""
    out = np.empty_like(wanted)
    settings = zip(start.tolist(), most.tolist(), strict=True)
    for group, (now, rise) in enumerate(settings):
        path = []
        for aim in wanted[:, group].tolist():
            if aim > now:
                now = min(aim, now + rise)  # noqa: PLW2901 - the count goes on from tick to tick
            path.append(now)
        out[:, group] = path
    return out


def counts(name: str, values: npt.ArrayLike) -> Ints:
    """floor(value + 1/2), exactly, brought into 0 ... 2^63 - 1; what is not a number is 0."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.dtype.kind == "f":
        return rounded(array.astype(np.float64))
    if array.dtype.kind == "O":
        return np.array([beyond_int64(value) for value in array.flat], np.int64).reshape(array.shape)
    if array.dtype.kind not in "iub":
        raise ValueError(f"{name} must be numbers, got {array.dtype}")
    return np.asarray(np.minimum(np.maximum(array, 0), HIGHEST).astype(np.int64))


def beyond_int64(value: Any) -> int:
    """The same for one item of whatever kind: Python's numbers may be of any size; max(0, nan) is 0."""
    try:
        return int((2 * min(max(0, value), HIGHEST) + 1) // 2)
    except (TypeError, ValueError, ArithmeticError):
        return 0


def rounded(values: npt.NDArray[np.float64]) -> Ints:
    """The sum value + 1/2 is never formed, since floats would round it."""
    finite = np.nan_to_num(np.maximum(values, 0.0), nan=0.0)
    below = np.floor(finite)
    whole = below + (finite - below >= 0.5)
    small = np.where(whole < 2.0**63, whole, 0.0).astype(np.int64)
    return np.where(whole < 2.0**63, small, HIGHEST)


def increments(most: npt.ArrayLike) -> Ints:
    """Whole numbers of at least 0; those beyond int64 bound nothing."""
    array: npt.NDArray[Any] = np.asarray(most)
    large = array.dtype.kind == "O" and all(type(one) is int for one in array.flat)
    if not (array.dtype.kind in "iu" or large) or (array < 0).any():
        raise ValueError(f"most must be whole numbers of at least 0, got {most!r}")
    return counts("most", array)


def of_groups(name: str, values: Ints, groups: tuple[int, ...]) -> Ints:
    """One number for each group."""
    if values.shape not in ((), groups):
        raise ValueError(f"{name} must be one number, or one for each group {groups}, got {values.shape}")
    return np.broadcast_to(values, groups)
