"""A rehearsal of intrusions on the screen: what an intruder thinks after looking, and how often."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from streamgauge.cli.screens import add_row, cell, grid, heading

BINS = np.linspace(0, 1, 21)
BAR = 20  # signs of the longest bar
CERTAIN = 0.999
TITLES = {
    "counter": "One visit in a running count: did Robin come in tick {came_in}?",
    "table": "One patient of {patients} in a table of users: did Robin ever come?",
}
SCENES = {
    "counter": "The memory is seized after tick {seen_after}; the intruder has read every release, and knows "
    "all others who came.",
    "table": "Robin came in weeks 1 and 3, or never. The table is seized in week 2; the intruder reads the "
    "estimate of week 3, and knows all others who came.",
}


def show_rehearsal(console: Console, told: dict[str, Any]) -> None:
    console.print(cell("A rehearsal with made-up people: nothing was read, nobody is real.", "dim"))
    for kind in ("counter", "table"):
        console.print()
        heading(console, TITLES[kind].format(**told[kind]))
        console.print(cell(SCENES[kind].format(**told[kind]), "dim"), soft_wrap=True)
        console.print()
        console.print(_memories(told, told[kind]))
        console.print()
        console.print(_histogram(told, told[kind]["chance"]))
    console.print()
    for line in promises(told):
        console.print(cell(line), soft_wrap=True)


def _memories(told: dict[str, Any], kind: dict[str, Any]) -> Any:
    """What is thought before, and after the first rehearsal, in which Robin came."""
    table = grid("memory", "before", "after", "odds", "in all rehearsals", right=("before", "after", "odds"))
    before, first = told["before"], kind["chance"][0]
    low, high = min(kind["chance"]), max(kind["chance"])
    add_row(
        table,
        "ordinary",
        f"{before:.0%}",
        f"{kind['plain']['chance']:.0%}",
        "x infinite",
        "certain, each time",
    )
    add_row(
        table,
        "pan-private",
        f"{before:.0%}",
        f"{first:.0%}",
        f"x {first / (1 - first):.2f}",
        f"{low:.0%} to {high:.0%}, odds x {kind['worst_odds']:.2f} at most",
    )
    sure = certain(kind["two_looks"])
    share = f"certain in {sure} of {len(kind['two_looks'])}: not promised"
    add_row(table, "pan-private, two secret looks", f"{before:.0%}", "", "", share)
    return table


def certain(chances: Sequence[float]) -> int:
    """How many intruders know."""
    return sum(chance > CERTAIN or chance < 1 - CERTAIN for chance in chances)


def _histogram(told: dict[str, Any], chances: Sequence[float]) -> Any:
    """How many intruders think so, where Robin came and where not."""
    came = np.array(told["came"])
    found = np.array(chances)
    counts = [np.histogram(found[which], BINS)[0] for which in (came, ~came)]
    longest = max(int(each.max()) for each in counts)
    table = grid("thinks that Robin came", "Robin came", "Robin did not")
    for bin_, (yes, no) in enumerate(zip(*counts, strict=True)):
        if yes or no:
            bars = [cell("█" * -(-BAR * int(n) // longest), "cyan") for n in (yes, no)]
            add_row(table, f"{BINS[bin_]:4.0%} to {BINS[bin_ + 1]:.0%}", *bars)
    return table


def promises(told: dict[str, Any]) -> Iterator[str]:
    """The bound, and the worst that was seen."""
    low, high = told["bounds"]["chance"]
    worst = max(told[kind]["worst_odds"] for kind in ("counter", "table"))
    bound = told["bounds"]["odds"][1]
    limits, several = f"less than {low:.0%} or more than {high:.0%}", f"{len(told['came']):,} rehearsals each"
    yield f"promised: odds change by a factor of at most e^{told['epsilon']} = {bound:.3f} (never {limits})"
    yield f"the worst of {several}: {worst:.3f}"
    yield "a second look is not survived unless it is announced: then noise goes in before it and after it"
