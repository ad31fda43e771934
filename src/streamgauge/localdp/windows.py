"""Windows of reports: estimates at every tick.

    "running"    all reports since the first tick
    "each"       those of the tick by itself
    24           those of the last 24 ticks: reports are added, and removed again

Privacy
    None is spent: reports are private when they come, and all here is a function of them. The number of
    reports of each tick is public.

Error
    That of a collector of the window's reports. It holds if every report was drawn by itself. A device that
    repeats its report (`device.policy.Repeat`) repeats its noise. With at most `repeats` copies of one report
    in a window, variances are at most `repeats` times as large: of t copies the noise has t^2 times the
    variance of one, and t^2 <= repeats t. Standard errors are widened by that. Copies of one report, which
    share a cell for all items, do not count as collisions. Collisions of hashes are the same in every window
    of a claim: their error does not average out over ticks.

Memory
    The table of one collector. A sliding window also has the reports of its ticks, `report_size` bytes each, and
    no others: `buffered_bytes` is their number.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamgauge.continual.state_io import WRONG_STATE_MESSAGE, InvalidSaveError, pack, unpack
from streamgauge.continual.validation import check_whole, is_whole
from streamgauge.localdp.collector import Collector, Frequencies
from streamgauge.localdp.mechanism import LocalMechanism
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.report_bytes import ReportInput, Reports, parse_rows
from streamgauge.localdp.word_search import DEFAULT_SEARCH, Search, WordCollector
from streamgauge.noise import Ints

RUNNING, EACH = "running", "each"


@dataclass
class WindowState:
    """The memory of a window, its table included."""

    tick: int
    dropped_reports: int
    ticks: Ints  # the number of reports of each tick of a sliding window
    reports: Reports  # noisy
    table: Reports  # noisy: the collector as it saves itself


class WindowedCollector:
    """A collector whose reports come tick by tick; see the module's claim."""

    def __init__(self, mechanism: LocalMechanism, *, window: str | int = RUNNING, repeats: int = 1) -> None:
        if window not in {RUNNING, EACH} and not is_whole(window):
            raise ValueError(f"window must be running, each or a number of ticks, got {window!r}")
        check_whole("repeats", repeats)
        self.mechanism, self.repeats = mechanism, int(repeats)
        self.window = window if isinstance(window, str) else int(window)
        self.tick = 0  # the number of closed ticks
        self.dropped_reports = 0  # malformed reports, in all ticks
        self._collector = mechanism.build_collector()
        self._ticks: deque[Reports] = deque()  # noisy: of a sliding window, oldest first

    @property
    def collector(self) -> Collector:
        """The collector of the reports in the window, to read and not to add to.

        It does not know of repeats: pass them as `copies`.
        """
        return self._collector

    @property
    def reports(self) -> int:
        """The number of reports in the window."""
        return self._collector.reports

    @property
    def buffered_bytes(self) -> int:
        """Bytes of reports that a sliding window stores, to remove them later."""
        return sum(each.nbytes for each in self._ticks)

    def step(self, reports: ReportInput = b"") -> int:
        """Close a tick with these reports, and move the window.

        It returns the number of well-formed reports.
        """
        self._expire_reports()
        rows, malformed = parse_rows(reports, self.mechanism.report_size)
        added = self._collector.add_rows(rows, malformed)
        self.dropped_reports += malformed + len(rows) - len(added)
        if self._is_sliding:
            self._ticks.append(added.copy())
        self.tick += 1
        return len(added)

    def estimate(self, items: Sequence[Item]) -> Frequencies:
        """Estimate the number of reports of the window of each item."""
        return self._collector.estimate(items, self.repeats)

    def top(self, candidates: Sequence[Item], count: int) -> Frequencies:
        """Return the candidates of the largest estimates, largest first."""
        return self.estimate(candidates).top(count)

    def find(self, count: int | None = None, *, min_count: float = 0.0, search: Search = DEFAULT_SEARCH) -> Frequencies:
        """Find words of the window that are on no list; only for `HeavyHitters`."""
        if not isinstance(self._collector, WordCollector):
            raise TypeError(f"claim must be HeavyHitters to find words, got {self.mechanism!r}")
        return self._collector.find(count, min_count=min_count, search=search, copies=self.repeats)

    def merge(self, other: "WindowedCollector") -> None:
        """Add all reports of another window of the same claim at the same tick."""
        if self._identity != other._identity:
            raise ValueError(f"other must be a window of {self._identity}, got one of {other._identity}")
        if self.tick != other.tick:
            raise ValueError(f"other must be at tick {self.tick}, got one at tick {other.tick}")
        self._collector.merge(other._collector)
        self.dropped_reports += other.dropped_reports
        self._ticks = deque(np.concatenate(both) for both in zip(self._ticks, other._ticks, strict=True))

    def save(self) -> bytes:
        """Return the state, for `load`, here or elsewhere."""
        table = np.frombuffer(self._collector.save(), np.uint8).reshape(1, -1)
        counts = np.array([len(each) for each in self._ticks], np.int64)
        state = WindowState(self.tick, self.dropped_reports, counts, self._join_reports(self._ticks), table)
        return pack(self._identity, 1, {}, state)

    @classmethod
    def load(cls, mechanism: LocalMechanism, saved: bytes, *, window: str | int = RUNNING, repeats: int = 1) -> Self:
        new = cls(mechanism, window=window, repeats=repeats)
        blank = WindowState(0, 0, np.empty(0, np.int64), new._join_reports(()), np.empty((0, 0), np.uint8))
        state: Any = unpack(saved, new._identity, lambda _: blank, new._identity)[2]
        counts = (state.tick, state.dropped_reports, state.ticks.min(initial=0))
        if min(counts) < 0 or state.ticks.sum() != len(state.reports):
            raise InvalidSaveError(WRONG_STATE_MESSAGE)
        new.tick, new.dropped_reports = state.tick, state.dropped_reports
        new._collector = mechanism.load(state.table.tobytes())
        new._ticks = deque(np.split(state.reports, np.cumsum(state.ticks)[:-1]) if len(state.ticks) else ())
        return new

    @property
    def _is_sliding(self) -> bool:
        return self.window not in {RUNNING, EACH}

    def _expire_reports(self) -> None:
        """Remove the reports that are not in the next window."""
        if self.window == EACH:
            self._collector = self.mechanism.build_collector()
        if self._is_sliding and len(self._ticks) == self.window:
            self._collector.remove(self._ticks.popleft())

    def _join_reports(self, ticks: Sequence[Reports]) -> Reports:
        return np.concatenate([np.empty((0, self.mechanism.report_size), np.uint8), *ticks])

    @property
    def _identity(self) -> str:
        return f"Windowed({self.mechanism.identity()}, window={self.window!r}, repeats={self.repeats})"

    def __repr__(self) -> str:
        return f"<window of {self.mechanism!r}, {self.window!r}, at tick {self.tick}>"
