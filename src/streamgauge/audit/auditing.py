"""The audit of one subject: what can be computed of its loss, and what many runs show of it."""

from typing import Any

from streamgauge.audit.layouts import find_unlike
from streamgauge.audit.measuring import CONFIDENCE, RUNS, Watch, measure, unseen
from streamgauge.audit.mechanisms import LONG, MechanismSubject
from streamgauge.audit.pan_private import PanPrivateSubject
from streamgauge.audit.stated import StatedSubject
from streamgauge.audit.subject import Computed, Estimating, Subject
from streamgauge.audit.verdict import Verdict
from streamgauge.continual import Mechanism
from streamgauge.noise import Noise


def audit(
    subject: Subject, runs: int = RUNS, confidence: float = CONFIDENCE, watch: Watch = unseen
) -> Verdict:
    """Computes where the subject can be, and attacks with so many runs of each neighbour.

    Without runs (0) nothing is measured, and what cannot be computed is refused. Estimates that are not what
    the subject states condemn it as well.
    """
    worst = subject.worst() if isinstance(subject, Computed) else None
    if worst is None and not runs:
        raise ValueError(f"runs must be above 0 for a subject that cannot be computed, got {runs}")
    measured = measure(subject, runs, confidence, watch) if runs else None
    faults = subject.faults() if isinstance(subject, Estimating) else ()
    return Verdict.on(subject.name, subject.loss, worst, measured, faults)


def audit_mechanism(
    mechanism: Mechanism[Any],
    ticks: int,
    *,
    runs: int = RUNS,
    confidence: float = CONFIDENCE,
    watch: Watch = unseen,
    noise: Noise | None = None,
) -> Verdict:
    """A counter's claim over its first ticks; where it is pan-private, its memory is attacked as well.

    An (epsilon, delta) is attacked as stated, but for pan-private mechanisms: those by the rho they keep.
    Runs of other widths, by `step`, in feeds of other lengths and with groups that are added must release
    the same; those that do not are attacked as well (see `layouts`).
    """
    stated = mechanism.loss.currency == "approximate"
    plain = (StatedSubject if stated else MechanismSubject)(mechanism, ticks, noise=noise)
    if not mechanism.pan_private:
        return audit(plain, runs, confidence, watch)
    seen = PanPrivateSubject(mechanism, ticks, noise=noise)  # tick by tick
    if not find_unlike(mechanism, min(ticks, LONG)):
        return audit(seen, runs, confidence, watch)
    both = [audit(each, runs, 1 - (1 - confidence) / 2, watch) for each in (seen, plain)]
    return next((verdict for verdict in both if verdict.condemned), both[1])
