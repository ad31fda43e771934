"""Draws docs/pictures/*.svg from the mechanisms' own matrices: each picture shows `strategy`.

    python docs/draw_pictures.py            # needs the extra [plot]

A bar is one noisy p-sum (a row of C) over the items that it adds up. In colour are those that the release at
one tick is made of (a row of B): added, or taken away. `Segments` is drawn by its draws instead: a bar covers
the releases that a draw is in (a column of B). `TwoPart` is drawn by its blocks, both parts: those in colour hide an
item before a look at the tick, and one after it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from streamgauge import Pure, Zcdp
from streamgauge.continual import (
    Binary,
    BridgeTree,
    BufferedToeplitz,
    EndlessBridge,
    ExponentialDecay,
    Hybrid,
    Kary,
    LinearMechanism,
    PastBridge,
    PolynomialDecay,
    Segments,
    SimpleI,
    SimpleII,
    SmoothBinary,
    SquareRoot,
    SubtractiveTree,
    TwoLevel,
    TwoPart,
    UnboundedToeplitz,
    WindowBridge,
    WindowSum,
)

FOLDER = Path(__file__).parent / "pictures"
TICKS, LAGS = 16, 1024
INK, FAINT, IDLE = "#30363d", "#8b949e", "#e4e8ec"
PLUS, MINUS, ITEMS = "#2f6fb3", "#d9822b", "#cfe1f3"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "streamgauge",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 9,
    "hatch.linewidth": 0.6,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}


@dataclass(frozen=True)
class Scheme:
    """One picture of p-sums: the mechanism, the tick whose release is in colour, and its caption."""

    mechanism: LinearMechanism[Any]
    tick: int
    title: str
    window: int = TICKS  # how many of the last items a release speaks of
    ahead: int = TICKS  # size of the matrices, chosen so that blocks have their whole length


PURE, RHO = Pure(1), Zcdp("1/2")
SCHEMES = {
    "simple_i": Scheme(SimpleI(PURE, horizon=16), 13, "Simple I: every count is a p-sum of its own"),
    "simple_ii": Scheme(SimpleII(PURE), 13, "Simple II: every item is a p-sum"),
    "two_level": Scheme(TwoLevel(PURE, horizon=16), 15, "Two-level: blocks of 4, then items"),
    "binary": Scheme(Binary(PURE, horizon=16), 15, "Binary: a p-sum for every one in the digits of t"),
    "refined": Scheme(Binary(PURE, horizon=16, refine=True), 14, "Refined binary: all nodes, weighed (parts of 1)"),
    "kary": Scheme(Kary(PURE, horizon=16, branching=3), 14, "k-ary: digits of t in base 3", ahead=27),
    "subtractive": Scheme(
        SubtractiveTree(PURE, horizon=40, branching=3),
        8,
        "Subtractive tree: a block that looks ahead, less the item beyond t",
        ahead=40,
    ),
    "bridge": Scheme(
        BridgeTree(PURE, horizon=16, radices=(4,)), 10, "Bridge tree: half of a block, and its items against it"
    ),
    "endless_bridge": Scheme(
        EndlessBridge(PURE, growth=2, first=4), 10, "Endless bridge: a past epoch, and 6/8 of this one", ahead=28
    ),
    "past_bridge": Scheme(
        PastBridge(PURE, horizon=16, radices=(2, 4)), 10, "Past bridge: the same noise, where no exact sum rests"
    ),
    "two_part": Scheme(
        TwoPart(PURE, horizon=16, radices=(4,)),
        9,
        "Two-part: a look at t = 9. Noise ahead hides item 6, fresh noise item 12",
    ),
    "smooth": Scheme(SmoothBinary(PURE, horizon=16), 12, "Smooth binary: leaves with as many ones as zeros", ahead=19),
    "segments": Scheme(Segments(PURE, horizon=16), 6, "Segments: draws that live as long as their segment"),
    "hybrid": Scheme(
        Hybrid(PURE, inner=Binary, growth=2, first=2), 13, "Hybrid: past epochs, and Binary in this one", ahead=30
    ),
    "window_sum": Scheme(
        WindowSum(PURE, window=8, branching=2, levels=3), 13, "Window sum: the last 8 items", window=8
    ),
    "window_bridge": Scheme(
        WindowBridge(PURE, window=8, radices=(4,)), 13, "Window bridge: parts of blocks at both ends", window=8
    ),
}
CURVES: dict[str, dict[str, LinearMechanism[Any]]] = {
    "running counts": {
        "SquareRoot": SquareRoot(RHO, horizon=LAGS),
        "BufferedToeplitz": BufferedToeplitz(RHO, horizon=LAGS),
        "UnboundedToeplitz": UnboundedToeplitz(RHO),
    },
    "decayed sums": {
        "ExponentialDecay, half-life 64": ExponentialDecay(RHO, half_life=64, horizon=LAGS),
        "PolynomialDecay, exponent 1": PolynomialDecay(RHO, exponent=1, horizon=LAGS),
    },
}


@dataclass(frozen=True)
class Bar:
    """One p-sum over items first to last; `weight` is its coefficient in the release."""

    first: int
    last: int
    weight: float

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def bars(scheme: Scheme) -> list[Bar]:
    """The rows of C that have items, with their weights in the release; for Segments the columns of B."""
    if isinstance(scheme.mechanism, TwoPart):
        return two_part_bars(scheme.mechanism)
    strategy = scheme.mechanism.matrices(scheme.ahead)
    segments = isinstance(scheme.mechanism, Segments)
    covers = strategy.decode.T if segments else strategy.measure
    found = []
    for cover, weight in zip(covers, strategy.decode[scheme.tick - 1], strict=True):
        ticks = np.flatnonzero(cover)
        if len(ticks) and ticks[0] < TICKS:
            found.append(Bar(int(ticks[0]) + 1, int(ticks[-1]) + 1, float(weight)))
    return found


HIDDEN_ITEMS = (6, 12)  # before and after the look


def two_part_bars(claim: TwoPart) -> list[Bar]:
    """The blocks of the noise ahead, which hide items before a look, and of the fresh noise, which hide later ones."""
    ahead, *_ = claim.noise_ahead.build_matrices(TICKS)
    found = []
    for blocks, item, weight in zip((ahead, claim.fresh.matrices(TICKS).measure), HIDDEN_ITEMS, (1, -1), strict=True):
        for block in blocks:
            ticks = np.flatnonzero(block)
            found.append(Bar(int(ticks[0]) + 1, int(ticks[-1]) + 1, weight * float(block[item - 1])))
    return found


def lanes(found: list[Bar]) -> list[list[Bar]]:
    """Bars of one length that do not overlap share a line; the longest are on top."""
    rows: list[list[Bar]] = []
    for bar in sorted(found, key=lambda bar: (-bar.length, bar.first)):
        free = (row for row in rows if row[0].length == bar.length and row[-1].last < bar.first)
        row = next(free, None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return rows


def draw_bar(axes: Axes, bar: Bar, height: float) -> None:
    used, taken = bar.weight != 0, bar.weight < 0
    patch = FancyBboxPatch(
        (bar.first - 0.42, height + 0.16),
        bar.length - 0.16,
        0.68,
        boxstyle="round,pad=0,rounding_size=0.14",
        facecolor=(MINUS if taken else PLUS) if used else IDLE,
        edgecolor="white" if taken else "none",
        hatch="////" if taken else None,
        alpha=0.25 + 0.75 * abs(bar.weight) if used else 1,
        linewidth=0,
    )
    axes.add_patch(patch)
    if used and abs(bar.weight) != 1:
        label = f"{bar.weight:.2f}".lstrip("0")
        colour = "white" if bar.weight > 0.4 else INK
        middle = (bar.first + bar.last) / 2
        axes.text(middle, height + 0.48, label, ha="center", va="center", fontsize=7, color=colour)


def draw_items(axes: Axes, scheme: Scheme, height: float) -> None:
    for item in range(1, TICKS + 1):
        inside = scheme.tick - scheme.window < item <= scheme.tick
        axes.add_patch(
            FancyBboxPatch(
                (item - 0.42, height + 0.1),
                0.84,
                0.8,
                boxstyle="round,pad=0,rounding_size=0.14",
                facecolor=ITEMS if inside else "none",
                edgecolor=FAINT,
                linewidth=0.5,
            )
        )
        axes.text(item, height + 0.47, str(item), ha="center", va="center", fontsize=7.5)
    axes.text(0.2, height + 0.47, "tick", ha="right", va="center", fontsize=7.5, color=FAINT)


def draw_scheme(scheme: Scheme) -> Figure:
    rows = lanes(bars(scheme))
    figure, axes = plt.subplots(figsize=(6.4, 0.12 + min(0.25, 2.8 / len(rows)) * (len(rows) + 3.2)))
    for i, row in enumerate(rows):
        for bar in row:
            draw_bar(axes, bar, len(rows) - i)
    draw_items(axes, scheme, 0)
    axes.plot([scheme.tick + 0.5] * 2, [0, len(rows) + 1.05], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.text(
        scheme.tick + 0.6, len(rows) + 1.05, f"t = {scheme.tick}", ha="left", va="bottom", fontsize=8, clip_on=False
    )
    axes.text(0.5, len(rows) + 2.1, scheme.title, ha="left", va="bottom", fontsize=9.5)
    axes.set(xlim=(-0.9, TICKS + 0.7), ylim=(-0.1, len(rows) + 3.1))
    axes.axis("off")
    figure.subplots_adjust(left=0, right=1, bottom=0.01, top=0.99)
    return figure


def draw_curves() -> Figure:
    """Weight of one item in later measurements: the first column of C."""
    figure, panels = plt.subplots(1, 2, figsize=(6.4, 2.9), sharey=True)
    lags = np.unique(np.geomspace(1, LAGS, 64).astype(int))
    for axes, (title, curves) in zip(panels, CURVES.items(), strict=True):
        for colour, width, (name, mechanism) in zip(
            (PLUS, MINUS, "#3a8f5c"), (2.6, 1.2, 1.2), curves.items(), strict=False
        ):
            column = mechanism.strategy(LAGS).measure[:, 0]
            axes.loglog(lags, column[lags - 1], color=colour, linewidth=width, label=name)
        axes.set_title(title, fontsize=9.5)
        axes.set_xlabel("age of the item in ticks, from 1", fontsize=8)
        axes.legend(fontsize=7.5, frameon=False, loc="lower left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(which="both", labelsize=7.5)
        axes.set_ylim(3e-4, 1.5)
    panels[0].set_ylabel("weight when measured", fontsize=8)
    figure.tight_layout()
    return figure


def pictures() -> dict[str, Callable[[], Figure]]:
    """Every picture by its name, and what draws it."""
    schemes = {name: partial(draw_scheme, scheme) for name, scheme in SCHEMES.items()}
    return {**schemes, "toeplitz": draw_curves}


def drawn_mechanisms() -> set[type[LinearMechanism[Any]]]:
    schemes = {type(scheme.mechanism) for scheme in SCHEMES.values()}
    return schemes | {type(mechanism) for curves in CURVES.values() for mechanism in curves.values()}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in pictures().items():
            figure = draw()
            figure.savefig(FOLDER / f"{name}.svg", transparent=False, metadata={"Date": None, "Creator": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
