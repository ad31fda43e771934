"""Planner of local protocols: the least error for rare items in so many bits.

    protocol                   items   variance a report, of a rare item         bits
    RandomisedResponse         known   (e + d - 2)/(e - 1)^2                     log2 d
    UnaryEncoding              known   4 e/(e - 1)^2                             d
    HadamardResponse           known   ((e + 1)/(e - 1))^2                       log2(d + 1), rounded up
    LocalHashing               any     4 e/(e - 1)^2 + collisions                log2(hashes width)
    CountMeanSketch            any     r/(r - 1)^2 + 1/width + collisions        width + log2 hashes
    HadamardCountMeanSketch    any     ((e + 1)/(e - 1))^2 + collisions          1 + log2(hashes width)

with e = e^epsilon, r = e^(epsilon/2) and d items. RandomisedResponse is best for a short list, up to d = 3 e + 2.
UnaryEncoding is best for a longer one, or HadamardResponse if d bits are too many. LocalHashing is best for items
that are not known beforehand, or a sketch if collisions would dominate it.

Collisions add about `heaviest` n/(hashes width) to the variance a report, if no item has more than that part of the
n reports: the sum of squares of counts is at most heaviest n^2. Hashes and width are chosen for that, with powers of
4 from 16 to 65,536 hashes and at most 2^26 cells in a collector.

`compare` lists all with their predictions, and the reasons of refusals. `choose` returns the least standard error
and, among those at most 5 % above it, the fewest bits. Nothing is read from data.
"""

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.localdp.domain import MAX_ITEMS, parse_domain
from streamgauge.localdp.mechanism import LocalMechanism
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.protocols.count_mean_sketch import CountMeanSketch, SketchMechanism
from streamgauge.localdp.protocols.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.protocols.hadamard_response import HadamardResponse
from streamgauge.localdp.protocols.local_hashing import LocalHashing, best_width
from streamgauge.localdp.protocols.randomised_response import RandomisedResponse
from streamgauge.localdp.protocols.unary_encoding import UnaryEncoding
from streamgauge.noise.coerce import Number, as_fraction
from streamgauge.privacy import Pure

DOMAIN_PROTOCOLS = (RandomisedResponse, UnaryEncoding, HadamardResponse)
HASHED_PROTOCOLS = (LocalHashing, CountMeanSketch, HadamardCountMeanSketch)
HASH_COUNTS = tuple(1 << power for power in range(4, 17, 2))
WIDTHS = tuple(1 << power for power in range(1, 13))
MAX_COLLECTOR_CELLS = 2**26
STDDEV_TOLERANCE = 1.05  # times the least standard error: not worth more bits
SETTINGS_TOLERANCE = 1.01  # the same, among settings of one protocol


@dataclass(frozen=True)
class ProtocolChoice:
    """One protocol with its prediction for a rare item, or the reason of its refusal."""

    name: str
    mechanism: LocalMechanism | None = None
    stddev: float = inf  # of the estimated count
    report_bits: int = 0
    refusal: str = ""

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.name:<24} refused: {self.refusal}"
        return f"{self.name:<24} {self.stddev:>12.4g} {self.report_bits:>10}"


@dataclass(frozen=True)
class ProtocolChoices:
    """Protocols, least standard error first, then refusals; print it for a table."""

    choices: tuple[ProtocolChoice, ...]
    reports: int
    report_bits: int | None = None

    @property
    def best(self) -> LocalMechanism:
        """The fewest bits among protocols of hardly more than the least standard error."""
        good = find_shortest((each for each in self.choices if not each.refusal), STDDEV_TOLERANCE)
        if good is not None and good.mechanism is not None:
            return good.mechanism
        least = min((each.report_bits for each in self.choices if each.mechanism is not None), default=None)
        if self.report_bits is not None and least is not None:
            raise ValueError(f"report_bits must be at least {least} for any protocol to fit, got {self.report_bits}")
        reasons = "; ".join(f"{each.name}: {each.refusal}" for each in self.choices)
        raise ValueError(f"settings must be such that some protocol keeps them, got refusals ({reasons})")

    def __str__(self) -> str:
        title = f"{f'of {self.reports} reports':<24} {'stddev':>12} {'bits':>10}"
        return "\n".join([title, *map(str, self.choices)])


