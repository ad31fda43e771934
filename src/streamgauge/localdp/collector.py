"""Collector: sums of reports, and estimates of counts from them.

It never reads anything but noise. Nothing in a report raises: a report that no honest device can have sent is
dropped and counted. Removing more reports than were added is rejected, by numbers that are public. Every other
report, honest or not, moves an estimate by at most `mechanism.influence`: the table is a sum over reports, and an
honest device sends every well-formed one with positive probability. Collectors of one claim merge: the table of all
reports is the sum of the tables.

`Frequencies` are the estimates of each item, with standard errors and intervals. They are public as the reports are.
Items whose estimates are requested are a public list, so that a bad item is rejected and shown.

Error
    The ends of an interval are the least and the largest count that would be estimated as this one is, but for
    a tail:

        least      count f with f + above(f) >= estimate      above: how far above f estimates are, but for a tail
        largest    count f with f - below(f) <= estimate

    Errors are those of the count f, not of the estimate: an estimate that is small by chance would have its own
    error too small as well. If no items collide a variance is linear in f, its square root concave, and
    f -+ errors cross the estimate once between it and an end: bisection finds the place. If collisions are
    large they may cross it three times, so that some places in between are probed first.

Reference
    Wilson: Probable inference, the law of succession, and statistical inference, JASA 22, 1927.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streamgauge.continual.state_io import WRONG_STATE_MESSAGE, InvalidSaveError, pack, unpack
from streamgauge.continual.validation import check_whole
from streamgauge.localdp.collisions import ErrorModel
from streamgauge.localdp.hashing import INTEGER_LIMIT, encode_item
from streamgauge.localdp.oracle import Item, Table
from streamgauge.localdp.report_bytes import ReportInput, Reports, parse_rows
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.noise.tail_bounds import normal_point

if TYPE_CHECKING:
    from streamgauge.localdp.mechanism import LocalMechanism

PROBE_FRACTIONS = np.linspace(0, 1, 13)[1:]  # of the distance to an outer end
BISECTION_STEPS = 32


def lower_end(errors: ErrorModel, estimate: Floats, tail: float) -> Floats:
    """Return the least count whose estimate is this or larger with chance `tail`."""

    def is_likely(count: Floats) -> Bools:
        return np.asarray(count + errors.upper_margin(count, tail) >= estimate)

    inside = np.clip(estimate, 0, errors.reports)
    return _find_edge(is_likely, np.zeros_like(inside), inside)


def upper_end(errors: ErrorModel, estimate: Floats, tail: float) -> Floats:
    """Return the largest count whose estimate is this or smaller with chance `tail`."""

    def is_likely(count: Floats) -> Bools:
        return np.asarray(count - errors.lower_margin(count, tail) <= estimate)

    inside = np.clip(np.maximum(estimate, _find_lowest_count(errors, tail)), 0, errors.reports)
    return _find_edge(is_likely, np.full_like(inside, errors.reports), inside)


def _find_lowest_count(errors: ErrorModel, tail: float) -> float:
    """Return the count whose estimates, but for a tail, begin lowest.

    It is not 0 if errors grow fast.
    """
    growth = errors.copies * (errors.spread.own - errors.spread.other)
    return float(normal_point(tail) ** 2 * growth / 4 - errors.variance(0.0) / growth) if growth > 0 else 0.0


def _find_edge(likely: Callable[[Floats], Bools], outer: Floats, inner: Floats) -> Floats:
    """Return the first likely place from an outer end.

    The inner end, if there is none.
    """
    begin = inner
    for place in (begin + part * (outer - begin) for part in PROBE_FRACTIONS):
        inner = np.where(likely(place), place, inner)
    for _ in range(BISECTION_STEPS):
        middle = (outer + inner) / 2
        there = likely(middle)
        outer, inner = np.where(there, outer, middle), np.where(there, middle, inner)
    return outer


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Estimates, item by item.

    `count` is unbiased, and so may be below 0 or above `reports`. `stddev` is its standard error at that count, with
    the collisions of hashes in it. `errors` is the whole model.
    """

    items: tuple[Item, ...]
    count: Floats
    stddev: Floats
    reports: int
    errors: ErrorModel | None = None

    @property
    def share(self) -> Floats:
        """The part of all reports."""
        return self.count / max(self.reports, 1)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return lower and upper ends, clipped to possible counts, from 0 to `reports`.

        An end is the least or the largest count that would be estimated as this one is, but for a tail (see
        the module). An estimate may lie outside. Chance is a sum over all reports. It is treated as normal, and
        half of the spacing of its values is added. Collisions make estimates too large more often than too small,
        and follow their own law.

        The interval is for one item that was named beforehand. Computed exactly for lists, intervals of 95 %
        contain the truth with 93.4 % or more, however few reports there are. Those of 99 % do with 96.2 %, those
        of 99.9 % with 97.6 %, if hardly a report supports an item by chance: far tails are longer upwards.
        """
        if not (isinstance(confidence, Real) and 0 < confidence < 1):
            raise ValueError(f"confidence must be above 0 and below 1, got {confidence!r}")
        low, high = self._ends((1 - float(confidence)) / 2)
        return np.clip(low, 0, self.reports), np.clip(high, 0, self.reports)

    def _ends(self, tail: float) -> tuple[Floats, Floats]:
        if self.errors is None:
            wide = normal_point(tail) * self.stddev
            return self.count - wide, self.count + wide
        return lower_end(self.errors, self.count, tail), upper_end(self.errors, self.count, tail)

    def top(self, count: int) -> "Frequencies":
        """Return the items of the largest estimates, largest first."""
        check_whole("count", count, 0)
        order = np.argsort(-self.count, kind="stable")[:count]
        items = tuple(self.items[place] for place in order)
        return Frequencies(items, self.count[order], self.stddev[order], self.reports, self.errors)


def parse_items(name: str, items: Any) -> tuple[Item, ...]:
    """Return a list of texts and whole numbers, or reject it."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ValueError(f"{name} must be a list of texts and whole numbers, got {items!r}")
    requested = tuple(items)
    for item in requested:
        whole = isinstance(item, int | np.integer) and not isinstance(item, bool)
        if not (whole or isinstance(item, str)):
            raise ValueError(f"{name} must be texts or whole numbers, got {item!r}")
        if whole and abs(int(item)) >= INTEGER_LIMIT:
            raise ValueError(f"{name} must be whole numbers below 2**63, got {item}")
    return requested


