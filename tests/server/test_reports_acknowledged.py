"""Reports that are repeated, too early, too late or too many: their counts and replies."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from streamgauge.server.routes.events import MAX_INLINE_BYTES
from streamgauge.server.routes.reports import ParsedReports, ReportRoutes
from streamgauge.sources.http import parse_entries
from tests.support.people import House, Prompt, Still, code_of
from tests.support.polls import KEY, NOW, START, accepted_records, house, message, poll


@pytest.mark.parametrize("careless", [False, True])
def test_repeated_message_counts_once_and_other_content_counts_too(tmp_path: Path, careless: bool) -> None:
    """The broken twin ignores the content that is sent under a key."""

    class CarelessRoutes(ReportRoutes):
        def identify_message(self, body: bytes, column: str | None) -> str:
            return super().identify_message(b"" if careless else body, column)

    made = house(tmp_path, extra=lambda runner, limits: CarelessRoutes(runner, limits).routes())

    def details(code: int, address: str, **headers: str) -> Any:
        reply = made.client(address=address, **headers).post("/api/reports", content=message(made, code))
        return reply.json()

    replies = [details(1, address, Batch_Key=KEY) for address in ("10.0.1.1", "10.0.2.1")]
    replies += [details(2, "10.0.3.1", Batch_Key=KEY), *(details(3, "10.0.1.1") for _ in range(2))]
    assert replies == [{"accepted": 1, "durable": True}] * 5
    assert [each["emoji"] for each in accepted_records(made)] == ([1, 3, 3] if careless else [1, 2, 3, 3])


def test_anonymous_sender_cannot_detect_a_repeated_message(tmp_path: Path) -> None:
    """The bytes of the reply, the wait for a commit and the size of the run's input are the same."""
    made = house(tmp_path)
    inbox = made.runner.inbox
    body = json.dumps({"emoji": 3, "age": "old"}).encode()
    headers = {"Batch-Key": KEY, "Content-Type": "application/json"}

    def probed() -> tuple[Any, int, int]:
        before = len(getattr(inbox, "batches_read", []))
        reply = made.client().post("/api/reports", content=body, headers=headers)
        (data,) = inbox.batches_read[before:]
        return reply.content, len(data), data.count(b'"old"')

    assert probed() == probed() == probed()
    assert accepted_records(made) == [{"emoji": 3, "age": "old"}]


def test_short_or_malformed_anonymous_key_is_refused(tmp_path: Path) -> None:
    made = house(tmp_path)
    for key in ("k" * 21, "with a blank and long enough", "k" * 129, "é" * 30):
        headers = {"Batch-Key": key.encode()}
        reply = made.client().post("/api/reports", content=message(made, 1), headers=headers)
        assert code_of(reply) == (422, "batch_key")
    assert accepted_records(made) == []


def test_gateway_learns_of_duplicates_and_other_content_counts(tmp_path: Path) -> None:
    made = house(tmp_path, "curator")
    gateway = made.client("curator", Batch_Key="k")
    details = [gateway.post("/api/reports", content=message(made, code)).json()["duplicate"] for code in (1, 2, 1)]
    assert details == [False, False, True]
    assert [each["emoji"] for each in accepted_records(made)] == [1, 2]


def test_same_bytes_for_another_column_are_another_message(tmp_path: Path) -> None:
    file = poll(tmp_path)
    columns = {**file.stream.columns, "other": file.stream.columns["emoji"]}
    made = House(tmp_path, Still(replace(file, stream=replace(file.stream, columns=columns)), now=NOW))
    for name in ("emoji", "other", "emoji"):
        sent = made.client(Batch_Key=KEY).post(f"/api/reports?column={name}", content=message(made, 1))
        assert sent.json()["accepted"] == 1
    assert accepted_records(made) == [{"emoji": 1}, {"other": 1}]


def test_message_without_key_uses_no_remembered_key(tmp_path: Path) -> None:
    made = house(tmp_path)
    for _ in range(3):
        made.client().post("/api/reports", content=message(made, 1))
    made.client().post("/api/reports", content=message(made, 1), headers={"Batch-Key": KEY})
    assert (len(accepted_records(made)), len(parse_entries(made.runner.inbox.position()))) == (4, 1)


KINDS = [{"emoji": 1}, {"age": "old"}, {"emoji": 1, "age": "old"}]


@pytest.mark.parametrize("senders", ["anyone", "curator"])
def test_message_uses_one_key_for_all_its_columns(tmp_path: Path, senders: str) -> None:
    made = house(tmp_path, senders)
    client = made.client(None if senders == "anyone" else "curator", Batch_Key=KEY)
    for sent in (KINDS, KINDS[:2]):
        assert client.post("/api/reports", json=sent).json()["accepted"] == len(sent)
    assert len(parse_entries(made.runner.inbox.position())) == 2


