"""Draw the meters of docs/statistics.md: python examples/meter_pictures.py [FOLDER]"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import streamgauge as sg
from meter_statistics import DISTRICTS, HOURS, SETTINGS, build_readings
from pictures import COLOURS, INK, draw_band, frame_panel
from streamgauge.statistics import Mean, Variance
from streamgauge.testing.noise import InsecureNoise  # reproducible pictures; not private

HOUR = np.arange(1, HOURS + 1)


def draw_district(panels: Any, readings: dict[str, np.ndarray]) -> None:
    """Draw the mean and the standard deviation of one district in each hour."""
    district = {name: column[readings["district"] == DISTRICTS[0]] for name, column in readings.items()}
    truth = district["kwh"].reshape(HOURS, -1).clip(0, 3)
    event_settings = {**SETTINGS, "unit": sg.Event(replace=True)}
    claims = {
        "Mean, any day of a meter hidden": (Mean(sg.Pure(1), **SETTINGS), truth.mean(axis=1)),
        "Standard deviation, one reading hidden": (
            Variance(sg.Pure("1/5"), root=True, **event_settings),
            truth.std(axis=1, ddof=1),
        ),
    }
    for panel, (name, (claim, exact)), colour in zip(panels, claims.items(), COLOURS[2:4], strict=True):
        run = claim.start(noise=InsecureNoise(1))
        draw_band(panel, HOUR, exact, run.feed(district["kwh"], ticks=district["hour"], until=HOURS), colour)
        frame_panel(panel, name, "hour", "kWh")


def draw_small_counts(panel: Any) -> None:
    """Draw a running mean from the first event: one event per tick, of mean 38.2."""
    values = np.random.default_rng(2026).normal(38.2, 0.8, HOURS).clip(35, 42)
    run = Mean(sg.Pure(1), lower=35, upper=42, step=0.1, horizon=HOURS).start(noise=InsecureNoise(1))
    estimate = run.feed(values, ticks=HOUR, until=HOURS)
    draw_band(panel, HOUR, np.cumsum(values) / HOUR, estimate, COLOURS[4])
    panel.plot(HOUR, np.where(estimate.reliable, np.nan, 35), color=INK, lw=3, solid_capstyle="butt")
    frame_panel(panel, "Mean at small counts", "events so far (bar: not enough)", "degrees")


if __name__ == "__main__":
    figure, panels = plt.subplots(1, 3, figsize=(10, 2.9), dpi=120)
    draw_district(panels[:2], build_readings())
    draw_small_counts(panels[2])
    figure.tight_layout()
    figure.savefig(Path(*sys.argv[1:]) / "meters.png")
    print("picture: meters.png")
