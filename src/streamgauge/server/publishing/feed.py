"""Published events for readers, and the thread that publishes commits on the clock.

    add_commit -> PublishSchedule -> PublishCursor -> EventBuffer.publish -> readers
                                                   -> encode_events -> live readers

**Promise.** Everything in the buffer is published. Each event is encoded once, whatever the number of readers.
The size of the buffer is bounded; older events come from the store. Encoding starts with the newest event and
ends when the buffer is full. No reader waits for it: live readers follow `streamed`, other readers `published`.

A reader also looks at the clock, and publishes what is due. Only the thread encodes events, so no reader waits
for that. The end of a run is published with its last commit.

After a restart, commits up to the cursor are published at once, since the cursor is written before readers see
them. Later commits are published at the first multiple after the last write to the store, and no sooner than
without a restart.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Literal
from urllib.parse import quote

from streamgauge.clock import MICROSECONDS_PER_SECOND
from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import ignore
from streamgauge.releases.release import TickRelease, format_utc_time
from streamgauge.releases.schema import to_json
from streamgauge.runtime.commands.queue import CommandSchedule
from streamgauge.server.publishing.clock import PublishCursor, PublishSchedule
from streamgauge.server.publishing.reader import PublishedReader, PublishedRow, ReaderPool
from streamgauge.server.routes.release_pages import tick_as_json
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.store.drivers import open_reader, read_last_write_time
from streamgauge.store.errors import StoreError, StoreNotFoundError

RunStatus = Literal["starting", "running", "ended", "stopping", "failed"]


@dataclass(frozen=True)
class PublishedPosition:
    """The end of the published history at one moment."""

    commit_number: int = 0  # the last entry
    row_number: int = 0  # the last row
    id: str = ""  # of the last row
    entry_count: int = 0


@dataclass(frozen=True)
class ReleaseEvent:
    """An encoded row."""

    row_number: int
    id: str
    release: str
    data: bytes


class EventBuffer:
    """Published rows and their encoded events. One thread advances it; any thread and event loop may read."""

    def __init__(self, readers: ReaderPool, tuning: Tuning = DEFAULT_TUNING) -> None:
        self.readers, self.tuning = readers, tuning
        self.published, self.streamed = (PublishedPosition(), PublishedPosition())  # for readers, and for live readers
        self.version, self.is_closed = 0, False
        self.state: RunStatus = "starting"
        self._events: list[ReleaseEvent] = []
        self._waiters: dict[asyncio.AbstractEventLoop, asyncio.Future[None]] = {}
        self._publish_lock, self._encode_lock, self._lock = Lock(), Lock(), Lock()
        self.refresh: Callable[[], None] = ignore

    @contextmanager
    def open_reader(self) -> Iterator[PublishedReader]:
        """Yield a reader of the published commits, after a look at the clock."""
        self.refresh()
        with self.readers.lend(self.published.commit_number) as reader:
            yield reader

    def publish(self, number: int) -> None:
        """Publish commits up to a number for readers."""
        with self._publish_lock, self.readers.lend(max(number, self.published.commit_number)) as reader:
            place = reader.row_count
            chain = reader.find_row_chain(place) or ""
            self.published = PublishedPosition(reader.number, place, build_event_id(place, chain), reader.entry_count)

    def encode_events(self) -> None:
        """Encode published rows that were not streamed, and wake live readers."""
        with self._encode_lock:
            shown, sent = self.published, self.streamed.row_number
            if shown == self.streamed:
                return
            with self.readers.lend(shown.commit_number) as reader:
                events = self._encode_newest(reader, sent, shown.row_number)
            whole = len(events) == shown.row_number - sent
            with self._lock:
                self._events = trim_events([*self._events, *events] if whole else events, self.tuning)
                self.streamed = shown
        self._wake_waiters()

    def _encode_newest(self, reader: PublishedReader, after: int, last: int) -> list[ReleaseEvent]:
        """Return the newest events after a row that fit into the buffer."""
        found: list[ReleaseEvent] = []
        while after < last and len(trim_events(found, self.tuning)) == len(found) < self.tuning.max_buffered_events:
            first = max(after, last - self.tuning.rows_per_read)
            found = [*self._encode_rows(reader, first, last), *found]
            last = first
        return found

    def set_state(self, state: RunStatus) -> None:
        """Set the state of the run."""
        self.state = state
        self._wake_waiters()

    def close(self) -> None:
        """Disconnect live readers."""
        self.is_closed = True
        self._wake_waiters()

    async def wait_newer(self, version: int, seconds: float) -> bool:
        """Wait for a newer version; return whether there is one."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.version > version:
                return True
            bell = self._waiters.setdefault(loop, loop.create_future())
        await asyncio.wait([bell], timeout=seconds)
        return self.version > version

    def find_buffered(self, after: int, count: int) -> list[ReleaseEvent] | None:
        """Return events after a row, a few at a time; None if the buffer does not have them any more."""
        with self._lock:
            first = self._events[0].row_number if self._events else self.streamed.row_number + 1
            return None if after + 1 < first else self._events[after + 1 - first :][:count]

    def read_stored(self, after: int, count: int) -> list[ReleaseEvent]:
        """Return events after a row, read from the store."""
        with self.open_reader() as reader:
            return self._encode_rows(reader, after, after + count)

    def is_known_id(self, place: int, mark: str) -> bool:
        """Return whether an id belongs to this history and is published."""
        with self.open_reader() as reader:
            chain = reader.find_row_chain(place)
        return chain is not None and build_event_id(place, chain) == f"{place}.{mark}"

    def _encode_rows(self, reader: PublishedReader, after: int, last: int) -> list[ReleaseEvent]:
        events: list[ReleaseEvent] = []
        while after < last and (rows := reader.read_rows(after, min(self.tuning.rows_per_read, last - after))):
            events += [self._encode_row(reader, row) for row in rows]
            after = rows[-1].row_number
        return events

    def _encode_row(self, reader: PublishedReader, row: PublishedRow) -> ReleaseEvent:
        schema = self.readers.schemas.find_schema(row.release, reader.ledger_entries())
        ident = build_event_id(row.row_number, row.chain)
        data = self.encode_event(TickRelease.unpack(schema, row.payload), ident)
        return ReleaseEvent(row.row_number, ident, row.release, data)

    def encode_event(self, released: TickRelease, ident: str) -> bytes:
        """Return the event of a tick: its values, or its address if it is too wide."""
        if len(released.shape.groups) <= self.tuning.max_event_groups:
            return encode_sse("release", tick_as_json(released), ident)
        times = {"tick": released.tick, "start": format_utc_time(released.start), "end": format_utc_time(released.end)}
        href = f"/api/releases/{quote(released.release, safe='')}?from={released.tick}&to={released.tick}"
        return encode_sse("release", {"release": released.release, **times, "href": href}, ident)

    def _wake_waiters(self) -> None:
        with self._lock:
            self.version += 1
            bells, self._waiters = self._waiters, {}
        for loop, bell in bells.items():
            with suppress(RuntimeError):  # a closed loop has no waiter
                loop.call_soon_threadsafe(_resolve_waiter, bell)


