"""A report: many verdicts, of which some must condemn, or the audit itself is broken.

Promise
    With the report's confidence not one of its bounds is above the truth: each subject has an even share of
    the doubt, which the bounds on one subject share again (see `measuring`): amount, epsilon, delta at the
    claim and the points of the curve. So a report of sound claims is clean with at least that probability,
    however long it is. Subjects that know their runs are bounded like all others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from time import perf_counter
from typing import Any

from streamgauge.audit.auditing import audit
from streamgauge.audit.catalogue import Entry
from streamgauge.audit.measuring import CONFIDENCE
from streamgauge.audit.verdict import Verdict

FEWEST_PUBLISHED, PUBLISHED = 2_000, 10  # one run in so many, where each is made event by event
ADAPTING = 10  # and where nothing is linear, so that many neighbours are tried
UNITS_EACH = 4  # one run in so many, of claims that are attacked for one event as well

TITLES = {  # of all kinds of findings, in the order in which they are shown
    "pipeline": "pipeline files, end to end",
    "counter": "mechanisms: all releases",
    "unit": "mechanisms, claimed for windows and for users: all releases",
    "memory": "pan-private mechanisms: all releases, and the memory",
    "way": "mechanisms: saved and loaded, beside other groups and measures, and in every layout",
    "adversary": "mechanisms under an adversary who chooses the stream",
    "adapting": "mechanisms that adapt to their data: all releases",
    "vectors": "statistics: what their counters release",
    "published": "statistics: what is told",
    "seized": "pan-private estimators of users: all releases, and the memory",
    "local": "devices that trust nobody: every report in fractions, and what estimates make of it",
    "twin": "controls: broken twins, which must be condemned, and honest ones",
}

Told = Callable[[int, int, str, int, int], None]  # which of how many, its title, and runs done of how many


def nobody(number: int, count: int, title: str, done: int, of: int) -> None:
    """Is told."""


@dataclass(frozen=True)
class Finding:
    """A verdict, and what it had to be."""

    kind: str
    title: str
    verdict: Verdict
    guilty: bool = False
    why: str = ""

    @property
    def as_it_must_be(self) -> bool:
        return self.verdict.condemned == self.guilty

    @property
    def words(self) -> str:
        """The verdict in a word or two."""
        if self.guilty:
            return "found out" if self.verdict.condemned else "missed"
        return self.verdict.words

    def as_json(self) -> dict[str, Any]:
        told = {"kind": self.kind, "title": self.title, "guilty": self.guilty, "why": self.why}
        judged = {"as_it_must_be": self.as_it_must_be, "words": self.words}
        return {**told, **judged, **self.verdict.as_json()}


@dataclass(frozen=True)
class Report:
    """All findings, in the order in which they were made."""

    findings: tuple[Finding, ...]
    confidence: float
    seconds: float

    @property
    def clean(self) -> bool:
        """Every sound claim holds, and every broken one was found out."""
        return all(finding.as_it_must_be for finding in self.findings)

    @property
    def summary(self) -> str:
        """
        >>> Report((), 0.999, 2.0).summary
        '0 claims hold, 0 condemned; 2 s at confidence 0.999'
        """
        claims = [finding for finding in self.findings if not finding.guilty]
        broken = [finding for finding in self.findings if finding.guilty]
        found = sum(finding.verdict.condemned for finding in claims)
        parts = [f"{len(claims) - found} claims hold, {found} condemned"]
        if broken:
            caught = sum(finding.verdict.condemned for finding in broken)
            parts.append(f"{caught} of {len(broken)} broken twins found out")
        return f"{'; '.join(parts)}; {self.seconds:.0f} s at confidence {self.confidence:g}"

    def joined(self, other: "Report", confidence: float) -> "Report":
        """Both, with the confidence that they have together."""
        return Report(self.findings + other.findings, confidence, self.seconds + other.seconds)

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`: what is not finite is text."""
        from streamgauge import __version__

        told: dict[str, Any] = plain(
            {
                "streamgauge": __version__,
                "confidence": self.confidence,
                "clean": self.clean,
                "summary": self.summary,
                "seconds": round(self.seconds, 1),
                "findings": [finding.as_json() for finding in self.findings],
            }
        )
        return told


def plain(value: Any) -> Any:
    """
    >>> plain({"a": [1.5, float("inf")]})
    {'a': [1.5, 'infinite']}
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return "infinite" if isinstance(value, float) and not isfinite(value) else value


def share(confidence: float, count: int) -> float:
    """The confidence of each of so many, under which all hold."""
    return 1 - (1 - confidence) / max(1, count)


def report_on(
    entries: Iterable[Entry],
    runs: int,
    *,
    confidence: float = CONFIDENCE,
    watch: Told = nobody,
) -> Report:
    """Audits all of them."""
    begun, listed = perf_counter(), list(entries)
    sure = share(confidence, len(listed))
    findings = []
    for number, entry in enumerate(listed, 1):
        told = partial(watch, number, len(listed), entry.title)
        told(0, 1)
        verdict = audit(entry.subject, runs_of(entry, runs), sure, told)
        findings.append(Finding(entry.kind, entry.title, verdict, entry.guilty, entry.why))
    return Report(tuple(findings), confidence, perf_counter() - begun)


def runs_of(entry: Entry, runs: int) -> int:
    """Twins know how many condemn them; what is run event by event, or in other units, has fewer."""
    if entry.runs is not None:
        return entry.runs
    one_in = {"published": PUBLISHED, "adapting": ADAPTING, "unit": UNITS_EACH}.get(entry.kind, 1)
    return max(FEWEST_PUBLISHED, runs // one_in) if one_in > 1 else runs


def report_of(verdicts: Sequence[Verdict], confidence: float, seconds: float) -> Report:
    """On a pipeline file."""
    findings = [Finding("pipeline", verdict.subject, verdict) for verdict in verdicts]
    return Report(tuple(findings), confidence, seconds)
