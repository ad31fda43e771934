"""A poll of ten hours: counts by answer, and the most frequent write-in lines."""

from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.postprocess import project_nonnegative
from streamgauge.statistics import Histogram, TopK

ANSWERS = ("yes", "no", "undecided")
MINUTES = 600
Columns = dict[str, np.ndarray]


def build_answers(seed: int = 2026) -> Columns:
    """Build one row per answer: minute, answer, write-in line and voter."""
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(1, MINUTES + 1, 30_000))
    no = 0.3 + 0.25 * minutes / MINUTES  # increases over the day
    chances = rng.random(len(minutes))
    answer = np.where(chances < no, "no", np.where(chances < 0.88, "yes", "undecided"))
    topics = np.array(["rent", "buses", "schools", "clinics", "parks", "noise", "bicycles", "taxes"])
    weights = 0.7 ** np.arange(8)
    common = rng.choice(topics, len(minutes), p=weights / weights.sum())
    is_unique = rng.random(len(minutes)) < 0.02  # lines of a single voter
    lines = np.where(is_unique, [f"my neighbour {i}" for i in range(len(minutes))], common)
    voters = rng.permutation(np.arange(len(minutes)) % 20_000)  # half of them answer twice
    return {"minute": minutes, "answer": answer, "line": lines, "voter": voters}


def main() -> None:
    poll = build_answers()
    columns: dict[str, Any] = {"ticks": poll["minute"], "until": MINUTES, "users": poll["voter"]}
    voter = sg.User(max_events_per_tick=1, max_ticks=2)  # a voter counts with two answers at most

    shares = Histogram(sg.Pure(1), domain=ANSWERS, horizon=MINUTES, unit=voter)
    last = shares.start().feed(poll["answer"], **columns).select_tick(-1)
    low, high = last.interval(0.95)
    print("95 % intervals:")
    for label, value, half in zip(ANSWERS, project_nonnegative(last.value[0]), (high - low)[0] / 2, strict=True):
        print(f"{label:<10} {value:>7.0f} +- {half:.0f}")

    claim = TopK(sg.Approx(1, 1e-6), k=5, horizon=MINUTES, unit=voter, max_keys=2, max_per_key=1)
    print(f"\na line is published if its count is above {claim.selection.threshold(MINUTES):.0f}")
    print(claim.start().feed(poll["line"], **columns)[-1])


if __name__ == "__main__":
    main()
