"""A series of numbers as one line of text.

>>> sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8)
'▁▂▃▄▅▆▇█'
>>> sparkline([0, 0, 4, 4, float("nan"), float("nan")], 3, ascii_only=True)
'_# '
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

BLOCKS = "▁▂▃▄▅▆▇█"
SIGNS = "_.-:=+*#"  # for terminals that know no blocks


def sparkline(
    values: Sequence[float] | npt.NDArray[np.float64], width: int = 40, *, ascii_only: bool = False
) -> str:
    """At most `width` signs, each the mean of an equal part of the series; a space where nothing is known."""
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}")
    series = np.asarray(values, np.float64).ravel()
    means = _means(np.where(np.isfinite(series), series, np.nan), width)
    known = means[~np.isnan(means)]
    if not len(known):
        return " " * len(means)
    signs = SIGNS if ascii_only else BLOCKS
    return "".join(" " if np.isnan(m) else signs[_step(m, known.min(), known.max())] for m in means)


def _means(series: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """The mean of each part, of what is known in it."""
    parts = np.array_split(series, min(width, max(1, len(series)))) if len(series) else []
    known = [part[~np.isnan(part)] for part in parts]
    return np.array([part.mean() if len(part) else np.nan for part in known])


def _step(mean: float, low: float, high: float) -> int:
    """Which of the eight signs; the lowest where all are the same."""
    return min(7, int(8 * ((mean / 2 - low / 2) / (high / 2 - low / 2)))) if high > low else 0
