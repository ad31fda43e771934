"""The public side of a store, read without its key, also while a run writes.

Each call sees the commits of that moment. Long reads consist of short ones, so that no reader prevents the journal
from being emptied. Committed rows never change, so the short reads add up to one consistent read.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from streamgauge.interfaces import MAX_ENTRY, LedgerRow, StoreDriver, StoreReading
from streamgauge.releases.release import CHAIN_DIGITS
from streamgauge.store.errors import build_damage_error
from streamgauge.store.sqlite import SqliteDriver

SQLITE: StoreDriver = SqliteDriver()
MAX_BATCH_ROWS = 16  # payloads of one short read
VISIBLE_MARK = "published_commit"  # the mark of the last entry that readers may see


class Trace(NamedTuple):
    """Last tick and chain of a history at one moment. No other history ever has this chain.

    A trace from a sink has the first digits of the chain.
    """

    tick: int
    chain: str

    def matches(self, other: "Trace") -> bool:
        """Return whether both are of one history, as far as the shorter chain shows."""
        short, long = sorted((self.chain, other.chain), key=len)
        return self.tick == other.tick and (short == long or (len(short) == CHAIN_DIGITS and long.startswith(short)))


@dataclass(frozen=True)
class LedgerEntry:
    """A public record: a charge, a budget, an intrusion. Never changed, never removed."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)  # JSON
    time: int = 0  # microseconds since 1970 (UTC)

    def text(self) -> str:
        """Return canonical JSON, so that the chain can be computed again."""
        body = {"kind": self.kind, "body": dict(self.body), "time": self.time}
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> Self:
        return cls(**json.loads(text))


class StoreReader:
    """The public side of a store.

    `releases` and `release_names` stop at the visible mark, since the rollback guard does not know later commits.
    `tick`, `number`, `trace` and `read_committed` are of all commits, for the run itself.
    """

    def __init__(self, folder: Path, backing: StoreReading) -> None:
        self.folder = folder
        self._rows = backing

    @classmethod
    def open(cls, folder: Path, driver: StoreDriver = SQLITE) -> Self:
        """Open for reading; this needs no key and no lock."""
        return cls(folder, driver.open_reader(folder))

    @property
    def identity(self) -> str:
        """Random name, drawn when the store was created. A copy has the same."""
        return self._rows.head().identity

    @property
    def tick(self) -> int:
        """Last tick that was committed, 0 before the first."""
        return self._rows.head().tick

    @property
    def chain(self) -> str:
        """Hash of the whole public history."""
        return self._rows.head().chain

    @property
    def number(self) -> int:
        """Number of entries of the history."""
        return self._rows.head().number

    @property
    def trace(self) -> Trace:
        """Tick and chain at one moment."""
        head = self._rows.head()
        return Trace(head.tick, head.chain)

    @property
    def last_visible_entry(self) -> int:
        """Last entry that readers may see. The rollback guard has it, so its ticks are never drawn again."""
        return int(self.marks().get(VISIBLE_MARK, b"0"))

    @property
    def _last_entry(self) -> int:
        """Bound of the history that this reader uses."""
        return MAX_ENTRY

    def trace_at(self, number: int) -> Trace:
        """Return tick and chain after an entry."""
        (entry,) = self._rows.entries(number, limit=1)
        return Trace(entry.tick, entry.chain)

    def chain_at(self, tick: int) -> str | None:
        """Return the chain after the last entry of a tick, if there is one."""
        found = self._rows.entries_at(tick, self._last_entry)
        return found[-1].chain if found else None

    def knows(self, trace: Trace) -> bool:
        """Return whether a trace is of this history."""
        entries = self._rows.entries_at(trace.tick, self._last_entry)
        return any(trace.matches(Trace(entry.tick, entry.chain)) for entry in entries)

    def ledger_entries(self) -> tuple[LedgerEntry, ...]:
        return tuple(entry for _, entry in self.chained_entries())

    def chained_entries(self) -> list[tuple[str, LedgerEntry]]:
        """Return all ledger entries, each with the chain after its commit."""
        return parse_entries(self._rows.ledger(self._last_entry))

    def release_names(self) -> tuple[str, ...]:
        """Return names in the order in which they were first released."""
        return tuple(self._rows.release_names(self.last_visible_entry))

    def last_released(self, name: str) -> int:
        """Return the last tick of a release that was committed, 0 before the first."""
        rows = self._rows.releases(name, 0, MAX_ENTRY, self._last_entry, limit=1, payload_bytes=0, newest_first=True)
        return rows[0].tick if rows else 0

    def releases(
        self, name: str, first: int = 1, last: int | None = None, step: int = 1, max_rows: int = MAX_BATCH_ROWS
    ) -> Iterator[tuple[int, bytes]]:
        """Yield ticks and payloads of one release at ticks `first`, `first + step`, ... up to `last`.

        At most `max_rows` payloads are in memory at a time.
        """
        until = MAX_ENTRY if last is None else last
        while rows := self._rows.releases(name, first, until, self.last_visible_entry, step=step, limit=max_rows):
            yield from ((row.tick, row.payload) for row in rows)
            first = rows[-1].tick + step

    def read_committed(self, after: int = 0) -> Iterator[tuple[int, str, str, int, bytes]]:
        """Yield all releases of the entries after one: number, chain, release, tick, payload, as committed."""
        place = self._rows.count_rows(after)
        while rows := self._rows.rows(place, self._last_entry, MAX_BATCH_ROWS):
            yield from ((row.number, row.chain, row.release, row.tick, row.payload) for row in rows)
            place = rows[-1].place

    def marks(self) -> dict[str, bytes]:
        rows = self._rows.marks()
        if any(row.checksum != mark_checksum(row.name, row.value) for row in rows):
            raise build_damage_error(self._rows.address, "a mark that was changed")
        return {row.name: row.value for row in rows}

    def close(self) -> None:
        self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def parse_entries(rows: Iterable[LedgerRow]) -> list[tuple[str, LedgerEntry]]:
    return [(row.chain, LedgerEntry.from_text(row.text)) for row in rows]


def mark_checksum(name: str, value: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + value).digest()
