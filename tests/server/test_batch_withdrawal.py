"""Batches of a pan-private server: read or withdrawn, never both, and the reply says which."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from streamgauge.records.blocks import Block
from streamgauge.runtime.options import Options
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.sources import http_ephemeral as passing_inbox
from streamgauge.sources.http import InboxFullError
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.sources.line_reader import BLOCK_BYTES
from streamgauge.testing.noise import SilentNoise
from tests.support.people import VISIT, House, Still, clinic
from tests.support.served import Stepped, committed, eventually, file_of, stepped

HEADERS = {"Batch-Key": "ward-7", "Content-Type": "application/x-ndjson"}
COUNT = {"name": "n", "sql": "SELECT COUNT(*) FROM v", "window": "running", "epsilon": "1/2"}
PRIVATE: dict[str, Any] = {"source": "http", "pan_private": True, "allowed_lateness": "0s", "allowed_earliness": "0s"}


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A server whose inbox is read by the test alone."""
    return unread_house(tmp_path, DEFAULT_TUNING)


IMPATIENT = Tuning(commit_seconds=0.05)


def unread_house(folder: Path, tuning: Tuning) -> House:
    inbox = EphemeralInbox(max_waiting_bytes=10**6)
    return House(folder, Still(clinic(folder, {"pan_private": True}), inbox, tuning=tuning))


async def post_and(house: House, act: Any) -> Any:
    """Post a batch, act once it waits, return the reply."""
    posted = asyncio.create_task(house.client("curator").send("POST", "/api/events", content=VISIT, headers=HEADERS))
    while not house.runner.inbox.has_waiters:
        await asyncio.sleep(0.001)
    act()
    return await posted


def verdict(reply: Any) -> tuple[int, str, bool | None]:
    error = reply.json()["error"]
    return reply.status_code, error["code"], error.get("accepted")


def test_batch_that_no_run_reads_in_time_is_withdrawn(tmp_path: Path) -> None:
    house = unread_house(tmp_path, IMPATIENT)
    reply = house.client("curator").post("/api/events", content=VISIT, headers=HEADERS)
    assert verdict(reply) == (503, "not_committed", False)
    assert reply.json()["error"]["message"] == (
        "the run did not read the batch, nothing of it is counted: send it again"
    )
    assert (house.runner.inbox.has_waiters, house.runner.inbox.read()) == (False, None)


