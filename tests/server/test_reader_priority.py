"""Readers wait neither for the encoding of events nor for commands of other clients."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event as Flag
from typing import Any

import httpx
import pytest
from anyio import to_thread

from streamgauge.releases.release import TickRelease
from streamgauge.server.publishing.feed import EventBuffer
from streamgauge.server.publishing.reader import ReaderPool
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from tests.server.test_adhoc import ASKED
from tests.support.people import House
from tests.support.served import (
    CountedBuffer,
    Stepped,
    ask,
    close,
    eventually,
    file_of,
    leave,
    publish_and_encode,
    running,
    stepped,
    write,
)

Live = tuple[Runner, Stepped]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A run with one tick that is committed and not published."""
    write(tmp_path, 60)
    clock = stepped()
    with running(file_of(tmp_path), clock, buffer=GatedBuffer) as runner:
        close(runner, clock, 1)
        yield runner, clock


class GatedBuffer(EventBuffer):
    """A buffer whose encoding can be stopped."""

    def __init__(self, readers: ReaderPool, tuning: Tuning) -> None:
        super().__init__(readers, tuning)
        self.encoding, self.gate = Flag(), Flag()
        self.gate.set()

    def encode_event(self, released: TickRelease, ident: str) -> bytes:
        self.encoding.set()
        self.gate.wait()
        return super().encode_event(released, ident)


def test_readers_do_not_wait_for_the_encoding_of_events(live: Live) -> None:
    runner, clock = live
    buffer = runner.event_buffer
    assert isinstance(buffer, GatedBuffer)
    buffer.gate.clear()
    clock.to(20)
    assert buffer.encoding.wait(20)
    try:
        rows = ask(runner, "/api/releases/counts?group=g:a").json()["rows"]
        assert [row["tick"] for row in rows] == [1]
        assert (runner.event_buffer.published.row_number, runner.event_buffer.streamed.row_number) == (1, 0)
        assert runner.event_buffer.find_buffered(0, 9) == []
    finally:
        buffer.gate.set()
    eventually(lambda: runner.event_buffer.streamed.row_number == 1)


def test_read_request_publishes_due_rows_without_encoding_events(live: Live) -> None:
    runner, clock = live
    runner.publisher.stop()
    clock.to(20)
    ask(runner, "/api/releases")
    assert (runner.event_buffer.published.row_number, runner.event_buffer.streamed.row_number) == (1, 0)


def test_readers_do_not_wait_for_a_thread_that_publishes(live: Live) -> None:
    runner, clock = live
    with runner.publisher.publish_lock:
        clock.to(20)
        assert ask(runner, "/api/releases").json()["published_until"] == {"tick": 0}


class ShortBuffer(CountedBuffer):
    """A buffer of events of 300 bytes."""

    def encode_event(self, released: TickRelease, ident: str) -> bytes:
        super().encode_event(released, ident)
        return bytes(300)


def test_burst_encodes_only_events_that_fit_the_buffer(live: Live) -> None:
    """The newest events come first, a few at a time."""
    runner, clock = live
    clock.to(605)
    eventually(lambda: runner.publisher.last_commit and runner.progress and runner.progress.tick == 60)
    leave(runner, clock, 612)
    fresh = ShortBuffer(runner.event_buffer.readers, Tuning(max_buffered_bytes=1000, rows_per_read=4))
    publish_and_encode(fresh, 2**62)
    assert sorted(fresh.encoded_ticks) == [57, 58, 59, 60]
    assert [event.row_number for event in fresh.find_buffered(57, 64) or []] == [58, 59, 60]
    assert fresh.find_buffered(56, 64) is None


class Unanswered(House):
    """A server whose run replies to no command until the test does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.waiting: list[Future[None]] = []
        self.runner.submit_release = self.asking

    def asking(self, *details: Any) -> Future[None]:
        self.waiting.append(Future())
        return self.waiting[-1]


def test_waiting_commands_hold_no_thread(tmp_path: Path) -> None:
    house = Unanswered(tmp_path)
    analyst, reader = house.client("analyst"), house.client("reader")

    async def crowd() -> tuple[int, httpx.Response, list[httpx.Response]]:
        bodies = [{**ASKED, "name": f"w{number}"} for number in range(20)]
        asks = [asyncio.create_task(analyst.send("POST", "/api/releases", json=each)) for each in bodies]
        while len(house.waiting) < len(asks):
            await asyncio.sleep(0.001)
        blocked = to_thread.current_default_thread_limiter().borrowed_tokens
        read = await reader.send("GET", "/api/ledger")
        for each in house.waiting:
            each.set_result(None)
        return int(blocked), read, await asyncio.gather(*asks)

    blocked, read, answers = asyncio.run(crowd())
    assert (blocked, read.status_code) == (0, 200)
    assert {answer.status_code for answer in answers} == {201}
