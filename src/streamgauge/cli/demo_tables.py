"""What was published of the synthetic clinic, beside the truth."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamgauge.cli.clinic_truth import TICKS, Beside, beside_truth
from streamgauge.cli.release_tables import rounded
from streamgauge.cli.screens import add_row, cell, grid
from streamgauge.cli.sparklines import sparkline, trend
from streamgauge.pipeline.pipeline import Pipeline

HALF = TICKS // 2
TREND, LABEL, NUMBER = 10, 6, 8  # characters of columns, so that tables line up
NUMBERS = ("truth", "released", "error", "± 95 %")


def show_truth(console: Console, pipeline: Pipeline, visits: Path) -> None:
    """Each measure and group half-way, and how many intervals of all ticks hold the truth."""
    published = {release.name: pipeline.releases(release.name) for release in pipeline.file.releases}
    found = beside_truth(visits, published)
    console.print(cell(f"half-way, at tick {HALF}; trends are over all ticks", "dim"))
    for beside in found:
        console.print()
        console.print(_table(beside, ascii_only=not console.encoding.startswith("utf")))
    console.print()
    console.print(coverage_text(found))


def _table(beside: Beside, *, ascii_only: bool) -> Table:
    columns = (*NUMBERS, "inside", "the truth", "as released")
    table = grid("", *columns, right=NUMBERS, title=f"{beside.releases.release}: {beside.measure}")
    for column, least in zip(table.columns, (LABEL, *[NUMBER] * len(NUMBERS)), strict=False):
        column.min_width = least
    for place in range(beside.truth.shape[1]):
        add_row(table, *_row(beside, place, ascii_only=ascii_only))
    return table


def _row(beside: Beside, place: int, *, ascii_only: bool) -> list[str | Text]:
    releases = beside.releases
    values = releases.values(beside.measure)[:, place]
    lows, highs = (part(beside.measure)[:, place] for part in (releases.lows, releases.highs))
    low, high = lows[HALF - 1], highs[HALF - 1]
    truth, value, half = float(beside.truth[HALF - 1, place]), float(values[HALF - 1]), float(high - low) / 2
    inside = Text("yes", "green") if beside.inside[HALF - 1, place] else Text("no", "yellow")
    shown = [rounded(number, half) for number in (truth, value, value - truth, half)]
    real = sparkline(beside.truth[:, place], TREND, ascii_only=ascii_only)
    drawn = trend(values, lows, highs, TREND, ascii_only=ascii_only)
    group = releases.shape.places[place].labels
    label = str(group[0][1]) if group else "all"
    return [label, *shown, inside, Text(real, "dim"), Text(drawn, "cyan")]


def coverage_text(found: Sequence[Beside]) -> str:
    """How many of all intervals that were published hold the truth."""
    inside = sum(int(np.sum(beside.inside & beside.known)) for beside in found)
    all_of_them = sum(int(np.sum(beside.known)) for beside in found)
    share = inside / max(1, all_of_them)
    return (
        f"{share:.1%} of {all_of_them:,} intervals hold the truth; at least 95 % are promised, each by itself"
    )
