"""Small pipelines behind runners, for tests: ten-second ticks, two groups, silent noise, clocks by hand."""

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.config.settings import PipelineFile, ServerSettings
from streamgauge.interfaces import ignore
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.commands.queue import CommandQueue, CommandSchedule
from streamgauge.runtime.options import Options
from streamgauge.server.http.errors import ErrorMiddleware
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.read_worker import ReadWorker
from streamgauge.server.publishing.feed import EventBuffer
from streamgauge.server.publishing.reader import ReaderPool
from streamgauge.server.routes.live import LiveRoutes
from streamgauge.server.routes.releases import ReleaseRoutes
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.store.keys import create_key
from streamgauge.store.reader import StoreReader
from streamgauge.testing.noise import ManualClock, SilentNoise

SECOND = 1_000_000
START = 1_767_571_200  # 2026-01-05T00:00:00Z
FAR_TIME = 2**62  # microseconds
COUNTS = "SELECT g, COUNT(*) FROM v GROUP BY g"

Tables = dict[str, Any]

TABLES: Tables = {
    "stream": {
        "name": "v",
        "source": "v.jsonl",
        "mode": "streaming",
        "time": "ts",
        "time_format": "epoch s",
        "tick": "10s",
        "start": "2026-01-05T00:00:00Z",
        "allowed_lateness": "5s",
        "allowed_earliness": "20s",
        "unit": "event",
        "budget": {"epsilon": 1},
        "key": "file:v.key",
        "columns": {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 10], "grid": 1}},
    },
    "server": {"publish_delay": "4s", "anonymous": True},
    "release": [{"name": "counts", "sql": COUNTS, "epsilon": "1/2", "window": "each", "title": "How many"}],
}


def file_of(folder: Path, *releases: Tables, server: Tables | None = None, **stream: Any) -> PipelineFile:
    """A file in a folder that has a key, and something to read."""
    made = deepcopy(TABLES)
    if releases:
        made["release"] = [{"window": "each", "epsilon": "1/4", **each} for each in releases]
    made["server"] |= server or {}
    made["stream"] |= stream
    if stream.get("mode") == "batch":
        made["stream"] = {k: v for k, v in made["stream"].items() if k not in ("allowed_lateness", "allowed_earliness")}
    if not (folder / "v.key").exists():
        create_key(folder / "v.key")
        (folder / "v.jsonl").touch()
    return parse_pipeline(made, folder / "v.toml")


