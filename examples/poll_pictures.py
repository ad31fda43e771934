"""Draw the poll of docs/statistics.md: python examples/poll_pictures.py [FOLDER]"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import streamgauge as sg
from pictures import COLOURS, INK, frame_panel
from poll_statistics import ANSWERS, MINUTES, build_answers
from streamgauge.statistics import Histogram, TopK
from streamgauge.testing.noise import InsecureNoise  # reproducible pictures; not private

POLL, MINUTE = build_answers(), np.arange(1, MINUTES + 1)
SHOWN = 120  # minutes of the right panel
BOUNDS: dict[str, Any] = {"horizon": MINUTES, "unit": sg.User(max_events_per_tick=1, max_ticks=2)}


def feed(claim: Any, column: str) -> Any:
    run = claim.start(noise=InsecureNoise(1))
    return run.feed(POLL[column], ticks=POLL["minute"], until=MINUTES, users=POLL["voter"])


def draw_histogram(panel: Any) -> None:
    estimate = feed(Histogram(sg.Pure("1/10"), domain=ANSWERS, **BOUNDS), "answer")
    low, high = estimate.interval()
    for index, colour in enumerate(COLOURS[2:5]):
        truth = np.bincount(POLL["minute"][POLL["answer"] == ANSWERS[index]], minlength=MINUTES + 1)
        panel.fill_between(MINUTE, low[:, 0, index], high[:, 0, index], color=colour, alpha=0.2, lw=0)
        panel.plot(MINUTE, estimate.value[:, 0, index], color=colour, lw=1.2)
        panel.plot(MINUTE, np.cumsum(truth)[1:], color=INK, lw=0.6)
        panel.text(MINUTES + 8, truth.sum(), ANSWERS[index], color=colour, fontsize=9, va="center")
    frame_panel(panel, "Histogram: answers so far, epsilon = 1/10", "minute", "answers")


def draw_top_lines(panel: Any) -> None:
    """Draw the voters of each line (thin), and its noisy count once it is published."""
    claim = TopK(sg.Approx(1, 1e-6), k=8, max_keys=2, max_per_key=1, **BOUNDS)
    rankings = [dict(zip(r.keys[0], r.counts[0], strict=True)) for r in feed(claim, "line")[:SHOWN]]
    once = np.unique(np.rec.fromarrays([POLL["voter"], POLL["line"]]), return_index=True)[1]
    for key, colour in zip(rankings[-1], COLOURS * 2, strict=False):
        rows = once[POLL["line"][once] == key]
        truth = np.cumsum(np.bincount(POLL["minute"][rows], minlength=MINUTES + 1))[1 : SHOWN + 1]
        panel.plot(MINUTE[:SHOWN], truth, color=INK, lw=0.5)
        panel.plot(MINUTE[:SHOWN], [r.get(key, np.nan) for r in rankings], color=colour, lw=1.3)
        panel.text(SHOWN + 1, truth[-1], key, color=colour, fontsize=8, va="center")
    panel.plot(MINUTE[:SHOWN], list(map(claim.selection.threshold, range(1, SHOWN + 1))), "--", color=INK)
    frame_panel(panel, "TopK: lines that enough people wrote (dashed: threshold)", "minute", "voters")


if __name__ == "__main__":
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), dpi=110)
    draw_histogram(left)
    draw_top_lines(right)
    figure.tight_layout()
    figure.savefig(Path(*sys.argv[1:]) / "poll.png")
    print("picture: poll.png")
