"""Publish times: commits are published on the clock, not when they are ready.

    tick closes   commit          published
    ----|-----------|---------|------|-----------   multiples of `interval` since the stream's start
        |<---- interval ----->|      ^ the first one after a whole delay, and after the commit

The duration of a commit may depend on data, so its time is private. It has a whole delay from the closing of
the tick, wherever that lies between two multiples. Readers learn that the commit was at most one multiple
earlier. If the delay is longer than any commit, they learn nothing.

**Promise.** A later commit is never published earlier, and a published one stays so, even if the clock is set
back.

A file next to the store (`PublishCursor`) has the last published commit and its chain, so that a restart takes
nothing back. A missing file, or one of another history, is harmless: commits are then published as if made at
the last write to the store, which is later.
"""

import json
import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from streamgauge.files import PRIVATE_FILE_MODE
from streamgauge.runtime.commands.queue import next_multiple
from streamgauge.store.reader import StoreReader


@dataclass
class PublishSchedule:
    """Commits that are not published yet. Times are microseconds; any thread may call."""

    start: int
    interval: int
    last_published: int = 0  # last published commit
    _waiting: deque[tuple[int, int]] = field(default_factory=deque)  # when, and which entry
    _lock: Lock = field(default_factory=Lock)

    def find_publish_time(self, ready: int) -> int:
        """Return the first multiple at or after a time."""
        return next_multiple(self.start, self.interval, ready)

    def add(self, entry: int, *, committed: int, closed: int = 0) -> int:
        """Schedule a commit; return its publish time.

        `closed` is the time at which the last of its ticks closed or its command batch began.
        """
        return self.add_at(entry, self.find_publish_time(max(committed, closed + self.interval)))

    def add_at(self, entry: int, moment: int) -> int:
        """Schedule a commit that is public from a given time: one from before the first read."""
        with self._lock:
            leaves = max(self._waiting[-1][0] if self._waiting else 0, moment)
            self._waiting.append((leaves, entry))
            return leaves

    def advance(self, now: int) -> int:
        """Return the last commit that is published by now."""
        with self._lock:
            while self._waiting and self._waiting[0][0] <= now:
                self.last_published = max(self.last_published, self._waiting.popleft()[1])
            return self.last_published

    def find_wait(self, now: int) -> int | None:
        """Return the time to the next publication, if one is scheduled."""
        with self._lock:
            return max(0, self._waiting[0][0] - now) if self._waiting else None


CURSOR_FILE_NAME = "publish.cursor"


class PublishCursor:
    """A file with the last published commit. It need not survive a power cut."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / CURSOR_FILE_NAME

    def write(self, number: int, chain: str) -> None:
        fresh = self.path.with_name(f"{CURSOR_FILE_NAME}.new")
        with open(fresh, "w", opener=lambda path, flags: os.open(path, flags, PRIVATE_FILE_MODE)) as file:
            json.dump({"number": number, "chain": chain}, file)
        os.replace(fresh, self.path)

    def read(self, reader: StoreReader) -> int:
        """Return the last published commit, as far as the file knows; 0 if it knows none."""
        try:
            content = json.loads(self.path.read_bytes())
            number, chain = int(content["number"]), str(content["chain"])
        except (OSError, ValueError, LookupError, TypeError):
            return 0
        known = 0 < number <= reader.number and reader.trace_at(number).chain == chain
        return number if known else 0
