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
WIDE = 3  # times the newest interval

Numbers = Sequence[float] | npt.NDArray[np.float64]


def trend(values: Numbers, low: Numbers, high: Numbers, width: int = 40, *, ascii_only: bool = False) -> str:
    """Return a sparkline of released values on a scale that their intervals allow.

    Ticks whose interval is more than `WIDE` times as wide as the newest one are left out. The scale spans at
    least the widest interval that is left.

    >>> trend([900, 100, 104, 98, 102], [-900, 60, 64, 58, 62], [2700, 140, 144, 138, 142])
    ' ▄▅▄▅'
    >>> trend([0, 100, 200, 300], [-5, 95, 195, 295], [5, 105, 205, 305])
    '▁▃▆█'
    """
    series, widths = np.asarray(values, np.float64), np.asarray(high, np.float64) - np.asarray(low)
    newest = float(widths[-1]) if len(widths) else 0.0
    if not np.isfinite(newest):
        return sparkline(series, width, ascii_only=ascii_only)
    narrow = widths <= WIDE * newest
    least = float(widths[narrow].max(initial=0.0))
    return sparkline(np.where(narrow, series, np.nan), width, ascii_only=ascii_only, least=least)


def sparkline(values: Numbers, width: int = 40, *, ascii_only: bool = False, least: float = 0.0) -> str:
    """At most `width` signs, each the mean of an equal part of the series; a space where nothing is known.

    The scale spans at least `least`, about the middle of the means.
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}")
    series = np.asarray(values, np.float64).ravel()
    means = _means(np.where(np.isfinite(series), series, np.nan), width)
    known = means[~np.isnan(means)]
    if not len(known):
        return " " * len(means)
    signs, low, high = SIGNS if ascii_only else BLOCKS, known.min(), known.max()
    if high / 2 - low / 2 < least / 2:
        low, high = (low / 2 + high / 2 + side * least / 2 for side in (-1, 1))
    return "".join(" " if np.isnan(m) else signs[_step(m, low, high)] for m in means)


def _means(series: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """The mean of each part, of what is known in it."""
    parts = np.array_split(series, min(width, max(1, len(series)))) if len(series) else []
    known = [part[~np.isnan(part)] for part in parts]
    return np.array([part.mean() if len(part) else np.nan for part in known])


def _step(mean: float, low: float, high: float) -> int:
    """Which of the eight signs; the lowest where all are the same."""
    return min(7, int(8 * ((mean / 2 - low / 2) / (high / 2 - low / 2)))) if high > low else 0
