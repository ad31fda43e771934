"""Releases as tables: the newest value of each group with its half width, and a trend."""

from math import isfinite

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamgauge.cli.screens import add_row, cell, grid, heading
from streamgauge.cli.sparklines import trend
from streamgauge.pipeline.words import counted
from streamgauge.query.html import is_about
from streamgauge.query.released import Released, Releases, moment

ROWS = 40
TREND = (8, 28)  # signs of a trend, at least and at most


def show_releases(console: Console, releases: Releases, absence: str = "") -> None:
    """Print one release; `absence` says why it has no groups, if it has none."""
    shape = releases.shape
    if not len(releases):
        heading(console, shape.release, "nothing was published yet")
        return
    newest = releases[-1]
    until = f"tick {newest.tick:,}, up to {moment(newest.end)}"
    heading(console, shape.release, f"{until}; trends over {counted(len(releases), 'tick')}")
    if shape.contributions:
        console.print(cell(f"counts {shape.contributions}", "dim"), soft_wrap=True)
    if absence:
        console.print(cell(absence), soft_wrap=True)
        console.print()
        return
    width = trend_width(console.width, newest)
    console.print(_table(releases, newest, width, ascii_only=not console.encoding.startswith("utf")))
    left = len(newest.shape.places) - ROWS
    if left > 0:
        console.print(cell(f"and {counted(left, 'more group')}: streamgauge export has all", "dim"))
    console.print()


def _table(releases: Releases, newest: Released, width: int, *, ascii_only: bool) -> Table:
    shape = newest.shape
    measures = [name for measure in shape.measures for name in (measure, "± 95 %", "trend")]
    table = grid(*shape.columns, *measures, right=(*shape.measures, "± 95 %"))
    where, parts = releases.where(newest), (releases.values, releases.lows, releases.highs)
    series = {measure: [part(measure)[:, where] for part in parts] for measure in shape.measures}
    for place in range(min(ROWS, len(shape.places))):
        labels = dict(shape.places[place].labels)
        cells: list[str | Text] = [str(labels.get(column, "all")) for column in shape.columns]
        for row, measure in enumerate(shape.measures):
            cells += numbers(newest, row, place)
            value, low, high = (part[:, place] for part in series[measure])
            drawn = trend(value, low, high, width, ascii_only=ascii_only)
            cells.append(Text(drawn, "cyan"))
        add_row(table, *cells)
    return table


def trend_width(width: int, newest: Released) -> int:
    """What a terminal has room for, beside labels and numbers."""
    shape = newest.shape
    labels = sum(2 + max(len(str(label)) for label in (name, *shape.labels(name))) for name in shape.columns)
    taken = sum(2 + max(len(measure), 10) + 12 + 2 for measure in shape.measures)
    least, most = TREND
    return min(most, max(least, (width - labels - taken) // len(shape.measures)))


def numbers(released: Released, row: int, place: int) -> list[str | Text]:
    """A value and half the width of its interval, as far as known; both ends, if it is about another."""
    value, low, high = (float(part[row, place]) for part in (released.value, released.low, released.high))
    half = (high - low) / 2
    shown = rounded(value, half)
    if not released.enough[row, place]:
        return [cell(shown, "dim"), cell("not enough", "dim")]
    if isfinite(half) and not is_about(value, low, high):
        return [shown, f"{rounded(low, half)} to {rounded(high, half)}"]
    return [shown, rounded(half, half)]


def rounded(value: float, scale: float) -> str:
    """A number, to two digits of `scale`.

    >>> rounded(1234.567, 4.5), rounded(1234.567, 0.012), rounded(float("nan"), 1.0)
    ('1,234.6', '1,234.567', '?')
    """
    if not isfinite(value):
        return "?"
    if not isfinite(scale) or scale <= 0:
        return f"{value:,.6g}"
    places = 0
    while scale < 9.95 and places < 6:
        scale, places = scale * 10, places + 1
    return f"{value:,.{places}f}"
