"""The picture of the poll in docs/statistics.md: python examples/poll_pictures.py [FOLDER]"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import streamgauge as sg
from pictures import COLOURS, INK, framed
from poll_statistics import ANSWERS, MINUTES, answers
from streamgauge.statistics import Histogram, TopK
from streamgauge.testing.noise import InsecureNoise  # for reproducible pictures; gives no privacy

POLL, MINUTE = answers(), np.arange(1, MINUTES + 1)
SHOWN = 120  # minutes of the right panel
BOUNDS: dict[str, Any] = {"horizon": MINUTES, "unit": sg.User(max_events_per_tick=1, max_ticks=2)}


def fed(claim: Any, column: str) -> Any:
    run = claim.start(noise=InsecureNoise(1))
    return run.feed(POLL[column], ticks=POLL["minute"], until=MINUTES, users=POLL["voter"])


def histogram(panel: Any) -> None:
    found = fed(Histogram(sg.Pure("1/10"), domain=ANSWERS, **BOUNDS), "answer")
    low, high = found.interval()
    for place, colour in enumerate(COLOURS[2:5]):
        truth = np.bincount(POLL["minute"][POLL["answer"] == ANSWERS[place]], minlength=MINUTES + 1)
        panel.fill_between(MINUTE, low[:, 0, place], high[:, 0, place], color=colour, alpha=0.2, lw=0)
        panel.plot(MINUTE, found.value[:, 0, place], color=colour, lw=1.2)
        panel.plot(MINUTE, np.cumsum(truth)[1:], color=INK, lw=0.6)
        panel.text(MINUTES + 8, truth.sum(), ANSWERS[place], color=colour, fontsize=9, va="center")
    framed(panel, "Histogram: answers so far, epsilon = 1/10", "minute", "answers")


def written(panel: Any) -> None:
    """Of each line: the voters who wrote it (thin), and its noisy count from the minute of its discovery."""
    claim = TopK(sg.Approx(1, 1e-6), k=8, max_keys=2, max_per_key=1, **BOUNDS)
    rankings = [dict(zip(r.keys[0], r.counts[0], strict=True)) for r in fed(claim, "line")[:SHOWN]]
    once = np.unique(np.rec.fromarrays([POLL["voter"], POLL["line"]]), return_index=True)[1]
    for key, colour in zip(rankings[-1], COLOURS * 2, strict=False):
        own = once[POLL["line"][once] == key]
        truth = np.cumsum(np.bincount(POLL["minute"][own], minlength=MINUTES + 1))[1 : SHOWN + 1]
        panel.plot(MINUTE[:SHOWN], truth, color=INK, lw=0.5)
        panel.plot(MINUTE[:SHOWN], [r.get(key, np.nan) for r in rankings], color=colour, lw=1.3)
        panel.text(SHOWN + 1, truth[-1], key, color=colour, fontsize=8, va="center")
    panel.plot(MINUTE[:SHOWN], list(map(claim.selection.threshold, range(1, SHOWN + 1))), "--", color=INK)
    framed(panel, "TopK: lines that enough people wrote (dashed: threshold)", "minute", "voters")


if __name__ == "__main__":
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), dpi=110)
    histogram(left)
    written(right)
    figure.tight_layout()
    figure.savefig(Path(*sys.argv[1:]) / "poll.png")
    print("picture: poll.png")
