"""The run of a server: start, commands, stop and failure, and its view by readers meanwhile."""

import json
import os
import select
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from streamgauge.config.settings import PipelineFile, SinkSettings
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.options import Options
from streamgauge.runtime.published import read_ledger_log
from streamgauge.server.publishing.clock import PublishCursor
from streamgauge.server.publishing.feed import PublishThread
from streamgauge.server.runner import CommandRefusedError, NotRunningError, Runner
from streamgauge.store.errors import AlreadyRunningError
from streamgauge.store.lock import Lock
from streamgauge.store.reader import StoreReader
from streamgauge.testing.noise import SilentNoise
from tests.support.served import (
    IMMEDIATE,
    START,
    PausedRunner,
    Stepped,
    ask,
    close,
    committed,
    eventually,
    file_of,
    leave,
    running,
    stepped,
    write,
)

running = partial(running, tuning=IMMEDIATE)
FINISHED = {"mode": "batch", "end": "2026-01-05T00:00:30Z"}


def requested(file: PipelineFile, name: str = "more", epsilon: float = 0.25) -> AdHocRelease:
    body = {"name": name, "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": epsilon}
    return AdHocRelease(parse_adhoc_release(body, file.stream), "ana")


def shown(runner: Runner) -> list[int]:
    """Return the ticks that readers get."""
    rows = ask(runner, "/api/releases/counts?group=g:a").json()["rows"]
    return [row["tick"] for row in rows]


def test_readers_get_a_tick_at_its_publish_time(tmp_path: Path) -> None:
    write(tmp_path, 40)
    clock = stepped()
    with running(file_of(tmp_path), clock) as runner:
        assert runner.state == "running"
        close(runner, clock, 1)
        assert shown(runner) == []
        leave(runner, clock, 20)
        assert shown(runner) == [1]
    assert runner.state == "stopping"
    assert runner.progress is not None


def test_restart_shows_published_ticks_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        close(runner, clock, 2)
    with running(file, clock) as runner:
        assert shown(runner) == [1]
        leave(runner, clock, 32)
        assert shown(runner) == [1, 2]


def test_cursor_of_another_history_publishes_nothing_early(tmp_path: Path) -> None:
    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        close(runner, clock, 1)
    note = file.folder / "publish.cursor"
    for details in ['{"number": 2, "chain": "0"}', '{"number": 99, "chain": "0"}', "{", '{"number": "x"}', "[]"]:
        note.write_text(details)
        with StoreReader.open(file.folder) as reader:
            assert PublishCursor(file.folder).read(reader) == 0
    with running(file, clock) as runner:
        assert runner.event_buffer.published.commit_number == 0
        leave(runner, clock, 20)
        assert shown(runner) == [1]


def test_entry_missing_in_guard_is_published_after_restart(tmp_path: Path) -> None:
    def failing(step: str) -> None:
        if step == "guard_written" and clock.time > (START + 10) * 10**6:
            raise OSError

    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock, step=failing) as runner:
        clock.to(15)
        eventually(lambda: runner.state == "failed")
    clock.to(17)
    with running(file, clock) as runner:
        leave(runner, clock, 20)
        assert shown(runner) == [1]
        assert runner.event_buffer.published.row_number == 1


def test_old_commits_are_published_at_once(tmp_path: Path) -> None:
    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        close(runner, clock, 1)
    (file.folder / "publish.cursor").unlink()
    late = Stepped(time=clock.time + 10**15)  # decades later: by then the file's own time has passed
    publisher = PublishThread(file, runner.command_queue.schedule, runner.event_buffer, late.now)
    publisher.start()
    publisher.stop()
    assert shown(runner) == [1]
    runner.event_buffer.readers.close()


