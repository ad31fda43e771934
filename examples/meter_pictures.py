"""The picture of the meters in docs/statistics.md: python examples/meter_pictures.py [FOLDER]"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import streamgauge as sg
from meter_statistics import DISTRICTS, HOURS, SETTINGS, readings
from pictures import COLOURS, INK, band, framed
from streamgauge.statistics import Mean, Variance
from streamgauge.testing.noise import InsecureNoise  # for reproducible pictures; gives no privacy

HOUR = np.arange(1, HOURS + 1)


def district(panels: Any, seen: dict[str, np.ndarray]) -> None:
    """Mean and standard deviation of one district, each hour by itself."""
    own = {name: column[seen["district"] == DISTRICTS[0]] for name, column in seen.items()}
    truth = own["kwh"].reshape(HOURS, -1).clip(0, 3)
    one = {**SETTINGS, "unit": sg.Event(replace=True)}
    drawn = {
        "Mean, any day of a meter hidden": (Mean(sg.Pure(1), **SETTINGS), truth.mean(axis=1)),
        "Standard deviation, one reading hidden": (
            Variance(sg.Pure("1/5"), root=True, **one),
            truth.std(axis=1, ddof=1),
        ),
    }
    for panel, (name, (claim, exact)), colour in zip(panels, drawn.items(), COLOURS[2:4], strict=True):
        run = claim.start(noise=InsecureNoise(1))
        band(panel, HOUR, exact, run.feed(own["kwh"], ticks=own["hour"], until=HOURS), colour)
        framed(panel, name, "hour", "kWh")


def few(panel: Any) -> None:
    """A running mean, from the first event on: one event a tick, of mean 38.2."""
    values = np.random.default_rng(2026).normal(38.2, 0.8, HOURS).clip(35, 42)
    run = Mean(sg.Pure(1), lower=35, upper=42, step=0.1, horizon=HOURS).start(noise=InsecureNoise(1))
    found = run.feed(values, ticks=HOUR, until=HOURS)
    band(panel, HOUR, np.cumsum(values) / HOUR, found, COLOURS[4])
    panel.plot(HOUR, np.where(found.reliable, np.nan, 35), color=INK, lw=3, solid_capstyle="butt")
    framed(panel, "Mean at small counts", "events so far (bar: not enough)", "degrees")


if __name__ == "__main__":
    figure, panels = plt.subplots(1, 3, figsize=(10, 2.9), dpi=120)
    district(panels[:2], readings())
    few(panels[2])
    figure.tight_layout()
    figure.savefig(Path(*sys.argv[1:]) / "meters.png")
    print("picture: meters.png")
