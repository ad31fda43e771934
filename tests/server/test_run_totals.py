"""What the curator counts goes on over turns of the run."""

import json
from pathlib import Path

from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.options import Progress
from streamgauge.server.run_totals import RunTotals
from tests.support.served import IMMEDIATE, START, close, eventually, file_of, running, stepped, write


def test_counts_of_runs_add_up_and_ticks_do_not() -> None:
    tally = RunTotals()
    tally.start_run()
    tally.add_earlier(Progress(3, None, 10, {"late": 1, "time": 0}))
    tally.add_earlier(Progress(4, None, 20, {"late": 2, "time": 0}))
    tally.start_run()
    tally.start_run()
    assert tally.add_earlier(Progress(5, None, 7, {"time": 4})) == Progress(5, None, 27, {"late": 2, "time": 4})
    assert tally.add_earlier(Progress(6, None, 8, {"late": 1})) == Progress(6, None, 28, {"late": 3, "time": 0})


def test_what_was_read_before_a_release_was_requested_for_is_not_forgotten(tmp_path: Path) -> None:
    write(tmp_path, 10)
    clock = stepped()
    with running(file_of(tmp_path), clock, tuning=IMMEDIATE) as runner:
        close(runner, clock, 1)
        eventually(lambda: runner.progress and runner.progress.events == 10, "the first tick's count")
        body = {"name": "more", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": 0.25}
        runner.add_release(AdHocRelease(parse_adhoc_release(body, runner.file.stream), "ana"))
        with (tmp_path / "v.jsonl").open("a") as file:
            file.writelines(f"{json.dumps({'ts': START + 16, 'g': 'a'})}\n" for _ in range(3))
        close(runner, clock, 2)
        eventually(lambda: runner.progress and runner.progress.tick == 2, "the second tick's count")
        assert runner.progress is not None
        assert runner.progress.events == 13
