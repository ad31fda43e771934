"""The board: what readers may see, and the newest of it ready to be sent.

    departures -> show(entry) -> readers read up to there
               -> ready() -> rows are read and encoded once -> every live reader wakes and sends them

Promise
    What is on the board has left; who reads with `board.shown.number` sees nothing else. Every event
    is encoded once, whatever the number of readers; how much is kept is bounded, and what is older comes from
    the store. Encoding goes from the newest back, to where no more can be kept, and nobody who reads waits
    for it: live readers are told up to `board.sent`, which follows.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote

from streamgauge.query.released import Released, moment
from streamgauge.query.shapes import text
from streamgauge.server.columns import tick_as_json
from streamgauge.server.departed import Departed, Readers, Row

KEPT = 1024  # events, at most
KEPT_BYTES = 2**25
AT_ONCE = 16  # rows that are read together
State = Literal["starting", "running", "ended", "stopping", "failed"]
WIDEST = 1000  # places; of wider releases an event tells where to read them


@dataclass(frozen=True)
class Shown:
    """What can be seen, at one moment."""

    number: int = 0  # the last entry
    place: int = 0  # the last row
    id: str = ""  # of the last row
    acts: int = 0


@dataclass(frozen=True)
class Event:
    """A row, ready to be sent."""

    place: int
    id: str
    release: str
    data: bytes


def nothing() -> None:
    """Nobody lets anything out."""


class Board:
    """One thread advances it; any thread and any event loop may look."""

    def __init__(self, readers: Readers) -> None:
        self.readers = readers
        self.shown, self.sent = Shown(), Shown()  # to who reads, and to who listens
        self.version, self.closed = 0, False
        self.state: State = "starting"
        self._events: list[Event] = []
        self._bells: dict[asyncio.AbstractEventLoop, asyncio.Future[None]] = {}
        self._showing, self._encoding, self._lock = Lock(), Lock(), Lock()
        self.look: Callable[[], None] = nothing

    @contextmanager
    def reading(self) -> Iterator[Departed]:
        """A reader of what is shown now: whoever reads looks at the clock."""
        self.look()
        with self.readers.lent(self.shown.number) as reader:
            yield reader

    def advance(self, number: int) -> None:
        """Shows the entries up to one, and sends them."""
        self.show(number)
        self.ready()

    def show(self, number: int) -> None:
        """Shows the entries up to one, to who reads."""
        with self._showing, self.readers.lent(max(number, self.shown.number)) as reader:
            place = reader.place
            chain = reader.chain_with(place) or ""
            self.shown = Shown(reader.number, place, id_of(place, chain), reader.act_count)

    def ready(self) -> None:
        """Encodes what is shown and was not sent, and wakes who listens."""
        with self._encoding:
            shown, sent = self.shown, self.sent.place
            if shown == self.sent:
                return
            with self.readers.lent(shown.number) as reader:
                events = self._newest(reader, sent, shown.place)
            whole = len(events) == shown.place - sent
            with self._lock:
                self._events = within([*self._events, *events] if whole else events)
                self.sent = shown
        self._ring()

    def _newest(self, reader: Departed, after: int, last: int) -> list[Event]:
        """The newest events that can be kept of those after a place."""
        found: list[Event] = []
        while after < last and len(within(found)) == len(found) < KEPT:
            first = max(after, last - AT_ONCE)
            found = [*self._encoded(reader, first, last), *found]
            last = first
        return found

    def tell(self, state: State) -> None:
        """Shows how the run is."""
        self.state = state
        self._ring()

    def close(self) -> None:
        """Nothing more will come: live readers are sent home."""
        self.closed = True
        self._ring()

    async def after(self, version: int, seconds: float) -> bool:
        """Waits until there is something newer than a version; tells whether there is."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.version > version:
                return True
            bell = self._bells.setdefault(loop, loop.create_future())
        await asyncio.wait([bell], timeout=seconds)
        return self.version > version

    def kept(self, after: int, count: int) -> list[Event] | None:
        """The events that follow a place, a few at a time; nothing if they are kept no more."""
        with self._lock:
            first = self._events[0].place if self._events else self.sent.place + 1
            return None if after + 1 < first else self._events[after + 1 - first :][:count]

    def stored(self, after: int, count: int) -> list[Event]:
        """The same, read anew."""
        with self.reading() as reader:
            return self._encoded(reader, after, after + count)

    def knows(self, place: int, mark: str) -> bool:
        """Whether an id is of this history, and can have been seen."""
        with self.reading() as reader:
            chain = reader.chain_with(place)
        return chain is not None and id_of(place, chain) == f"{place}.{mark}"

    def _encoded(self, reader: Departed, after: int, last: int) -> list[Event]:
        events: list[Event] = []
        while after < last and (rows := reader.rows(after, min(AT_ONCE, last - after))):
            events += [self._event(reader, row) for row in rows]
            after = rows[-1].place
        return events

    def _event(self, reader: Departed, row: Row) -> Event:
        told = event_as_json(Released.unpack(self.readers.shapes.of(row.release, reader.acts()), row.payload))
        ident = id_of(row.place, row.chain)
        return Event(row.place, ident, row.release, message("release", told, ident))

    def _ring(self) -> None:
        with self._lock:
            self.version += 1
            bells, self._bells = self._bells, {}
        for loop, bell in bells.items():
            with suppress(RuntimeError):  # a loop that was closed has nobody who waits
                loop.call_soon_threadsafe(_rung, bell)


def _rung(bell: "asyncio.Future[None]") -> None:
    if not bell.done():
        bell.set_result(None)


def id_of(place: int, chain: str) -> str:
    """Names a row of a history, and of no other."""
    return f"{place}.{chain[:8]}"


def event_as_json(released: Released) -> dict[str, Any]:
    """What is sent of a tick: all of it, unless it is too wide."""
    if len(released.shape.places) <= WIDEST:
        return tick_as_json(released)
    times = {"tick": released.tick, "start": moment(released.start), "end": moment(released.end)}
    span = f"from={released.tick}&to={released.tick}"
    href = f"/api/releases/{quote(released.release, safe='')}?{span}"
    return {"release": released.release, **times, "href": href}


def message(event: str, data: Any, ident: str = "") -> bytes:
    """A server-sent event; JSON text has no line breaks.

    >>> message("status", {"state": "running"}, "7.0123abcd")
    b'id: 7.0123abcd\\nevent: status\\ndata: {"state":"running"}\\n\\n'
    """
    head = f"id: {ident}\n" if ident else ""
    return f"{head}event: {event}\ndata: {text(data)}\n\n".encode()


def within(events: list[Event]) -> list[Event]:
    """The newest of them that may be kept."""
    size, first = 0, len(events)
    while first and len(events) - first < KEPT and size + len(events[first - 1].data) <= KEPT_BYTES:
        first -= 1
        size += len(events[first].data)
    return events[first:]
