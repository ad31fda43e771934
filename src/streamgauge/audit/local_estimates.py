"""What a collector makes of reports, exactly: every report is counted, and weighed by how likely it is.

    mean        a report of an item counts 1 for it on average, and for others what the public hashes say:
                m/(m - 1) (met/rows - 1/m) where the two items meet in `met` of the rows, of m columns; over
                all hashes that is 0, and 0 where there are none
    variance    of the count of its own item, which no hash has a part in: what the claim states
    reach       no report counts more for any item than the stated influence
    sums        two reports count what they count one by one

Promise
    A claim whose estimates are wrong on average, in spread or in reach is found out, for these items and the
    hashes of this seed. Counts are floats, compared up to 1e-6.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from streamgauge.audit.local_laws import Input, Law
from streamgauge.noise.numbers import Floats

AGREED = 1e-6

Counted = dict[bytes, Floats]  # what each report counts for each item


def faults_of(claim: Any, items: Sequence[str], laws: Mapping[Input, Law]) -> Iterator[str]:
    """Where estimates are not what the claim states: the worst of each kind."""
    counted = {report: counts(claim, [report], items) for report in sorted(set().union(*laws.values()))}
    for kind in (_bias, _spread):
        yield from max(kind(claim, items, laws, counted), key=lambda fault: fault.off).told
    yield from _reach(claim, counted)
    yield from _sums(claim, items, counted)


@dataclass(frozen=True)
class Fault:
    """A number, and what it has to be."""

    words: str
    found: float
    right: float

    @property
    def off(self) -> float:
        return abs(self.found - self.right)

    @property
    def told(self) -> list[str]:
        """In words, if it is one."""
        right = self.off <= AGREED * max(1.0, abs(self.right))
        return [] if right else [self.words.format(found=f"{self.found:.4g}", right=f"{self.right:.4g}")]


def counts(claim: Any, reports: Sequence[bytes], items: Sequence[str]) -> Floats:
    """By the real collector."""
    collector = claim.collector()
    collector.add(list(reports))
    found: Floats = collector.estimate(items).count
    return found


def expected(claim: Any, item: str, other: str) -> Fraction:
    """What a report of an item has to count for another, or for itself, on average."""
    if item == other:
        return Fraction(1)
    if not hasattr(claim, "family"):
        return Fraction(0)
    rows, width = claim.hashes, claim.width
    met = sum(claim.family.column(row, item) == claim.family.column(row, other) for row in range(rows))
    return Fraction(width, width - 1) * (Fraction(met, rows) - Fraction(1, width))


def mean(law: Law, counted: Counted, place: int, power: int = 1) -> float:
    return sum(float(chance) * float(counted[report][place]) ** power for report, chance in law.items())


def _bias(claim: Any, items: Sequence[str], laws: Mapping[Input, Law], counted: Counted) -> Iterator[Fault]:
    for item in items:
        for place, other in enumerate(items):
            words = (
                f"biased: a report of {item!r} counts {{found}} for {other!r} on average, must be {{right}}"
            )
            yield Fault(words, mean(laws[item], counted, place), float(expected(claim, item, other)))


def _spread(claim: Any, items: Sequence[str], laws: Mapping[Input, Law], counted: Counted) -> Iterator[Fault]:
    for place, item in enumerate(items):
        found = mean(laws[item], counted, place, 2) - mean(laws[item], counted, place) ** 2
        words = f"variance of a report of {item!r} is {{found}}, stated {{right}}"
        yield Fault(words, found, float(claim.variance(1, 1)))


def _reach(claim: Any, counted: Counted) -> Iterator[str]:
    most = max(float(abs(each).max()) for each in counted.values())
    if most > claim.influence * (1 + AGREED):
        yield f"one report moves an estimate by {most:.4g}, stated {claim.influence:.4g}"


def _sums(claim: Any, items: Sequence[str], counted: Counted) -> Iterator[str]:
    for one, other in pairwise(counted):
        if abs(counts(claim, [one, other], items) - counted[one] - counted[other]).max() > AGREED:
            yield "two reports count something else than both one by one"
            return
