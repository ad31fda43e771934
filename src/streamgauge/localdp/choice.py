"""The planner of this room: which protocol tells rare items best, in as many bits as a device may send.

    protocol                   items   variance a report, of a rare item         bits
    RandomisedResponse         known   (e + d - 2)/(e - 1)^2                     log2 d
    UnaryEncoding              known   4 e/(e - 1)^2                             d
    HadamardResponse           known   ((e + 1)/(e - 1))^2                       log2(d + 1), rounded up
    LocalHashing               any     4 e/(e - 1)^2 + collisions                log2(hashes width)
    CountMeanSketch            any     r/(r - 1)^2 + 1/width + collisions        width + log2 hashes
    HadamardCountMeanSketch    any     ((e + 1)/(e - 1))^2 + collisions          1 + log2(hashes width)

with e = e^epsilon, r = e^(epsilon/2) and d items. A short list is told best by RandomisedResponse, up to d =
3 e + 2, a longer one by UnaryEncoding, or by HadamardResponse if d bits are too many; what is not known
beforehand by LocalHashing, or by a sketch where collisions would drown it.

Collisions add `heaviest` n/(hashes width) or so to the variance a report, where no item has more than that
part of the n reports: the sum of squares of counts is at most heaviest n^2. Hashes and width are chosen for
that, with powers of 4 from 16 to 65,536 hashes and at most 2^26 cells in a collector.

`choices` lists all with what they predict, and the reasons of those that are out; `choose` takes the least
standard error and, among those within 5 % of it, the fewest bits. Nothing is read from data.
"""

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.count_mean_sketch import CountMeanSketch
from streamgauge.localdp.domain import MOST_ITEMS, listed_items
from streamgauge.localdp.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.hadamard_response import HadamardResponse
from streamgauge.localdp.local_hashing import LocalHashing, best_width
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.randomised_response import RandomisedResponse
from streamgauge.localdp.sketch import SketchClaim
from streamgauge.localdp.unary_encoding import UnaryEncoding
from streamgauge.noise.numbers import Number, rational
from streamgauge.privacy import Pure

KNOWN = (RandomisedResponse, UnaryEncoding, HadamardResponse)
HASHED = (LocalHashing, CountMeanSketch, HadamardCountMeanSketch)
HASHES = tuple(1 << power for power in range(4, 17, 2))
WIDTHS = tuple(1 << power for power in range(1, 13))
MOST_CELLS = 2**26
AS_GOOD = 1.05  # times the least standard error: not worth more bits
ALIKE = 1.01  # the same, among settings of one protocol


class TooFewBits(ValueError):  # noqa: N818 - named for what it is
    """No protocol fits into so many bits: `asked` were given, `least` are needed."""

    def __init__(self, asked: int, least: int) -> None:
        super().__init__(f"report_bits must be at least {least} for any protocol to fit, got {asked}")
        self.asked, self.least = asked, least


@dataclass(frozen=True)
class Choice:
    """One protocol's line: what it predicts for a rare item, or why it is out."""

    name: str
    claim: LocalClaim | None = None
    stddev: float = inf  # of the estimated count
    report_bits: int = 0
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name:<24} refused: {self.refused}"
        return f"{self.name:<24} {self.stddev:>12.4g} {self.report_bits:>10}"


@dataclass(frozen=True)
class Choices:
    """Protocols, least standard error first, then those refused; print it for a table."""

    choices: tuple[Choice, ...]
    reports: int
    report_bits: int | None = None

    @property
    def best(self) -> LocalClaim:
        """The fewest bits among those of hardly more than the least standard error."""
        good = shortest((each for each in self.choices if not each.refused), AS_GOOD)
        if good is not None and good.claim is not None:
            return good.claim
        least = min((each.report_bits for each in self.choices if each.claim is not None), default=None)
        if self.report_bits is not None and least is not None:
            raise TooFewBits(self.report_bits, least)
        reasons = "; ".join(f"{each.name}: {each.refused}" for each in self.choices)
        raise ValueError(f"settings must be such that some protocol keeps them, got refusals ({reasons})")

    def __str__(self) -> str:
        title = f"{f'of {self.reports} reports':<24} {'stddev':>12} {'bits':>10}"
        return "\n".join([title, *map(str, self.choices)])


