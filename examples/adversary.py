"""An adversary who sees all answers, against sketches of the second moment; and why private answers withstand it.

python examples/adversary.py     prints the worst ratios and writes adversary.png
"""

import matplotlib.pyplot as plt
import numpy as np

from pictures import COLOURS, INK, frame_panel
from streamgauge import robust, sketches

ROWS, COPY_ROWS, STEPS = 30, 200, 300


def make_copy() -> sketches.SecondMoment:
    return sketches.SecondMoment(COPY_ROWS)


def main() -> None:
    algorithms: dict[str, tuple[robust.Estimator, int]] = {
        "plain sketch": (sketches.SecondMoment(ROWS), ROWS),
        "sketch switching": (robust.SketchSwitching(make_copy, copies=30, alpha=0.3), COPY_ROWS),
        "private median": (robust.PrivateMedian(make_copy, copies=61, alpha=0.3, largest=10**6), COPY_ROWS),
        "exact": (robust.ExactMoment(), ROWS),
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), dpi=140, width_ratios=(2, 1))
    for (name, (algorithm, rows)), colour in zip(algorithms.items(), COLOURS[1:], strict=False):
        found = robust.play(algorithm, robust.MomentAttack(rows), STEPS)
        print(f"{name:<20} ends at {found.ratios[-1]:.2f} of the truth, worst {found.worst_ratio:.2f}")
        left.plot(np.arange(1, STEPS + 1), found.ratios, color=colour, label=name)
    left.axhline(1, color=INK, lw=0.6)
    left.legend(frameon=False, fontsize=8)
    frame_panel(left, "Answers to an adversary who sees them", "step", "answer / truth")
    epsilons = (1, 4, 16, 64, 256, None)
    fits = [robust.measure_generalisation(1000, 500, epsilon) for epsilon in epsilons]
    for label, rates in (("its sample", [f.sample_rate for f in fits]), ("fresh data", [f.fresh_rate for f in fits])):
        right.plot(range(len(fits)), rates, marker="o", ms=4, color=COLOURS[4 + (label == "fresh data")], label=label)
    right.set_xticks(range(len(fits)), [str(epsilon or "exact") for epsilon in epsilons])
    right.legend(frameon=False, fontsize=8)
    frame_panel(right, "A fit to coins is right for a part of", "epsilon of the fit", "")
    for epsilon, fit in zip(epsilons, fits, strict=True):
        print(f"fit with epsilon {epsilon}: {fit.sample_rate:.2f} of the sample, {fit.fresh_rate:.2f} of fresh data")
    figure.tight_layout()
    figure.savefig("adversary.png")
    print("\nadversary.png: answers over the truth, step by step; rates of fits")


if __name__ == "__main__":
    main()
