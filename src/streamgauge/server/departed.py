"""The store as readers may see it: up to the last entry that has left, and not a byte beyond.

Privacy
    That a tick is committed is private until it has left (see `departures`). So every question here is asked
    of the entries up to `until` alone: how many there are, what the last tick is, which chain it has. The law
    is tested for every method of `Reader` that there is.

Acts wait like ticks: to charge or end a release, a run is stopped at a commit, which takes as long as the
data makes it take. They never change, so all readers of a store share what was read once (`known_acts`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

from streamgauge.pipeline.chain import genesis
from streamgauge.pipeline.reader import AT_ONCE, Act, Reader, Trace
from streamgauge.query.packed import HEADER
from streamgauge.server.known_acts import KnownActs
from streamgauge.server.shapes import Shapes

HEADERS_AT_ONCE = 256  # of payloads, in one short reading
Told = tuple[int, str, str, int, bytes]  # number, chain, release, tick, payload


class Row(NamedTuple):
    """What one release told at one tick, and where in the history that stands."""

    place: int
    chain: str
    release: str
    tick: int
    payload: bytes


class Departed(Reader):
    """A reader of what has left; one thread at a time."""

    until = 0
    known: KnownActs

    def __init__(self, folder: Path, sql: Connection) -> None:
        super().__init__(folder, sql)
        self.known = KnownActs()

    @property
    def shown(self) -> int:
        return min(super().shown, self.until)

    @property
    def number(self) -> int:
        return min(super().number, self.shown)

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
        return super().trace_at(min(number, self.shown))

    def chain_at(self, tick: int) -> str | None:
        query = "SELECT chain FROM entries WHERE tick = ? AND number <= ? ORDER BY number DESC LIMIT 1"
        return next((chain for (chain,) in self._rows(query, tick, self.shown)), None)

    def knows(self, trace: Trace) -> bool:
        query = "SELECT tick, chain FROM entries WHERE tick = ? AND number <= ?"
        return any(trace.matches(Trace(*each)) for each in self._rows(query, trace.tick, self.shown))

    def acts(self) -> tuple[Act, ...]:
        return self.known.first(self.act_count, self.acts_after)

    @property
    def act_count(self) -> int:
        return int(self._one("SELECT count(*) FROM acts WHERE number <= ?", self.shown))

    def acts_after(self, count: int) -> tuple[Act, ...]:
        """All but the first of them."""
        query = "SELECT act FROM acts WHERE number <= ? ORDER BY place LIMIT -1 OFFSET ?"
        return tuple(Act.of(text) for (text,) in self._rows(query, self.shown, count))

    def told_acts(self) -> list[tuple[str, Act]]:
        query = "SELECT chain, act FROM acts JOIN entries USING (number) WHERE number <= ? ORDER BY place"
        return [(chain, Act.of(text)) for chain, text in self._rows(query, self.shown)]

    def last_released(self, name: str) -> int:
        found = self.span(name)
        return 0 if found is None else found[1]

    def published(self, after: int = 0) -> Iterator[Told]:
        return takewhile(lambda row: row[0] <= self.shown, super().published(after))

    def span(self, name: str) -> tuple[int, int] | None:
        """The first and the last tick of a release, if there is one."""
        query = "SELECT tick FROM releases WHERE release = ? AND number <= ? ORDER BY tick {} LIMIT 1"
        ends = [self._rows(query.format(order), name, self.shown) for order in ("ASC", "DESC")]
        return (ends[0][0][0], ends[1][0][0]) if ends[0] and ends[1] else None

    def count_ticks(self, name: str, first: int, last: int, step: int = 1) -> int:
        """Return the number of ticks that `releases` yields."""
        query = (
            "SELECT count(*) FROM releases WHERE release = ? AND tick BETWEEN ? AND ? AND (tick - ?) % ? = 0"
        )
        return int(self._one(query, name, first, min(last, self.last_released(name)), first, step))

    def count_places(self, name: str, first: int, last: int, step: int = 1) -> int:
        """Return the number of places of all ticks that `releases` yields, which are not unpacked."""
        query = (
            f"SELECT tick, substr(payload, 1, {HEADER.size}) FROM releases WHERE release = ? AND number <= ? "
            f"AND tick BETWEEN ? AND ? AND (tick - ?) % ? = 0 ORDER BY tick LIMIT {HEADERS_AT_ONCE}"
        )
        places = 0
        while rows := self._rows(query, name, self.shown, first, last, first, step):
            places += sum(HEADER.unpack(header)[2] for _, header in rows)
            first = rows[-1][0] + step
        return places

    def chain_of(self, name: str, last: int) -> str | None:
        """The chain with which the last tick of a release up to one was committed."""
        query = (
            "SELECT chain FROM releases JOIN entries USING (number) "
            "WHERE release = ? AND releases.tick <= ? AND number <= ? ORDER BY releases.tick DESC LIMIT 1"
        )
        return next((chain for (chain,) in self._rows(query, name, last, self.shown)), None)

    @property
    def place(self) -> int:
        """How many rows there are: their places are 1, 2, ..."""
        return self._first_place(self.shown) - 1

    def chain_with(self, place: int) -> str | None:
        """The chain with which a row was committed; before the first it is the store's own."""
        if place == 0:
            return genesis(self.identity)
        query = "SELECT chain FROM releases JOIN entries USING (number) WHERE place = ? AND number <= ?"
        return next((chain for (chain,) in self._rows(query, place, self.shown)), None)

    def rows(self, after: int, count: int = AT_ONCE) -> list[Row]:
        """The rows that follow a place."""
        query = (
            "SELECT place, chain, release, releases.tick, payload FROM releases JOIN entries USING (number) "
            "WHERE place > ? AND number <= ? ORDER BY place LIMIT ?"
        )
        return [Row(*row) for row in self._rows(query, after, self.shown, count)]


class Readers:
    """Readers of one store, each lent to one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shapes = Shapes()
        self._idle: list[Departed] = []
        self._known = KnownActs()

    @contextmanager
    def lent(self, until: int) -> Iterator[Departed]:
        """A reader of the entries up to one; what fails is not lent again."""
        reader = self._taken()
        reader.until = until
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._idle.append(reader)

    def _taken(self) -> Departed:
        try:
            return self._idle.pop()
        except IndexError:
            found = Departed.at(self.folder)
            found.known = self._known
            return found

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
