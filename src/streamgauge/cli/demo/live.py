"""Live demos: a synthetic stream behind the real server, fed over HTTP and compared with its truth.

A feeder thread sends data as any other client would. The route `/api/truth` returns the exact values.

**Privacy.** The truth exists only in demos, which have synthetic people. `serve` never adds this route.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, ClassVar
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from streamgauge.cli.console import stdout
from streamgauge.cli.runs.monitor import RunMonitor
from streamgauge.cli.runs.server import run_server
from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.releases.release import format_utc_time
from streamgauge.runtime.options import Options
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.runner import Runner
from streamgauge.store.keys import create_key

TICK_MICROSECONDS = 10**6
POLL_SECONDS = 0.2
TIMEOUT_SECONDS = 10.0
MAX_STORED_TICKS = 7200
MAX_TRUTH_TICKS = 10_000  # of one reply


class FeederThread(ABC):
    """A thread that posts synthetic data to the server until it is stopped."""

    def __init__(self, address: str, name: str) -> None:
        self.host, self._stop = urlsplit(address).netloc, Flag()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_SECONDS)

    @abstractmethod
    def _run(self) -> None:
        """Send data until `_stop` is set."""

    def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bool:
        """Post a body; return whether the server acknowledged it."""
        with closing(HTTPConnection(self.host, timeout=TIMEOUT_SECONDS)) as connection:
            try:
                connection.request("POST", path, body, dict(headers))
                return connection.getresponse().status == 200
            except (OSError, HTTPException):
                return False


class LiveTruth(ABC):
    """Exact values of the releases of a demo, from the records that the server acknowledged."""

    def __init__(self, file: PipelineFile, now: Callable[[], int]) -> None:
        self.file, self._now, self._lock = file, now, Lock()

    @abstractmethod
    def columns(self, release: str, first: int, last: int) -> dict[str, Any] | None:
        """Return values in the columns form; None for an unknown release."""

    def _is_complete(self, tick: int) -> bool:
        """Return whether a tick is closed, so that no more records of it count."""
        return self._now() >= self.file.stream.tick_start(tick + 1) + self.file.stream.allowed_lateness


class LiveDemo(ABC):
    """Additions to a server: synthetic data, their truth, and lines that say where to look."""

    title: ClassVar[str]
    key_name: ClassVar[str]

    def __init__(self, file: PipelineFile) -> None:
        self.file = file

    @abstractmethod
    def _build_truth(self, runner: Runner) -> LiveTruth: ...

    @abstractmethod
    def _build_feeder(self, address: str, tokens: Tokens) -> tuple[FeederThread, Sequence[str]]:
        """Return the feeder, and lines for the terminal."""

    def routes(self, runner: Runner) -> Sequence[BaseRoute]:
        self.truth = self._build_truth(runner)
        return [Route("/api/truth", self._read_truth, name="truth")]

    @contextmanager
    def activate(self, address: str, runner: Runner, tokens: Tokens, stop: Flag) -> Iterator[None]:
        """Feed the server while it serves; set `stop` after the last published tick."""
        feeder, lines = self._build_feeder(address, tokens)
        ticks = self.file.stream.ticks
        end = "Ctrl-C ends it" if ticks is None else f"it ends by itself after {ticks:,} ticks"
        for line in (*lines, f"  {end}"):
            stdout().print(line, soft_wrap=True)
        feeder.start()
        Thread(target=stop_when_finished, args=(runner, stop), name=f"end of the {self.title}", daemon=True).start()
        try:
            yield
        finally:
            feeder.stop()

    async def _read_truth(self, request: Request) -> JSONResponse:
        """GET /api/truth?release=&from=&to="""
        numbers = [request.query_params.get(name, "") for name in ("from", "to")]
        first, last = (int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0 for text in numbers)
        if not 1 <= first <= last < first + MAX_TRUTH_TICKS:
            rule = f"from and to must be ticks in order, at most {MAX_TRUTH_TICKS:,} of them, got others"
            raise HttpError(422, "bad_request", rule)
        release = request.query_params.get("release", "")
        found = await run_in_threadpool(self.truth.columns, release, first, last)
        if found is None:
            raise HttpError(404, "not_found", "release must be one that was charged, got another")
        return JSONResponse(found)


def serve_demo(
    demo: type[LiveDemo], write_file: Callable[..., Path], folder: Path, port: int, ticks: int | None
) -> None:
    """Start a demo at the next full second; it ends with Ctrl-C, or by itself after so many ticks."""
    create_key(folder / demo.key_name)
    start = (time.time_ns() // 1000 // TICK_MICROSECONDS + 1) * TICK_MICROSECONDS
    file = read_pipeline(write_file(folder, start, ticks))
    with RunMonitor(file, quiet=True, as_json=False) as monitor:
        run_server(file, Options(), monitor, ("127.0.0.1", port), (), extension=demo(file))
    stdout().print(f"The {demo.title} is closed: its file, releases and ledger are in {folder}", soft_wrap=True)


def write_pipeline(path: Path, template: str, start: int, ticks: int | None, **settings: object) -> Path:
    """Fill a template of a pipeline file, and write it."""
    end = "" if ticks is None else f'\nend = "{format_utc_time(start + ticks * TICK_MICROSECONDS)}"'
    text = template.format(start=format_utc_time(start), end=end, **settings)
    path.write_text(text, encoding="utf-8")
    return path


def stop_when_finished(runner: Runner, stop: Flag) -> None:
    """Stop the server once the last tick is published."""
    while not stop.wait(POLL_SECONDS):
        if runner.state == "ended":
            with runner.event_buffer.open_reader() as reader:
                if reader.tick < (runner.file.stream.ticks or 0):
                    continue
        if runner.state in ("failed", "ended"):
            stop.set()
