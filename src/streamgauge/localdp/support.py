"""Reports that support items: its own with one chance, any other with a smaller one, the same for all items.

    estimate    (C - n other)/(own - other)       C of n reports support the item

It is unbiased, and each report adds the variance of one coin, own (1 - own) or other (1 - other), over (own -
other)^2. A report moves C by 1 or not at all.

Reference
    Wang, Blocki, Li, Jha: Locally differentially private protocols for frequency estimation, USENIX Security
    2017, where such protocols are called pure. Its variance for rare items is exact here for all.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.oracle import Item, Spread, Table
from streamgauge.noise.numbers import Floats


@dataclass(frozen=True)
class Support:
    """The chance that a report supports its own item, and that it supports another."""

    own: Fraction
    other: Fraction

    @property
    def gap(self) -> Fraction:
        return self.own - self.other

    @property
    def influence(self) -> float:
        return float(max(1 - self.other, self.other) / self.gap)

    def counts(self, supported: Floats, reports: int) -> Floats:
        return (supported - reports * float(self.other)) / float(self.gap)

    def spread(self, shared: float) -> Spread:
        own, other = (float(chance * (1 - chance) / self.gap**2) for chance in (self.own, self.other))
        return Spread(own, other, shared)


@dataclass(frozen=True)
class SupportClaim(LocalClaim):
    """A claim whose reports support items; see the module's formula."""

    @property
    @abstractmethod
    def support(self) -> Support: ...

    @abstractmethod
    def supported(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        """How many reports support each item."""

    @property
    def shared(self) -> float:
        return 0.0

    @property
    def influence(self) -> float:
        return self.support.influence

    @property
    def spread(self) -> Spread:
        return self.support.spread(self.shared)

    @property
    def apart(self) -> float:
        return float(1 / self.support.gap)

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return self.support.counts(self.supported(table, reports, items), reports)