def find_shortest(choices: Iterable[ProtocolChoice], tolerance: float) -> ProtocolChoice | None:
    """Return the choice of fewest bits near the least standard error, if there is any."""
    found = sorted(choices, key=lambda each: each.stddev)
    near = [each for each in found if each.stddev <= tolerance * found[0].stddev]
    return min(near, key=lambda each: each.report_bits, default=None)


@dataclass(frozen=True)
class ProtocolRequest:
    """The settings of a prediction, and its limits."""

    loss: Pure
    report_bits: int | None
    reports: int
    squares: float
    seed: int

    def evaluate(self, kind: type[LocalMechanism], **settings: Any) -> ProtocolChoice:
        try:
            claim = kind(self.loss, **settings)
        except ValueError as refusal:
            return ProtocolChoice(kind.__name__, refusal=str(refusal))
        bits, stddev = claim.report_bits, claim.stddev(0, self.reports, self.squares)
        fits = self.report_bits is None or bits <= self.report_bits
        return ProtocolChoice(kind.__name__, claim, stddev, bits, "" if fits else f"its reports have {bits} bits")

    def evaluate_domain(self, domain: Any) -> list[ProtocolChoice]:
        """Return the choices of protocols that need a list of items."""
        if isinstance(domain, int | np.integer):
            check_whole("domain_size", domain, 2)
            domain = range(domain)
        refusal = "its items must be known beforehand" if domain is None else ""
        if isinstance(domain, Sized) and len(domain) > MAX_ITEMS:
            refusal = "its items must be at most 2**20"
        if refusal:
            return [ProtocolChoice(kind.__name__, refusal=refusal) for kind in DOMAIN_PROTOCOLS]
        return [self.evaluate(kind, items=parse_domain(domain)) for kind in DOMAIN_PROTOCOLS]

    def find_best_hashing(self, kind: type[SketchMechanism]) -> ProtocolChoice:
        """Return the best hashes and width of a protocol for items of any kind.

        Fewest cells break a tie.
        """
        widths = {*WIDTHS, best_width(self.loss.epsilon)} if kind is LocalHashing else set(WIDTHS)
        sizes = sorted((hashes * width, hashes, width) for hashes in HASH_COUNTS for width in widths)
        tried = [
            self.evaluate(kind, hashes=hashes, width=width, seed=self.seed)
            for cells, hashes, width in sizes
            if cells <= MAX_COLLECTOR_CELLS
        ]
        fewest = min(tried, key=lambda each: each.report_bits)
        return find_shortest((each for each in tried if not each.refusal), SETTINGS_TOLERANCE) or fewest


def choose(
    domain_size: int | Sequence[Item] | None, epsilon: Number | Pure, *, report_bits: int | None = None, **more: Any
) -> LocalMechanism:
    """Return the protocol of least predicted error for a rare item; see the module.

    `domain_size` is the number of items (they are then 0, 1, 2, ...), or the list of them, or None if they are not
    known beforehand. A report may have up to `report_bits` bits, or `ValueError` states the required number.
    `more` is for `compare`: reports, heaviest, seed.

    >>> choose(["red", "green", "blue"], 1)
    RandomisedResponse(loss=Pure(epsilon=1), items=('red', 'green', 'blue'))
    """
    return compare(domain_size, epsilon, report_bits=report_bits, **more).best


def compare(
    domain_size: int | Sequence[Item] | None,
    epsilon: Number | Pure,
    *,
    report_bits: int | None = None,
    reports: int = 10**6,
    heaviest: Number = "1/10",
    seed: int = 0,
) -> ProtocolChoices:
    """Return the table behind `choose`: standard errors, bits, refusals.

    Predictions are for estimates from so many `reports`, of which no item has more than the part `heaviest`. `seed`
    is that of hashes.

    >>> print(compare(2600, 4, report_bits=32))
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
    share = as_fraction("heaviest", heaviest)
    if not 0 < share <= 1:
        raise ValueError(f"heaviest must be above 0 and at most 1, got {heaviest}")
    loss = epsilon if isinstance(epsilon, Pure) else Pure(epsilon)
    request = ProtocolRequest(loss, report_bits, reports, float(share * reports**2), seed)
    found = [*request.evaluate_domain(domain_size), *map(request.find_best_hashing, HASHED_PROTOCOLS)]
    found.sort(key=lambda each: (bool(each.refusal), each.stddev))
    return ProtocolChoices(tuple(found), reports, report_bits)