def _resolve_waiter(bell: "asyncio.Future[None]") -> None:
    if not bell.done():
        bell.set_result(None)


def build_event_id(place: int, chain: str) -> str:
    """Return an id that names a row of one history."""
    return f"{place}.{chain[:8]}"


def encode_sse(event: str, data: Any, ident: str = "") -> bytes:
    """Return a server-sent event. JSON text has no line breaks.

    >>> encode_sse("status", {"state": "running"}, "7.0123abcd")
    b'id: 7.0123abcd\\nevent: status\\ndata: {"state":"running"}\\n\\n'
    """
    head = f"id: {ident}\n" if ident else ""
    return f"{head}event: {event}\ndata: {to_json(data)}\n\n".encode()


def trim_events(events: list[ReleaseEvent], tuning: Tuning = DEFAULT_TUNING) -> list[ReleaseEvent]:
    """Return the newest events that fit into the buffer."""
    size, first = 0, len(events)
    while first and len(events) - first < tuning.max_buffered_events:
        size += len(events[first - 1].data)
        if size > tuning.max_buffered_bytes:
            break
        first -= 1
    return events[first:]


POLL_SECONDS = 0.25  # seconds after which the clock is looked at again, for it may have been set
REFRESH_TIMEOUT_SECONDS = 0.1  # that a reader waits for another thread that publishes


