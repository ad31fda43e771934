"""Tightness and time of audits: ours and three others.

Run with `python benchmarks/audit.py`, or with `--runs 1000000`. All compute a lower bound on epsilon
that holds with 99.9 %, from as many runs of each neighbour; times include drawing them. With `--power` it
prints two tables of our own instead, those of docs/audit.md: how much of sound claims is seen by a million
runs, and what 60,000 runs show of noise that is narrower than claimed (`--runs` sets either).

    ours            views alone: places, bits, repeats and trained sums are tried, the best is counted
    ours, ratio     the likelihood ratio as well, if it is known (which it is for our mechanisms)
    jax-privacy     its canary auditor, half of the scores for the threshold; scores: the likelihood ratio or,
                    where it is not known, the first number of a view
    DP-Auditorium   its hockey-stick tester, a classifier of standardised views trained as in its example, at
                    each epsilon of a bisection; that the bounds of all of these must hold at once is let pass
    threshold       one score, the best threshold of the first half of the runs, Clopper-Pearson on the second

The last three count one-sided events of one score. DP-Auditorium is on no package index: put
python/dp_auditorium of github.com/google/differential-privacy on the path, and TensorFlow as well.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib.util import find_spec
from io import StringIO
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.audit.attack.confidence import bound_epsilon, highest_rates, lowest_rates
from streamgauge.audit.attack.measure import measure
from streamgauge.audit.broken import ExperimentNoise, every_twin
from streamgauge.audit.subject import Pair, Subject
from streamgauge.audit.subjects.adversaries import AdversarySubject
from streamgauge.audit.subjects.mechanisms import MechanismSubject
from streamgauge.audit.subjects.pan_private import PanPrivateSubject
from streamgauge.continual import Binary, LinearMechanism, SimpleI, SimpleII, SquareRoot, TwoLevel
from streamgauge.noise.coerce import Floats

CONFIDENCE = 0.999
DOUBT = 1 - CONFIDENCE
STEPS = 6  # of a bisection
MUTANTS = (
    "Binary, levels counted as log2 T",
    "Laplace noise in floats",
    "Groups shown only where there is somebody",
    "Sparse vector, threshold not redrawn",
)
POWER_RUNS, DETECTION_RUNS = 10**6, 60_000
NARROWER = ("1.05", "1.1", "1.2", "1.3", "1.5")
ROW = "{:<42} {:>6} {:>6}  {:<14} {:>7} {:>9}"


@dataclass(frozen=True)
class Case:
    """An audited subject and its true loss."""

    name: str
    subject: Subject
    truth: float

    @property
    def pair(self) -> Pair:
        return self.subject.pairs()[0]

    def views(self, runs: int) -> tuple[Floats, Floats]:
        return self.subject.views(self.pair.one, runs), self.subject.views(self.pair.other, runs)

    def scores(self, runs: int) -> tuple[Floats, Floats]:
        """The likelihood ratio, or the first number of a view."""
        told = self.pair.evidence or (lambda views: views[:, 0])
        one, other = self.views(runs)
        return told(one), told(other)


@dataclass(frozen=True)
class Blind:
    """A subject without its likelihood ratio."""

    subject: Subject

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def loss(self) -> sg.privacy.Loss:
        return self.subject.loss

    def pairs(self) -> list[Pair]:
        return [replace(self.subject.pairs()[0], evidence=None)]

    def views(self, data: Any, runs: int) -> Floats:
        return self.subject.views(data, runs)


def cases() -> Iterator[Case]:
    yield Case("Simple II, one tick", MechanismSubject(SimpleII(sg.Pure(1), horizon=1), 1), 1.0)
    yield Case("Binary, 15 ticks", MechanismSubject(Binary(sg.Pure(1), horizon=15), 15), 1.0)
    found = {twins.name: twins for twins in every_twin(ExperimentNoise())}
    yield from (Case(name, found[name].broken, found[name].truth) for name in MUTANTS)


def ours(case: Case, runs: int) -> float:
    return measure(Blind(case.subject), runs, CONFIDENCE).amount


def ours_with_ratio(case: Case, runs: int) -> float | None:
    return measure(case.subject, runs, CONFIDENCE).amount if case.pair.evidence else None


def threshold(case: Case, runs: int) -> float:
    one, other = case.scores(runs)
    half = runs // 2
    tried = np.unique(np.quantile(np.concatenate([one[:half], other[:half]]), np.linspace(0, 1, 1000)))
    hits = [half - np.searchsorted(np.sort(scores[:half]), tried) for scores in (one, other)]
    low, high = lowest_rates(hits[0], half, DOUBT / 2), highest_rates(hits[1], half, DOUBT / 2)
    best = tried[int(np.argmax(low / high))]
    seen, elsewhere = (int((scores[half:] >= best).sum()) for scores in (one, other))
    return bound_epsilon(seen, elsewhere, runs - half, DOUBT)


def jax_privacy(case: Case, runs: int) -> float:
    from jax_privacy.auditing import CanaryScoreAuditor, Split

    auditor = CanaryScoreAuditor(*case.scores(runs))
    return float(auditor.epsilon_clopper_pearson(DOUBT, threshold_strategy=Split(seed=1)))


def dp_auditorium(case: Case, runs: int) -> float:
    """The largest epsilon at which delta is seen to be above 0."""
    one, other = case.views(runs)
    both = np.nan_to_num(np.concatenate([one, other]))
    centre, spread = both.mean(axis=0), both.std(axis=0) + 1e-12
    first, second = ((np.nan_to_num(views) - centre) / spread for views in (one, other))
    low, high = 0.0, 2 * min(case.truth, 5.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(first, second, middle) > 0 else (low, middle)
    return low


def hockey_stick(one: Floats, other: Floats, epsilon: float) -> float:
    from dp_auditorium.configs import privacy_property, property_tester_config
    from dp_auditorium.testers import hockey_stick_tester as hockey

    config = property_tester_config.HockeyStickPropertyTesterConfig(
        training_config=hockey.make_default_hs_training_config(),
        approximate_dp=privacy_property.ApproximateDp(epsilon=epsilon, delta=0.0),
        evaluation_batch_size=10_000,
    )
    tester = hockey.HockeyStickPropertyTester(config, hockey.make_default_hs_base_model())
    with redirect_stdout(StringIO()):
        found = [tester.estimate_lower_bound(*pair, DOUBT) for pair in ((one, other), (other, one))]
    return float(max(found))


AUDITORS: dict[str, tuple[str, Callable[[Case, int], float | None]]] = {
    "ours": ("streamgauge", ours),
    "ours, ratio": ("streamgauge", ours_with_ratio),
    "jax-privacy": ("jax_privacy", jax_privacy),
    "DP-Auditorium": ("dp_auditorium", dp_auditorium),
    "threshold": ("streamgauge", threshold),
}


def sound() -> Iterator[tuple[str, int, Subject]]:
    """Claims that hold and are tight, over so many ticks."""
    pure, rho = sg.Pure(1), sg.Zcdp("1/2")
    window = {"horizon": 15, "unit": sg.WEvent(3)}
    counters: list[tuple[str, LinearMechanism[Any]]] = [
        ("`SimpleII`", SimpleII(pure, horizon=1)),
        ("`SimpleI`", SimpleI(pure, horizon=8)),
        ("`TwoLevel`", TwoLevel(pure, horizon=16)),
        ("`Binary`", Binary(pure, horizon=15)),
        ("`Binary`, 3 ticks of a window", Binary(pure, **window)),  # type: ignore[arg-type]
        ("`Binary`", Binary(pure, horizon=64)),
        ("`Binary`", Binary(rho, horizon=15)),
        ("`SquareRoot`", SquareRoot(rho, horizon=16)),
        ("`SquareRoot`", SquareRoot(rho, horizon=64)),
    ]
    for name, claim in counters:
        ticks = claim.horizon or 1
        yield name, ticks, MechanismSubject(claim, ticks)
    yield "`Binary`, a stream that echoes releases", 15, AdversarySubject(Binary(pure, horizon=15), 15)
    memory = Binary(pure, horizon=7, pan_private=True)
    yield "`Binary`, its memory seen", 7, PanPrivateSubject(memory, 7)


def show_power(runs: int) -> None:
    """Measured share of a claim."""
    print("| subject | ticks | claim | measured | of the claim | score | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, ticks, subject in sound():
        found, claimed = measure(subject, runs, CONFIDENCE), float(subject.loss.amount)
        claim = "epsilon 1" if subject.loss.currency == "pure" else "rho 1/2"
        told = f"{found.amount:.3f} | {found.amount / claimed:.0%} | {found.score} | {found.seconds:.0f}"
        print(f"| {name} | {ticks} | {claim} | {told} |", flush=True)


def show_detection(runs: int) -> None:
    """Measured losses of mechanisms that exceed a claim of 1; bold if the audit rejects them."""
    print(f"| measured of | {' | '.join(NARROWER)} |\n|---|{'---|' * len(NARROWER)}")
    kinds: dict[str, Callable[[sg.Pure], LinearMechanism[Any]]] = {
        "`SimpleII`, 1 tick": lambda loss: SimpleII(loss, horizon=1),
        "`Binary`, 7 ticks": lambda loss: Binary(loss, horizon=7),
        "`SimpleI`, 8 ticks": lambda loss: SimpleI(loss, horizon=8),
        "`Binary`, 7 ticks, 3 of a window": lambda loss: Binary(loss, horizon=7, unit=sg.WEvent(3)),
    }
    for name, claim in kinds.items():
        claims = [claim(sg.Pure(truth)) for truth in NARROWER]
        found = [measure(MechanismSubject(each, each.horizon or 1), runs, CONFIDENCE).amount for each in claims]
        cells = (f"**{amount:.2f}**" if amount > 1 else f"{amount:.2f}" for amount in found)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="bounds and times of audits, side by side")
    parser.add_argument("--runs", type=int, help="of each neighbour")
    parser.add_argument("--power", action="store_true", help="the tables of docs/audit.md")
    asked = parser.parse_args()
    if asked.power:
        show_power(asked.runs or POWER_RUNS)
        show_detection(asked.runs or DETECTION_RUNS)
    else:
        show_peers(asked.runs or 200_000)


def show_peers(runs: int) -> None:
    there = {name: audit for name, (package, audit) in AUDITORS.items() if find_spec(package)}
    for name in AUDITORS.keys() - there.keys():
        print(f"{name} is not installed here, and left out")
    print(f"{runs:,} runs of each neighbour, confidence {CONFIDENCE:.1%}")
    print(ROW.format("mechanism", "claim", "truth", "audit", "bound", "seconds"))
    for case in cases():
        truth = "inf" if case.truth == inf else f"{case.truth:.2f}"
        for name, audit in there.items():
            begun = perf_counter()
            bound = audit(case, runs)
            if bound is not None:
                told = case.name, f"{float(case.subject.loss.amount):.2f}", truth, name
                print(ROW.format(*told, f"{bound:.3f}", f"{perf_counter() - begun:.1f}"), flush=True)


if __name__ == "__main__":
    main()
