"""The truth about the made-up crowd of the poll. Whoever else reports is not in it: only they know theirs."""

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from streamgauge.cli.emoji_crowd import EMOJI
from streamgauge.noise import Ints
from streamgauge.query.settings import PipelineFile

KEPT = 7200  # ticks


class CrowdTruth:
    """How many favourites were acknowledged in each tick, by emoji."""

    def __init__(self, file: PipelineFile, now: Callable[[], int]) -> None:
        self.stream, self._now, self._lock = file.stream, now, Lock()
        self.sizes = {release.name: size_of(release.window) for release in file.releases}
        self._sums: dict[int, Ints] = {0: np.zeros(len(EMOJI), np.int64)}  # running, by the last tick

    def take(self, tick: int, picked: Ints) -> None:
        """Favourites whose reports came in a tick; ticks come in order."""
        with self._lock:
            last = max(self._sums)
            for each in range(last + 1, tick + 1):
                self._sums[each] = self._sums[last]
            self._sums[tick] = self._sums[tick] + np.bincount(picked, minlength=len(EMOJI))
            for old in [each for each in self._sums if each < tick - KEPT]:
                del self._sums[old]

    def columns(self, release: str, first: int, last: int) -> dict[str, Any] | None:
        """In the columns form, with values alone."""
        if release not in self.sizes:
            return None
        with self._lock:
            told = [self._told(tick, self.sizes[release]) for tick in range(first, last + 1)]
        return {
            "release": release,
            "tick": list(range(first, last + 1)),
            "places": [{"emoji": item} for item in EMOJI],
            "measures": {"count": {"value": told}},
        }

    def _told(self, tick: int, size: int | None) -> list[float | None]:
        """None of a tick that is not over, or too long ago."""
        before = 0 if size is None else max(0, tick - size)
        if self._now() < self.stream.begins(tick + 1) or not {tick, before} <= self._sums.keys():
            return [None] * len(EMOJI)
        return [float(count) for count in self._sums[tick] - self._sums[before]]


def size_of(window: str) -> int | None:
    """Ticks of a sliding window; None of a running one."""
    _, _, size = window.partition(" ")
    return int(size) if size else None
