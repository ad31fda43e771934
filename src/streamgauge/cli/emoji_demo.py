"""`streamgauge demo --local`: a made-up crowd of devices, each with its own noise, and what they tell."""

from math import ceil, floor

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamgauge.cli.emoji_crowd import EMOJI, favourites, sketch
from streamgauge.cli.release_tables import rounded
from streamgauge.cli.screens import add_row, grid, heading, screen
from streamgauge.localdp import Frequencies
from streamgauge.noise.numbers import Floats

CONFIDENCE = 0.95
NUMBERS = ("truth", "estimate", "error", "95 % interval")


def emoji_demo(people: int) -> None:
    """Everything happens in memory; nothing is written."""
    console, claim, items = screen(), sketch(), list(EMOJI)
    picked = favourites(0, people)
    part(console, "1. A crowd", f"{people:,} devices, each with one of {len(items)} favourite emoji")
    console.print(f"every device sends by {claim!r}", soft_wrap=True)
    part(console, "2. What a device sends", f"{claim.report_size} bytes, different every time")
    for place in range(3):
        console.print(f"  {name_of(items[place])}  ->  {claim.privatise(items[place]).hex(' ')}")
    reports = claim.privatise_many([items[place] for place in picked])
    part(
        console,
        "3. What anybody can tell of the crowd",
        "from all reports, beside the truth, which nobody has",
    )
    collector = claim.collector()
    collector.add(reports)
    show(console, collector.estimate(items), np.bincount(picked, minlength=len(items)).astype(np.float64))


def part(console: Console, name: str, rest: str) -> None:
    console.print()
    heading(console, name, rest)
    console.print()


def show(console: Console, found: Frequencies, truth: Floats) -> None:
    low, high = found.interval(CONFIDENCE)
    inside = (low <= truth) & (truth <= high)
    console.print(_table(found, truth, inside))
    console.print()
    console.print(
        f"{inside.sum()} of {len(truth)} intervals hold the truth; 95 % are promised, each by itself"
    )
    console.print("live, with your own device in it: streamgauge demo --local --live")


def _table(
    found: Frequencies, truth: Floats, inside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> Table:
    table = grid("", *NUMBERS, "inside", right=NUMBERS)
    low, high = found.interval(CONFIDENCE)
    for place in np.argsort(-found.count):
        shown = (truth[place], found.count[place], found.count[place] - truth[place])
        numbers = [rounded(float(each), float(found.stddev[place])) for each in shown]
        held = Text("yes", "green") if inside[place] else Text("no", "yellow")
        between = whole_between(float(low[place]), float(high[place]))
        add_row(table, name_of(str(found.items[place])), *numbers, between, held)
    return table


def whole_between(low: float, high: float) -> str:
    """The counts of an interval: no other whole number is in it.

    >>> whole_between(0.0, 93.4), whole_between(1205.2, 1299.8)
    ('0 to 93', '1,206 to 1,299')
    """
    return f"{ceil(low):,} to {floor(high):,}"


def name_of(item: str) -> str:
    return f"{item} {EMOJI[item]}"
