"""Consistent running counts: whole, never falling, rising by at most N a tick.

With m_t the release at tick t, rounded, and out_0 = 0,

    out_t = out_(t-1) + min(max(m_t - out_(t-1), 0), N)

So the published count moves towards the release as far as a count can move in one tick.

Privacy
    Post-processing: the input is releases only. Its results must never be fed back into a mechanism.

Error
    Never worse than the worst so far. If the true count c starts at 0 and rises by 0 to N a tick, then
    |out_t - c_t| <= max over s <= t of |m_s - c_s|. Proof: let e be that maximum. If out_t = m_t there is
    nothing to show. If out stood still, m_t < out_t = out_(t-1), and c_t - e <= m_t < out_t <= c_(t-1) + e
    <= c_t + e. If it rose by N and fell short of m_t, the same holds with signs reversed.
    The price is bias: noise pulls a running maximum upwards, by at most e.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011, for streams of bits.
    Here N is arbitrary or absent, and each group may have its own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MAX_COUNT = 2**63 - 1
MAX_NARROW_GROUPS = 32  # groups up to which Python's integers are faster than NumPy's rows


def make_consistent(
    releases: npt.ArrayLike, max_increment: npt.ArrayLike | None = None, previous: npt.ArrayLike | None = None
) -> Ints:
    """Return running counts made whole, monotone and bounded in increment.

    `releases` has shape (ticks,) or (ticks, width). `max_increment` is N, one for all groups or one each; None
    sets no bound. `previous` is the last row of the block before, so that blocks can be processed as they come.
    Counts stay in 0 ... 2^63 - 1, and a value that is no number changes nothing.

    >>> make_consistent([0.7, -2.0, 1.6, 9.0, 8.0], max_increment=3)
    array([1, 1, 2, 5, 8])
    >>> make_consistent([9.0, 8.0], max_increment=3, previous=2)
    array([5, 8])
    """
    wanted = parse_counts("releases", releases)
    if wanted.ndim not in (1, 2):
        raise ValueError(f"releases must be of shape (ticks,) or (ticks, width), got {wanted.shape}")
    groups = wanted.shape[1:]
    start = broadcast_to_groups("after", parse_counts("after", 0 if previous is None else previous), groups)
    if max_increment is None:
        return np.maximum.accumulate(np.maximum(wanted, start), axis=0)
    rise = broadcast_to_groups("most", parse_increments(max_increment), groups)
    follow = follow_by_group if rise.size <= MAX_NARROW_GROUPS else follow_by_tick
    columns = wanted.reshape(len(wanted), rise.size)
    return follow(columns, start.reshape(-1), rise.reshape(-1)).reshape(wanted.shape)


def follow_by_tick(wanted: Ints, start: Ints, most: Ints) -> Ints:
    """Return all groups at once. Counts are not negative, so that no difference leaves int64."""
    out, now, gap = np.empty_like(wanted), start, np.empty_like(start)
    for row, aim in zip(out, wanted, strict=True):
        np.subtract(aim, now, out=gap)
        np.maximum(gap, 0, out=gap)
        np.minimum(gap, most, out=gap)
        now = np.add(now, gap, out=row)
    return out


def follow_by_group(wanted: Ints, start: Ints, most: Ints) -> Ints:
    """Return the same, one group after the other."""
    out = np.empty_like(wanted)
    settings = zip(start.tolist(), most.tolist(), strict=True)
    for group, (now, rise) in enumerate(settings):
        path = []
        for aim in wanted[:, group].tolist():
            if aim > now:
                now = min(aim, now + rise)  # noqa: PLW2901 - the count carries from tick to tick
            path.append(now)
        out[:, group] = path
    return out


def parse_counts(name: str, values: npt.ArrayLike) -> Ints:
    """floor(value + 1/2), exactly, brought into 0 ... 2^63 - 1; a value that is not a number is 0."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.dtype.kind == "f":
        return round_floats(array.astype(np.float64))
    if array.dtype.kind == "O":
        return np.array([round_count(value) for value in array.flat], np.int64).reshape(array.shape)
    if array.dtype.kind not in "iub":
        raise ValueError(f"{name} must be numbers, got {array.dtype}")
    return np.asarray(np.minimum(np.maximum(array, 0), MAX_COUNT).astype(np.int64))


def round_count(value: Any) -> int:
    """Return the rounded count of one item of any kind.

    Python's numbers may have any size, and max(0, nan) is 0.
    """
    try:
        return int((2 * min(max(0, value), MAX_COUNT) + 1) // 2)
    except (TypeError, ValueError, ArithmeticError):
        return 0


def round_floats(values: npt.NDArray[np.float64]) -> Ints:
    """Return the sum value + 1/2 is never formed, since floats would round it."""
    finite = np.nan_to_num(np.maximum(values, 0.0), nan=0.0)
    below = np.floor(finite)
    whole = below + (finite - below >= 0.5)
    small = np.where(whole < 2.0**63, whole, 0.0).astype(np.int64)
    return np.where(whole < 2.0**63, small, MAX_COUNT)


def parse_increments(most: npt.ArrayLike) -> Ints:
    """Whole numbers of at least 0; those beyond int64 bound nothing."""
    array: npt.NDArray[Any] = np.asarray(most)
    large = array.dtype.kind == "O" and all(type(one) is int for one in array.flat)
    if not (array.dtype.kind in "iu" or large) or (array < 0).any():
        raise ValueError(f"most must be whole numbers of at least 0, got {most!r}")
    return parse_counts("most", array)


def broadcast_to_groups(name: str, values: Ints, groups: tuple[int, ...]) -> Ints:
    """Return one number for each group."""
    if values.shape not in ((), groups):
        raise ValueError(f"{name} must be one number, or one for each group {groups}, got {values.shape}")
    return np.broadcast_to(values, groups)
