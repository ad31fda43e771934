"""Over a source that is all there: however often a run is asked for more, what it has goes on."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.runtime import file_run as finished_run
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from tests.support.pipelines import COUNTS, one_a_second, pipeline, published, run, tables, ticks_of, write

SMALL = {"sql": COUNTS, "window": "each", "epsilon": "1/100"}


def pressed(folder: Path, turns: int) -> Any:
    """A run that is asked for one more release in every turn, and told at once that others wait."""
    made, command_flag = pipeline(folder, tables()), Flag()
    write(folder, one_a_second())
    command_flag.set()
    for number in range(turns):
        release = parse_adhoc_release(SMALL | {"name": f"z{number}"}, made.file.stream)
        run(made, max_batch_ticks=2, commands_waiting=command_flag, adhoc_releases=(AdHocRelease(release, "ana"),))
    return made


def test_every_command_has_a_batch_of_the_file_and_one_of_what_was_requested_for(tmp_path: Path) -> None:
    made = pressed(tmp_path, 3)
    assert ticks_of(made) == [1, 2, 3, 4, 5, 6]
    assert ticks_of(made, "z0") == ticks_of(made)  # it began with the file
    assert [ticks_of(made, name) for name in ("z1", "z2")] == [[1, 2]] * 2
    run(made)
    assert all(published(made, name) == [[5.0, 5.0]] * 10 for name in ("counts", "z0", "z1", "z2"))


def test_a_twin_that_begins_with_what_is_behind_starves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind_first(opened: Any) -> Any:
        return [(False, runs) for runs in finished_run.group_cohorts(opened.runs)]

    monkeypatch.setattr(finished_run, "order_cohorts", behind_first)
    assert ticks_of(pressed(tmp_path, 3)) == [1, 2]
