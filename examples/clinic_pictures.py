"""Draw the clinic of docs/statistics.md: python examples/clinic_pictures.py [FOLDER]"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import streamgauge as sg
from clinic_statistics import HOURS, build_visits
from pictures import COLOURS, INK, draw_band, frame_panel
from streamgauge.statistics import Axis, Count, Extremes, Quantile, RangeCount
from streamgauge.testing.noise import InsecureNoise  # reproducible pictures; not private

VISITS, HOUR = build_visits(), np.arange(1, HOURS + 1)
TICKS, WAIT, AGE = VISITS["hour"], VISITS["wait"], VISITS["age"]
MINUTES: dict[str, Any] = {"lower": 0, "upper": 240, "step": 5}


def feed(claim: Any, values: Any = None) -> Any:
    return claim.start(noise=InsecureNoise(1)).feed(values, ticks=TICKS, until=HOURS)


def counts(panels: Any) -> None:
    """Draw one stream with three windows."""
    hourly = np.bincount(TICKS, minlength=HOURS + 1)[1:]
    windows = {"each": 1, "sliding 24": 24, "running": HOURS}
    for panel, (window, ticks), colour in zip(panels, windows.items(), COLOURS[2:5], strict=True):
        estimate = feed(Count(sg.Pure("1/5"), window=window, horizon=HOURS))
        draw_band(panel, HOUR, np.convolve(hourly, np.ones(ticks))[:HOURS], estimate, colour)
        frame_panel(panel, f'Count, window="{window}"', "hour", "visits")


def waits(panels: Any) -> None:
    """Draw the median of the last day, the running maximum and one box."""
    days = (WAIT[(hour - 24 < TICKS) & (hour >= TICKS)] for hour in HOUR)
    truth = np.array([np.quantile(day, 0.5, method="inverted_cdf") for day in days])
    draw_band(panels[0], HOUR, truth, feed(Quantile(sg.Pure(1), window="sliding 24", **MINUTES), WAIT), COLOURS[2])
    panels[0].set_ylim(0, 100)
    frame_panel(panels[0], "Quantile: median wait of the last day", "hour", "minutes")
    extremes = feed(Extremes(sg.Pure(1), horizon=HOURS, **MINUTES), WAIT)
    panels[1].step(HOUR, [WAIT[hour >= TICKS].max() for hour in HOUR], color=INK, lw=0.6)
    panels[1].step(HOUR, np.where(extremes.reliable, extremes.value, np.nan)[:, 1, 0], color=COLOURS[5], lw=1.3)
    frame_panel(panels[1], "Extremes: longest wait so far", "hour", "minutes")
    boxes = RangeCount(sg.Pure(1), axes={"age": Axis(0, 100, 5), "wait": Axis(0, 240, 10)}, horizon=HOURS)
    estimate = feed(boxes, {"age": AGE, "wait": WAIT}).count(age=(65, None), wait=(60, None))
    truth = np.cumsum(np.bincount(TICKS[(AGE >= 65) & (WAIT >= 60)], minlength=HOURS + 1))[1:]
    draw_band(panels[2], HOUR, truth, estimate, COLOURS[4])
    frame_panel(panels[2], "RangeCount: age >= 65 and wait >= 60", "hour", "visits so far")


if __name__ == "__main__":
    for draw in (counts, waits):
        figure, panels = plt.subplots(1, 3, figsize=(10, 2.9), dpi=120)
        draw(panels)
        figure.tight_layout()
        figure.savefig(Path(*sys.argv[1:]) / f"clinic_{draw.__name__}.png")
        print(f"picture: clinic_{draw.__name__}.png")
