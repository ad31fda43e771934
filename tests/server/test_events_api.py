"""POST /api/events: a batch is acknowledged after its commit, and counted once."""

import asyncio
import gzip
import json
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pyarrow as arrow
import pytest
from starlette.routing import Route

from streamgauge.server.http.auth import Sessions
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.routes.events import EventRoutes
from streamgauge.server.routes.metrics import Metrics
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.sources.http import Inbox
from tests.support.people import VISIT, House, Prompt, Still, clinic, code_of

KEY = {"Batch-Key": "ward-7"}
JSON = {**KEY, "Content-Type": "application/json"}
LINES = {**KEY, "Content-Type": "application/x-ndjson"}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def patient(tmp_path: Path, tuning: Tuning = DEFAULT_TUNING) -> tuple[House, Inbox]:
    """A server whose inbox commits when the test says so."""
    file = clinic(tmp_path)
    inbox = Inbox(key_ttl=10**6, max_waiting_bytes=10**6, now=lambda: 0)
    return House(tmp_path, Still(file, inbox, tuning=tuning)), inbox


async def sent(house: House) -> "asyncio.Task[Any]":
    """Send a batch, wait until the inbox has it, and return the task of its reply."""
    client = house.client("curator")
    reply = asyncio.create_task(client.send("POST", "/api/events", content=VISIT, headers=LINES))
    while house.runner.inbox.find_status("cora ward-7") == "unknown":
        await asyncio.sleep(0.001)
    return reply


def arrow_body() -> bytes:
    batch = arrow.record_batch({"ts": ["2026-01-05T00:00:01Z"], "region": ["north"]})
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", VISIT),
        ("application/json; charset=utf-8", b"[" + VISIT + b"]"),
        ("application/x-ndjson", VISIT),
        ("application/x-ndjson", VISIT + b"\n"),
        ("application/vnd.apache.arrow.stream", arrow_body()),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_of_a_batch_becomes_the_same_line(house: House, kind: str, body: bytes, packed: bool) -> None:
    headers = {**KEY, "Content-Type": kind, **({"Content-Encoding": "gzip"} if packed else {})}
    reply = house.client("curator").post(
        "/api/events", content=gzip.compress(body) if packed else body, headers=headers
    )
    assert (reply.status_code, reply.json()) == (200, {"batch": "ward-7", "durable": True, "duplicate": False})
    assert [json.loads(data) for data in house.runner.inbox.batches_read] == [json.loads(VISIT)]


def test_a_batch_is_not_acknowledged_before_its_commit(tmp_path: Path) -> None:
    house, inbox = patient(tmp_path)

    async def sent_and_committed() -> Any:
        reply = await sent(house)
        inbox.read()
        done, _ = await asyncio.wait([reply], timeout=0.05)
        assert not done
        inbox.commit()
        return await reply

    assert asyncio.run(sent_and_committed()).json()["durable"] is True


def test_a_batch_that_is_replayed_is_counted_once(house: House) -> None:
    client = house.client("curator")
    replies = [client.post("/api/events", content=VISIT, headers=LINES).json() for _ in range(3)]
    assert [reply["duplicate"] for reply in replies] == [False, True, True]
    assert len(house.runner.inbox.batches_read) == 1


def test_two_senders_may_choose_the_same_key(house: House) -> None:
    house.secrets["second"] = house.tokens.create("carl", "curator")
    senders = [house.client("curator"), house.client("second")]
    assert senders[1].get("/api/events/ward-7").json()["status"] == "unknown"
    for repeated in (False, True):
        for sender in senders:
            reply = sender.post("/api/events", content=VISIT, headers=LINES)
            assert reply.json() == {"batch": "ward-7", "durable": True, "duplicate": repeated}
    assert len(house.runner.inbox.batches_read) == 2


def test_batch_status_is_visible_to_its_sender_only(house: House) -> None:
    house.secrets["second"] = house.tokens.create("carl", "curator")
    house.client("curator").post("/api/events", content=VISIT, headers=LINES)
    statuses = [house.client(role).get("/api/events/ward-7").json()["status"] for role in ("curator", "second")]
    assert statuses == ["committed", "unknown"]


class SharedKeyRoutes(EventRoutes):
    """A broken twin: all senders share their keys."""

    @staticmethod
    def scope_key(request: Any, key: str) -> str:
        return key


def test_twin_with_shared_keys_loses_events_of_the_second_sender(tmp_path: Path) -> None:
    house = House(tmp_path, extra=shared_key_routes)
    house.secrets["second"] = house.tokens.create("carl", "curator")
    for role in ("curator", "second"):
        house.client(role).post("/api/events", content=VISIT, headers=LINES)
    assert len(house.runner.inbox.batches_read) == 1


