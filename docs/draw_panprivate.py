"""Draws the pictures of docs/panprivate.md by running the estimators, with noise that is the same every time.

python docs/draw_panprivate.py            # needs the extra [plot]
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from draw_adaptive import GROUP, INK, NOISY, VALUE, save, shown
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from streamgauge import Pure
from streamgauge.panprivate import Density
from streamgauge.testing.noise import InsecureNoise

ROWS, COLUMNS = 20, 40
PERSON = 333
ALARM = "#c0392b"


def claim() -> Density:
    return Density(Pure(2), universe=ROWS * COLUMNS, intrusions=1)


def grid(axes: Axes, bits: npt.NDArray[np.uint8], title: str) -> None:
    shown(axes, title)
    cells = bits.reshape(ROWS, COLUMNS)
    axes.imshow(cells, cmap="Blues", vmin=0, vmax=1.6, interpolation="nearest", aspect="equal")
    row, column = divmod(PERSON, COLUMNS)
    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=ALARM, linewidth=1.6))
    axes.set_xticks([])
    axes.set_yticks([])


def draw_table() -> Figure:
    """Visits, and the memory before, during and after an announced intrusion."""
    came = np.random.default_rng(4).permutation(ROWS * COLUMNS)[: ROWS * COLUMNS // 10]
    came[0] = PERSON
    exact, noise, estimator = np.zeros(ROWS * COLUMNS, np.uint8), InsecureNoise(6), claim()
    exact[came] = 1
    table = estimator.initial(noise)
    estimator.add_users(table, came, 0, noise)
    seen = [table.copy()]
    for passed in range(2):
        estimator.rerandomize(table, passed, noise)
        seen.append(table.copy())
    figure, panels = plt.subplots(2, 2, figsize=(7.2, 4.4))
    grid(panels[0, 0], exact, "who came: one in ten (in no memory)")
    grid(panels[0, 1], seen[0].entries, "the table, as a breach finds it")
    grid(panels[1, 0], seen[1].entries, "noise, and what is handed over")
    grid(panels[1, 1], seen[2].entries, "noise again: what the run goes on with")
    figure.tight_layout()
    return figure


def posterior(prior: npt.NDArray[np.float64], factor: float | Fraction) -> npt.NDArray[np.float64]:
    """Posterior belief for a likelihood ratio."""
    odds = prior / (1 - prior) * float(factor)
    return np.asarray(odds / (1 + odds))


def draw_odds() -> Figure:
    """What an intruder believes of one person, before and after."""
    prior = np.linspace(0.001, 0.999, 80)
    estimator = claim()
    one, most = estimator.response, float(np.exp(float(estimator.loss.epsilon)))
    figure, axes = plt.subplots(figsize=(7.2, 4.4))
    shown(axes, "whether one person came, as somebody believes it who seized the memory")
    axes.fill_between(
        prior, posterior(prior, 1 / most), posterior(prior, most), color=GROUP, linewidth=0,
        label="within e^2 of the odds: a breach, a subpoena and the estimate together",
    )  # fmt: skip
    axes.plot(prior, posterior(prior, one.present / one.absent), color=VALUE, label="a breach finds 1")
    axes.plot(
        prior, posterior(prior, (1 - one.present) / (1 - one.absent)), color=VALUE, linestyle="--",
        label="a breach finds 0",
    )  # fmt: skip
    axes.plot(prior, prior, color=NOISY, linewidth=1, label="nobody looked")
    for certain in (0, 1):
        axes.plot(prior, 0 * prior + certain, color=ALARM, linewidth=1.4)
    axes.text(0.0, 1.03, "an exact list has the name; or two breaches find different bits", color=ALARM)
    axes.text(0.0, -0.09, "an exact list does not have the name", color=ALARM)
    axes.set_ylim(-0.14, 1.12)
    axes.set_xlabel("believed before", color=INK)
    axes.set_ylabel("believed after", color=INK)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, labelcolor=INK)
    figure.tight_layout()
    return figure


def pictures() -> dict[str, Callable[[], Figure]]:
    """Every picture by its name, and what draws it."""
    return {"seized_table": draw_table, "seized_odds": draw_odds}


def main() -> None:
    save(pictures())


if __name__ == "__main__":
    main()
