"""Reports that are sent again, too early, too late or too many: what is counted, and what anybody learns."""

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from streamgauge.server.routes import reports
from streamgauge.server.routes.events import MAX_INLINE_BYTES
from streamgauge.server.routes.reports import ParsedReports
from streamgauge.sources.http import parse_entries
from tests.support.people import House, Still, code_of
from tests.support.polls import KEY, NOW, START, house, message, poll, taken


@pytest.mark.parametrize("careless", [False, True])
def test_a_message_that_is_sent_again_is_counted_once_and_nobody_takes_anothers_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, careless: bool
) -> None:
    """The broken twin does not look at what is sent under a key."""
    if careless:
        monkeypatch.setattr(reports, "sha256", lambda body: sha256(b""))
    made = house(tmp_path)

    def told(code: int, address: str, **headers: str) -> Any:
        reply = made.client(address=address, **headers).post("/api/reports", content=message(made, code))
        return reply.json()

    replies = [told(1, address, Batch_Key=KEY) for address in ("10.0.1.1", "10.0.2.1")]
    replies += [told(2, "10.0.3.1", Batch_Key=KEY), *(told(3, "10.0.1.1") for _ in range(2))]
    assert replies == [{"accepted": 1, "durable": True}] * 5
    assert [each["emoji"] for each in taken(made)] == ([1, 3, 3] if careless else [1, 2, 3, 3])


def test_what_is_told_of_a_stranger_is_the_same_whether_the_message_was_sent_before_or_not(tmp_path: Path) -> None:
    """All of it but chance: the bytes of the reply, that it waits for a commit, and what the run reads."""
    made = house(tmp_path)
    inbox = made.runner.inbox
    body = json.dumps({"emoji": 3, "age": "old"}).encode()
    headers = {"Batch-Key": KEY, "Content-Type": "application/json"}

    def probed() -> tuple[Any, int, int]:
        before = len(getattr(inbox, "taken", []))
        reply = made.client().post("/api/reports", content=body, headers=headers)
        (data,) = inbox.taken[before:]
        return reply.content, len(data), data.count(b'"old"')

    assert probed() == probed() == probed()
    assert taken(made) == [{"emoji": 3, "age": "old"}]


def test_a_strangers_key_must_be_too_long_to_be_guessed(tmp_path: Path) -> None:
    made = house(tmp_path)
    for key in ("k" * 21, "with a blank and long enough", "k" * 129, "é" * 30):
        headers = {"Batch-Key": key.encode()}
        reply = made.client().post("/api/reports", content=message(made, 1), headers=headers)
        assert code_of(reply) == (422, "batch_key")
    assert taken(made) == []


def test_a_gateway_is_told_what_it_sent_before_and_another_message_under_a_key_is_counted(tmp_path: Path) -> None:
    made = house(tmp_path, "curator")
    gateway = made.client("curator", Batch_Key="k")
    told = [gateway.post("/api/reports", content=message(made, code)).json()["duplicate"] for code in (1, 2, 1)]
    assert told == [False, False, True]
    assert [each["emoji"] for each in taken(made)] == [1, 2]


def test_the_same_bytes_for_another_column_are_another_message(tmp_path: Path) -> None:
    file = poll(tmp_path)
    columns = {**file.stream.columns, "other": file.stream.columns["emoji"]}
    made = House(tmp_path, Still(replace(file, stream=replace(file.stream, columns=columns)), now=NOW))
    for name in ("emoji", "other", "emoji"):
        sent = made.client(Batch_Key=KEY).post(f"/api/reports?column={name}", content=message(made, 1))
        assert sent.json()["accepted"] == 1
    assert taken(made) == [{"emoji": 1}, {"other": 1}]


def test_keys_that_the_server_would_have_to_draw_are_not_remembered(tmp_path: Path) -> None:
    made = house(tmp_path)
    for _ in range(3):
        made.client().post("/api/reports", content=message(made, 1))
    made.client().post("/api/reports", content=message(made, 1), headers={"Batch-Key": KEY})
    assert (len(taken(made)), len(parse_entries(made.runner.inbox.position()))) == (4, 1)


KINDS = [{"emoji": 1}, {"age": "old"}, {"emoji": 1, "age": "old"}]


