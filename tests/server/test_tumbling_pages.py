"""Tumbling releases of a server: rows at the ends of periods, and publish times that show no commit's duration."""

from pathlib import Path

import pytest

from streamgauge.server.routes.releases import build_listing
from tests.support.served import SECOND, close, committed, eventually, file_of, leave, running, stepped, write

PERIODS = {"name": "periods", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "tumbling 30s"}


def test_commit_without_rows_is_published_a_delay_after_its_tick(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path, PERIODS, server={"publish_delay": "4s"}), stepped()
    write(tmp_path, 60)
    with running(file, clock) as runner:
        clock.to(15)  # the first tick closes, and its period is open
        eventually(lambda: committed(runner)[1] == 1)
        eventually(lambda: runner.publisher.schedule.find_wait(clock.now()) is not None)
        assert runner.publisher.schedule.find_wait(clock.now()) == 5 * SECOND  # the first multiple of 4 s after 19


@pytest.mark.parametrize(
    ("partial", "ticks", "step"), [(False, {"from": 3, "to": 3}, 3), (True, {"from": 1, "to": 4}, 1)]
)
def test_listing_states_the_ticks_of_a_row(tmp_path: Path, partial: bool, ticks: dict[str, int], step: int) -> None:
    file, clock = file_of(tmp_path, {**PERIODS, "partial": partial}), stepped()
    write(tmp_path, 60)
    with running(file, clock) as runner:
        for tick in range(1, 5):
            close(runner, clock, tick)
        leave(runner, clock, 52)
        (release,) = build_listing(runner)["releases"]
    assert (release["window"], release["row_ticks"], release["ticks"]) == ("tumbling 30s", step, ticks)
