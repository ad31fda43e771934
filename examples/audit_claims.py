"""Audit three claims of epsilon = 1: a counter, a broken twin and external code."""

import numpy as np

import streamgauge as sg
from streamgauge.audit.broken import every_twin
from streamgauge.audit.report import audit, audit_mechanism
from streamgauge.audit.subject import CallableSubject
from streamgauge.audit.verdict import Verdict

RUNS = 100_000
CONFIDENCE = 1 - 1e-6


def print_verdict(name: str, verdict: Verdict) -> None:
    computed = "-" if verdict.exact is None else f"{verdict.exact:.3f}"
    measured = "-" if verdict.measurement is None else f"{verdict.measurement.amount:.3f}"
    outcome = "condemned" if verdict.is_condemned else "acquitted"
    print(f"{name:<34} claimed {verdict.claimed:.3f}  computed {computed}  measured {measured}  {outcome}")
    for reason in verdict.reasons:
        print("   ", reason)


counter = sg.continual.Binary(sg.Pure(1), horizon=7)
print_verdict("Binary over 7 ticks", audit_mechanism(counter, 7, runs=RUNS, confidence=CONFIDENCE))

twins = next(twins for twins in every_twin() if "log2 T" in twins.name)
print_verdict(twins.name, audit(twins.broken, runs=RUNS, confidence=CONFIDENCE))
print("   ", twins.reason)

rng = np.random.default_rng()


def add_noise(count: float, runs: int) -> np.ndarray:
    """Add textbook Laplace noise to a count."""
    return count + rng.laplace(0.0, 1.0, runs)


subject = CallableSubject("Laplace noise by NumPy", add_noise, sg.Pure(1), [(1.0, 0.0)], is_vectorised=True)
verdict = audit(subject, runs=RUNS, confidence=CONFIDENCE)
print_verdict(subject.name, verdict)
assert verdict.measurement is not None
print("    detected by the score", verdict.measurement.score)
