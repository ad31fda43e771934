"""A pan-private server: batches pass through and leave no trace of their arrival."""

import json
from pathlib import Path
from threading import Thread

import pytest

from streamgauge.runtime.options import Progress
from streamgauge.server.runner import Runner
from streamgauge.sources.http import InboxFullError
from streamgauge.sources.http_ephemeral import EphemeralInbox
from tests.support.people import VISIT, House, Still, clinic

LINES = {"Batch-Key": "ward-7", "Content-Type": "application/x-ndjson"}


class Passing(EphemeralInbox):
    """An inbox that is read as soon as it has a batch."""

    def put(self, key: str, lines: bytes) -> object:
        ticket = super().put(key, lines)
        Thread(target=self.read).start()
        return ticket


@pytest.fixture
def house(tmp_path: Path) -> House:
    still = Still(clinic(tmp_path, {"pan_private": True}, rate=2), Passing(max_waiting_bytes=10**6))
    still.progress = Progress(7, None, 0, {}, counts_events=False)
    return House(tmp_path, still)


def test_batch_is_not_durable_and_counts_again_when_resent(house: House) -> None:
    client = house.client("curator")
    for _ in range(3):
        reply = client.post("/api/events", content=VISIT, headers=LINES)
        assert (reply.status_code, reply.json()["durable"], reply.json()["duplicate"]) == (200, False, False)
    details = client.get("/api/events/ward-7").json()
    assert details["status"] == "untracked"


@pytest.mark.parametrize("role", ["sender", "curator"])
def test_metrics_and_access_log_do_not_record_events(house: House, role: str) -> None:
    """Posts of events change neither the metrics nor the access log nor the rate limits."""
    client, other, poster = house.client("curator"), house.client("curator"), house.client(role)
    before = client.get("/api/metrics").text
    written = len(house.access)
    for _ in range(12):
        assert poster.post("/api/events", content=VISIT, headers=LINES).status_code == 200
    assert house.access[written:] == []
    after = other.get("/api/metrics").text
    for details in (before, after):
        assert "events" not in details
        assert "dropped_records_total" not in details
        assert "batches_total" not in details
        assert "pending_bytes" not in details
    counts = [line for line in after.splitlines() if line.startswith("streamgauge_http_requests_total")]
    assert counts == ['streamgauge_http_requests_total{method="GET",route="/api/metrics",status="200"} 1']


def test_pan_private_runner_has_an_ephemeral_inbox(tmp_path: Path) -> None:
    assert isinstance(Runner(clinic(tmp_path, {"pan_private": True})).inbox, EphemeralInbox)
    assert not isinstance(Runner(clinic(tmp_path)).inbox, EphemeralInbox)


def test_ephemeral_inbox_is_empty_after_a_read() -> None:
    inbox = EphemeralInbox(max_waiting_bytes=100)
    tickets = [inbox.put("k", json.dumps({"n": n}).encode()) for n in range(3)]
    with pytest.raises(InboxFullError, match=r"^events that wait must be at most 100 bytes, got more$"):
        inbox.put("k", b"x" * 90)
    assert inbox.has_waiters
    block = inbox.read()
    assert block is not None
    assert block.data == b'{"n": 0}\n{"n": 1}\n{"n": 2}\n'
    assert all(ticket.done.result(0) is None for ticket in tickets)
    assert (inbox.at_end, inbox.has_waiters, inbox.read(), inbox.position()) == (True, False, None, b"")
    fresh = vars(EphemeralInbox(max_waiting_bytes=100))
    assert {name: value for name, value in vars(inbox).items() if name != "_lock"} == {
        name: value for name, value in fresh.items() if name != "_lock"
    }
    left = inbox.put("k", b"{}")
    inbox.close()
    with pytest.raises(InboxFullError, match="got some after its end"):
        left.done.result(0)
    with pytest.raises(InboxFullError, match="got some after its end"):
        inbox.put("k", b"{}")
