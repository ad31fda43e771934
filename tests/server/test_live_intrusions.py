"""Announced intrusions into a running server: between two rounds, in the ledger, never sent over HTTP."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge.config.settings import PipelineFile
from streamgauge.plan.planner import plan_release
from streamgauge.runtime.commands.queue import CommandSchedule
from streamgauge.runtime.intrusion import export as handed_over
from streamgauge.runtime.intrusion.export import build_export_path
from streamgauge.runtime.intrusion.intrude import IntrusionError
from streamgauge.runtime.options import Options
from streamgauge.runtime.published import read_ledger_log
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from streamgauge.testing.noise import InsecureNoise
from tests.support.people import House, code_of
from tests.support.served import IMMEDIATE, Stepped, committed, eventually, file_of, stepped

PRIVATE: dict[str, Any] = {"source": "http", "pan_private": True, "allowed_lateness": "0s", "allowed_earliness": "0s"}
USERS: dict[str, Any] = {
    **PRIVATE,
    "unit": {"user": "u"},
    "budget": {"epsilon": 12},
    "end": "2026-01-05T00:00:40Z",
    "columns": {"u": {"values": [f"u{i}" for i in range(400)]}},
}
DENSITY = {"name": "here", "sql": "SELECT DENSITY(u) FROM v", "window": "running", "epsilon": 12}
COUNTS = {"name": "n", "sql": "SELECT COUNT(*) FROM v", "window": "running", "epsilon": "1/2"}
SERVER = {"publish_delay": "20ms", "adhoc": {"max_requests_per_minute": 1000}}
NOTED: list[Exception] = []


@pytest.fixture(autouse=True)
def empty_log() -> None:
    NOTED.clear()


def users(folder: Path, reserved: int = 1) -> PipelineFile:
    return file_of(folder, DENSITY, server=SERVER, **USERS, reserved_intrusions=reserved)


class Served:
    """A server that runs, its clock and its curator."""

    def __init__(
        self,
        file: PipelineFile,
        folder: Path,
        *,
        kind: type[Runner] = Runner,
        tuning: Tuning = IMMEDIATE,
        **options: Any,
    ) -> None:
        self.clock: Stepped = stepped(1)
        self.runner = kind(file, Options(clock=self.clock, **options), on_failure=NOTED.append, tuning=tuning)
        self.runner.start()
        self.file, self.house = file, House(folder, self.runner)
        self.curator = self.house.client("curator")

    def send(self, people: range, second: int) -> None:
        visits = "\n".join(json.dumps({"ts": 1_767_571_200 + second, "u": f"u{n}"}) for n in people)
        headers = {"Batch-Key": "k", "Content-Type": "application/x-ndjson"}
        assert self.curator.post("/api/events", content=visits, headers=headers).status_code == 200

    def intrude(self, name: str) -> Any:
        return self.curator.post("/api/intrusions", json={"folder": name})

    def ledger(self) -> dict[str, Any]:
        details: dict[str, Any] = self.house.client("reader").get("/api/ledger").json()
        return details

    def close(self, tick: int) -> dict[str, Any]:
        """Commit and publish a tick, and return its row."""
        self.clock.to(10 * tick + 0.001)
        eventually(lambda: committed(self.runner)[1] == tick, f"the commit of tick {tick}")
        self.clock.to(10 * tick + 1)
        route = f"/api/releases/{self.file.releases[0].name}?from={tick}&to={tick}"
        found: list[dict[str, Any]] = []

        def left() -> bool:
            reply = self.house.client("reader").get(route).json()
            found.extend(reply.get("rows", ()))
            return bool(found)

        eventually(left, "the departure")
        return found[0]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Any]:
    made: list[Served] = []

    def begin(file: PipelineFile, **options: Any) -> Served:
        made.append(Served(file, tmp_path, **options))
        return made[-1]

    yield begin
    for each in made:
        each.runner.stop()
        each.house.tokens.close()


def test_server_exports_state_and_continues_with_predicted_error(tmp_path: Path, served: Any) -> None:
    file = users(tmp_path)
    run = served(file, noise=InsecureNoise(5))
    run.send(range(200), 1)
    reply = run.intrude("for-the-court")
    assert reply.status_code == 201, reply.text
    over = tmp_path / "v.intrusions" / "for-the-court"
    assert reply.json() == {"intrusion": 1, "tick": 0, "folder": str(over)}
    assert {path.name for path in over.iterdir()} == {"here.0.entries.npy", "secret.npy", "manifest.json"}
    manifest = json.loads((over / "manifest.json").read_text())
    assert (manifest["intrusion"], manifest["journal_is_empty"]) == (1, True)
    assert np.load(over / "here.0.entries.npy").shape == (400,)
    run.send(range(200, 300), 1)
    row = run.close(1)["density_u"]
    claim = plan_release(file, file.releases[0]).parts[0].statistic.counter
    assert abs(row["value"] - 0.75) < 8 * row["stddev"]
    assert row["stddev"] == pytest.approx(claim.stddev(min(max(row["value"], 0), 1), intrusions=1))
    assert code_of(run.intrude("once-more")) == (409, "no_intrusion_left")
    assert run.runner.state == "running"


class CommitDatedSchedule(CommandSchedule):
    """A twin that dates an intrusion by its commit, which reveals the duration of the round before it."""

    def find_reply_time(self, requested_at: int) -> int:
        return requested_at

    def find_publish_time(self, moment: int) -> int:
        return moment


class CommitDatedRunner(Runner):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        known = self.command_queue.schedule
        self.command_queue.schedule = CommitDatedSchedule(known.start, known.interval, known.is_aligned)


def test_intrusion_is_in_the_ledger_from_its_publish_time_on(tmp_path: Path, served: Any) -> None:
    check_publish_time(served(users(tmp_path, reserved=2)))


def test_twin_that_dates_an_intrusion_by_its_commit_is_caught(tmp_path: Path, served: Any) -> None:
    with pytest.raises(AssertionError, match="whole delay"):
        check_publish_time(served(users(tmp_path, reserved=2), kind=CommitDatedRunner))


def check_publish_time(run: Served) -> None:
    run.clock.to(1.005)
    assert run.intrude("a").status_code == 201
    assert run.ledger()["intrusions"] == {"total": 0, "remaining": 2}
    run.clock.to(1.06)
    eventually(lambda: run.ledger()["intrusions"] == {"total": 1, "remaining": 1}, "the departure")
    (act,) = [each for each in run.curator.get("/api/ledger/entries").json()["entries"] if each["kind"] == "intrusion"]
    stored = [each.time for each in read_ledger_log(run.file).ledger_entries if each.kind == "intrusion"]
    assert stored == [1_767_571_201_040_000], "the first publication a whole delay after the request"
    assert (act["time"], act["tick"], act["releases"]) == ("2026-01-05T00:00:01.040000Z", 0, ["here"])


def test_invalid_intrusion_is_refused_with_code_and_run_continues(tmp_path: Path, served: Any) -> None:
    run = served(users(tmp_path))
    for body in ({}, {"folder": 7}, {"folder": "../up"}, {"folder": ""}, {"folder": "a", "more": 1}):
        assert code_of(run.curator.post("/api/intrusions", json=body)) == (422, "bad_folder")
    build_export_path(run.file, "there").mkdir(parents=True)
    assert code_of(run.intrude("there")) == (409, "folder_exists")
    assert code_of(run.house.client("analyst").post("/api/intrusions", json={"folder": "a"})) == (403, "wrong_role")
    waiting = [run.runner.submit_intrusion(build_export_path(run.file, name)) for name in ("one", "one", "two")]
    assert waiting[0].result(20).number == 1
    refusals = [each.exception(20) for each in waiting[1:]]
    assert all(isinstance(each, IntrusionError) for each in refusals)
    assert {each.code for each in refusals} <= {"folder_exists", "no_intrusion_left"}
    assert NOTED == []
    run.send(range(3), 1)
    assert run.close(1)


def test_intrusion_into_ordinary_stream_is_refused(tmp_path: Path, served: Any) -> None:
    run = served(file_of(tmp_path, COUNTS, server=SERVER, source="http"))
    assert code_of(run.intrude("a")) == (409, "not_pan_private")


def full(*given: object) -> None:
    raise OSError(28, "No space left on device")


def made(run: Served) -> int:
    return sum(act.kind == "intrusion" for act in read_ledger_log(run.file).ledger_entries)


def test_full_disk_before_or_after_commit_has_its_own_code(
    tmp_path: Path, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = served(file_of(tmp_path, COUNTS, server=SERVER, **PRIVATE))
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        reply = run.intrude("a")
    assert (code_of(reply), reply.headers["retry-after"]) == ((503, "no_disk_space"), "10")
    assert made(run) == 0
    with monkeypatch.context() as patched:
        patched.setattr(handed_over, "create_file", full)
        assert code_of(run.intrude("a")) == (500, "export_failed")
    assert made(run) == 1
    assert [type(each).__name__ for each in NOTED] == ["StoreUnwritableError", "StoreUnwritableError"]
    run.clock.to(1.06)
    eventually(lambda: run.ledger()["intrusions"] == {"total": 1, "remaining": None}, "the departure")
    assert run.intrude("a").json()["intrusion"] == 2
    assert run.close(1)


def test_failed_intrusion_is_counted_and_hides_the_exception_text(tmp_path: Path, served: Any) -> None:
    failing: list[str] = []

    def step(name: str) -> None:
        if name in failing:
            failing.clear()
            raise OSError(28, "of patient 4711")

    run = served(file_of(tmp_path, COUNTS, server=SERVER, **PRIVATE), step=step)
    failing.append("state_copied")
    reply = run.intrude("a")
    assert code_of(reply) == (500, "intrusion_failed")
    assert "4711" not in reply.text
    assert (made(run), not build_export_path(run.file, "a").exists()) == (1, True)
    assert run.close(1)


def test_intrusion_after_last_tick_is_refused_and_server_continues(tmp_path: Path, served: Any) -> None:
    run = served(file_of(tmp_path, DENSITY, server=SERVER, **{**USERS, "end": "2026-01-05T00:00:10Z"}))
    run.close(1)
    eventually(lambda: run.runner.state == "ended", "the end")
    with pytest.raises(IntrusionError, match="got none: it has no state"):
        run.runner.submit_intrusion(build_export_path(run.file, "late")).result()
    assert run.runner.state == "ended"
    assert (run.ledger()["intrusions"]["total"], made(run)) == (0, 0)


def test_stopping_run_refuses_intrusions(tmp_path: Path, served: Any) -> None:
    run = served(users(tmp_path))
    run.runner.disconnect_readers()
    assert code_of(run.intrude("a")) == (503, "not_running")


def test_pan_private_quarantine_has_reason_instead_of_counts(tmp_path: Path, served: Any) -> None:
    details = served(users(tmp_path)).curator.get("/api/quarantine").json()
    assert (details["records"], details["drops"], details["shares"]) == (None, None, None)
    assert details["reason"] == "with pan_private = true neither records nor those that were dropped are counted"
