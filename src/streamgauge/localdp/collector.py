"""A collector: adds reports up and estimates counts. It never sees anything but noise.

Nothing that a report says raises: what no honest device can have sent is dropped and counted; that more is
taken out than was put in is refused, by numbers that are public. Every other
report, honest or not, moves an estimate by at most `claim.influence`, since the table is a sum over reports
and a well-formed one is one that an honest device sends with positive probability.

Collectors of one claim merge: the table of all reports is the sum of the tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamgauge.continual.saved import ANOTHER, BadSave, pack, unpack
from streamgauge.continual.settings import check_whole
from streamgauge.localdp.asked import asked_items, once_each
from streamgauge.localdp.collisions import Errors
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
        return len(self.take(*rows(reports, self.claim.report_size)))

    def take(self, given: Reports, dropped: int = 0) -> Reports:
        """Adds rows of the right size, beside some that had another; returns those that were well formed."""
        taken = self._well_formed(given)
        self._make_room(len(taken))
        self.claim.tally(self._state.table, taken, 1)
        self._state.reports += len(taken)
        self._state.dropped += dropped + len(given) - len(taken)
        return taken

    def _make_room(self, more: int) -> None:
        """No cell is ever beyond the number of reports: beyond what 4 bytes hold they become 8."""
        if self.reports + more > np.iinfo(self._state.table.dtype).max:
            self._state.table = self._state.table.astype(np.int64)

    def remove(self, reports: Given) -> int:
        """Takes reports out again that were added before; returns how many."""
        taken = self._well_formed(rows(reports, self.claim.report_size)[0])
        if len(taken) > self.reports:
            raise ValueError(f"reports must be among the {self.reports} that were added, got {len(taken)}")
        self.claim.tally(self._state.table, taken, -1)
        self._state.reports -= len(taken)
        return len(taken)

    def estimate(self, items: Sequence[Item], copies: int = 1) -> Frequencies:
        """How many reports are of each item, where no report is there more than `copies` times. Ask as
        often as you like: it is post-processing."""
        return self._estimated(asked_items("items", items), copies)

    def _estimated(self, asked: tuple[Item, ...], copies: int = 1) -> Frequencies:
        check_whole("copies", copies)
        total = self.reports
        count = self.claim.counts(self._state.table, total, asked)
        squares = np.clip(self.claim.squares(self._state.table, total, copies), total, float(total) ** 2)
        errors = Errors(self.claim.spread, self.claim.hashed, total, float(squares), copies, self.claim.apart)
        return Frequencies(asked, count, errors.stddev(count), total, errors)

    def top(self, candidates: Sequence[Item], count: int) -> Frequencies:
        """The candidates of the largest estimates, largest first, and each once."""
        return self._estimated(once_each(asked_items("candidates", candidates))).top(count)

    def merge(self, other: "Collector") -> None:
        """Takes all reports of another collector of the same claim."""
        if not isinstance(other, Collector):
            raise ValueError(f"other must be a collector of {self.claim!r}, got {other!r}")
        if self.claim != other.claim:
            raise ValueError(f"other must be a collector of {self.claim!r}, got one of {other.claim!r}")
        mine, theirs = self._state, other._state
        self._make_room(theirs.reports)
        mine.table = mine.table.astype(np.promote_types(mine.table.dtype, theirs.table.dtype), copy=False)
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
        blank = new._state.table
        try:
            new._state = _unpacked(claim, saved, blank)
        except BadSave:
            new._state = _unpacked(claim, saved, np.broadcast_to(np.int64(0), blank.shape))
        return new

    def _well_formed(self, given: Reports) -> Reports:
        good = self.claim.well_formed(given)
        return given if good.all() else given[good]

    def __repr__(self) -> str:
        return f"<collector of {self.claim!r}>"


def _unpacked(claim: Oracle, saved: bytes, like: Table) -> Collected:
    """What a collector saved whose table was like another."""
    state: Any = unpack(saved, claim.identity(), lambda _: Collected(like, 0, 0), repr(claim))[2]
    if (state.table.shape, state.table.dtype) != (like.shape, like.dtype):
        raise BadSave(ANOTHER)
    if not _is_sound(state):
        raise BadSave(ANOTHER)
    return Collected(state.table, state.reports, state.dropped)


def _is_sound(state: Collected) -> bool:
    """What reports may have come to: each moves a cell by 1 at most."""
    most = int(max(state.table.max(initial=0), -int(state.table.min(initial=0))))
    return state.dropped >= 0 and most <= state.reports
