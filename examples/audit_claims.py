"""Audit three claims of epsilon = 1: a correct counter, a broken twin, and code of another library."""

import numpy as np

import streamgauge as sg
from streamgauge.audit.broken import every_twin
from streamgauge.audit.report import audit, audit_mechanism
from streamgauge.audit.subject import CallableSubject
from streamgauge.audit.verdict import Verdict

RUNS = 100_000
CONFIDENCE = 1 - 1e-6


def told(name: str, verdict: Verdict) -> None:
    computed = "-" if verdict.exact is None else f"{verdict.exact:.3f}"
    measured = "-" if verdict.measurement is None else f"{verdict.measurement.amount:.3f}"
    fate = "condemned" if verdict.is_condemned else "acquitted"
    print(f"{name:<34} claimed {verdict.claimed:.3f}  computed {computed}  measured {measured}  {fate}")
    for reason in verdict.reasons:
        print("   ", reason)


counter = sg.continual.Binary(sg.Pure(1), horizon=7)
told("Binary over 7 ticks", audit_mechanism(counter, 7, runs=RUNS, confidence=CONFIDENCE))

twins = next(twins for twins in every_twin() if "log2 T" in twins.name)
told(twins.name, audit(twins.broken, runs=RUNS, confidence=CONFIDENCE))
print("   ", twins.reason)

chance = np.random.default_rng()


def theirs(count: float, runs: int) -> np.ndarray:
    """A count under Laplace noise, as in every textbook."""
    return count + chance.laplace(0.0, 1.0, runs)


floats = CallableSubject("Laplace noise by NumPy", theirs, sg.Pure(1), one=1.0, other=0.0, is_vectorised=True)
verdict = audit(floats, runs=RUNS, confidence=CONFIDENCE)
told(floats.name, verdict)
assert verdict.measurement is not None
print("    told by the", verdict.measurement.score)
