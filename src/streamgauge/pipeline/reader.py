"""What can be read of a store without its key, also while a run goes on: everything public, and nothing else.

Each call sees what is committed at that moment. Long readings are made of short ones, so that no reader keeps
the journal from being emptied; what was committed once never changes, so they add up to one reading.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple, Self

from streamgauge.pipeline import database, schema
from streamgauge.pipeline.store_errors import DamagedStore, NoStore, refusals
from streamgauge.sinks.lines import CHAIN_DIGITS

AT_ONCE = 16  # payloads that one short reading holds
SHOWN = "shown"  # the mark of the last entry that readers may see
NEVER = b"%d" % 2**62  # stores of earlier versions have no such mark


class Trace(NamedTuple):
    """Where a history was: at this last tick it had this chain, which no other history ever has.

    A trace that was found in a sink has the first digits of the chain.
    """

    tick: int
    chain: str

    def matches(self, other: "Trace") -> bool:
        """Return whether both are of one history, as far as the shorter chain tells."""
        short, long = sorted((self.chain, other.chain), key=len)
        return self.tick == other.tick and (
            short == long or (len(short) == CHAIN_DIGITS and long.startswith(short))
        )


@dataclass(frozen=True)
class Act:
    """Something public that was done: a charge, a budget, an intrusion. Never changed, never removed."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)  # JSON
    time: int = 0  # microseconds since 1970 (UTC)

    def text(self) -> str:
        """Canonical, so that the chain can be made again."""
        told = {"kind": self.kind, "body": dict(self.body), "time": self.time}
        return json.dumps(told, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(**json.loads(text))


class Reader:
    """The public side of a store."""

    def __init__(self, folder: Path, sql: Connection) -> None:
        self.folder = folder
        self._sql = sql

    @classmethod
    def at(cls, folder: Path) -> Self:
        """Opens for reading; needs no key and no lock."""
        path = folder / database.STORE
        with refusals(path):
            if not path.exists():
                raise NoStore(folder)
            sql = database.reader(path)
            try:
                schema.check_version(sql, folder)
            except BaseException:
                sql.close()
                raise
            return cls(folder, sql)

    @property
    def identity(self) -> str:
        """Drawn when the store was made; a copy has the same."""
        return str(self._one("SELECT identity FROM head"))

    @property
    def tick(self) -> int:
        """The last tick that was committed, 0 before the first."""
        return int(self._one("SELECT tick FROM head"))

    @property
    def chain(self) -> str:
        """The hash of the whole public history."""
        return str(self._one("SELECT chain FROM head"))

    @property
    def number(self) -> int:
        """How many entries the history has."""
        return int(self._one("SELECT number FROM head"))

    @property
    def trace(self) -> Trace:
        """Tick and chain at one moment."""
        with refusals(self.folder):
            return Trace(*self._sql.execute("SELECT tick, chain FROM head").fetchone())

    def trace_at(self, number: int) -> Trace:
        """Tick and chain after an entry."""
        (trace,) = self._rows("SELECT tick, chain FROM entries WHERE number = ?", number)
        return Trace(*trace)

    def chain_at(self, tick: int) -> str | None:
        """The chain after the last entry at a tick, if there was one."""
        query = "SELECT chain FROM entries WHERE tick = ? ORDER BY number DESC LIMIT 1"
        rows = self._rows(query, tick)
        return str(rows[0][0]) if rows else None

    def knows(self, trace: Trace) -> bool:
        """Whether a trace is of this history."""
        own = self._rows("SELECT tick, chain FROM entries WHERE tick = ?", trace.tick)
        return any(trace.matches(Trace(*each)) for each in own)

    def acts(self) -> tuple[Act, ...]:
        with refusals(self.folder):
            rows = self._sql.execute("SELECT act FROM acts ORDER BY place").fetchall()
        return tuple(Act.of(text) for (text,) in rows)

    def told_acts(self) -> list[tuple[str, Act]]:
        """All acts, each with the chain after its entry."""
        rows = self._rows("SELECT chain, act FROM acts JOIN entries USING (number) ORDER BY place")
        return [(chain, Act.of(text)) for chain, text in rows]

    @property
    def shown(self) -> int:
        """The last entry that readers may see: one that the witness knows, so it is never drawn again."""
        return int(self.marks().get(SHOWN, NEVER))

    def release_names(self) -> tuple[str, ...]:
        """In the order in which they were first released."""
        query = "SELECT release FROM releases WHERE number <= ? GROUP BY release ORDER BY min(place)"
        return tuple(name for (name,) in self._rows(query, self.shown))

    def last_released(self, name: str) -> int:
        """The last tick of a release that was committed, 0 before the first."""
        return int(self._one("SELECT coalesce(max(tick), 0) FROM releases WHERE release = ?", name))

    def releases(
        self, name: str, first: int = 1, last: int | None = None, step: int = 1, at_once: int = AT_ONCE
    ) -> Iterator[tuple[int, bytes]]:
        """Ticks and payloads of one release, by tick: every so many, counted from the first.

        `at_once` payloads are in memory at a time.
        """
        query = (
            "SELECT tick, payload FROM releases WHERE release = ? AND tick BETWEEN ? AND ? AND number <= ? "
            "AND (tick - ?) % ? = 0 ORDER BY tick LIMIT ?"
        )
        until = 2**62 if last is None else last
        while rows := self._rows(query, name, first, until, self.shown, first, step, at_once):
            yield from rows
            first = rows[-1][0] + step

    def published(self, after: int = 0) -> Iterator[tuple[int, str, str, int, bytes]]:
        """All releases of the entries after one: number, chain, release, tick, payload, as committed."""
        query = (
            "SELECT place, number, chain, release, releases.tick, payload "
            "FROM releases JOIN entries USING (number) WHERE place >= ? "
            f"ORDER BY place LIMIT {AT_ONCE}"
        )
        place = self._first_place(after)
        while rows := self._rows(query, place):
            yield from (row[1:] for row in rows)
            place = rows[-1][0] + 1

    def marks(self) -> dict[str, bytes]:
        rows = self._rows("SELECT name, value, checksum FROM marks")
        if any(checksum != mark_checksum(name, value) for name, value, checksum in rows):
            raise DamagedStore(self.folder, "a mark that was changed")
        return {name: value for name, value, _ in rows}

    def close(self) -> None:
        self._sql.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _first_place(self, after: int) -> int:
        """Where the releases of the entries after one begin; their places grow with their numbers."""
        low, high = 1, int(self._one("SELECT coalesce(max(place), 0) + 1 FROM releases"))
        while low < high:
            middle = (low + high) // 2
            if self._one("SELECT number FROM releases WHERE place = ?", middle) > after:
                high = middle
            else:
                low = middle + 1
        return low

    def _one(self, query: str, *values: object) -> Any:
        with refusals(self.folder):
            return self._sql.execute(query, values).fetchone()[0]

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with refusals(self.folder):
            return self._sql.execute(query, values).fetchall()


def mark_checksum(name: str, value: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + value).digest()
