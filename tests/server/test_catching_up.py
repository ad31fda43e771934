"""Commands while the run catches up or the server stops: refused at once."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamgauge.runtime.options import Progress
from streamgauge.server.http.errors import ErrorMiddleware
from streamgauge.server.runner import Runner
from tests.support.people import House, code_of
from tests.support.served import close, file_of, running, stepped

PRIVATE = {"source": "http", "pan_private": True, "allowed_lateness": "0s", "allowed_earliness": "0s"}
RUNNING = {"name": "n", "sql": "SELECT COUNT(*) FROM v", "window": "running", "epsilon": "1/2"}
ASKED = {"name": "asked", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": "1/8"}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A run whose clock stands still, so that a command waits for the next multiple of the delay."""
    with running(file_of(tmp_path), stepped(1)) as found:
        yield found


class LateRunner(Runner):
    """A run that always catches up."""

    @property
    def is_catching_up(self) -> bool:
        return True


def test_release_is_refused_while_the_run_catches_up(tmp_path: Path) -> None:
    with running(file_of(tmp_path), stepped(1), kind=LateRunner) as runner:
        reply = House(runner.file.folder, runner).client("analyst").post("/api/releases", json=ASKED)
        assert (code_of(reply), reply.headers["retry-after"]) == ((503, "catching_up"), "10")


def test_intrusion_is_refused_while_the_run_catches_up(tmp_path: Path) -> None:
    with running(file_of(tmp_path, RUNNING, **PRIVATE), stepped(1), kind=LateRunner) as runner:
        curator = House(runner.file.folder, runner).client("curator")
        reply = curator.post("/api/intrusions", json={"folder": "court"})
        assert (code_of(reply), reply.headers["retry-after"]) == ((503, "catching_up"), "10")


def test_waiting_command_gets_503_when_run_falls_behind(runner: Runner) -> None:
    analyst = House(runner.file.folder, runner).client("analyst")
    far = Progress(1, None, 0, {}, catch_up_tick=10**6)

    async def put_off() -> Any:
        requested = asyncio.create_task(analyst.send("POST", "/api/releases", json=ASKED))
        while not runner.command_queue.pending_count:
            await asyncio.sleep(0.001)
        runner.report_progress(far)
        assert runner.is_catching_up  # until the run itself reports how far it is
        return await asyncio.wait_for(requested, 20)

    reply = asyncio.run(put_off())
    assert (code_of(reply), reply.headers["retry-after"]) == ((503, "catching_up"), "10")
    assert "asked" not in runner.list_names()


def test_stopped_run_is_not_catching_up(runner: Runner) -> None:
    runner.report_progress(Progress(1, None, 0, {}, catch_up_tick=10**6))
    runner.stop()
    assert not runner.is_catching_up


def test_waiting_command_gets_503_when_server_stops(runner: Runner) -> None:
    analyst = House(runner.file.folder, runner).client("analyst")

    async def stopped() -> Any:
        requested = asyncio.create_task(analyst.send("POST", "/api/releases", json=ASKED))
        while not runner.command_queue.pending_count:
            await asyncio.sleep(0.001)
        runner.disconnect_readers()
        return await asyncio.wait_for(requested, 20)

    reply = asyncio.run(stopped())
    assert (code_of(reply), reply.headers["retry-after"]) == ((503, "not_running"), "10")
    close(runner, runner.options.clock, 1)  # the run itself continues


def test_request_cancelled_at_shutdown_gets_503() -> None:
    sent: list[Any] = []

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def cancelled() -> None:
        guard = ErrorMiddleware(waits, log=lambda line: None)
        task = asyncio.ensure_future(guard({"type": "http"}, receive, send))
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(cancelled())
    begin, body = sent
    assert begin["status"] == 503
    assert json.loads(body["body"])["error"]["code"] == "not_running"