@pytest.mark.parametrize("senders", ["anyone", "curator"])
def test_a_message_takes_one_of_the_remembered_keys_whatever_columns_its_records_have(
    tmp_path: Path, senders: str
) -> None:
    made = house(tmp_path, senders)
    client = made.client(None if senders == "anyone" else "curator", Batch_Key=KEY)
    for sent in (KINDS, KINDS[:2]):
        assert client.post("/api/reports", json=sent).json()["accepted"] == len(sent)
    assert len(parse_entries(made.runner.inbox.position())) == 2


class Walked(list[Any]):
    """Counts how often somebody goes through it."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_records_are_gone_through_as_often_whatever_columns_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, read = house(tmp_path), reports.parse_records

    def times(sent: list[Any]) -> tuple[int, int]:
        walked: list[Walked] = []

        def found(*told: Any) -> Any:
            made_of = read(*told)
            walked.extend([Walked(made_of.records), Walked(made_of.columns)])
            return replace(made_of, records=walked[0], columns=walked[1])

        monkeypatch.setattr(reports, "parse_records", found)
        assert made.client(Batch_Key=KEY).post("/api/reports", json=sent).json()["accepted"] == 3
        return walked[0].times, walked[1].times

    assert times(KINDS) == times([KINDS[0]] * 3)


def test_a_large_message_is_read_sorted_and_written_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, threads, many = house(tmp_path, "curator"), set[Any](), MAX_INLINE_BYTES // 15

    def noted(act: Any) -> Any:
        def there(*told: Any, **settings: Any) -> Any:
            threads.add(current_thread())
            return act(*told, **settings)

        return there

    for name in ("filter_columns", "to_lines"):
        monkeypatch.setattr(ParsedReports, name, noted(getattr(ParsedReports, name)))
    for name in ("parse_records", "sha256"):
        monkeypatch.setattr(reports, name, noted(getattr(reports, name)))
    client = made.client("curator", Batch_Key="k")
    assert client.post("/api/reports", json=KINDS * many).json()["accepted"] == 3 * many
    assert threads
    assert current_thread() not in threads


OUTSIDE: list[tuple[int, tuple[int, str], str | None]] = [
    (START - 1, (425, "too_early"), "1"),
    (START - 90 * 10**6, (425, "too_early"), "90"),
    (START - 3601 * 10**6, (425, "too_early"), None),
    (START + 20 * 10**6, (410, "stream_ended"), None),
    (START + 10**15, (410, "stream_ended"), None),
]


def test_what_no_tick_is_there_for_is_refused_and_never_acknowledged(tmp_path: Path) -> None:
    made = house(tmp_path)
    object.__setattr__(made.file.stream, "end", START + 20 * 10**6)
    for now, told, after in OUTSIDE:
        made.runner.time = now
        reply = made.client().post("/api/reports", content=message(made, 1))
        assert (code_of(reply), reply.headers.get("retry-after")) == (told, after)
        assert reply.headers["access-control-expose-headers"] == "Retry-After"
    made.runner.time = START
    assert made.client().post("/api/reports", content=message(made, 2)).status_code == 200
    made.runner.time = START + 20 * 10**6 - 1
    assert made.client().post("/api/reports", content=message(made, 3)).status_code == 200
    assert [each["emoji"] for each in taken(made)] == [2, 3]


def test_a_message_that_is_being_read_as_the_stream_ends_is_stamped_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = house(tmp_path)
    object.__setattr__(made.file.stream, "end", START + 20 * 10**6)
    read = reports.read_body

    async def slow(*told: Any, **settings: Any) -> bytes:
        made.runner.time = START + 20 * 10**6
        return await read(*told, **settings)

    monkeypatch.setattr(reports, "read_body", slow)
    assert code_of(made.client().post("/api/reports", content=message(made, 1))) == (410, "stream_ended")
    assert taken(made) == []


def test_what_cannot_be_taken_now_is_refused_in_the_words_of_reports(tmp_path: Path) -> None:
    made = house(tmp_path)
    made.runner.inbox._max_waiting_bytes = 3
    full = made.client().post("/api/reports", content=message(made, 1))
    made.runner.event_buffer.state = "stopping"
    stopping = made.client().post("/api/reports", content=message(made, 1))
    assert [code_of(full), code_of(stopping)] == [(503, "busy"), (503, "not_running")]
    assert not any("event" in reply.json()["error"]["message"] for reply in (full, stopping))
