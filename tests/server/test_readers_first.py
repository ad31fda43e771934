"""Readers wait neither for what is made ready for others, nor behind who waits for the run."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event as Flag
from typing import Any

import httpx
import pytest
from anyio import to_thread

from streamgauge.server.publishing import feed as boards
from streamgauge.server.publishing.feed import EventBuffer
from streamgauge.server.runner import Runner
from tests.server.test_asking_api import ASKED
from tests.support.people import House
from tests.support.served import Stepped, ask, close, eventually, file_of, leave, running, stepped, write

Live = tuple[Runner, Stepped]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A run of which one tick is committed and has not left."""
    write(tmp_path, 60)
    clock = stepped()
    with running(file_of(tmp_path), clock) as runner:
        close(runner, clock, 1)
        yield runner, clock


def test_who_reads_does_not_wait_for_what_live_readers_are_sent(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, clock = live
    encoding, go_on = Flag(), Flag()

    def slow(released: Any) -> dict[str, Any]:
        encoding.set()
        go_on.wait()
        return {}

    monkeypatch.setattr(boards, "event_as_json", slow)
    clock.to(20)
    assert encoding.wait(20)
    try:
        rows = ask(runner, "/api/releases/counts?group=g:a").json()["rows"]
        assert [row["tick"] for row in rows] == [1]
        assert (runner.event_buffer.published.row_number, runner.event_buffer.streamed.row_number) == (1, 0)
        assert runner.event_buffer.find_buffered(0, 9) == []
    finally:
        go_on.set()
    eventually(lambda: runner.event_buffer.streamed.row_number == 1)


def test_who_reads_shows_what_has_left_and_leaves_the_rest_to_others(live: Live) -> None:
    runner, clock = live
    runner._publisher.stop()
    clock.to(20)
    ask(runner, "/api/releases")
    assert (runner.event_buffer.published.row_number, runner.event_buffer.streamed.row_number) == (1, 0)


def test_who_shows_it_already_is_not_waited_for(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, clock = live
    with runner._publisher._publish_lock:
        clock.to(20)
        assert ask(runner, "/api/releases").json()["published_until"] == {"tick": 0}


def test_of_a_burst_what_can_be_kept_is_encoded_and_no_more(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest first, a few at a time."""
    runner, clock = live
    clock.to(605)
    eventually(lambda: runner._publisher._last_commit and runner.progress and runner.progress.tick == 60)
    leave(runner, clock, 612)
    fresh, encoded = EventBuffer(runner.event_buffer.readers), list[int]()
    monkeypatch.setattr(boards, "MAX_BUFFERED_BYTES", 1000)
    monkeypatch.setattr(boards, "ROWS_PER_READ", 4)
    monkeypatch.setattr(boards, "event_as_json", lambda released: encoded.append(released.tick) or {})
    monkeypatch.setattr(boards, "encode_sse", lambda event, told, ident: bytes(300))
    fresh.advance(2**62)
    assert sorted(encoded) == [57, 58, 59, 60]
    assert [event.row_number for event in fresh.find_buffered(57, 64) or []] == [58, 59, 60]
    assert fresh.find_buffered(56, 64) is None


class Unanswered(House):
    """A server whose run answers nobody yet."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.waiting: list[Future[None]] = []
        self.runner.submit_release = self.asking

    def asking(self, *told: Any) -> Future[None]:
        self.waiting.append(Future())
        return self.waiting[-1]


def test_who_waits_for_the_run_holds_no_thread(tmp_path: Path) -> None:
    house = Unanswered(tmp_path)
    analyst, reader = house.client("analyst"), house.client("reader")

    async def crowd() -> tuple[int, httpx.Response, list[httpx.Response]]:
        bodies = [{**ASKED, "name": f"w{number}"} for number in range(20)]
        asks = [asyncio.create_task(analyst.asked("POST", "/api/releases", json=each)) for each in bodies]
        while len(house.waiting) < len(asks):
            await asyncio.sleep(0.001)
        held = to_thread.current_default_thread_limiter().borrowed_tokens
        read = await reader.asked("GET", "/api/ledger")
        for each in house.waiting:
            each.set_result(None)
        return int(held), read, await asyncio.gather(*asks)

    held, read, answers = asyncio.run(crowd())
    assert (held, read.status_code) == (0, 200)
    assert {answer.status_code for answer in answers} == {201}
