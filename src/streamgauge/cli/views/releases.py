"""Releases as tables: the newest value of each group, its half width, and a trend.

>>> build_sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8)
'▁▂▃▄▅▆▇█'
>>> build_sparkline([0, 0, 4, 4, float("nan"), float("nan")], 3, ascii_only=True)
'_# '
"""

from collections.abc import Sequence
from math import isfinite

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamgauge.cli.console import add_row, build_cell, build_table, print_heading
from streamgauge.releases.release import Releases, TickRelease, format_utc_time
from streamgauge.releases.tables import format_rounded, is_centred
from streamgauge.runtime.format import plural

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_SIGNS = "_.-:=+*#"  # for terminals that know no blocks
MAX_WIDTH_RATIO = 3  # times the newest interval

Numbers = Sequence[float] | npt.NDArray[np.float64]


def build_trend(values: Numbers, low: Numbers, high: Numbers, width: int = 40, *, ascii_only: bool = False) -> str:
    """Return a sparkline of released values on a scale that their intervals allow.

    Ticks whose interval is more than `MAX_WIDTH_RATIO` times as wide as the newest one are left out. The scale spans at
    least the widest interval that is left.

    >>> build_trend([900, 100, 104, 98, 102], [-900, 60, 64, 58, 62], [2700, 140, 144, 138, 142])
    ' ▄▅▄▅'
    >>> build_trend([0, 100, 200, 300], [-5, 95, 195, 295], [5, 105, 205, 305])
    '▁▃▆█'
    """
    series, widths = np.asarray(values, np.float64), np.asarray(high, np.float64) - np.asarray(low)
    newest = float(widths[-1]) if len(widths) else 0.0
    if not np.isfinite(newest):
        return build_sparkline(series, width, ascii_only=ascii_only)
    narrow = widths <= MAX_WIDTH_RATIO * newest
    least = float(widths[narrow].max(initial=0.0))
    return build_sparkline(np.where(narrow, series, np.nan), width, ascii_only=ascii_only, least=least)


def build_sparkline(values: Numbers, width: int = 40, *, ascii_only: bool = False, least: float = 0.0) -> str:
    """Return at most `width` signs: means of equal parts, a space for unknown parts.

    The scale spans at least `least`, about the middle of the means.
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}")
    series = np.asarray(values, np.float64).ravel()
    means = _compute_means(np.where(np.isfinite(series), series, np.nan), width)
    known = means[~np.isnan(means)]
    if not len(known):
        return " " * len(means)
    signs, low, high = ASCII_SIGNS if ascii_only else BLOCKS, known.min(), known.max()
    if high / 2 - low / 2 < least / 2:
        low, high = (low / 2 + high / 2 + side * least / 2 for side in (-1, 1))
    span = high / 2 - low / 2 or np.inf  # the lowest sign if all means are equal
    return "".join(" " if np.isnan(m) else signs[min(7, int(8 * ((m / 2 - low / 2) / span)))] for m in means)


def _compute_means(series: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """Return the mean of the known values of each part."""
    parts = np.array_split(series, min(width, max(1, len(series)))) if len(series) else []
    known = [part[~np.isnan(part)] for part in parts]
    return np.array([part.mean() if len(part) else np.nan for part in known])


MAX_ROWS = 40
MAX_DECLARED_ORDER = 8  # groups that are listed in the declared order: more are listed largest first
TREND_CHARS = (8, 28)  # signs of a trend, at least and at most


def show_releases(console: Console, releases: Releases, absence: str = "") -> None:
    """Print one release; `absence` says why it has no groups, if it has none."""
    shape = releases.shape
    if not len(releases):
        print_heading(console, shape.release, "nothing was published yet")
        return
    newest = releases[-1]
    until = f"tick {newest.tick:,}, up to {format_utc_time(newest.end)}"
    print_heading(console, shape.release, f"{until}; trends over {plural(len(releases), releases.row_noun)}")
    for note in shape.notes:
        console.print(build_cell(note, "dim"), soft_wrap=True)
    if absence:
        console.print(build_cell(absence), soft_wrap=True)
        console.print()
        return
    width = find_trend_width(console.width, newest)
    console.print(_build_table(releases, newest, width, ascii_only=not console.encoding.startswith("utf")))
    if len(shape.groups) > MAX_DECLARED_ORDER and not newest.shape.has_tick_groups:
        console.print(build_cell(f"sorted by {shape.measures[0]}, largest first", "dim"))
    left = len(newest.shape.groups) - MAX_ROWS
    if left > 0:
        console.print(build_cell(f"and {plural(left, 'more group')}: streamgauge export has all", "dim"))
    console.print()


def _build_table(releases: Releases, newest: TickRelease, width: int, *, ascii_only: bool) -> Table:
    shape = newest.shape
    measures = [name for measure in shape.measures for name in (measure, "± 95 %", "trend")]
    rank = ("rank",) if shape.is_ranked else ()
    table = build_table(*rank, *shape.columns, *measures, right_aligned=(*rank, *shape.measures, "± 95 %"))
    where, parts = releases.find_group_positions(newest), (releases.values, releases.lows, releases.highs)
    series = {measure: [part(measure)[:, where] for part in parts] for measure in shape.measures}
    for place in _order_places(newest)[:MAX_ROWS]:
        labels = dict(shape.groups[place].labels)
        cells: list[str | Text] = [str(shape.ranks[place])] if shape.is_ranked else []
        cells += [str(labels.get(column, "all")) for column in shape.columns]
        for row, measure in enumerate(shape.measures):
            cells += format_numbers(newest, row, place)
            value, low, high = (part[:, place] for part in series[measure])
            drawn = build_trend(value, low, high, width, ascii_only=ascii_only)
            cells.append(Text(drawn, "cyan"))
        add_row(table, *cells)
    return table


def _order_places(newest: TickRelease) -> list[int]:
    """Return the places of a tick in the declared order if they are few, else largest first."""
    if len(newest.shape.groups) <= MAX_DECLARED_ORDER or newest.shape.is_ranked:
        return list(range(len(newest.shape.groups)))
    return Releases.from_releases(newest.shape, [newest]).find_largest(newest.shape.measures[0])


def find_trend_width(width: int, newest: TickRelease) -> int:
    """Return the width that a terminal has beside labels and numbers."""
    shape = newest.shape
    labels = sum(2 + max(len(str(label)) for label in (name, *shape.labels(name))) for name in shape.columns)
    numbers = sum(2 + max(len(measure), 10) + 12 + 2 for measure in shape.measures)
    least, most = TREND_CHARS
    return min(most, max(least, (width - labels - numbers) // len(shape.measures)))


def format_numbers(released: TickRelease, row: int, place: int) -> list[str | Text]:
    """Return a value and the half width of its interval; both ends if the interval is not centred."""
    value, low, high = (float(part[row, place]) for part in (released.value, released.low, released.high))
    half = (high - low) / 2
    shown = format_rounded(value, half)
    if not released.reliable[row, place]:
        return [build_cell(shown, "dim"), build_cell("unreliable", "dim")]
    if isfinite(half) and not is_centred(value, low, high):
        return [shown, f"{format_rounded(low, half)} to {format_rounded(high, half)}"]
    return [shown, format_rounded(half, half)]