def test_requested_release_starts_and_others_continue(tmp_path: Path) -> None:
    write(tmp_path, 60)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        close(runner, clock, 1)
        runner.submit_release(replace(requested(file), share=Fraction(1, 2))).result()
        assert set(runner.load_ledger().open_releases()) == {"counts"}
        leave(runner, clock, 20)
        assert set(runner.load_ledger().open_releases()) == {"counts", "more"}
        assert runner.state == "running"
        first = runner.load_ledger().releases["more"].first
        for tick in range(2, first + 1):
            close(runner, clock, tick)
        leave(runner, clock, 10 * first + 12)
        assert shown(runner) == list(range(1, first + 1))
        assert ask(runner, "/api/releases/more").json()["ticks"] == {"from": first, "to": first}


def test_refused_command_leaves_ledger_unchanged_and_run_continues(tmp_path: Path) -> None:
    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        before = runner.load_entries()
        with pytest.raises(CommandRefusedError, match="charge must be at most what is left of epsilon 1"):
            runner.submit_release(requested(file, epsilon=0.75)).result()
        with pytest.raises(CommandRefusedError, match="share"):
            runner.submit_release(replace(requested(file), share=Fraction(1, 100))).result()
        with pytest.raises(CommandRefusedError, match="must be one that is open"):
            runner.submit_end("nothing").result()
        with pytest.raises(CommandRefusedError, match="delete it there"):
            runner.submit_end("counts").result()
        assert runner.load_entries() == before
        close(runner, clock, 1)
        leave(runner, clock, 20)
        assert shown(runner) == [1]


def test_end_is_published_after_the_ticks_before_it(tmp_path: Path) -> None:
    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        runner.submit_release(requested(file)).result()
        close(runner, clock, 1)
        before = ask(runner, "/api/releases").content
        runner.submit_end("more").result()
        assert ask(runner, "/api/releases").content == before
        leave(runner, clock, 20)
        ended = {each["name"]: each["end_tick"] for each in ask(runner, "/api/releases").json()["releases"]}
        assert ended == {"counts": None, "more": 1}
        runner.submit_release(requested(file, "next", 0.5)).result()  # the budget of the ended release is free