def test_batch_being_read_at_timeout_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has the batch, and is slow: the sender waits for it and gets no invitation to resend."""
    house = unread_house(tmp_path, IMPATIENT)
    reading, finish, found = Flag(), Flag(), list[Block | None]()
    build = passing_inbox.build_block

    def slow(batches: list[bytes]) -> Block:
        reading.set()
        assert finish.wait(30)
        return build(batches)

    monkeypatch.setattr(passing_inbox, "build_block", slow)
    inbox = house.runner.inbox
    reader = Thread(target=lambda: found.append(inbox.read()))
    tried: list[bool] = []
    withdraw = inbox.withdraw

    def try_to_withdraw(ticket: Any) -> bool:
        tried.append(withdraw(ticket))
        finish.set()
        return tried[-1]

    inbox.withdraw = try_to_withdraw
    reply = asyncio.run(post_and(house, lambda: (reader.start(), reading.wait(30))))
    reader.join()
    assert (reply.status_code, reply.json()["durable"], tried) == (200, False, [False])
    assert found[0] is not None
    assert found[0].data == VISIT + b"\n"


def test_batch_that_waits_when_server_stops_is_withdrawn(tmp_path: Path) -> None:
    house = unread_house(tmp_path, Tuning(shutdown_commit_seconds=0.01))

    def stop() -> None:
        house.runner.event_buffer.state = "stopping"

    reply = asyncio.run(post_and(house, stop))
    assert verdict(reply) == (503, "not_running", False)
    assert house.runner.inbox.read() is None


def test_batch_that_waits_when_inbox_closes_is_not_accepted(house: House) -> None:
    reply = asyncio.run(post_and(house, house.runner.inbox.close))
    assert verdict(reply) == (503, "not_committed", False)


def test_batch_that_waits_when_inbox_pauses_is_not_accepted(house: House) -> None:
    reply = asyncio.run(post_and(house, house.runner.inbox.pause))
    assert verdict(reply) == (503, "not_running", False)


class Wire:
    """One POST of a batch as ASGI messages."""

    def __init__(self, house: House) -> None:
        self.house, self.said = house, list[Any]()
        self.gone, self._sent = asyncio.Event(), False

    async def receive(self) -> dict[str, Any]:
        if self._sent:
            await self.gone.wait()
            return {"type": "http.disconnect"}
        self._sent = True
        return {"type": "http.request", "body": VISIT, "more_body": False}

    async def send(self, message: Any) -> None:
        self.said.append(message)

    def scope(self) -> dict[str, Any]:
        details = {**HEADERS, "Authorization": f"Bearer {self.house.secrets['curator']}", "Host": "clinic.test"}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/api/events",
            "raw_path": b"/api/events",
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in details.items()],
            "client": ("10.0.0.7", 4711),
            "server": ("clinic.test", 80),
        }

    async def post(self) -> "asyncio.Task[None]":
        """Begin the request, and wait until its batch waits."""
        task = asyncio.create_task(self.house.app(self.scope(), self.receive, self.send))
        while not self.house.runner.inbox.has_waiters:
            await asyncio.sleep(0.001)
        return task


def test_batch_of_a_client_that_disconnects_is_withdrawn(tmp_path: Path) -> None:
    """A client that got no reply is likely to retry."""
    house = unread_house(tmp_path, Tuning(state_poll_seconds=0.001))

    async def disconnect() -> list[Any]:
        wire = Wire(house)
        task = await wire.post()
        wire.gone.set()
        await asyncio.wait_for(task, 20)
        return wire.said

    assert asyncio.run(disconnect()) == []
    assert house.runner.inbox.read() is None


def test_request_that_is_cancelled_withdraws_its_batch(house: House) -> None:
    """The server cancels requests that outlast its shutdown."""

    async def cancel() -> list[Any]:
        wire = Wire(house)
        task = await wire.post()
        await asyncio.sleep(0.01)
        task.cancel()
        await task
        return wire.said

    start, body = asyncio.run(cancel())
    assert (start["status"], json.loads(body["body"])["error"]["accepted"]) == (503, False)
    assert house.runner.inbox.read() is None


def test_withdrawal_from_a_round_leaves_its_other_batches() -> None:
    inbox = EphemeralInbox(max_waiting_bytes=10 * BLOCK_BYTES)
    half = b" " * (BLOCK_BYTES // 2 + 1) + b"{}"
    tickets = [inbox.put("k", half) for _ in range(3)]
    assert inbox.read() is not None
    late = inbox.put("k", half)
    assert (inbox.withdraw(tickets[0]), inbox.withdraw(tickets[1]), inbox.withdraw(tickets[1])) == (False, True, False)
    assert inbox.at_end is False
    assert inbox.read() is not None
    assert (tickets[2].done.done(), late.done.done(), inbox.at_end) == (True, False, True)
    assert inbox.withdraw(late)
    assert (inbox.at_end, inbox.read()) == (True, None)
    inbox.close()
    with pytest.raises(InboxFullError, match="got some after its end"):
        inbox.put("k", half)


def test_each_of_many_batches_is_read_or_withdrawn_never_both() -> None:
    """Six senders withdraw batches at random times while one reader reads."""
    inbox, over = EphemeralInbox(max_waiting_bytes=10**8), Flag()
    read, stored, withdrawn = Counter[str](), list[str](), list[str]()

    def send(sender: int) -> None:
        chance = Random(sender)
        for number in range(2000):
            name = f"{sender}.{number}"
            ticket = inbox.put("k", json.dumps({"n": name}).encode())
            for _ in range(chance.randrange(4)):
                ticket.done.done()
            (withdrawn if inbox.withdraw(ticket) else stored).append(name)

    def receive() -> None:
        while not over.is_set() or inbox.has_waiters:
            block = inbox.read()
            if block is not None:
                read.update(json.loads(line)["n"] for line in block.data.splitlines())

    senders = [Thread(target=send, args=(number,)) for number in range(6)]
    reader = Thread(target=receive)
    for thread in (reader, *senders):
        thread.start()
    for thread in senders:
        thread.join()
    over.set()
    reader.join()
    assert len(stored) + len(withdrawn) == 12_000
    assert read == Counter(stored)


class Gated(EphemeralInbox):
    """An inbox that is read only while a gate is open, as if the run were busy."""

    def __init__(self, gate: Flag) -> None:
        super().__init__(max_waiting_bytes=10**6)
        self.gate = gate

    def read(self) -> Block | None:
        return super().read() if self.gate.is_set() else None


def test_visit_that_is_sent_again_after_a_refusal_counts_once(tmp_path: Path) -> None:
    """A real run, which is busy for longer than a sender waits."""
    gate, clock = Flag(), stepped(1)
    file = file_of(tmp_path, COUNT, server={"publish_delay": "20ms"}, **PRIVATE)
    runner = Runner(file, Options(noise=SilentNoise(), clock=clock), tuning=IMPATIENT)
    runner.inbox = Gated(gate)
    runner.start()
    try:
        curator = House(tmp_path, runner).client("curator")
        visit = {"content": json.dumps({"ts": 1_767_571_201, "g": "a"}), "headers": HEADERS}
        assert verdict(curator.post("/api/events", **visit)) == (503, "not_committed", False)
        gate.set()
        eventually(lambda: curator.post("/api/events", **visit).status_code == 200, "a batch that is read")
        assert count_of(runner, clock, curator) == 1
    finally:
        runner.stop()


def count_of(runner: Runner, clock: Stepped, client: Any) -> float:
    """The first tick's count, as readers get it."""
    clock.to(10.001)
    eventually(lambda: committed(runner)[1] == 1, "the commit of tick 1")
    clock.to(11)
    found: list[Any] = []

    def published() -> bool:
        found.extend(client.get("/api/releases/n?from=1&to=1").json().get("rows", ()))
        return bool(found)

    eventually(published, "the release of tick 1")
    value: float = found[0]["count"]["value"]
    return value
