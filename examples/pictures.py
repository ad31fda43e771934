"""Drawing functions of the examples: errors of mechanisms, estimates with truth."""

from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

INK, GRID = "#22303c", "#dfe5ea"
COLOURS = ["#9aa5b1", "#e0a458", "#5b8db8", "#7a6fb0", "#c8553d", "#2a9d6f", "#1f6f8b"]
plt.rcParams.update({"text.color": INK, "axes.labelcolor": INK, "axes.labelsize": 9})


def save_errors(path: str, runs: dict[str, tuple[np.ndarray, Any]]) -> None:
    """Draw a panel per mechanism: released minus true, with its 95 % interval."""
    figure, panels = plt.subplots(len(runs), 1, sharex=True, figsize=(9, 1.35 * len(runs) + 1), dpi=140)
    figure.suptitle("Seven ways to count one stream, epsilon = 1", x=0.02, ha="left", weight="bold")
    halves = sorted(mechanism.interval(0, len(error))[1] for error, mechanism in runs.values())
    widest = 1.5 * halves[-2]  # the worst mechanism may exceed its panel
    for panel, colour, (name, (error, mechanism)) in zip(panels, COLOURS, runs.items(), strict=True):
        ticks = np.arange(1, len(error) + 1, 23)
        half = [mechanism.interval(0, int(t))[1] for t in ticks]
        panel.fill_between(ticks, np.negative(half), half, color=colour, alpha=0.18, lw=0, step="mid")
        panel.plot(np.arange(1, len(error) + 1), error, color=colour, lw=0.7)
        panel.axhline(0, color=INK, lw=0.6)
        kind = f" ({type(mechanism).__name__})" if name.startswith("Best") else ""
        title = f"{name}{kind}: typical error {mechanism.rmse(len(error)):.0f}"
        panel.set_title(title, loc="left", fontsize=9)
        panel.set_ylim(-widest, widest)
        style_panel(panel)
    panels[-1].set_xlabel("tick")
    panels[len(runs) // 2].set_ylabel("released count - true count")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def style_panel(panel: Any) -> None:
    panel.tick_params(colors=INK, labelsize=8, length=0)
    panel.grid(color=GRID, lw=0.6)
    panel.set_axisbelow(True)
    for side in panel.spines.values():
        side.set_visible(False)


def draw_band(panel: Any, ticks: np.ndarray, truth: np.ndarray, estimate: Any, colour: str) -> None:
    """Draw the truth as a thin line, the estimate and its 95 % intervals."""
    low, high = estimate.interval()
    panel.fill_between(ticks, low.ravel(), high.ravel(), color=colour, alpha=0.2, lw=0, step="mid")
    panel.plot(ticks, estimate.value.ravel(), color=colour, lw=1.2, drawstyle="steps-mid")
    panel.plot(ticks, truth, color=INK, lw=0.6)


def frame_panel(panel: Any, title: str, x: str, y: str) -> None:
    panel.set_title(title, loc="left", fontsize=9)
    panel.set(xlabel=x, ylabel=y)
    style_panel(panel)
