"""Reports that are one whole number each, a code, and a table of how often each came."""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.oracle import Table
from streamgauge.localdp.reports import Reports, bits_for, bytes_for, unpacked
from streamgauge.localdp.support import Support
from streamgauge.noise.numbers import Bools


@dataclass(frozen=True)
class CodedClaim(LocalClaim):
    """A claim whose reports are codes, each of which some device may send."""

    @property
    @abstractmethod
    def codes(self) -> int:
        """How many reports there are."""

    @property
    def report_bits(self) -> int:
        return bits_for(self.codes)

    @property
    def report_size(self) -> int:
        return bytes_for(self.report_bits)

    def well_formed(self, reports: Reports) -> Bools:
        return np.asarray(unpacked(reports) < self.codes)

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        np.add.at(table.reshape(-1), unpacked(reports).astype(np.int64), table.dtype.type(weight))


def responded(side: Any, kept: Any, other: Any) -> Any:
    """One of some sides if kept, else one of the others, which are numbered without it."""
    return kept * side + (1 - kept) * (other + (other >= side))


def kept_or_other(kept: Fraction, sides: int) -> Support:
    """The chances of a side's own response, and of any other's."""
    return Support(kept, (1 - kept) / (sides - 1))
