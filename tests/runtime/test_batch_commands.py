"""Commands on a finished source: the releases of the run advance, with any number of commands."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.runtime import file_run as finished_run
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import AddRelease, CommandQueue
from tests.support.pipelines import COUNTS, one_a_second, pipeline, published, run, tables, ticks_of, write

SMALL = {"sql": COUNTS, "window": "each", "epsilon": "1/100"}


def run_under_load(folder: Path, batches: int) -> Any:
    """Resume a run at tick 5 of its file, add a release at its start and at every batch, and stop it."""
    made, stop = pipeline(folder, tables()), Flag()
    write(folder, one_a_second())
    run(made, max_batch_ticks=4, stop=stop, on_progress=lambda _: stop.set())
    assert ticks_of(made) == [1, 2, 3, 4]
    queue, outcomes, progress = CommandQueue(now=lambda: 0), list[Any](), list[Any]()
    stop.clear()

    def add_release() -> None:
        release = parse_adhoc_release(SMALL | {"name": f"z{len(outcomes)}"}, made.file.stream)
        outcomes.append(queue.submit(AddRelease(AdHocRelease(release, "ana"))))

    def note(each: Any) -> None:
        progress.append(each)
        if len(progress) == batches:
            stop.set()
        else:
            add_release()

    add_release()
    run(made, max_batch_ticks=2, commands=queue, stop=stop, on_progress=note)
    assert [each.result(0) for each in outcomes] == [None] * batches
    return made


def test_file_releases_advance_despite_command_at_every_batch(tmp_path: Path) -> None:
    made = run_under_load(tmp_path, 3)
    assert published(made) == [[5.0, 5.0]] * 10
    assert set(made.ledger().releases) == {"counts", "z0", "z1", "z2"}


def test_ad_hoc_releases_get_all_ticks_despite_repeated_commands(tmp_path: Path) -> None:
    made = run_under_load(tmp_path, 8)
    assert all(published(made, f"z{number}") == [[5.0, 5.0]] * 10 for number in range(4))
    run(made)
    assert all(published(made, f"z{number}") == [[5.0, 5.0]] * 10 for number in range(8))


def test_twin_that_serves_oldest_release_first_starves_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished_run, "order_cohorts", lambda session: finished_run.group_cohorts(session.runs))
    assert ticks_of(run_under_load(tmp_path, 8)) == [1, 2, 3, 4]
