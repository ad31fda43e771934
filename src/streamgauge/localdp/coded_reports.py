"""Bases of protocols: reports that support items, and reports that are codes.

A report supports its own item with one chance, and any other with a smaller one, the same for all items:

    estimate    (C - n other)/(own - other)       C of n reports support the item

It is unbiased, and each report adds the variance of one coin, own (1 - own) or other (1 - other), over (own -
other)^2. A report moves C by 1 or not at all.

A coded report is one whole number, and its table counts each code.

Reference
    Wang, Blocki, Li, Jha: Locally differentially private protocols for frequency estimation, USENIX Security
    2017, which calls such protocols pure. Its variance for rare items is exact here for all.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from streamgauge.localdp.mechanism import LocalMechanism
from streamgauge.localdp.oracle import Item, Spread, Table
from streamgauge.localdp.report_bytes import Reports, bits_for, bytes_for, unpack_codes
from streamgauge.noise.coerce import Bools, Floats


@dataclass(frozen=True)
class Support:
    """The chance that a report supports its own item, and that it supports another."""

    own: Fraction
    other: Fraction

    @property
    def gap(self) -> Fraction:
        return self.own - self.other

    def counts(self, supported: Floats, reports: int) -> Floats:
        return (supported - reports * float(self.other)) / float(self.gap)


@dataclass(frozen=True)
class SupportMechanism(LocalMechanism):
    """A claim whose reports support items; see the module's formula."""

    @property
    @abstractmethod
    def support(self) -> Support: ...

    @abstractmethod
    def count_support(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        """Return the number of reports that support each item."""

    @property
    def shared(self) -> float:
        return 0.0

    @property
    def influence(self) -> float:
        return float(max(1 - self.support.other, self.support.other) / self.support.gap)

    @property
    def spread(self) -> Spread:
        chances, gap = (self.support.own, self.support.other), self.support.gap
        own, other = (float(chance * (1 - chance) / gap**2) for chance in chances)
        return Spread(own, other, self.shared)

    @property
    def value_spacing(self) -> float:
        return float(1 / self.support.gap)

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return self.support.counts(self.count_support(table, reports, items), reports)


@dataclass(frozen=True)
class CodedMechanism(LocalMechanism):
    """A claim whose reports are codes, each of which some device may send."""

    @property
    @abstractmethod
    def codes(self) -> int:
        """The number of different reports."""

    @property
    def report_bits(self) -> int:
        return bits_for(self.codes)

    @property
    def report_size(self) -> int:
        return bytes_for(self.report_bits)

    def well_formed(self, reports: Reports) -> Bools:
        return np.asarray(unpack_codes(reports) < self.codes)

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        np.add.at(table.reshape(-1), unpack_codes(reports).astype(np.int64), table.dtype.type(weight))


def choose_response(side: Any, truthful: Any, other: Any) -> Any:
    """Return a side if truthful, else one of the others, numbered without it."""
    return truthful * side + (1 - truthful) * (other + (other >= side))


def build_response_support(truth_chance: Fraction, sides: int) -> Support:
    """Return the chances of a side's own response, and of any other's."""
    return Support(truth_chance, (1 - truth_chance) / (sides - 1))
