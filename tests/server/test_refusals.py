"""Refusals say whether the message was certainly not accepted, so that a device knows if it may resend."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.sources.http import Inbox
from tests.support.people import VISIT, House, Still, clinic
from tests.support.polls import NOW, START, message, poll

SECOND = 10**6
Act = Callable[[House], None]


def house(folder: Path, source: str, tuning: Tuning = DEFAULT_TUNING) -> House:
    """Return a server whose inbox only the test reads."""
    file = poll(folder) if source == "reports" else clinic(folder)
    return House(folder, Still(file, unread_inbox(10**6), now=NOW, tuning=tuning))


def unread_inbox(max_waiting_bytes: int) -> Inbox:
    return Inbox(key_ttl=10**6, max_waiting_bytes=max_waiting_bytes, now=lambda: 0)


async def sent(made: House, source: str) -> Any:
    if source == "reports":
        return await made.client().send("POST", "/api/reports", content=message(made, 1))
    headers = {"Batch-Key": "ward-7", "Content-Type": "application/x-ndjson"}
    return await made.client("curator").send("POST", "/api/events", content=VISIT, headers=headers)


def stopping(made: House) -> None:
    made.runner.event_buffer.state = "stopping"


def behind(made: House) -> None:
    made.runner.is_catching_up = True


def full(made: House) -> None:
    made.runner.inbox = unread_inbox(3)


def blocked(made: House) -> None:
    made.limits.settings = replace(made.file.server, max_buffer=3)


def early(made: House) -> None:
    made.runner.time = START - 3600 * SECOND


def resting(made: House) -> None:
    made.runner.inbox.pause()


def closing(made: House) -> None:
    made.runner.inbox.close()


BEFORE: list[tuple[Act, int, str]] = [
    (stopping, 503, "not_running"),
    (behind, 503, "catching_up"),
    (full, 503, "busy"),
    (blocked, 503, "busy"),
    (early, 425, "too_early"),
    (resting, 503, "not_running"),
    (closing, 503, "busy"),
]


@pytest.mark.parametrize("source", ["reports", "events"])
@pytest.mark.parametrize(("act", "status", "code"), BEFORE)
def test_refusal_before_the_inbox_says_not_accepted(
    tmp_path: Path, source: str, act: Act, status: int, code: str
) -> None:
    made = house(tmp_path, source)
    act(made)
    reply = asyncio.run(sent(made, source))
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["accepted"]) == (status, code, False)
    assert made.runner.inbox.totals[0] == 0


def nothing(made: House) -> None:
    """No commit comes."""


def read(made: House) -> None:
    """Read the batch and end the run. The sender cannot know whether the commit came first."""
    assert made.runner.inbox.read() is not None
    made.runner.inbox.close()


WAITING: list[tuple[Act, str, bool | None]] = [
    (resting, "not_running", False),
    (read, "not_committed", None),
    (stopping, "not_running", None),
    (nothing, "not_committed", None),
]


@pytest.mark.parametrize("source", ["reports", "events"])
@pytest.mark.parametrize(("act", "code", "accepted_records"), WAITING)
def test_waiting_batch_is_certainly_refused_only_if_run_pauses(
    tmp_path: Path, source: str, *, act: Act, code: str, accepted_records: bool | None
) -> None:
    patience = Tuning(commit_seconds=0.2 if act is nothing else 60.0, shutdown_commit_seconds=0.01)
    made = house(tmp_path, source, patience)

    async def waited() -> Any:
        posted = asyncio.create_task(sent(made, source))
        while not made.runner.inbox.totals[0]:
            await asyncio.sleep(0.001)
        act(made)
        return await posted

    reply = asyncio.run(waited())
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error.get("accepted")) == (503, code, accepted_records)
