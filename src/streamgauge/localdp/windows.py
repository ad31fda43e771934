"""Windows over reports: estimates at every tick of all reports so far, of the tick's, or of the last ticks'.

    "running"    all reports since the first tick
    "each"       those of the tick by itself
    24           those of the last 24 ticks: reports come in, and are taken out again

Privacy
    None is spent: reports are private when they come, and all here is a function of them. The number of
    reports of each tick is public.

Error
    That of a collector of the window's reports. It holds where every report was drawn by itself. A device
    that repeats its report (`again.Repeat`) repeats its noise: with at most `repeats` copies of one report in
    a window, variances are at most `repeats` times as large, since of t copies the noise has t^2 times the
    variance of one, and t^2 <= repeats t. Standard errors are widened by that; copies of one report, which
    share a cell whatever the items are, do not count as collisions. Collisions of hashes are the same in
    every window of a claim: an error by them does not average out over ticks.

Memory
    The table of one collector. A sliding window has beside it the reports of its ticks, `report_size` bytes
    each, and no others': `kept_bytes` says how many.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamgauge.continual.saved import ANOTHER, BadSave, pack, unpack
from streamgauge.continual.settings import check_whole, is_whole
from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.collector import Collector
from streamgauge.localdp.estimates import Frequencies
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.reports import Given, Reports, rows
from streamgauge.localdp.word_search import SEARCH, Search, WordCollector
from streamgauge.noise import Ints

RUNNING, EACH = "running", "each"


@dataclass
class Kept:
    """What a window remembers beside its table."""

    tick: int
    dropped: int
    ticks: Ints  # how many of the reports are of each tick of a sliding window
    reports: Reports  # noisy
    table: Reports  # noisy: the collector as it saves itself


class Windowed:
    """A collector whose reports come tick by tick; see the module's claim."""

    def __init__(self, claim: LocalClaim, *, window: str | int = RUNNING, repeats: int = 1) -> None:
        if window not in {RUNNING, EACH} and not is_whole(window):
            raise ValueError(f"window must be running, each or a number of ticks, got {window!r}")
        check_whole("repeats", repeats)
        self.claim, self.repeats = claim, int(repeats)
        self.window = window if isinstance(window, str) else int(window)
        self.tick = 0  # how many were closed
        self.dropped = 0  # malformed reports, in all ticks
        self._collector = claim.collector()
        self._ticks: deque[Reports] = deque()  # noisy: of a sliding window, oldest first

    @property
    def collector(self) -> Collector:
        """Of the reports in the window. It is the window's own, to look at and not to add to, and knows
        nothing of repeats: tell it of them as `copies`."""
        return self._collector

    @property
    def reports(self) -> int:
        """How many are in the window."""
        return self._collector.reports

    @property
    def kept_bytes(self) -> int:
        """Of reports that a sliding window keeps, to take them out again."""
        return sum(each.nbytes for each in self._ticks)

    def step(self, reports: Given = b"") -> int:
        """Closes a tick that these reports came in, and moves the window on; returns how many it took."""
        self._leave()
        given, none = rows(reports, self.claim.report_size)
        taken = self._collector.take(given, none)
        self.dropped += none + len(given) - len(taken)
        if self._slides:
            self._ticks.append(taken.copy())
        self.tick += 1
        return len(taken)

    def estimate(self, items: Sequence[Item]) -> Frequencies:
        """How many reports of the window are of each item."""
        return self._collector.estimate(items, self.repeats)

    def top(self, candidates: Sequence[Item], count: int) -> Frequencies:
        """The candidates of the largest estimates, largest first."""
        return self.estimate(candidates).top(count)

    def find(self, count: int | None = None, *, above: float = 0.0, search: Search = SEARCH) -> Frequencies:
        """Words of the window that nobody listed, as a collector of `HeavyHitters` finds them."""
        if not isinstance(self._collector, WordCollector):
            raise TypeError(f"claim must be HeavyHitters to find words, got {self.claim!r}")
        return self._collector.find(count, above=above, search=search, copies=self.repeats)

    def merge(self, other: "Windowed") -> None:
        """Takes all reports of another window of the same claim at the same tick."""
        if self._identity != other._identity:
            raise ValueError(f"other must be a window of {self._identity}, got one of {other._identity}")
        if self.tick != other.tick:
            raise ValueError(f"other must be at tick {self.tick}, got one at tick {other.tick}")
        self._collector.merge(other._collector)
        self.dropped += other.dropped
        self._ticks = deque(np.concatenate(both) for both in zip(self._ticks, other._ticks, strict=True))

    def save(self) -> bytes:
        """Goes on with `loaded`, here or elsewhere."""
        table = np.frombuffer(self._collector.save(), np.uint8).reshape(1, -1)
        counts = np.array([len(each) for each in self._ticks], np.int64)
        state = Kept(self.tick, self.dropped, counts, self._joined(self._ticks), table)
        return pack(self._identity, 1, {}, state)

    @classmethod
    def loaded(
        cls, claim: LocalClaim, saved: bytes, *, window: str | int = RUNNING, repeats: int = 1
    ) -> Self:
        new = cls(claim, window=window, repeats=repeats)
        nothing = np.empty(0, np.int64)
        blank = Kept(0, 0, nothing, new._joined(()), np.empty((0, 0), np.uint8))
        kept: Any = unpack(saved, new._identity, lambda _: blank, new._identity)[2]
        counts = (kept.tick, kept.dropped, kept.ticks.min(initial=0))
        if min(counts) < 0 or kept.ticks.sum() != len(kept.reports):
            raise BadSave(ANOTHER)
        new.tick, new.dropped = kept.tick, kept.dropped
        new._collector = claim.load(kept.table.tobytes())
        new._ticks = deque(np.split(kept.reports, np.cumsum(kept.ticks)[:-1]) if len(kept.ticks) else ())
        return new

    @property
    def _slides(self) -> bool:
        return self.window not in {RUNNING, EACH}

    def _leave(self) -> None:
        """Takes out what is not in the next window."""
        if self.window == EACH:
            self._collector = self.claim.collector()
        if self._slides and len(self._ticks) == self.window:
            self._collector.remove(self._ticks.popleft())

    def _joined(self, ticks: Sequence[Reports]) -> Reports:
        return np.concatenate([np.empty((0, self.claim.report_size), np.uint8), *ticks])

    @property
    def _identity(self) -> str:
        return f"Windowed({self.claim.identity()}, window={self.window!r}, repeats={self.repeats})"

    def __repr__(self) -> str:
        return f"<window of {self.claim!r}, {self.window!r}, at tick {self.tick}>"