@dataclass
class CollectorState:
    """The memory of a collector."""

    table: Table  # noisy: sums over reports
    reports: int
    dropped_reports: int


class Collector:
    """A collector of one claim.

    Make one with `mechanism.build_collector()` or `mechanism.load(saved)`.
    """

    def __init__(self, mechanism: "LocalMechanism") -> None:
        self.mechanism = mechanism
        self._state = CollectorState(mechanism.build_table(), 0, 0)

    @property
    def reports(self) -> int:
        """The number of reports in the table."""
        return self._state.reports

    @property
    def dropped_reports(self) -> int:
        """The number of malformed reports."""
        return self._state.dropped_reports

    def add(self, reports: ReportInput) -> int:
        """Add reports; return how many are well formed.

        They are rows of bytes, payloads joined, or a list of payloads.
        """
        return len(self.add_rows(*parse_rows(reports, self.mechanism.report_size)))

    def add_rows(self, rows: Reports, dropped_reports: int = 0) -> Reports:
        """Add rows of the right size, and count those of another; return well-formed ones."""
        added = self._drop_malformed(rows)
        self._widen_table(len(added))
        self.mechanism.tally(self._state.table, added, 1)
        self._state.reports += len(added)
        self._state.dropped_reports += dropped_reports + len(rows) - len(added)
        return added

    def _widen_table(self, more: int) -> None:
        """Widen cells to 8 bytes before 4 overflow; no cell exceeds the number of reports."""
        if self.reports + more > np.iinfo(self._state.table.dtype).max:
            self._state.table = self._state.table.astype(np.int64)

    def remove(self, reports: ReportInput) -> int:
        """Remove reports that were added before; return how many."""
        removed = self._drop_malformed(parse_rows(reports, self.mechanism.report_size)[0])
        if len(removed) > self.reports:
            raise ValueError(f"reports must be among the {self.reports} that were added, got {len(removed)}")
        self.mechanism.tally(self._state.table, removed, -1)
        self._state.reports -= len(removed)
        return len(removed)

    def estimate(self, items: Sequence[Item], copies: int = 1) -> Frequencies:
        """Estimate the number of reports of each item.

        No report is present more than `copies` times. Call it as often as you like: it is post-processing.
        """
        return self._estimate(parse_items("items", items), copies)

    def _estimate(self, items: tuple[Item, ...], copies: int = 1) -> Frequencies:
        check_whole("copies", copies)
        claim, table, total = self.mechanism, self._state.table, self.reports
        count = claim.counts(table, total, items)
        squares = float(np.clip(claim.squares(table, total, copies), total, float(total) ** 2))
        errors = ErrorModel(claim.spread, claim.hash_shape, total, squares, copies, claim.value_spacing)
        return Frequencies(items, count, errors.stddev(count), total, errors)

    def top(self, candidates: Sequence[Item], count: int) -> Frequencies:
        """Return the candidates of the largest estimates, largest first, and each once."""
        first: dict[bytes, Item] = {}
        for item in parse_items("candidates", candidates):
            first.setdefault(encode_item(item), item)
        return self._estimate(tuple(first.values())).top(count)

    def merge(self, other: "Collector") -> None:
        """Add all reports of another collector of the same claim."""
        if not isinstance(other, Collector):
            raise ValueError(f"other must be a collector of {self.mechanism!r}, got {other!r}")
        if self.mechanism != other.mechanism:
            raise ValueError(f"other must be a collector of {self.mechanism!r}, got one of {other.mechanism!r}")
        mine, theirs = self._state, other._state
        self._widen_table(theirs.reports)
        mine.table = mine.table.astype(np.promote_types(mine.table.dtype, theirs.table.dtype), copy=False)
        mine.table += theirs.table
        mine.reports += theirs.reports
        mine.dropped_reports += theirs.dropped_reports

    def __add__(self, other: "Collector") -> Self:
        both = type(self)(self.mechanism)
        both.merge(self)
        both.merge(other)
        return both

    def save(self) -> bytes:
        """Return the state, for `mechanism.load`, here or elsewhere."""
        return pack(self.mechanism.identity(), 1, {}, self._state)

    @classmethod
    def load(cls, mechanism: "LocalMechanism", saved: bytes) -> Self:
        new = cls(mechanism)
        narrow = new._state.table
        try:
            new._state = _unpack_state(mechanism, saved, narrow)
        except InvalidSaveError:
            new._state = _unpack_state(mechanism, saved, np.broadcast_to(np.int64(0), narrow.shape))
        return new

    def _drop_malformed(self, reports: Reports) -> Reports:
        good = self.mechanism.well_formed(reports)
        return reports if good.all() else reports[good]

    def __repr__(self) -> str:
        return f"<collector of {self.mechanism!r}>"


def _unpack_state(claim: "LocalMechanism", saved: bytes, like: Table) -> CollectorState:
    """Return the state of a collector whose table had this shape and type.

    Each report moves a cell by 1 at most, so no cell is beyond the number of reports.
    """
    state: Any = unpack(saved, claim.identity(), lambda _: CollectorState(like, 0, 0), repr(claim))[2]
    if (state.table.shape, state.table.dtype) != (like.shape, like.dtype):
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    largest = int(max(state.table.max(initial=0), -int(state.table.min(initial=0))))
    if state.dropped_reports < 0 or largest > state.reports:
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    return CollectorState(state.table, state.reports, state.dropped_reports)
