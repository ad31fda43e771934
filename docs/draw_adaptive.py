"""Draws the pictures of docs/adaptive.md by running the mechanisms, with noise that is the same every time.

    python docs/draw_adaptive.py            # needs the extra [plot]

The stream is one access point of a lecture hall: nearly nothing, two lectures, and people who leave.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamgauge import Pure, WEvent
from streamgauge.adaptive.pegasus.hierarchy import PegasusHierarchy
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.distribution import BudgetDistribution
from streamgauge.adaptive.w_event.republish import StaleErrorBound
from streamgauge.postprocess import Hierarchy
from streamgauge.testing.noise import InsecureNoise

FOLDER = Path(__file__).parent / "pictures"
INK, FAINT, NOISY, GROUP, VALUE = "#30363d", "#8b949e", "#b9c4cf", "#cfe1f3", "#2f6fb3"
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "streamgauge", "font.size": 8, "text.color": INK}
LEVELS = ((2, 30), (60, 24), (6, 10), (45, 18), (1, 38))  # people at a time, for so many ticks


def stream() -> npt.NDArray[np.int64]:
    """How many devices associate at each tick."""
    chance = np.random.default_rng(7)
    return np.concatenate([chance.poisson(level, ticks) for level, ticks in LEVELS])


def shown(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=FAINT)


def draw_pegasus() -> Figure:
    """A stream, its groups and its release."""
    truth = stream()
    released: Any = Pegasus(Pure("1/4")).start(1, InsecureNoise(11)).feed(truth)
    ticks, begins = np.arange(1, len(truth) + 1), np.flatnonzero(released.group_starts) + 1
    figure, panels = plt.subplots(3, 1, figsize=(7.2, 5.0), sharex=True, sharey=True)
    shown(panels[0], "the stream, and each count under noise (Perturber)")
    panels[0].step(ticks, truth, where="mid", color=INK, linewidth=1)
    panels[0].plot(ticks, released.noisy_counts, ".", color=FAINT, markersize=4)
    shown(panels[1], f"{len(begins)} groups of ticks that are nearly constant (Grouper)")
    for place, (begin, end) in enumerate(zip(begins, [*begins[1:], len(truth) + 1], strict=True)):
        panels[1].axvspan(begin - 0.5, end - 0.5, color=GROUP if place % 2 else "#eef4fa", linewidth=0)
    panels[1].step(ticks, truth, where="mid", color=INK, linewidth=1)
    shown(panels[2], "the release: the median of the group so far (Smoother), and the 95 % interval")
    panels[2].fill_between(ticks, *released.interval(), color=GROUP, linewidth=0, step="mid")
    panels[2].step(ticks, truth, where="mid", color=INK, linewidth=0.8)
    panels[2].step(ticks, released.value, where="mid", color=VALUE, linewidth=1.6)
    panels[2].set_xlabel("tick", color=INK)
    figure.tight_layout()
    return figure


def draw_hierarchy() -> Figure:
    """Which nodes of a building are read at which tick."""
    building = Hierarchy([None, 0, 0, *[1] * 4, *[2] * 4])
    leaves = np.zeros((len(stream()), 8), np.int64)
    leaves[:, 1], leaves[:, 6] = stream(), np.roll(stream(), 40) // 2
    claim = PegasusHierarchy(Pure(1), hierarchy=building)
    released: Any = claim.start(8, InsecureNoise(3)).feed(leaves)
    figure, axes = plt.subplots(figsize=(7.2, 2.6))
    shown(axes, "read (blue), or guessed from a parent that is nearly 0 (white)")
    axes.imshow(released.was_read.T, aspect="auto", cmap="Blues", vmin=0, vmax=1.6, interpolation="nearest")
    names = ["building", "floor 1", "floor 2", *(f"room {number}" for number in range(1, 9))]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("tick", color=INK)
    figure.tight_layout()
    return figure


def draw_budgets() -> Figure:
    """Ticks at which BD and BA publish a new value."""
    truth = stream()[:, None]
    figure, panels = plt.subplots(2, 1, figsize=(7.2, 3.6), sharex=True, sharey=True)
    named = {"BudgetDistribution": BudgetDistribution, "BudgetAbsorption": BudgetAbsorption}
    for axes, (name, claim) in zip(panels, named.items(), strict=True):
        released = claim(Pure(1), unit=WEvent(8)).start(1, InsecureNoise(5)).feed(truth)
        fresh = np.array([not isinstance(bar, StaleErrorBound) for bar in released.error_bounds])
        ticks = np.arange(1, len(truth) + 1)
        shown(axes, f"{name}, w = 8: {int(fresh.sum())} publications (dots), repeated in between")
        axes.step(ticks, truth[:, 0], where="mid", color=INK, linewidth=0.8)
        axes.step(ticks, released.value[:, 0], where="mid", color=VALUE, linewidth=1.4)
        axes.plot(ticks[fresh], released.value[fresh, 0], "o", color=VALUE, markersize=4)
    panels[1].set_xlabel("tick", color=INK)
    figure.tight_layout()
    return figure


def pictures() -> dict[str, Callable[[], Figure]]:
    """Every picture by its name, and what draws it."""
    return {"pegasus": draw_pegasus, "rollup": draw_hierarchy, "w_event": draw_budgets}


def save(drawn: dict[str, Callable[[], Figure]]) -> None:
    with plt.rc_context(STYLE):
        for name, draw in drawn.items():
            figure = draw()
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None, "Creator": None})
            plt.close(figure)


def main() -> None:
    save(pictures())


if __name__ == "__main__":
    main()