def shortest(choices: Iterable[Choice], within: float) -> Choice | None:
    """Of those within a factor of the least standard error the one of fewest bits, if there are any."""
    found = sorted(choices, key=lambda each: each.stddev)
    near = [each for each in found if each.stddev <= within * found[0].stddev]
    return min(near, key=lambda each: each.report_bits, default=None)


@dataclass(frozen=True)
class Asked:
    """What is to be predicted, and within which bounds."""

    loss: Pure
    report_bits: int | None
    reports: int
    squares: float
    seed: int

    def choice(self, kind: type[LocalClaim], **settings: Any) -> Choice:
        try:
            claim = kind(self.loss, **settings)
        except ValueError as refusal:
            return Choice(kind.__name__, refused=str(refusal))
        bits, stddev = claim.report_bits, claim.stddev(0, self.reports, self.squares)
        fits = self.report_bits is None or bits <= self.report_bits
        return Choice(kind.__name__, claim, stddev, bits, "" if fits else f"its reports have {bits} bits")

    def known(self, domain: Any) -> list[Choice]:
        """Those that need a list of items."""
        if domain is None:
            return [Choice(kind.__name__, refused="its items must be known beforehand") for kind in KNOWN]
        if isinstance(domain, int | np.integer):
            check_whole("domain_size", domain, 2)
            domain = range(domain)
        if isinstance(domain, Sized) and len(domain) > MOST_ITEMS:
            return [Choice(kind.__name__, refused="its items must be at most 2**20") for kind in KNOWN]
        return [self.choice(kind, items=listed_items(domain)) for kind in KNOWN]

    def hashed(self, kind: type[SketchClaim]) -> Choice:
        """The best hashes and width of a protocol for items of any kind; the fewest cells break a tie."""
        sizes = sorted((hashes * width, hashes, width) for hashes in HASHES for width in self._widths(kind))
        tried = [
            self.choice(kind, hashes=hashes, width=width, seed=self.seed)
            for cells, hashes, width in sizes
            if cells <= MOST_CELLS
        ]
        fewest = min(tried, key=lambda each: each.report_bits)
        return shortest((each for each in tried if not each.refused), ALIKE) or fewest

    def _widths(self, kind: type[SketchClaim]) -> set[int]:
        return {*WIDTHS, best_width(self.loss.epsilon)} if kind is LocalHashing else set(WIDTHS)


def choose(
    domain_size: int | Sequence[Item] | None,
    epsilon: Number | Pure,
    *,
    report_bits: int | None = None,
    **more: Any,
) -> LocalClaim:
    """The protocol of least predicted error for a rare item; see the module's table.

    `domain_size` is how many items there are (they are then 0, 1, 2, ...), or the list of them, or None if
    nobody knows them beforehand. A report may have up to `report_bits` bits, or `TooFewBits` says how many it
    takes. `more` is what `choices` takes: reports, heaviest, seed.

    >>> choose(["red", "green", "blue"], 1)
    RandomisedResponse(loss=Pure(epsilon=1), items=('red', 'green', 'blue'))
    """
    return choices(domain_size, epsilon, report_bits=report_bits, **more).best


def choices(
    domain_size: int | Sequence[Item] | None,
    epsilon: Number | Pure,
    *,
    report_bits: int | None = None,
    reports: int = 10**6,
    heaviest: Number = "1/10",
    seed: int = 0,
) -> Choices:
    """The table behind `choose`: predicted standard errors, bits of a report, and refusals.

    Predicted are estimates from so many `reports`, of which no item has more than the part `heaviest`; `seed`
    is that of hashes.

    >>> print(choices(2600, 4, report_bits=32))
    of 1000000 reports             stddev       bits
    LocalHashing                    317.2         22
    CountMeanSketch                 611.8         32
    RandomisedResponse              960.9         12
    HadamardResponse                 1037         12
    HadamardCountMeanSketch          1044         24
    UnaryEncoding            refused: its reports have 2600 bits
    """
    check_whole("reports", reports)
    if report_bits is not None:
        check_whole("report_bits", report_bits)
    share = rational("heaviest", heaviest)
    if not 0 < share <= 1:
        raise ValueError(f"heaviest must be above 0 and at most 1, got {heaviest}")
    loss = epsilon if isinstance(epsilon, Pure) else Pure(epsilon)
    asked = Asked(loss, report_bits, reports, float(share * reports**2), seed)
    found = [*asked.known(domain_size), *map(asked.hashed, HASHED)]
    found.sort(key=lambda each: (bool(each.refused), each.stddev))
    return Choices(tuple(found), reports, report_bits)
