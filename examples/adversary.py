"""An adversary who sees all answers, against three sketches of the second moment.

python examples/adversary.py     prints the worst ratios and writes adversary.png
"""

import matplotlib.pyplot as plt
import numpy as np

from pictures import COLOURS, INK, frame_panel
from streamgauge import robust, sketches

ROWS, STEPS = 50, 600


def main() -> None:
    algorithms: dict[str, robust.Estimator] = {
        "plain sketch": sketches.SecondMoment(ROWS),
        "sketch switching, 40 copies": robust.SketchSwitching(lambda: sketches.SecondMoment(200), copies=40, alpha=0.3),
        "exact": robust.ExactMoment(),
    }
    figure, panel = plt.subplots(figsize=(9, 4), dpi=140)
    for (name, algorithm), colour in zip(algorithms.items(), COLOURS[1:], strict=False):
        found = robust.play(algorithm, robust.MomentAttack(ROWS), STEPS)
        print(f"{name:<30} ends at {found.ratios[-1]:.2f} of the truth, worst {found.worst_ratio:.2f}")
        panel.plot(np.arange(1, STEPS + 1), found.ratios, color=colour, label=name)
    panel.axhline(1, color=INK, lw=0.6)
    panel.legend(frameon=False)
    frame_panel(panel, "Answers to an adversary who sees them", "step", "answer / truth")
    figure.tight_layout()
    figure.savefig("adversary.png")
    print("\nadversary.png: answers over the truth, step by step")
    for epsilon in (None, 1):
        fit = robust.measure_generalisation(1000, 500, epsilon)
        print(f"fit with epsilon {epsilon}: {fit.sample_rate:.2f} of the sample, {fit.fresh_rate:.2f} of fresh data")


if __name__ == "__main__":
    main()