def test_simultaneous_requests_all_succeed(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        names = [f"r{i}" for i in range(4)]
        threads = [Thread(target=runner.submit_release(requested(file, name, 0.125)).result) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        leave(runner, clock, 4)
        assert set(runner.load_ledger().open_releases()) == {"counts", *names}


def test_finished_run_serves_and_accepts_new_releases(tmp_path: Path) -> None:
    write(tmp_path, 30)
    file, clock = file_of(tmp_path, **FINISHED), stepped(1_001)
    with running(file, clock) as runner:
        eventually(lambda: committed(runner)[1] == 3)
        assert (runner.state, shown(runner)) == ("running", [])  # the end of the run is published with its last tick
        eventually(lambda: runner.publisher.final_commit is not None)
        leave(runner, clock, 1_004)
        eventually(lambda: runner.state == "ended")
        assert shown(runner) == [1, 2, 3]
        clock.to(1_005)
        runner.submit_release(requested(file)).result()
        eventually(lambda: runner.publisher.final_commit is not None)
        leave(runner, clock, 1_012)
        eventually(lambda: runner.state == "ended")
        assert ask(runner, "/api/releases/more").json()["ticks"] == {"from": 1, "to": 3}


def test_second_run_of_a_file_is_refused(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    with running(file, stepped()), pytest.raises(AlreadyRunningError):
        Runner(file, Options(noise=SilentNoise(), clock=stepped())).start()


def test_failed_run_still_serves_readers_and_refuses_commands(tmp_path: Path) -> None:
    def failing(step: str) -> None:
        if step == "store_committed" and clock.time > (START + 20) * 10**6:
            raise OSError("secret")

    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock, step=failing) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        clock.to(25)
        eventually(lambda: runner.state == "failed")
        assert runner.error == "OSError"
        assert shown(runner) == [1]
        with pytest.raises(NotRunningError):
            runner.submit_release(requested(file)).result()
    assert runner.state == "failed"


def test_failed_commit_of_command_fails_run_and_charges_nothing(tmp_path: Path) -> None:
    has_failed: list[str] = []

    def failing(step: str) -> None:
        if step == "commands_judged":
            has_failed.append(step)
        if step == "commit_begun" and has_failed:
            raise OSError("secret")

    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock, step=failing) as runner:
        with pytest.raises(NotRunningError, match=r"^the run failed$"):
            runner.submit_release(requested(file)).result()
        eventually(lambda: not runner.is_alive, "the end of the thread")
        assert (runner.state, runner.error) == ("failed", "OSError")
        assert set(runner.load_ledger().releases) == {"counts"}
        assert ask(runner, "/api/releases").status_code == 200
    with running(file, clock) as runner:
        close(runner, clock, 1)
        runner.submit_release(requested(file)).result()
        leave(runner, clock, 20)
        assert shown(runner) == [1]
        assert set(runner.load_ledger().releases) == {"counts", "more"}


def test_batches_survive_commands_that_are_applied_meanwhile(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path, source="http"), stepped(1)
    with running(file, clock) as runner:
        assert runner.inbox is not None
        lines = [json.dumps({"ts": START + 1, "g": "a", "x": 1}).encode() + b"\n"] * 3
        tickets = [runner.inbox.put("one", lines[0])]
        runner.submit_release(requested(file)).result()
        tickets += [runner.inbox.put("two", lines[1]), runner.inbox.put("one", lines[2])]
        assert [ticket.done.result(20) for ticket in tickets] == [None] * 3
        assert tickets[2].is_duplicate
        close(runner, clock, 1)
        leave(runner, clock, 20)
        rows = ask(runner, "/api/releases/counts?group=g:a").json()["rows"]
        assert [row["count"]["value"] for row in rows] == [2.0]


def test_release_from_changed_source_is_not_charged(tmp_path: Path) -> None:
    """The reason depends on the source, so the client gets no text of it. The curator does."""
    write(tmp_path, 30)
    file, clock = file_of(tmp_path, **FINISHED), stepped(1_001)
    failures: list[Exception] = []
    with running(file, clock, on_failure=failures.append) as runner:
        eventually(lambda: runner.publisher.final_commit is not None)
        leave(runner, clock, 1_004)
        eventually(lambda: runner.state == "ended")
        write(tmp_path, 31)
        for _ in range(2):
            with pytest.raises(NotRunningError, match=r"^the release could not be started$"):
                runner.submit_release(requested(file)).result()
        assert runner.state == "ended"
        assert "source must not change while it is read" in str(failures[0])
        assert set(read_ledger_log(file).releases) == {"counts"}


def test_run_continues_after_others_changed_its_sink(tmp_path: Path) -> None:
    write(tmp_path, 40)
    file, clock = file_of(tmp_path), stepped()
    file = replace(file, sinks=(SinkSettings("out.jsonl", "jsonl"),))
    with running(file, clock) as runner:
        close(runner, clock, 1)
        (tmp_path / "out.jsonl").write_text("other\n")
        runner.submit_release(requested(file)).result()
        assert runner.state == "running"


def test_run_needs_no_key_for_commands_and_holds_its_lock(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped()
    attempts: list[str] = []

    def step(name: str) -> None:
        if name in ("commands_judged", "commands_committed"):
            with pytest.raises(AlreadyRunningError):
                Lock(file.folder)
            attempts.append(name)

    with running(file, clock, step=step) as runner:
        (tmp_path / "v.key").rename(tmp_path / "away.key")
        runner.submit_release(requested(file)).result()
        runner.submit_release(requested(file, "next", 0.125)).result()
        assert runner.state == "running"
    assert attempts == ["commands_judged", "commands_committed"] * 2


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_standard_input_continues_at_its_position_after_commands(tmp_path: Path, form: str) -> None:
    read, write_end = os.pipe()
    line = b"%d,a,1\n" if form == "csv" else b'{"ts": %d, "g": "a", "x": 1}\n'
    line %= START + 1
    file, clock = file_of(tmp_path, source="-", format=form), stepped(1)
    os.write(write_end, (b"ts,g,x\n" if form == "csv" else b"") + line + line[:7])
    with running(file, clock, standard_input=read) as runner:
        eventually(lambda: not select.select([read], [], [], 0)[0])
        runner.submit_release(requested(file)).result()
        os.write(write_end, line[7:] + line)
        eventually(lambda: not select.select([read], [], [], 0)[0])
        close(runner, clock, 1)
        leave(runner, clock, 20)
        rows = ask(runner, "/api/releases/counts?group=g:a").json()["rows"]
        assert [row["count"]["value"] for row in rows] == [3.0]
    for end in (read, write_end):
        os.close(end)


def test_first_tick_of_release_depends_on_publish_time_alone(tmp_path: Path) -> None:
    """Different ticks are open at 9 s and at 11 s, but both requests are published at 16 s."""
    for second in (9, 11):
        folder = tmp_path / str(second)
        folder.mkdir()
        file, clock = file_of(folder), stepped(second)
        with running(file, clock) as runner:
            runner.submit_release(requested(file)).result()
            leave(runner, clock, 16)
            assert runner.load_ledger().releases["more"].first == 5


def test_refused_command_of_a_batch_does_not_fail_the_others(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped(1)
    with running(file, clock, kind=PausedRunner) as runner:
        costs = {"a": 0.25, "b": 0.375, "c": 0.125, "A": 0.125}
        found: dict[str, str] = {}

        def wanted(name: str) -> None:
            try:
                runner.submit_release(requested(file, name, costs[name])).result()
            except CommandRefusedError as refusal:
                found[name] = str(refusal)

        threads = [Thread(target=wanted, args=[name]) for name in costs]
        with runner.pause_commands():
            for number, thread in enumerate(threads, 1):
                thread.start()
                eventually(lambda number=number: runner.command_queue.pending_count == number)  # type: ignore[misc]
        for thread in threads:
            thread.join()
        assert sorted(found) == ["A", "b"]
        assert "charge must be at most what is left" in found["b"]
        leave(runner, clock, 8)
        assert set(runner.load_ledger().open_releases()) == {"counts", "a", "c"}


def test_finished_standard_input_refuses_commands(tmp_path: Path) -> None:
    """A new reading would start in the middle of the input."""
    runner = Runner(file_of(tmp_path, source="-", format="jsonl", **FINISHED))
    for command in (lambda: runner.submit_release(requested(runner.file)), lambda: runner.submit_end("more")):
        with pytest.raises(CommandRefusedError, match="must be one that can be read again"):
            command()


def test_end_releases_option_applies_to_first_batch_only(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        runner.submit_release(requested(file)).result()
    with running(file, clock, end_releases=("more",)) as runner:
        runner.submit_release(requested(file, "next", 0.5)).result()
        leave(runner, clock, 20)
        assert set(runner.load_ledger().open_releases()) == {"counts", "next"}


def test_shares_of_records_continue_after_commands_until_the_end(tmp_path: Path) -> None:
    file, clock, details = file_of(tmp_path, source="http"), stepped(), list[str]()
    with running(file, clock, diagnose=details.append) as runner:
        assert runner.inbox is not None
        for number, record in enumerate([{"g": "A"}, {"g": "a"}]):
            line = json.dumps({"ts": START + 1, **record}).encode()
            runner.inbox.put(str(number), line).done.result()
            runner.submit_release(requested(file, f"more{number}")).result()
        shares = runner.shares
    time, column, value = shares
    assert shares == {time: "100 %", column: "100 %", value: "50 %"}
    assert [line.partition(" record")[0] for line in details] == ["of 1", "warning: none of 1", "of 2"]


def test_a_pan_private_runner_has_no_shares(tmp_path: Path) -> None:
    private = {"source": "http", "pan_private": True, "allowed_lateness": "0s", "allowed_earliness": "0s"}
    with running(file_of(tmp_path, **private)) as runner:
        assert runner.shares == {}
