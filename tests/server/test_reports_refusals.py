"""Messages of commands and of the server's log for a stream of reports."""

import logging
from pathlib import Path

import pytest

from streamgauge.runtime.intrusion.intrude import IntrusionError, check_intrusion
from streamgauge.runtime.pipeline import Pipeline
from streamgauge.runtime.session import RunRefusedError
from streamgauge.server.http.serving import capture_logs
from tests.support.people import House, Still, code_of
from tests.support.polls import NOW, poll

NOISE = (
    'source must be other than "reports" for an intrusion: the state of emoji is noise, which the '
    "collector has anyway; the state of age is exact, and encrypted"
)


def test_intrusion_into_reports_is_refused_with_reason_per_column(tmp_path: Path) -> None:
    with pytest.raises(IntrusionError) as refused:
        check_intrusion(poll(tmp_path), tmp_path / "over")
    assert str(refused.value) == f"poll.toml: {NOISE}"
    curator = House(tmp_path, Still(poll(tmp_path), now=NOW)).client("curator")
    reply = curator.post("/api/intrusions", json={"folder": "court"})
    assert code_of(reply) == (409, "not_pan_private")
    assert reply.json()["error"]["message"] == NOISE


def test_run_of_reports_without_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunRefusedError, match="got reports, which are sent: use streamgauge serve"):
        Pipeline(poll(tmp_path)).run()


def test_plan_of_reports_states_assumed_number_of_reports(tmp_path: Path) -> None:
    details = [str(Pipeline(file).plan()) for file in (poll(tmp_path), poll(tmp_path, release={"expected_events": 50}))]
    note = "of a value that few have, among {} reports that are spread evenly over the others"
    assert details[0].count(note.format("1,000") + "; `expected_events` tells how many to expect a tick") == 1
    assert details[1].count(note.format("100")) == 1
    assert "`expected_events`" not in details[1]


def test_log_of_library_shows_numbers_but_no_texts() -> None:
    said: list[str] = []
    with capture_logs(said.append):
        speaking = logging.getLogger("uvicorn.error")
        speaking.error("Cancel %s running task(s)", 3)
        speaking.error("Cannot serve %s", "patient 4711")
        speaking.error("Done")
    assert said == ["server: Cancel 3 running task(s)", "server: Cannot serve %s", "server: Done"]
