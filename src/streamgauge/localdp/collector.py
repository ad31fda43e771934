"""A collector: adds reports up and estimates counts. It never sees anything but noise.

Nothing that a report says raises: what no honest device can have sent is dropped and counted. Every other
report, honest or not, moves an estimate by at most `claim.influence`, since the table is a sum over reports
and a well-formed one is one that an honest device sends with positive probability.

Collectors of one claim merge: the table of all reports is the sum of the tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamgauge.continual.saved import ANOTHER, BadSave, pack, unpack
from streamgauge.localdp.estimates import Frequencies
from streamgauge.localdp.oracle import Item, Oracle, Table
from streamgauge.localdp.reports import Given, Reports, rows


@dataclass
class Collected:
    """All that a collector remembers."""

    table: Table  # noisy: sums over reports
    reports: int
    dropped: int


class Collector:
    """Of one claim; make one with `claim.collector()` or `claim.load(saved)`."""

    def __init__(self, claim: Oracle) -> None:
        self.claim = claim
        self._state = Collected(claim.blank(), 0, 0)

    @property
    def reports(self) -> int:
        """How many are in the table."""
        return self._state.reports

    @property
    def dropped(self) -> int:
        """How many were malformed."""
        return self._state.dropped

    def add(self, reports: Given) -> int:
        """Takes reports (rows of bytes, payloads joined, or a list of them); returns how many it took."""
        given, none = rows(reports, self.claim.report_size)
        taken = self._well_formed(given)
        self.claim.tally(self._state.table, taken, 1)
        self._state.reports += len(taken)
        self._state.dropped += none + len(given) - len(taken)
        return len(taken)

    def remove(self, reports: Given) -> int:
        """Takes reports out again that were added before; returns how many."""
        taken = self._well_formed(rows(reports, self.claim.report_size)[0])
        self.claim.tally(self._state.table, taken, -1)
        self._state.reports -= len(taken)
        return len(taken)

    def estimate(self, items: Sequence[Item]) -> Frequencies:
        """How many reports are of each item. Ask as often as you like: it is post-processing."""
        asked, total = tuple(items), max(self.reports, 0)
        count = self.claim.counts(self._state.table, total, asked)
        near = np.clip(count, 0, total)
        squares = np.clip(self.claim.squares(self._state.table, total), total, float(total) ** 2)
        others = np.clip(squares - near**2, 0, (total - near) ** 2)
        return Frequencies(asked, count, np.sqrt(self.claim.variance(near, total, others)), total)

    def top(self, candidates: Sequence[Item], count: int) -> Frequencies:
        """The candidates of the largest estimates, largest first."""
        return self.estimate(candidates).top(count)

    def merge(self, other: "Collector") -> None:
        """Takes all reports of another collector of the same claim."""
        if self.claim != other.claim:
            raise ValueError(f"other must be a collector of {self.claim!r}, got one of {other.claim!r}")
        mine, theirs = self._state, other._state
        mine.table += theirs.table
        mine.reports += theirs.reports
        mine.dropped += theirs.dropped

    def __add__(self, other: "Collector") -> Self:
        both = type(self)(self.claim)
        both.merge(self)
        both.merge(other)
        return both

    def save(self) -> bytes:
        """Goes on with `claim.load`, here or elsewhere."""
        return pack(self.claim.identity(), 1, {}, self._state)

    @classmethod
    def loaded(cls, claim: Oracle, saved: bytes) -> Self:
        new = cls(claim)
        blank = new._state
        state: Any = unpack(saved, claim.identity(), lambda _: blank, repr(claim))[2]
        if (state.table.shape, state.table.dtype) != (blank.table.shape, blank.table.dtype):
            raise BadSave(ANOTHER)
        new._state = state
        return new

    def _well_formed(self, given: Reports) -> Reports:
        good = self.claim.well_formed(given)
        return given if good.all() else given[good]

    def __repr__(self) -> str:
        return f"<collector of {self.claim!r}>"
