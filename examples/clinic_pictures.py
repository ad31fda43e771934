"""The pictures of the clinic in docs/statistics.md: python examples/clinic_pictures.py [FOLDER]"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import streamgauge as sg
from clinic_statistics import HOURS, visits
from pictures import COLOURS, INK, band, framed
from streamgauge.statistics import Axis, Count, Extremes, Quantile, RangeCount
from streamgauge.testing.noise import InsecureNoise  # for reproducible pictures; gives no privacy

SEEN, HOUR = visits(), np.arange(1, HOURS + 1)
TICKS, WAIT, AGE = SEEN["hour"], SEEN["wait"], SEEN["age"]
MINUTES: dict[str, Any] = {"lower": 0, "upper": 240, "step": 5}


def fed(claim: Any, values: Any = None) -> Any:
    return claim.start(noise=InsecureNoise(1)).feed(values, ticks=TICKS, until=HOURS)


def counts(panels: Any) -> None:
    """One stream under three windows."""
    hourly = np.bincount(TICKS, minlength=HOURS + 1)[1:]
    windows = {"each": 1, "sliding 24": 24, "running": HOURS}
    for panel, (window, ticks), colour in zip(panels, windows.items(), COLOURS[2:5], strict=True):
        found = fed(Count(sg.Pure("1/5"), window=window, horizon=HOURS))
        band(panel, HOUR, np.convolve(hourly, np.ones(ticks))[:HOURS], found, colour)
        framed(panel, f'Count, window="{window}"', "hour", "visits")


def waits(panels: Any) -> None:
    """The median of the last day, the maximum so far, and one box."""
    last = [WAIT[(hour - 24 < TICKS) & (hour >= TICKS)] for hour in HOUR]
    truth = np.array([np.quantile(part, 0.5, method="inverted_cdf") for part in last])
    band(panels[0], HOUR, truth, fed(Quantile(sg.Pure(1), window="sliding 24", **MINUTES), WAIT), COLOURS[2])
    panels[0].set_ylim(0, 100)
    framed(panels[0], "Quantile: median wait of the last day", "hour", "minutes")
    seen = fed(Extremes(sg.Pure(1), horizon=HOURS, **MINUTES), WAIT)
    panels[1].step(HOUR, [WAIT[hour >= TICKS].max() for hour in HOUR], color=INK, lw=0.6)
    panels[1].step(HOUR, np.where(seen.reliable, seen.value, np.nan)[:, 1, 0], color=COLOURS[5], lw=1.3)
    framed(panels[1], "Extremes: longest wait so far", "hour", "minutes")
    boxes = RangeCount(sg.Pure(1), axes={"age": Axis(0, 100, 5), "wait": Axis(0, 240, 10)}, horizon=HOURS)
    found = fed(boxes, {"age": AGE, "wait": WAIT}).count(age=(65, None), wait=(60, None))
    truth = np.cumsum(np.bincount(TICKS[(AGE >= 65) & (WAIT >= 60)], minlength=HOURS + 1))[1:]
    band(panels[2], HOUR, truth, found, COLOURS[4])
    framed(panels[2], "RangeCount: age >= 65 and wait >= 60", "hour", "visits so far")


if __name__ == "__main__":
    for draw in (counts, waits):
        figure, panels = plt.subplots(1, 3, figsize=(10, 2.9), dpi=120)
        draw(panels)
        figure.tight_layout()
        figure.savefig(Path(*sys.argv[1:]) / f"clinic_{draw.__name__}.png")
        print("picture:", f"clinic_{draw.__name__}.png")
