"""Events and reports outside the ticks of all releases: refused at once by the clock."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.adhoc.planning import check_text_lengths
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.published import read_releases
from streamgauge.runtime.ticks import ReleaseSpans
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from streamgauge.sources.http import Inbox, InboxPausedError, Ticket
from streamgauge.store.keys import create_key
from tests.support.people import VISIT, House, Still, clinic, code_of
from tests.support.polls import AGES, START, message, poll
from tests.support.polls import accepted_records as taken_by
from tests.support.served import IMMEDIATE, Stepped, eventually, running, stepped

SECOND = 10**6
TICK = 10 * SECOND
BATCH = {"Batch-Key": "ward-7", "Content-Type": "application/x-ndjson"}


def lines(*moments: int) -> bytes:
    return "".join(json.dumps({"arrived": moment, "emoji": 1, "age": "old"}) + "\n" for moment in moments).encode()


def short(folder: Path) -> PipelineFile:
    """A poll whose releases have two ticks."""
    create_key(folder / "poll.key")
    return poll(folder, release={"horizon": "20s"})


TAKEN = [
    ([(1, 2)], 0, None, None),
    ([(1, 2)], 2 * TICK - 1, None, None),
    ([(1, 2)], 2 * TICK, (503, "not_running"), "60"),
    ([(1, 2), (1, 3)], 2 * TICK, None, None),
    ([(1, 2), (5, None)], 2 * TICK + SECOND, (425, "too_early"), "19"),
    ([(1, 2), (5, None)], 4 * TICK, None, None),
    ([(1, 2), (5, 5)], 5 * TICK, (503, "not_running"), "60"),
    ([], 0, (503, "not_running"), "60"),
]


EMOJI, AGE = frozenset({"emoji"}), frozenset({"age"})
BOTH = [(1, 2, EMOJI), (1, 3, AGE), (5, None, EMOJI)]
OF_COLUMNS = [
    (BOTH, 1, [{"emoji": 1}], 1),
    (BOTH, 1, [{"age": "old"}, {"emoji": 1}], 2),
    (BOTH, 3, [{"age": "old"}], 1),
    (BOTH, 3, [{"emoji": 1, "age": "old"}], 1),
    (BOTH, 3, [{"emoji": 1}, {"age": "old"}, {"emoji": 0}], 1),
    (BOTH, 3, [{"emoji": 1}, {"emoji": 0}], (425, "too_early")),
    (BOTH, 5, [{"age": "old"}], (503, "not_running")),
    ([(1, None)], 5, [{"age": "old"}], 1),
    ([(1, None, EMOJI)], 1, [{"age": "old"}, {"age": "young"}], (503, "not_running")),
]


@pytest.mark.parametrize(("spans", "tick", "records", "answer"), OF_COLUMNS)
def test_record_is_accepted_if_a_release_reads_its_columns(
    tmp_path: Path, spans: Any, tick: int, records: list[dict[str, Any]], answer: Any
) -> None:
    made = House(tmp_path, Still(poll(tmp_path), now=START + (tick - 1) * TICK))
    made.runner.spans = ReleaseSpans.from_tuples(spans)
    reply = made.client().post("/api/reports", json=records)
    if isinstance(answer, tuple):
        assert code_of(reply) == answer
        assert taken_by(made) == []
        return
    stored = [each for each in records if set(each) & {"age"} or tick != 3]
    assert (reply.json(), taken_by(made)) == ({"accepted": answer, "durable": True}, stored)
    assert made.runner.dropped["no release"] == len(records) - answer


@pytest.mark.parametrize("senders", ["anyone", "curator"])
def test_repeated_message_gets_its_first_reply_after_releases_change(tmp_path: Path, senders: str) -> None:
    """Records that were left out stay left out, and only acknowledged records count."""
    made = House(tmp_path, Still(poll(tmp_path, senders=senders), now=START))
    records = [{"emoji": 1}, {"age": "old"}, {"emoji": 1, "age": "old"}, {"age": "old"}]

    def details(key: str, *columns: frozenset[str]) -> tuple[int, list[Any]]:
        made.runner.spans = ReleaseSpans.from_tuples([(1, None, each) for each in columns])
        client, before = made.client(None if senders == "anyone" else "curator"), len(taken_by(made))
        reply = client.post("/api/reports", json=records, headers={"Batch-Key": key * 22})
        return reply.json()["accepted"], taken_by(made)[before:]

    assert details("k", EMOJI) == (2, [records[0], records[2]])
    assert [details("k", *reads) for reads in ((EMOJI, AGE), (AGE,), (EMOJI,))] == [(2, [])] * 3
    assert details("l", EMOJI, AGE) == (4, records)
    assert [details("l", *reads) for reads in ((EMOJI,), (AGE,), (EMOJI, AGE))] == [(4, [])] * 3


def test_binary_message_needs_a_release_of_its_column(tmp_path: Path) -> None:
    made = House(tmp_path, Still(poll(tmp_path), now=START + 2 * TICK))
    made.runner.spans = ReleaseSpans.from_tuples([(1, 2, EMOJI), (1, None, AGE)])
    reply = made.client().post("/api/reports", content=message(made, 1))
    assert (code_of(reply), reply.headers["retry-after"]) == ((503, "not_running"), "60")
    assert reply.json()["error"]["message"].endswith("no active release reads these columns")


@pytest.mark.parametrize(("accepted_records", "now", "refusal", "after"), TAKEN)
def test_reports_are_accepted_in_ticks_of_active_releases(
    tmp_path: Path, accepted_records: Any, now: int, refusal: tuple[int, str] | None, after: str | None
) -> None:
    made = House(tmp_path, Still(poll(tmp_path), now=START + now))
    made.runner.spans = ReleaseSpans.from_tuples(accepted_records)
    reply = made.client().post("/api/reports", content=message(made, 1))
    assert (None if reply.status_code == 200 else code_of(reply)) == refusal
    assert reply.headers.get("retry-after") == after
    if refusal == (503, "not_running"):
        assert reply.json()["error"]["message"].endswith("no release is active")


def test_events_are_accepted_until_last_tick_closes(tmp_path: Path) -> None:
    made = House(tmp_path, Still(clinic(tmp_path, {"allowed_lateness": "5s"})))
    made.runner.spans = ReleaseSpans.from_tuples([(1, 2)])

    def details(now: int) -> Any:
        made.runner.time = START + now
        return made.client("curator").post("/api/events", content=VISIT, headers=BATCH)

    assert details(2 * TICK + 5 * SECOND - 1).status_code == 200
    late = details(2 * TICK + 5 * SECOND)
    assert (code_of(late), late.headers["retry-after"]) == ((503, "not_running"), "60")


UNREAD = [
    (-15, False, (425, "too_early"), "5"),
    (-7200, False, (425, "too_early"), None),
    (-10, False, (503, "not_running"), "1"),
    (-10, True, (503, "not_running"), "1"),
]


@pytest.mark.parametrize(("seconds", "waiting", "refusal", "after"), UNREAD)
def test_refusal_of_paused_inbox_depends_on_stream_start(
    tmp_path: Path, seconds: int, waiting: bool, refusal: tuple[int, str], after: str | None
) -> None:
    """Events may arrive one tick early."""
    inbox = Inbox(key_ttl=10**6, max_waiting_bytes=10**6, now=lambda: 0)
    made = House(tmp_path, Still(clinic(tmp_path), inbox, now=START + seconds * SECOND))

    async def posted() -> Any:
        if not waiting:
            inbox.pause()
        sent = asyncio.create_task(made.client("curator").send("POST", "/api/events", content=VISIT, headers=BATCH))
        while waiting and not inbox.totals[0]:
            await asyncio.sleep(0.001)
        inbox.pause()
        return await sent

    reply = asyncio.run(posted())
    assert (code_of(reply), reply.headers.get("retry-after")) == (refusal, after)
    assert "events must be sent" in reply.json()["error"]["message"]


def test_run_before_its_start_refuses_events_with_retry_after(tmp_path: Path) -> None:
    clock = stepped(-20)
    with running(clinic_of(tmp_path), clock) as runner:
        posting = House(runner.file.folder, runner).client("curator")
        reply = posting.post("/api/events", content=VISIT, headers=BATCH)
        assert (code_of(reply), reply.headers["retry-after"]) == ((425, "too_early"), "10")


def clinic_of(folder: Path) -> PipelineFile:
    create_key(folder / "clinic.key")
    return clinic(folder)


def test_report_to_paused_inbox_gets_503_with_retry_after(tmp_path: Path) -> None:
    made = House(tmp_path, Still(poll(tmp_path), now=START))
    made.runner.inbox.pause()
    reply = made.client().post("/api/reports", content=message(made, 1))
    assert (code_of(reply), reply.headers["retry-after"]) == ((503, "not_running"), "1")


@pytest.fixture
def over(tmp_path: Path) -> Iterator[tuple[Runner, Stepped]]:
    """A poll whose releases have all ended."""
    clock = stepped(0)
    with running(short(tmp_path), clock, tuning=IMMEDIATE) as runner:
        clock.to(20)
        eventually(lambda: runner.inbox.is_paused, "the end of all releases")
        yield runner, clock


def put(runner: Runner, *moments: int) -> Ticket:
    """Put lines as a thread does that was delayed after it read the clock."""
    assert isinstance(runner.inbox, Inbox)
    return runner.inbox.put(None, lines(*moments))


def test_put_into_paused_inbox_is_refused_at_once(over: tuple[Runner, Stepped]) -> None:
    with pytest.raises(InboxPausedError, match="while a release goes on"):
        put(over[0], START + 2 * TICK - 1)


def test_waiting_batch_is_rejected_when_last_release_ends() -> None:
    inbox = Inbox(key_ttl=10**6, max_waiting_bytes=10**6, now=lambda: 0)
    ticket = inbox.put("k", b"{}\n")
    inbox.pause()
    assert isinstance(ticket.done.exception(timeout=0), InboxPausedError)
    assert (inbox.totals[1], inbox.find_status("k")) == (0, "unknown")
    inbox.resume(None)
    again = inbox.put("k", b"{}\n")
    assert inbox.read() is not None
    inbox.commit()
    assert (again.is_duplicate, again.done.result(timeout=0)) == (False, None)


def test_later_release_counts_all_acknowledged_reports(over: tuple[Runner, Stepped]) -> None:
    """Between the end of one release and the first tick of the next nothing is acknowledged."""
    runner, clock = over
    release = {"name": "later", "sql": AGES, "window": "each", "epsilon": 1}
    requested = check_text_lengths(parse_adhoc_release(release, runner.file.stream, 100))
    clock.to(31)
    runner.submit_release(AdHocRelease(requested, "ana", None)).result()
    first = max(span.first for span in runner.spans)
    made = House(runner.file.folder, runner)
    assert code_of(made.client().post("/api/reports", content=message(made, 1))) == (425, "too_early")
    eventually(lambda: runner.inbox.is_paused, "that nothing is read")
    with pytest.raises(InboxPausedError):
        put(runner, START + 2 * TICK - 1)
    clock.to(10 * (first - 1))
    eventually(lambda: not runner.inbox.is_paused, "that something is read")
    sent = {"content": b'{"age": "old"}', "headers": {"Content-Type": "application/json"}}
    assert made.client().post("/api/reports", **sent).status_code == 200
    other = made.client().post("/api/reports", content=message(made, 1))
    assert code_of(other) == (503, "not_running")  # the release reads ages alone
    put(runner, START + 2 * TICK - 1).done.result(timeout=20)
    clock.to(10 * first)
    eventually(lambda: _counted(runner, first), "the tick")
    assert _counted(runner, first) == 2


def _counted(runner: Runner, tick: int) -> int | None:
    found = [each for each in read_releases(runner.file, "later") if each.tick == tick]
    return None if not found else round(float(found[0].value.sum()))


def test_waiting_sender_gets_503_when_server_stops(tmp_path: Path) -> None:
    tuning = Tuning(shutdown_commit_seconds=0.05, commit_seconds=60.0)
    inbox = Inbox(key_ttl=10**6, max_waiting_bytes=10**6, now=lambda: 0)
    made = House(tmp_path, Still(poll(tmp_path), inbox, now=START, tuning=tuning))

    async def stopped() -> Any:
        sent = asyncio.create_task(made.client().send("POST", "/api/reports", content=message(made, 1)))
        while not inbox.totals[0]:
            await asyncio.sleep(0.001)
        made.runner.event_buffer.state = "stopping"
        return await sent

    reply = asyncio.run(stopped())
    assert (code_of(reply), reply.headers["retry-after"]) == ((503, "not_running"), "1")
    assert "the server is stopping" in reply.json()["error"]["message"]


def test_report_is_refused_while_run_catches_up(tmp_path: Path) -> None:
    made = House(tmp_path, Still(poll(tmp_path), now=START))
    made.runner.is_catching_up = True
    reply = made.client().post("/api/reports", content=message(made, 1))
    assert (code_of(reply), reply.headers["retry-after"]) == ((503, "catching_up"), "10")
