"""A server for tests: real tokens, limits and roads over a run that stands still."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.commands.queue import CommandQueue, CommandSchedule
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.options import Progress
from streamgauge.runtime.ticks import ReleaseSpans
from streamgauge.server.app import build_app
from streamgauge.server.http.auth import Sessions
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.publishing.feed import EventBuffer
from streamgauge.server.publishing.reader import ReaderPool, build_ledger_cache
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.sources.http import Inbox, Ticket

START = "2026-01-05T00:00:00Z"
VISIT = b'{"ts": "2026-01-05T00:00:01Z", "region": "north"}'


def clinic(folder: Path, stream: dict[str, Any] | None = None, **server: Any) -> PipelineFile:
    """A stream that events are posted to, by default one that began long ago."""
    tables = {
        "stream": {
            "name": "visits",
            "source": "http",
            "time": "ts",
            "tick": "10s",
            "start": START,
            "unit": "event",
            "budget": {"epsilon": 1},
            "key": "file:clinic.key",
            "columns": {"region": {"values": ["north", "south"]}},
            **(stream or {}),
        },
        "release": [{"name": "visits", "sql": "SELECT region, COUNT(*) FROM visits GROUP BY region", "epsilon": 0.5}],
        "server": {"rate": 1000, **server},
    }
    return parse_pipeline(tables, folder / "clinic.toml")


class Prompt(Inbox):
    """An inbox that commits each batch at once and publishes it."""

    batches_read: list[bytes]

    def put(self, key: str | None, lines: bytes, **details: Any) -> Ticket:
        ticket = super().put(key, lines, **details)
        block = self.read()
        if block is not None:
            self.batches_read = [*getattr(self, "batches_read", []), block.data]
        self.commit()
        return ticket


class Still:
    """A run that does nothing by itself: the part of a runner that the server uses, controlled by tests."""

    demo, error, failure, shares = False, "", None, dict[str, str]()

    def __init__(
        self, file: PipelineFile, inbox: Inbox | None = None, now: int = 2 * 10**15, tuning: Tuning = DEFAULT_TUNING
    ) -> None:
        self.file, self.time, self.tuning = file, now, tuning
        self.inbox = inbox or Prompt(key_ttl=10**6, max_waiting_bytes=10**6, now=lambda: 0)
        self.event_buffer = EventBuffer(ReaderPool(file.folder), tuning)
        self.ledger_cache = build_ledger_cache(file.stream.unit)
        self.event_buffer.state = "running"
        self.progress: Progress | None = Progress(7, None, 4711, {"late": 13})
        schedule = CommandSchedule(file.stream.start, file.server.publish_delay, tuning.align_commands)
        self.command_queue = CommandQueue(schedule, self.now)
        self.requested_releases: list[Any] = []
        self.ended: list[str] = []
        self.answers: Callable[[], None] = lambda: None
        self.acts_so_far: list[Any] = []
        self.dropped = Counter[str]()
        self.spans, self.is_catching_up = ReleaseSpans.from_tuples([(1, None)]), False

    @property
    def state(self) -> str:
        return self.event_buffer.state

    def now(self) -> int:
        return self.time

    def load_entries(self) -> tuple[Any, ...]:
        return tuple(self.acts_so_far)

    def list_names(self) -> set[str]:
        return {act.body["release"] for act in self.load_entries() if act.kind == "charge"}

    def load_ledger(self) -> LedgerLog:
        return LedgerLog.read(self.load_entries(), self.file.stream.unit)

    def submit_release(self, requested: Any, plan: Any = None, requested_at: int = 0) -> Future[None]:
        return self._settle(lambda: self.requested_releases.append((requested, requested.share)))

    def submit_end(self, name: str) -> Future[None]:
        return self._settle(lambda: self.ended.append(name))

    def _settle(self, act: Callable[[], None]) -> Future[None]:
        def answer() -> None:
            self.answers()
            act()

        return settled(answer)

    def find_finished(self) -> frozenset[str]:
        return frozenset()


def settled(act: Callable[[], None]) -> Future[None]:
    """The outcome, as its waiting client gets it."""
    found: Future[None] = Future()
    try:
        act()
        found.set_result(None)
    except Exception as failure:
        found.set_exception(failure)
    return found


class House:
    """A server, its clients by role, and its log."""

    def __init__(
        self,
        folder: Path,
        runner: Any = None,
        *,
        extra: Callable[[Any, Limits], list[Route]] = lambda runner, limits: [],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tuning: Tuning = DEFAULT_TUNING,
        **server: Any,
    ) -> None:
        self.file = runner.file if runner else clinic(folder, **server)
        self.runner: Any = runner or Still(self.file, tuning=tuning)
        self.tokens = Tokens(self.file.folder)
        self.secrets = {
            "sender": self.tokens.create("sam", "sender"),
            "reader": self.tokens.create("rita", "reader"),
            "analyst": self.tokens.create("ana", "analyst", Fraction(1, 2)),
            "curator": self.tokens.create("cora", "curator"),
        }
        self.log: list[str] = []
        self.access: list[str] = []
        self.limits, self.sessions = Limits(self.file.server), Sessions(self.tokens)
        self._extra, self._sleep = extra, sleep
        self.app = self.build()

    def build(self, **settings: Any) -> Starlette:
        """The application, with the limits and sessions of this server."""
        extra = self._extra(self.runner, self.limits)
        logs = {"log": self.log.append, "access": self.access.append}
        own = {"limits": self.limits, "sessions": self.sessions, "sleep": self._sleep, "extra_routes": extra}
        return build_app(self.runner, self.tokens, self.file.server, **{**logs, **own, **settings})

    def at_one_moment(self) -> "House":
        """However long requests take, no time passes between them for the rate of a client."""
        self.limits = Limits(self.file.server, now=lambda: 0.0)
        self.app = self.build()
        return self

    def client(self, role: str | None = None, address: str = "10.0.0.7", **headers: str) -> "Client":
        """Return a client of the server, with the token of a role or without one."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        token = {} if role is None else {"Authorization": f"Bearer {self.secrets[role]}"}
        return Client(self.app, {**token, **named}, address)


class Client:
    """Keeps its headers and cookies from one request to the next."""

    def __init__(self, app: Any, headers: dict[str, str], address: str) -> None:
        self.app, self.headers, self.address = app, headers, address
        self.cookies = httpx.Cookies()

    def __call__(self, method: str, path: str, **settings: Any) -> httpx.Response:
        return asyncio.run(self.send(method, path, **settings))

    async def send(self, method: str, path: str, **settings: Any) -> httpx.Response:
        way = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(self.address, 4711))
        details: dict[str, Any] = {"base_url": "http://clinic.test", "headers": self.headers, "cookies": self.cookies}
        async with httpx.AsyncClient(transport=way, **details) as client:
            reply = await client.request(method, path, **settings)
            self.cookies = client.cookies
        return reply

    def get(self, path: str, **settings: Any) -> httpx.Response:
        return self("GET", path, **settings)

    def post(self, path: str, **settings: Any) -> httpx.Response:
        return self("POST", path, **settings)

    def delete(self, path: str, **settings: Any) -> httpx.Response:
        return self("DELETE", path, **settings)


def code_of(reply: httpx.Response) -> tuple[int, str]:
    """The status of an error, and its code; its form is always the same."""
    details = reply.json()["error"]
    assert set(details) <= {"code", "message", "reasons", "accepted"}
    assert details["message"]
    return reply.status_code, details["code"]
