"""A server for tests: real tokens, limits and roads over a run that stands still."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx

from streamgauge.pipeline.book import Book
from streamgauge.pipeline.options import Progress
from streamgauge.pipeline.taken import Taken
from streamgauge.query.pipeline_file import pipeline_of
from streamgauge.query.settings import PipelineFile
from streamgauge.server.app import app_of
from streamgauge.server.board import Board
from streamgauge.server.departed import Readers
from streamgauge.server.known_acts import books
from streamgauge.server.tokens import Tokens
from streamgauge.sources.inbox import Inbox, Ticket

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
        "release": [
            {"name": "visits", "sql": "SELECT region, COUNT(*) FROM visits GROUP BY region", "epsilon": 0.5}
        ],
        "server": {"rate": 1000, **server},
    }
    return pipeline_of(tables, folder / "clinic.toml")


class Prompt(Inbox):
    """Commits what it is sent at once, and shows it."""

    taken: list[bytes]

    def put(self, key: str | None, lines: bytes, **told: Any) -> Ticket:
        ticket = super().put(key, lines, **told)
        block = self.read()
        if block is not None:
            self.taken = [*getattr(self, "taken", []), block.data]
        self.committed()
        return ticket


class Still:
    """A run that does nothing by itself: what the server asks of a runner, under the tests' hands."""

    demo, error, failure, shares = False, "", None, None

    def __init__(self, file: PipelineFile, inbox: Inbox | None = None, now: int = 2 * 10**15) -> None:
        self.file, self.time = file, now
        self.inbox = inbox or Prompt(remembered=10**6, most_waiting=10**6, now=lambda: 0)
        self.board = Board(Readers(file.folder))
        self.books = books(file.stream.unit)
        self.board.state = "running"
        self.progress: Progress | None = Progress(7, None, 4711, {"late": 13})
        self.asked: list[Any] = []
        self.ended: list[str] = []
        self.answers: Callable[[], None] = lambda: None
        self.acts_so_far: list[Any] = []
        self.late: dict[int, int] = {}
        self.dropped = Counter[str]()
        self.taken, self.catching_up = Taken.of([(1, None)]), False

    @property
    def state(self) -> str:
        return self.board.state

    def now(self) -> int:
        return self.time

    def acts(self) -> tuple[Any, ...]:
        return tuple(self.acts_so_far)

    def names(self) -> set[str]:
        return {act.body["release"] for act in self.acts() if act.kind == "charge"}

    def book(self) -> Book:
        return Book.read(self.acts(), self.file.stream.unit)

    def ask(self, asked: Any, share: Fraction | None = None) -> None:
        self.answers()
        self.asked.append((asked, share))

    def end(self, name: str) -> None:
        self.answers()
        self.ended.append(name)

    def asking(self, asked: Any, share: Fraction | None = None) -> Future[None]:
        return settled(lambda: self.ask(asked, share))

    def ending(self, name: str) -> Future[None]:
        return settled(lambda: self.end(name))

    def over(self) -> frozenset[str]:
        return frozenset()


def settled(act: Callable[[], None]) -> Future[None]:
    """What has come of something, as who waits for it is told."""
    found: Future[None] = Future()
    try:
        found.set_result(act())
    except Exception as failure:
        found.set_exception(failure)
    return found


class House:
    """The server, the people who may come in, and what it wrote down."""

    def __init__(self, folder: Path, runner: Any = None, **server: Any) -> None:
        self.file = runner.file if runner else clinic(folder, **server)
        self.runner = runner or Still(self.file)
        self.tokens = Tokens(self.file.folder)
        self.secrets = {
            "reader": self.tokens.create("rita", "reader"),
            "analyst": self.tokens.create("ana", "analyst", Fraction(1, 2)),
            "curator": self.tokens.create("cora", "curator"),
        }
        self.log: list[str] = []
        self.access: list[str] = []
        self.app = app_of(
            self.runner, self.tokens, self.file.server, log=self.log.append, access=self.access.append
        )

    def at_one_moment(self) -> "House":
        """However long requests take, no time passes between them for the rate of a client."""
        self.app.user_middleware[-1].kwargs["limits"]._requests._now = lambda: 0.0
        return self

    def client(self, role: str | None = None, address: str = "10.0.0.7", **headers: str) -> "Client":
        """Somebody who talks to the server, with a token or without."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        token = {} if role is None else {"Authorization": f"Bearer {self.secrets[role]}"}
        return Client(self.app, {**token, **named}, address)


class Client:
    """Keeps its headers and cookies from one request to the next."""

    def __init__(self, app: Any, headers: dict[str, str], address: str) -> None:
        self.app, self.headers, self.address = app, headers, address
        self.cookies = httpx.Cookies()

    def __call__(self, method: str, path: str, **settings: Any) -> httpx.Response:
        return asyncio.run(self.asked(method, path, **settings))

    async def asked(self, method: str, path: str, **settings: Any) -> httpx.Response:
        way = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(self.address, 4711))
        told = {"base_url": "http://clinic.test", "headers": self.headers, "cookies": self.cookies}
        async with httpx.AsyncClient(transport=way, **told) as client:
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
    told = reply.json()["error"]
    assert set(told) <= {"code", "message", "reasons", "taken"}
    assert told["message"]
    return reply.status_code, told["code"]