def write(folder: Path, seconds: int, every: int = 1) -> None:
    """An event every so many seconds, of the groups in turn."""
    events = [{"ts": START + s, "g": "ab"[s % 2], "x": s % 11} for s in range(0, seconds, every)]
    (folder / "v.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))


@dataclass
class Stepped(ManualClock):
    """Stands still during sleeps, until a test moves it."""

    def sleep(self, microseconds: int) -> None:
        time.sleep(0.001)

    def to(self, second: float) -> None:
        self.time = int((START + second) * SECOND)


def stepped(second: float = 0) -> Stepped:
    return Stepped(time=int((START + second) * SECOND))


def eventually(holds: Callable[[], Any], what: str = "it") -> None:
    """Wait for another thread. Fail after a time that no machine needs."""
    for _ in range(60_000):
        if holds():
            return
        time.sleep(0.001)
    raise AssertionError(f"{what} must come to pass, got nothing of it")


IMMEDIATE = Tuning(align_commands=False)  # commands do not wait for the clock, which may stand still


@contextmanager
def running(
    file: PipelineFile,
    clock: ManualClock | None = None,
    *,
    tuning: Tuning = DEFAULT_TUNING,
    buffer: type[EventBuffer] = EventBuffer,
    kind: type[Runner] = Runner,
    on_failure: Callable[[Exception], None] = ignore,
    **settings: Any,
) -> Iterator[Runner]:
    """A runner between its start and its stop."""
    known: dict[str, Any] = {"clock": clock} if clock else {}
    options = Options(noise=SilentNoise(), **known, **settings)
    event_buffer = buffer(ReaderPool(file.folder), tuning)
    runner = kind(file, options, tuning=tuning, event_buffer=event_buffer, on_failure=on_failure)
    runner.start()
    try:
        yield runner
    finally:
        runner.stop()


class CountedBuffer(EventBuffer):
    """A buffer that notes the tick of each event that it encodes."""

    def __init__(self, readers: ReaderPool, tuning: Tuning = DEFAULT_TUNING) -> None:
        super().__init__(readers, tuning)
        self.encoded_ticks: list[int] = []

    def encode_event(self, released: TickRelease, ident: str) -> bytes:
        self.encoded_ticks.append(released.tick)
        return super().encode_event(released, ident)


def publish_and_encode(buffer: EventBuffer, number: int) -> None:
    """Publish commits up to a number, and encode their events."""
    buffer.publish(number)
    buffer.encode_events()


IMMEDIATE_SCHEDULE = CommandSchedule()


@dataclass(frozen=True)
class PausedSchedule(CommandSchedule):
    """A schedule that starts no command. Replies and last ticks are those of the schedule that it replaces."""

    replaced: CommandSchedule = IMMEDIATE_SCHEDULE

    def find_start_time(self, requested_at: int) -> int:
        return FAR_TIME

    def find_reply_time(self, requested_at: int) -> int:
        return self.replaced.find_reply_time(requested_at)


class PausedRunner(Runner):
    """A runner whose commands can be paused, so that several of them are applied together."""

    queue_class: type[CommandQueue] = CommandQueue

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        known = self.command_queue
        self.command_queue = self.queue_class(**{each.name: getattr(known, each.name) for each in fields(known)})

    @contextmanager
    def pause_commands(self) -> Iterator[None]:
        """Let commands wait, whatever the clock says. The clock must not move between those that share a commit."""
        known = self.command_queue.schedule
        self.command_queue.schedule = PausedSchedule(known.start, known.interval, known.is_aligned, known)
        yield
        self.command_queue.schedule = known


def committed(runner: Runner) -> tuple[int, int]:
    """The last entry and the last tick that are in the store, whether they have left or not."""
    with StoreReader.open(runner.file.folder) as reader:
        tick = reader.tick  # before the number, which a commit in between may raise
        return reader.number, tick


def close(runner: Runner, clock: Stepped, tick: int) -> None:
    """Move the clock to where a tick closes, which publishes nothing, and wait for its commit."""
    clock.to(10 * tick + 5)
    eventually(lambda: committed(runner) == (runner.publisher.last_commit, tick), f"the commit of tick {tick}")


def leave(runner: Runner, clock: Stepped, second: float) -> None:
    """Move the clock to a publish time, and wait until the events are published."""
    clock.to(second)
    newest = runner.publisher.last_commit
    runner.publisher.publish_due()  # now: the thread that does so looks at a clock that is set only now and then
    eventually(lambda: runner.event_buffer.published.commit_number >= newest, "the departure")


def app_of(
    runner: Runner,
    *,
    limits: Limits | None = None,
    worker: ReadWorker | None = None,
    tuning: Tuning | None = None,
    settings: ServerSettings | None = None,
    releases: type[ReleaseRoutes] = ReleaseRoutes,
    live: type[LiveRoutes] = LiveRoutes,
) -> Starlette:
    """The routes of readers, without authentication."""
    own, reads = limits or Limits(runner.file.server), worker or ReadWorker()
    routes = [
        *releases(runner, settings or runner.file.server, own, reads, tuning).routes(),
        *live(runner, own, reads, tuning).routes(),
    ]
    return Starlette(routes=routes, middleware=[Middleware(ErrorMiddleware, log=lambda line: None)])


def ask(
    runner: Runner, path: str, tuning: Tuning | None = None, settings: ServerSettings | None = None, **headers: str
) -> httpx.Response:
    """One request, without a network."""

    async def requested() -> httpx.Response:
        transport = httpx.ASGITransport(app_of(runner, tuning=tuning, settings=settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return asyncio.run(requested())


@contextmanager
def listening(runner: Runner, *, disconnect: bool = True, **settings: Any) -> Iterator[int]:
    """Serve on loopback, and yield the port. At the end disconnect the readers of the run unless `disconnect` is False.

    `settings` are those of `app_of`.
    """
    config = uvicorn.Config(app_of(runner, **settings), port=0, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started, "the server")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        if disconnect:
            runner.event_buffer.close()
        thread.join()


@dataclass(frozen=True)
class LiveEvent:
    """A server-sent event as a browser has it."""

    id: str
    event: str
    data: Any


class Listener:
    """A browser's EventSource, in small."""

    def __init__(self, port: int, query: str = "", last: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        headers = {"Last-Event-ID": last} if last else {}
        self._connection.request("GET", f"/api/live{query}", headers=headers)
        self.reply = self._connection.getresponse()
        self.id = last

    def next(self) -> LiveEvent | None:
        """The next event; None at the end."""
        details: dict[str, str] = {}
        while line := self.reply.readline():
            if line == b": beat\n":
                raise AssertionError("an event must come, got silence")
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                details[name] = value
            elif "event" in details:
                self.id = details.get("id", self.id)
                return LiveEvent(self.id, details["event"], json.loads(details["data"]))
            else:
                details = {}
        return None

    def until(self, event: str, tick: int | None = None) -> list[LiveEvent]:
        """All events up to the first of a kind, or the one of a tick."""
        found: list[LiveEvent] = []
        while (details := self.next()) is not None:
            found.append(details)
            if details.event == event and tick in (None, details.data.get("tick")):
                return found
        raise AssertionError(f"a {event} must come, got the end after {found}")

    def close(self) -> None:
        self.reply.close()
        self._connection.close()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def ticks_of(details: list[LiveEvent], release: str = "counts") -> list[int]:
    return [each.data["tick"] for each in details if each.event == "release" and each.data["release"] == release]
