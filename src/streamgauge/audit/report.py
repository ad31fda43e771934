"""The audit of one subject and of many, and its report.

Some findings of a report must be condemnations, or the audit itself is broken.

Promise
    With the report's confidence no bound of it is above the truth. Each subject has an even share of the doubt, which
    the bounds on one subject share again (see `attack.measure`): amount, epsilon, delta at the claim and the points of
    the curve. So a report of sound claims is clean with at least that probability, however long it is. Subjects with
    their own number of runs are bounded like all others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from time import perf_counter
from typing import Any

from streamgauge.audit.attack.measure import DEFAULT_CONFIDENCE, DEFAULT_RUNS, ProgressCallback, measure
from streamgauge.audit.catalogue import CatalogueEntry
from streamgauge.audit.subject import ComputableSubject, Subject
from streamgauge.audit.subjects.layouts import find_unlike
from streamgauge.audit.subjects.mechanisms import MAX_PROBE_TICKS, MechanismSubject
from streamgauge.audit.subjects.pan_private import PanPrivateSubject
from streamgauge.audit.verdict import Verdict
from streamgauge.continual import LinearMechanism
from streamgauge.interfaces import ignore
from streamgauge.noise import Noise


def audit(
    subject: Subject, runs: int = DEFAULT_RUNS, confidence: float = DEFAULT_CONFIDENCE, watch: ProgressCallback = ignore
) -> Verdict:
    """Audit a subject: compute its loss if possible, and attack with so many runs of each neighbour.

    Without runs (0) nothing is measured, and a subject that cannot be computed is refused. Estimates that differ from
    the stated ones condemn a subject as well.
    """
    worst = subject.worst() if isinstance(subject, ComputableSubject) else None
    if worst is None and not runs:
        raise ValueError(f"runs must be above 0 for a subject that cannot be computed, got {runs}")
    measured = measure(subject, runs, confidence, watch) if runs else None
    return Verdict(subject.name, subject.loss, worst, measured)


def audit_mechanism(
    mechanism: LinearMechanism[Any],
    ticks: int,
    *,
    runs: int = DEFAULT_RUNS,
    confidence: float = DEFAULT_CONFIDENCE,
    watch: ProgressCallback = ignore,
    noise: Noise | None = None,
) -> Verdict:
    """Audit a counter over its first ticks; if it is pan-private, with its memory.

    An (epsilon, delta) is attacked as stated, but for pan-private mechanisms: those by the rho they keep.
    Runs of other widths, by `step`, in feeds of other lengths and with groups that are added must release
    the same; those that do not are attacked as well (see `layouts`).
    """
    plain = MechanismSubject(mechanism, ticks, stated=mechanism.loss, noise=noise)
    if not mechanism.pan_private:
        return audit(plain, runs, confidence, watch)
    observed = PanPrivateSubject(mechanism, ticks, noise=noise)  # tick by tick
    if not find_unlike(mechanism, min(ticks, MAX_PROBE_TICKS)):
        return audit(observed, runs, confidence, watch)
    both = [audit(each, runs, 1 - (1 - confidence) / 2, watch) for each in (observed, plain)]
    return next((verdict for verdict in both if verdict.is_condemned), both[1])


MIN_PUBLISHED_RUNS = 2_000
RUN_DIVISORS = {"published": 10, "adapting": 10, "unit": 4}  # slow runs, many neighbours, claims audited for one event

KIND_TITLES = {  # of all kinds of findings, in the order in which they are shown
    "pipeline": "pipeline files, end to end",
    "counter": "mechanisms: all releases",
    "unit": "mechanisms, claimed for windows and for users: all releases",
    "memory": "pan-private mechanisms: all releases, and the memory",
    "way": "mechanisms: saved and loaded, beside other groups and measures, and in every layout",
    "adversary": "mechanisms under an adversary who chooses the stream",
    "adapting": "mechanisms that adapt to their data: all releases",
    "vectors": "statistics: what their counters release",
    "published": "statistics: all publications",
    "seized": "pan-private estimators of users: all releases, and the memory",
    "local": "local model: every report in fractions, and its estimates",
    "sketch": "sketches: all releases, and the memory where it may be seized",
    "twin": "controls: broken twins, which must be condemned, and honest ones",
}

ReportProgressCallback = Callable[[int, int, str, int, int], None]  # number, count, title, runs done, runs


@dataclass(frozen=True)
class Finding:
    """A verdict, and what it had to be."""

    kind: str
    title: str
    verdict: Verdict
    is_broken: bool = False
    reason: str = ""

    @property
    def is_expected(self) -> bool:
        return self.verdict.is_condemned == self.is_broken

    @property
    def summary(self) -> str:
        """The verdict in a word or two."""
        if self.is_broken:
            return "found out" if self.verdict.is_condemned else "missed"
        return self.verdict.summary

    def to_json(self) -> dict[str, Any]:
        found = {"kind": self.kind, "title": self.title, "is_broken": self.is_broken, "defect": self.reason}
        judged = {"is_expected": self.is_expected, "verdict": self.summary}
        return {**found, **judged, **self.verdict.to_json()}


@dataclass(frozen=True)
class AuditReport:
    """All findings, in the order in which they were made."""

    findings: tuple[Finding, ...]
    confidence: float
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Every sound claim holds, and every broken one was found out."""
        return all(finding.is_expected for finding in self.findings)

    @property
    def summary(self) -> str:
        """
        >>> AuditReport((), 0.999, 2.0).summary
        '0 claims hold, 0 condemned; 2 s at confidence 0.999'
        """
        claims = [finding for finding in self.findings if not finding.is_broken]
        broken = [finding for finding in self.findings if finding.is_broken]
        found = sum(finding.verdict.is_condemned for finding in claims)
        parts = [f"{len(claims) - found} claims hold, {found} condemned"]
        if broken:
            caught = sum(finding.verdict.is_condemned for finding in broken)
            parts.append(f"{caught} of {len(broken)} broken twins found out")
        return f"{'; '.join(parts)}; {self.seconds:.0f} s at confidence {self.confidence:g}"

    def merge(self, other: "AuditReport", confidence: float) -> "AuditReport":
        """Return both reports as one, with their joint confidence."""
        return AuditReport(self.findings + other.findings, confidence, self.seconds + other.seconds)

    def to_json(self) -> dict[str, Any]:
        """Return a table ready for `json.dumps`: infinite numbers are text."""
        from streamgauge import __version__

        found = {
            "streamgauge": __version__,
            "confidence": self.confidence,
            "is_clean": self.is_clean,
            "summary": self.summary,
            "seconds": round(self.seconds, 1),
            "findings": [finding.to_json() for finding in self.findings],
        }
        return {name: to_plain_json(value) for name, value in found.items()}


