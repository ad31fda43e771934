"""Draws the picture of docs/localdp.md: what every protocol is off, as it predicts it.

python docs/draw_localdp.py            # needs the extra [plot]
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from draw_adaptive import FAINT, INK, save, shown
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamgauge import Pure
from streamgauge.localdp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomisedResponse,
    UnaryEncoding,
)

REPORTS = 10**6
HEAVY = 0.02 * REPORTS**2  # the sum of squares of counts: some fifty items of 2 % each
EPSILONS = [number / 4 for number in range(2, 25)]
SIZES = [2**power for power in range(1, 13)]
COLOURS = ("#2f6fb3", "#6aa6dd", "#c77b30", "#c0392b", "#3d8b5f", "#8e6bb0")


def protocols(loss: Pure, size: int) -> Iterator[tuple[str, Any]]:
    items = tuple(range(size))
    yield "CountMeanSketch (1,024 x 1,024)", CountMeanSketch(loss)
    yield "HadamardCountMeanSketch (1,024 x 1,024)", HadamardCountMeanSketch(loss)
    yield "LocalHashing (65,536 hashes)", LocalHashing(loss, hashes=65_536)
    yield "RandomisedResponse", RandomisedResponse(loss, items=items)
    yield "UnaryEncoding", UnaryEncoding(loss, items=items)
    yield "HadamardResponse", HadamardResponse(loss, items=items)


def error(claim: Any) -> float:
    """Of the share of a rare item, in percent."""
    return 100 * float(claim.stddev(0, REPORTS, HEAVY)) / REPORTS


def drawn(axes: Axes, at: list[Any], claims: Callable[[Any], Iterator[tuple[str, Any]]]) -> None:
    table = np.array([[error(claim) for _, claim in claims(place)] for place in at])
    for (name, _), errors, colour in zip(claims(at[0]), table.T, COLOURS, strict=True):
        style = "--" if name.startswith("Hadamard") and "(" in name else "-"
        axes.plot(at, errors, color=colour, label=name, linewidth=1.6, linestyle=style, zorder=3 + (style == "--"))
    axes.set_yscale("log")
    axes.grid(color=FAINT, alpha=0.25, linewidth=0.5)


def draw_errors() -> Figure:
    """Over epsilon, and over the length of a list."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.6), sharey=True)
    shown(left, "a list of 256 items")
    drawn(left, EPSILONS, lambda epsilon: protocols(Pure(str(epsilon)), 256))
    left.set_xlabel("epsilon of a report", color=INK)
    left.set_ylabel("standard error of a rare item's share, %", color=INK)
    shown(right, "epsilon 2")
    drawn(right, SIZES, lambda size: protocols(Pure(2), size))
    right.set_xscale("log", base=2)
    right.set_xlabel("items on the list", color=INK)
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=2, frameon=False, labelcolor=INK)
    figure.tight_layout(rect=(0, 0.17, 1, 1))
    return figure


def pictures() -> dict[str, Callable[[], Figure]]:
    """Every picture by its name, and what draws it."""
    return {"local_errors": draw_errors}


def main() -> None:
    save(pictures())


if __name__ == "__main__":
    main()
