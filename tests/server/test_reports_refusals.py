"""What commands and the server's log say of a stream of reports, and of numbers."""

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


def test_an_intrusion_is_refused_by_what_is_stored_of_reports_and_of_plain_columns(tmp_path: Path) -> None:
    with pytest.raises(IntrusionError) as refused:
        check_intrusion(poll(tmp_path), tmp_path / "over")
    assert str(refused.value) == f"poll.toml: {NOISE}"
    curator = House(tmp_path, Still(poll(tmp_path), now=NOW)).client("curator")
    reply = curator.post("/api/intrusions", json={"folder": "court"})
    assert code_of(reply) == (409, "not_pan_private")
    assert reply.json()["error"]["message"] == NOISE


def test_a_run_of_reports_is_refused_as_one_of_reports(tmp_path: Path) -> None:
    with pytest.raises(RunRefusedError, match="got reports, which are sent: use streamgauge serve"):
        Pipeline(poll(tmp_path)).run()


def test_the_error_of_reports_that_no_one_expects_is_one_line_that_says_what_it_is_of(tmp_path: Path) -> None:
    details = [str(Pipeline(file).plan()) for file in (poll(tmp_path), poll(tmp_path, release={"expected_events": 50}))]
    note = "of a value that few have, among {} reports that are spread evenly over the others"
    assert details[0].count(note.format("1,000") + "; `expected_events` tells how many to expect a tick") == 1
    assert details[1].count(note.format("100")) == 1
    assert "`expected_events`" not in details[1]


def test_numbers_that_a_library_speaks_of_are_shown_and_nothing_else() -> None:
    said: list[str] = []
    with capture_logs(said.append):
        speaking = logging.getLogger("uvicorn.error")
        speaking.error("Cancel %s running task(s)", 3)
        speaking.error("Cannot serve %s", "patient 4711")
        speaking.error("Done")
    assert said == ["server: Cancel 3 running task(s)", "server: Cannot serve %s", "server: Done"]