class Walked(list[Any]):
    """A list that counts its iterations."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_number_of_iterations_does_not_depend_on_columns(tmp_path: Path) -> None:
    walked: list[Walked] = []

    class WalkedRoutes(ReportRoutes):
        @staticmethod
        def parse_records(*arguments: Any) -> ParsedReports:
            found = ReportRoutes.parse_records(*arguments)
            walked[:] = [Walked(found.records), Walked(found.columns)]
            return replace(found, records=walked[0], columns=walked[1])

    made = house(tmp_path, extra=lambda runner, limits: WalkedRoutes(runner, limits).routes())

    def times(sent: list[Any]) -> tuple[int, int]:
        assert made.client(Batch_Key=KEY).post("/api/reports", json=sent).json()["accepted"] == 3
        return walked[0].times, walked[1].times

    assert times(KINDS) == times([KINDS[0]] * 3)


def test_large_message_is_parsed_outside_the_event_loop(tmp_path: Path) -> None:
    threads: dict[str, Any] = {}

    class WatchedReports(ParsedReports):
        def filter_columns(self, *arguments: Any) -> Any:
            threads["filter"] = current_thread()
            return super().filter_columns(*arguments)

        def to_lines(self, *arguments: Any) -> bytes:
            threads["write"] = current_thread()
            return super().to_lines(*arguments)

    class WatchedRoutes(ReportRoutes):
        @staticmethod
        def parse_records(*arguments: Any) -> ParsedReports:
            threads["parse"] = current_thread()
            found = ReportRoutes.parse_records(*arguments)
            return WatchedReports(found.records, found.dropped, found.columns)

        def identify_message(self, *arguments: Any) -> str:
            threads["hash"] = current_thread()
            return super().identify_message(*arguments)

    many = MAX_INLINE_BYTES // 15
    made = house(tmp_path, "curator", extra=lambda runner, limits: WatchedRoutes(runner, limits).routes())
    client = made.client("curator", Batch_Key="k")
    assert client.post("/api/reports", json=KINDS * many).json()["accepted"] == 3 * many
    assert set(threads) == {"filter", "write", "parse", "hash"}
    assert current_thread() not in threads.values()


OUTSIDE: list[tuple[int, tuple[int, str], str | None]] = [
    (START - 1, (425, "too_early"), "1"),
    (START - 90 * 10**6, (425, "too_early"), "90"),
    (START - 3601 * 10**6, (425, "too_early"), None),
    (START + 20 * 10**6, (410, "stream_ended"), None),
    (START + 10**15, (410, "stream_ended"), None),
]


def test_report_outside_the_streams_ticks_is_refused(tmp_path: Path) -> None:
    made = house(tmp_path, end="2026-01-05T00:00:20Z")
    for now, details, after in OUTSIDE:
        made.runner.time = now
        reply = made.client().post("/api/reports", content=message(made, 1))
        assert (code_of(reply), reply.headers.get("retry-after")) == (details, after)
        assert reply.headers["access-control-expose-headers"] == "Retry-After"
    made.runner.time = START
    assert made.client().post("/api/reports", content=message(made, 2)).status_code == 200
    made.runner.time = START + 20 * 10**6 - 1
    assert made.client().post("/api/reports", content=message(made, 3)).status_code == 200
    assert [each["emoji"] for each in accepted_records(made)] == [2, 3]


def test_message_arrives_when_all_of_its_body_has_arrived(tmp_path: Path) -> None:
    made = house(tmp_path, end="2026-01-05T00:00:20Z")
    whole = message(made, 1)

    async def send_slowly() -> AsyncIterator[bytes]:
        yield whole[:3]
        made.runner.time = START + 20 * 10**6
        yield whole[3:]

    assert code_of(made.client().post("/api/reports", content=send_slowly())) == (410, "stream_ended")
    assert accepted_records(made) == []


def test_busy_or_stopping_server_refuses_in_terms_of_reports(tmp_path: Path) -> None:
    made = house(tmp_path)
    made.runner.inbox = Prompt(key_ttl=10**6, max_waiting_bytes=3, now=lambda: 0)
    full = made.client().post("/api/reports", content=message(made, 1))
    made.runner.event_buffer.state = "stopping"
    stopping = made.client().post("/api/reports", content=message(made, 1))
    assert [code_of(full), code_of(stopping)] == [(503, "busy"), (503, "not_running")]
    assert not any("event" in reply.json()["error"]["message"] for reply in (full, stopping))
