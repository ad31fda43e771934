"""A pan-private run whose key is away: who asks is refused, nothing is charged, and the run goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.intrusion.intrude import IntrusionError
from streamgauge.runtime.published import read_ledger_log
from streamgauge.server.commands import KeyUnavailableError
from streamgauge.server.intrusion import build_export_path
from streamgauge.server.runner import Runner
from streamgauge.store.keys import create_key, is_key_missing
from tests.server.test_live_intrusions import COUNTS, NOTED, PRIVATE, SERVER, Served, made
from tests.support.people import code_of
from tests.support.served import IMMEDIATE, eventually, file_of

VISITS = {"name": "more", "sql": "SELECT COUNT(*) FROM v", "window": "running", "epsilon": "1/4"}


QUICK = replace(IMMEDIATE, key_retry_seconds=0.01)


class UncheckedRunner(Runner):
    """A run whose key goes away between the check and the batch."""

    def is_key_available(self) -> bool:
        return True


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Served]:
    NOTED.clear()
    run = Served(file_of(folder, COUNTS, server=SERVER, **PRIVATE), folder, **settings)
    try:
        yield run
    finally:
        run.runner.stop()
        run.house.tokens.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, tuning=QUICK) as run:
        yield run


@pytest.fixture
def unchecked(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, tuning=QUICK, kind=UncheckedRunner) as run:
        yield run


def charged(run: Served) -> set[str]:
    return set(read_ledger_log(run.file).releases)


def test_a_run_is_not_set_down_while_its_key_is_away(run: Served, tmp_path: Path) -> None:
    key = tmp_path / "v.key"
    stored = key.rename(tmp_path / "elsewhere.key")
    requested = run.curator.post("/api/releases", json=VISITS)
    for reply in (run.intrude("a"), requested):
        assert (code_of(reply), reply.headers["retry-after"]) == ((503, "key_unavailable"), "10")
        assert "got none: the run continues, and nothing was charged" in reply.text
    assert (run.runner.state, NOTED) == ("running", [])
    assert run.close(1)
    stored.rename(key)
    assert run.intrude("a").status_code == 201
    assert (made(run), charged(run)) == (1, {"n"})
    assert run.close(2)


def test_stopped_run_waits_for_its_key(unchecked: Served, tmp_path: Path) -> None:
    run = unchecked
    run.send(range(3), 1)
    key = tmp_path / "v.key"
    stored = key.rename(tmp_path / "elsewhere.key")
    with pytest.raises(IntrusionError) as refusal:
        run.runner.intrude(build_export_path(run.file, "a"))
    assert refusal.value.code == "key_unavailable"
    for _ in range(2):
        with pytest.raises(KeyUnavailableError):
            run.runner.submit_end("n").result(20)
    assert run.runner.state == "running"
    assert [type(each).__name__ for each in NOTED[:2]] == ["KeyRefusedError", "KeyRefusedError"]
    details = len(NOTED)
    stored.rename(key)
    assert run.close(1)["count"]["value"] is not None
    assert run.intrude("a").status_code == 201
    assert (made(run), charged(run), run.runner.state, len(NOTED)) == (1, {"n"}, "running", details)


def test_run_that_waits_for_its_key_can_be_stopped(tmp_path: Path) -> None:
    with serving(tmp_path, tuning=replace(IMMEDIATE, key_retry_seconds=600.0), kind=UncheckedRunner) as run:
        (tmp_path / "v.key").unlink()
        create_key(tmp_path / "v.key")
        with pytest.raises(IntrusionError, match="got another from"):
            run.runner.intrude(build_export_path(run.file, "a"))
        eventually(lambda: run.runner.is_waiting_for_key, "the wait")
        run.runner.stop()
        assert run.runner.error == ""


def test_a_server_that_never_ran_does_not_wait(tmp_path: Path) -> None:
    file = file_of(tmp_path, COUNTS, server=SERVER, **PRIVATE)
    (tmp_path / "v.key").unlink()
    with pytest.raises(Exception, match="key file must be readable"):
        Served(file, tmp_path)


def keyed(folder: Path, key: str) -> PipelineFile:
    return file_of(folder, COUNTS, server=SERVER, **{**PRIVATE, "key": key})


@pytest.mark.parametrize(
    ("key", "away"),
    [
        ("file:v.key", False),
        ("file:gone.key", True),
        ("env:PATH", False),
        ("env:NO_SUCH_KEY", True),
        ("command:cat v.key", False),
        ("command:./there", False),
        ("command:./not-there", True),
        ("command:no-such-program-of-ours", True),
        ("command:'open", True),
    ],
)
def test_what_is_away_is_visible_without_reading_it(tmp_path: Path, key: str, away: bool) -> None:
    program: Any = tmp_path / "there"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    assert is_key_missing(keyed(tmp_path, key)) == away