class PublishThread:
    """A thread that publishes commits at their time, from `start` to `stop`."""

    def __init__(
        self, file: PipelineFile, schedule: CommandSchedule, event_buffer: EventBuffer, now: Callable[[], int]
    ) -> None:
        self.event_buffer, self.now, self.stream, self._file = event_buffer, now, file.stream, file
        event_buffer.refresh = self.refresh
        self.schedule = PublishSchedule(file.stream.start, file.server.publish_delay)
        self._cursor = PublishCursor(file.folder)
        self._command_schedule = schedule
        self._wakeup, self._is_stopped, self.publish_lock = Flag(), False, Lock()
        self._state_lock = Lock()
        self.last_commit = 0
        self.final_commit: int | None = None  # the last entry of a run that is over
        self._thread = Thread(target=self._run, name="streamgauge publisher", daemon=True)

    def start(self) -> None:
        """Publish what was published before a restart, then start the thread."""
        with suppress(StoreNotFoundError), open_reader(self._file) as reader:
            self.schedule.last_published = self._cursor.read(reader)
            written = min(read_last_write_time(self._file) + MICROSECONDS_PER_SECOND, self.now())
            latest_entry = max((act.time for act in reader.ledger_entries()), default=0)  # shown then at the earliest
            ready = max(written, min(latest_entry, self._command_schedule.find_reply_time(self.now())))
            self.schedule.add(reader.number, committed=ready, closed=self.find_closing_time(reader.tick))
        self.refresh()
        self._thread.start()

    def add_commit(self, entry: int, *, closed: int = 0) -> int:
        """Schedule a commit made by now; return its publish time. A run that has ended is running again."""
        with self._state_lock:
            self.last_commit, self.final_commit = entry, None
            if self.event_buffer.state == "ended":
                self.event_buffer.set_state("running")
        leaves = self.schedule.add(entry, committed=self.now(), closed=closed)
        self._wakeup.set()
        return leaves

    def find_closing_time(self, tick: int) -> int:
        """Return the closing time of a tick. Ticks of a batch source closed before the first read."""
        live = self.stream.mode == "streaming" and tick > 0
        return self.stream.tick_start(tick + 1) + self.stream.allowed_lateness if live else 0

    def publish_initial(self, entry: int) -> None:
        """Publish the charges of a run that has just opened: they precede all reads, so they are public."""
        self.last_commit = entry
        self.schedule.add_at(entry, self.now())
        self.refresh()

    def finish(self) -> None:
        """Set the state "ended" when the last commit is published."""
        self.final_commit = self.last_commit
        self._wakeup.set()

    def publish_due(self) -> None:
        """Publish what is due, and encode it for live readers."""
        with self.publish_lock:
            self._publish()
        with suppress(StoreNotFoundError):
            self.event_buffer.encode_events()
        with self._state_lock:
            if self.final_commit is not None and self.final_commit <= self.event_buffer.streamed.commit_number:
                self.final_commit = None
                self.event_buffer.set_state("ended")

    def refresh(self) -> None:
        """Publish what is due without encoding. Skip it if another thread does so already."""
        if self.publish_lock.acquire(timeout=REFRESH_TIMEOUT_SECONDS):
            try:
                self._publish()
            finally:
                self.publish_lock.release()

    def _publish(self) -> None:
        with suppress(StoreNotFoundError):
            number = self.schedule.advance(self.now())
            if number > self.event_buffer.published.commit_number and self._save_cursor(number):
                self.event_buffer.publish(number)
                self._wakeup.set()

    def _save_cursor(self, number: int) -> bool:
        """Save the cursor; return whether that worked. On a full disk readers keep what they have."""
        with self.event_buffer.readers.lend(number) as reader:
            try:
                self._cursor.write(reader.number, reader.chain)
            except OSError:
                return False
        return True

    def stop(self) -> None:
        self._is_stopped = True
        self._wakeup.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped:
            self._wakeup.clear()
            with suppress(StoreError, OSError):  # a store that cannot be read now is looked at again
                self.publish_due()
            wait = self.schedule.find_wait(self.now())
            behind = self.schedule.last_published > self.event_buffer.streamed.commit_number
            wait = 10**6 if behind else wait
            self._wakeup.wait(None if wait is None else min(POLL_SECONDS, wait / MICROSECONDS_PER_SECOND))