def to_plain_json(value: Any) -> Any:
    """
    >>> to_plain_json({"a": [1.5, float("inf")]})
    {'a': [1.5, 'infinite']}
    """
    if isinstance(value, dict):
        return {name: to_plain_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [to_plain_json(each) for each in value]
    return "infinite" if isinstance(value, float) and not isfinite(value) else value


def split_confidence(confidence: float, count: int) -> float:
    """Return the confidence of each of so many bounds under which all hold."""
    return 1 - (1 - confidence) / max(1, count)


def audit_entries(
    entries: Iterable[CatalogueEntry],
    runs: int,
    *,
    confidence: float = DEFAULT_CONFIDENCE,
    watch: ReportProgressCallback = ignore,
) -> AuditReport:
    """Audit all entries."""
    begun, listed = perf_counter(), list(entries)
    sure = split_confidence(confidence, len(listed))
    findings = []
    for number, entry in enumerate(listed, 1):
        found = partial(watch, number, len(listed), entry.title)
        found(0, 1)
        verdict = audit(entry.subject, choose_runs(entry, runs), sure, found)
        findings.append(Finding(entry.kind, entry.title, verdict, entry.is_broken, entry.reason))
    return AuditReport(tuple(findings), confidence, perf_counter() - begun)


def choose_runs(entry: CatalogueEntry, runs: int) -> int:
    """Return the runs of an entry: twins have their own, and slow or repeated claims have fewer."""
    if entry.runs is not None:
        return entry.runs
    one_in = RUN_DIVISORS.get(entry.kind, 1)
    return max(MIN_PUBLISHED_RUNS, runs // one_in) if one_in > 1 else runs


def build_report(verdicts: Sequence[Verdict], confidence: float, seconds: float) -> AuditReport:
    """Build the report on a pipeline file."""
    findings = [Finding("pipeline", verdict.subject, verdict) for verdict in verdicts]
    return AuditReport(tuple(findings), confidence, seconds)
