"""The store as readers may see it: up to the last published commit.

**Privacy.** A commit is private until it is published (see `clock`). So every query here covers the commits up
to `last_commit` only: their number, the last tick, its chain. Tests check this law for every method of
`StoreReader`. Ledger entries wait like ticks: a release is charged or ended after a round, whose duration
depends on data.

Ledger entries never change, so all readers of a store share one copy. Derived values are cached by the number
of entries, and a ledger extends the ledger before it. So the cost of a ledger is its growth, for any
length and the number of readers. Releases with equal labels share one list. The schemas of the last requested
releases are cached; a schema exists only for releases with a published charge.

Releases that drain after their end are finished when their last tick is published. The progress of the run
itself depends on its speed, so plans use the published commits. The last tick is the one that is published last
(`final_tick`): an end may cover later ticks, after the release's own horizon or up to another end.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from streamgauge.interfaces import MAX_ENTRY, StoreDriver, StoreReading
from streamgauge.plan.planner import build_schema
from streamgauge.privacy import Unit
from streamgauge.releases.codec import HEADER
from streamgauge.releases.schema import ReleaseSchema
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.store.hash_chain import genesis
from streamgauge.store.reader import MAX_BATCH_ROWS, SQLITE, LedgerEntry, StoreReader, Trace

LedgerEntries = tuple[LedgerEntry, ...]
Derived = TypeVar("Derived")


class LedgerEntryCache:
    """Ledger entries of one store that were read before. Any thread may read."""

    def __init__(self) -> None:
        self._entries: LedgerEntries = ()
        self._label_lists: dict[bytes, Any] = {}
        self._lock = Lock()

    def read_first(self, count: int, read_after: Callable[[int], LedgerEntries]) -> LedgerEntries:
        """Return the first `count` entries; `read_after` reads those that are missing."""
        with self._lock:
            if count > len(self._entries):
                self._entries += tuple(map(self._share_labels, read_after(len(self._entries))))
            return self._entries[:count]

    def _share_labels(self, act: LedgerEntry) -> LedgerEntry:
        """Return the entry with label lists that it shares with other entries."""
        layout = act.body.get("layout")
        if not layout:
            return act
        shared = self._label_lists
        groups = [
            [name, shared.setdefault(sha256(json.dumps(labels).encode()).digest(), labels)]
            for name, labels in layout["groups"]
        ]
        return replace(act, body={**act.body, "layout": {**layout, "groups": groups}})


class LedgerCache(Generic[Derived]):
    """A value derived from the ledger entries of one store. Callers must not change it."""

    def __init__(self, make: Callable[[LedgerEntries], Derived]) -> None:
        self._build = make
        self._cached: tuple[int, Derived] | None = None
        self._lock = Lock()

    def __call__(self, acts: LedgerEntries) -> Derived:
        with self._lock:
            if self._cached is None or self._cached[0] != len(acts):
                self._cached = len(acts), self._build(acts)
            return self._cached[1]


def build_ledger_cache(unit: Unit) -> LedgerCache[LedgerLog]:
    """Return a cache of the ledger, which extends the ledger of fewer entries."""
    newest = LedgerLog(unit)

    def extend_ledger(acts: LedgerEntries) -> LedgerLog:
        nonlocal newest
        newest = newest.with_entries(acts) if len(newest.ledger_entries) <= len(acts) else LedgerLog.read(acts, unit)
        return newest

    return LedgerCache(extend_ledger)


MAX_CACHED_SCHEMAS = 64  # each has as many places as its release has groups


def find_charges(acts: LedgerEntries) -> dict[str, Mapping[str, Any]]:
    """Return the charge of each release."""
    return {act.body["release"]: act.body for act in acts if act.kind == "charge"}


class ReleaseSchemaCache:
    """Schemas of the releases of one store, whose names are never reused. Any thread may read."""

    def __init__(self) -> None:
        self._charges = LedgerCache(find_charges)
        self._cached: OrderedDict[str, ReleaseSchema] = OrderedDict()
        self._lock = Lock()

    def find_schema(self, name: str, acts: LedgerEntries) -> ReleaseSchema:
        """Return the schema of a release.

        Raises: KeyError if these entries do not charge it.
        """
        charge = self._charges(acts)[name]
        with self._lock:
            shape = self._cached.pop(name, None) or build_schema(name, charge["layout"])
            self._cached[name] = shape
            if len(self._cached) > MAX_CACHED_SCHEMAS:
                self._cached.popitem(last=False)
        return shape


HEADERS_PER_READ = 256  # of payloads, in one short reading


class PublishedRow(NamedTuple):
    """One release at one tick, and its position in the history."""

    row_number: int
    chain: str
    release: str
    tick: int
    payload: bytes


class PublishedReader(StoreReader):
    """A reader of published commits. One thread at a time."""

    last_commit = 0
    entry_cache: LedgerEntryCache

    def __init__(self, folder: Path, backing: StoreReading) -> None:
        super().__init__(folder, backing)
        self.entry_cache = LedgerEntryCache()

    @property
    def last_visible_entry(self) -> int:
        return min(super().last_visible_entry, self.last_commit)

    @property
    def _last_entry(self) -> int:
        return self.last_visible_entry

    @property
    def number(self) -> int:
        return min(super().number, self.last_visible_entry)

    @property
    def trace(self) -> Trace:
        return self.trace_at(self.number)

    @property
    def tick(self) -> int:
        return self.trace.tick

    @property
    def chain(self) -> str:
        return self.trace.chain

    def trace_at(self, number: int) -> Trace:
        if number == 0:
            return Trace(0, genesis(self.identity))
        return super().trace_at(min(number, self.last_visible_entry))

    def ledger_entries(self) -> tuple[LedgerEntry, ...]:
        return self.entry_cache.read_first(self.entry_count, self.read_entries_after)

    @property
    def entry_count(self) -> int:
        return self._rows.count_ledger(self.last_visible_entry)

    def read_entries_after(self, count: int) -> tuple[LedgerEntry, ...]:
        """Return all entries but the first `count`."""
        return tuple(LedgerEntry.from_text(row.text) for row in self._rows.ledger(self.last_visible_entry, count))

    def find_span(self, name: str) -> tuple[int, int] | None:
        """Return the first and the last tick of a release, if it has any."""
        until = self.last_visible_entry
        first = self._rows.releases(name, 0, MAX_ENTRY, until, limit=1, payload_bytes=0)
        last = self._rows.releases(name, 0, MAX_ENTRY, until, limit=1, payload_bytes=0, newest_first=True)
        return (first[0].tick, last[0].tick) if first and last else None

    def count_ticks(self, name: str, first: int, last: int, step: int = 1) -> int:
        """Return the number of ticks that `releases` yields."""
        return self._rows.count_ticks(name, first, min(last, self.last_released(name)), step)

    def count_groups(self, name: str, first: int, last: int, step: int = 1) -> int:
        """Return the number of places of all ticks that `releases` yields, which are not unpacked."""
        until, places = self.last_visible_entry, 0
        while rows := self._rows.releases(
            name, first, last, until, step=step, limit=HEADERS_PER_READ, payload_bytes=HEADER.size
        ):
            places += sum(HEADER.unpack(row.payload)[2] for row in rows)
            first = rows[-1].tick + step
        return places

    def find_release_chain(self, name: str, last: int) -> str | None:
        """Return the chain of the commit of the last tick of a release up to `last`."""
        until = self.last_visible_entry
        rows = self._rows.releases(name, 0, last, until, limit=1, payload_bytes=0, newest_first=True)
        return rows[0].chain if rows else None

    @property
    def row_count(self) -> int:
        """Number of rows; their places are 1, 2, ..."""
        return self._rows.count_rows(self.last_visible_entry)

    def find_row_chain(self, place: int) -> str | None:
        """Return the chain of the commit of a row; before the first row, that of the store."""
        if place == 0:
            return genesis(self.identity)
        rows = self._rows.rows(place - 1, self.last_visible_entry, limit=1, payload_bytes=0)
        return rows[0].chain if rows and rows[0].place == place else None

    def read_rows(self, after: int, count: int = MAX_BATCH_ROWS) -> list[PublishedRow]:
        """Return the rows after a place."""
        rows = self._rows.rows(after, self.last_visible_entry, count)
        return [PublishedRow(row.place, row.chain, row.release, row.tick, row.payload) for row in rows]


class ReaderPool:
    """Readers of one store. One thread at a time uses each."""

    def __init__(self, folder: Path, driver: StoreDriver = SQLITE) -> None:
        self.folder, self._driver = folder, driver
        self.schemas = ReleaseSchemaCache()
        self._idle: list[PublishedReader] = []
        self._entry_cache = LedgerEntryCache()

    @contextmanager
    def lend(self, until: int) -> Iterator[PublishedReader]:
        """Yield a reader of the commits up to one; close it after a failure."""
        reader = self._take_idle()
        reader.last_commit = until
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._idle.append(reader)

    def _take_idle(self) -> PublishedReader:
        try:
            return self._idle.pop()
        except IndexError:
            found = PublishedReader.open(self.folder, self._driver)
            found.entry_cache = self._entry_cache
            return found

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class FinishedReleases:
    """Names of releases that have ended. A finished release stays so."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()

    find_final_tick = staticmethod(attrgetter("final_tick"))  # of an ended release: the last tick that is published

    def find_finished(self, ledger_log: LedgerLog, reader: PublishedReader) -> frozenset[str]:
        """Return the names, by the published commits."""
        ended = {
            name: self.find_final_tick(entry) or 0
            for name, entry in ledger_log.active_releases(self._names).items()
            if entry.is_draining
        }
        self._names |= {name for name, last in ended.items() if reader.last_released(name) >= last}
        return self._names