def shared_key_routes(runner: Any, limits: Limits) -> list[Route]:
    return SharedKeyRoutes(runner, limits, Metrics(runner, limits, Sessions(Tokens(runner.file.folder)))).routes()


@pytest.mark.parametrize("key", ["a/b", "/", "2026/01/05//7", "100%"])
def test_status_of_batch_with_any_key_is_found(house: House, key: str) -> None:
    client = house.client("curator")
    client.post("/api/events", content=VISIT, headers={**LINES, "Batch-Key": key})
    for path in (quote(key), quote(key, safe="")):
        assert client.get(f"/api/events/{path}").json() == {"batch": key, "status": "committed"}


def test_batches_and_bytes_that_wait_are_counted(tmp_path: Path) -> None:
    house, inbox = patient(tmp_path)
    inbox.put("a", VISIT)
    inbox.put("b", VISIT)
    inbox.put("b", VISIT)
    assert counted(house) == {"batches_total": 2, "pending_bytes": 2 * len(VISIT)}
    inbox.read()
    inbox.commit()
    assert counted(house) == {"batches_total": 2, "pending_bytes": 0}


def counted(house: House) -> dict[str, int]:
    details = house.client("curator").get("/metrics").text.splitlines()
    found = dict(line.removeprefix("streamgauge_").rsplit(" ", 1) for line in details if line[0] != "#")
    return {name: int(found[name]) for name in ("batches_total", "pending_bytes")}


def test_batch_of_run_that_ends_before_commit_is_not_acknowledged(tmp_path: Path) -> None:
    house, inbox = patient(tmp_path)

    async def sent_and_closed() -> Any:
        reply = await sent(house)
        Thread(target=inbox.close).start()
        return await reply

    reply = asyncio.run(sent_and_closed())
    assert code_of(reply) == (503, "not_committed")
    assert "Retry-After" in reply.headers


def test_slow_commit_gets_503_and_batch_stays_in_inbox(tmp_path: Path) -> None:
    house, inbox = patient(tmp_path, Tuning(commit_seconds=0.01))
    client = house.client("curator")
    assert code_of(client.post("/api/events", content=VISIT, headers=LINES)) == (503, "not_committed")
    assert client.get("/api/events/ward-7").json() == {"batch": "ward-7", "status": "waiting"}
    inbox.read()
    inbox.commit()
    assert client.get("/api/events/ward-7").json()["status"] == "committed"


def test_full_inbox_replies_503_with_retry_after(tmp_path: Path) -> None:
    house = House(tmp_path, Still(clinic(tmp_path), Prompt(key_ttl=1, max_waiting_bytes=10, now=lambda: 0)))
    reply = house.client("curator").post("/api/events", content=VISIT, headers=LINES)
    assert code_of(reply) == (503, "busy")
    assert reply.headers["Retry-After"] == "1"


@pytest.mark.parametrize("state", ["ended", "stopping", "failed"])
def test_events_after_the_run_are_refused(house: House, state: str) -> None:
    house.runner.event_buffer.state = state
    reply = house.client("curator").post("/api/events", content=VISIT, headers=LINES)
    assert code_of(reply) == (503, "not_running")


def test_stream_without_inbox_refuses_events(house: House) -> None:
    house.runner.inbox = None
    client = house.client("curator")
    assert code_of(client.post("/api/events", content=VISIT, headers=LINES)) == (409, "no_inbox")
    assert client.get("/api/events/ward-7").json()["status"] == "unknown"


@pytest.mark.parametrize("key", [None, "", "a" * 129, "a b", "\u00e9", "tab\there"])
def test_a_batch_needs_a_key(house: House, key: str | None) -> None:
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Batch-Key": key.encode()})  # type: ignore[dict-item]
    assert code_of(house.client("curator").post("/api/events", content=VISIT, headers=headers)) == (422, "batch_key")


def test_curator_reads_quarantine_and_metrics(house: House) -> None:
    client = house.client("curator")
    assert client.get("/api/quarantine").json() == {"records": 4711, "drops": {"late": 13}, "shares": {}}
    client.get("/healthz")
    for path in ("/metrics", "/api/metrics"):
        reply = client.get(path)
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        details = dict(line.rsplit(" ", 1) for line in reply.text.splitlines() if not line.startswith("#"))
        assert details["streamgauge_events_total"] == "4711"
        assert details['streamgauge_dropped_records_total{rule="late"}'] == "13"
        assert details['streamgauge_run_state{state="running"}'] == "1"
        assert details['streamgauge_http_requests_total{method="GET",route="/healthz",status="200"}'] == "1"


def test_run_without_progress_has_zero_counters(house: House) -> None:
    house.runner.progress = None
    client = house.client("curator")
    assert client.get("/api/quarantine").json() == {"records": 0, "drops": {}, "shares": {}}
    assert "events_total" not in client.get("/metrics").text
