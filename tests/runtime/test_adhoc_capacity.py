"""Capacity for ad hoc releases: declarations bound them, and a run builds them before it charges them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamgauge.plan.planner import plan_release
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import (
    AddRelease,
    CommandQueue,
    CommandRefusedError,
    CommandSchedule,
    EndRelease,
    NotRunningError,
)
from streamgauge.runtime.plan import limits as room
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.session import RunRefusedError
from tests.support.commands import add_releases, run_until_applied
from tests.support.pipelines import COUNTS, SECOND, one_a_second, pipeline, published, run, tables, world, write

SMALL = {"name": "asked", "sql": COUNTS, "window": "each", "epsilon": "1/100"}
LONG = {"window": "sliding 100000000s"}


def build_request(made: Any, by: str = "ana", **body: Any) -> AdHocRelease:
    return AdHocRelease(parse_adhoc_release(SMALL | body, made.file.stream), by)


def made_in(folder: Path, live: bool = True, server: Any = None, **stream: Any) -> Any:
    made = pipeline(folder, tables(live=live, **stream))
    made.file = replace(made.file, server=replace(made.file.server, **(server or {})))
    return made


def names(made: Any) -> set[str]:
    return set(made.ledger().releases)


def refused(made: Any, *wanted: AdHocRelease) -> str:
    """Return the reasons for which a run refuses the last release. Only those before it are charged."""
    *before, last = run_until_applied(made, *map(AddRelease, wanted), clock=world(made.file.path.parent))
    assert [each.result() for each in before] == [None] * len(before)
    assert names(made) == {"counts", *(each.release.name for each in wanted[:-1])}
    with pytest.raises(CommandRefusedError) as why:
        last.result()
    return str(why.value)


def test_release_with_too_much_state_is_refused_by_declarations(tmp_path):
    made = made_in(tmp_path)
    long = build_request(made, **LONG)
    why = refused(made, long)
    assert "must need at most 64000000 bytes in all" in why
    assert "; ".join(plan_adhoc(made.file, long).refusals) == why


def test_memory_bound_counts_all_open_releases(tmp_path):
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    (keeps,) = {
        room.memory_bytes(plan_release(made.file, build_request(made, name=name).attributed_release)) for name in "ab"
    }
    made.file = replace(made.file, server=replace(made.file.server, adhoc_max_memory=2 * keeps))
    run(made, adhoc_releases=(build_request(made, name="a"),))
    third = build_request(made, name="c")
    assert plan_adhoc(made.file, build_request(made, name="b")).refusals == ()
    with pytest.raises(CommandRefusedError, match="must need at most"):
        run(made, adhoc_releases=(build_request(made, name="b"), third))
    assert names(made) == {"counts", "a", "b"}
    (why,) = plan_adhoc(made.file, third).refusals
    assert f"got {3 * keeps}" in why


def test_predicted_memory_of_release_covers_its_state(tmp_path):
    """The names and encoding of the state may add 4,096 bytes."""
    made = made_in(tmp_path)
    for body in ({}, {"window": "sliding 1000s"}, {"window": "running", "horizon": "5000s"}):
        plan = plan_release(made.file, build_request(made, **body).attributed_release)
        saved = ReleaseRun.start(plan, "asked", 1, None).save_state()
        assert sum(map(len, saved.values())) <= room.memory_bytes(plan) + 4096


def test_too_many_groups_or_releases_are_refused(tmp_path):
    folders = [tmp_path / name for name in ("groups", "active", "per analyst")]
    for folder in folders:
        folder.mkdir()
    made = made_in(folders[0], server={"adhoc_max_groups": 1})
    assert "groups of release asked must be at most 1" in refused(made, build_request(made))
    made = made_in(folders[1], server={"adhoc_max_active": 1})
    assert "must be at most 1 at a time, got 2" in refused(
        made, build_request(made), build_request(made, "bea", name="b")
    )
    made = made_in(folders[2], server={"adhoc_max_active_per_analyst": 1})
    both = build_request(made), build_request(made, "bea", name="b")
    assert all(plan_adhoc(made.file, each).refusals == () for each in both)
    assert "releases of ana must be at most 1" in refused(made, build_request(made), build_request(made, name="b"))
    assert plan_adhoc(made.file, both[1]).refusals == ()


class LargeRun(ReleaseRun):
    """A release that does not fit into memory, if it is the ad hoc one."""

    @classmethod
    def start(cls, plan, name, *rest):
        if name == "asked":
            raise MemoryError
        return super().start(plan, name, *rest)


UNBUILDABLE: dict[type, type] = {ReleaseRun: LargeRun}


def test_release_that_cannot_be_built_is_never_charged(tmp_path):
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    failures: list[Exception] = []
    queue = CommandQueue(now=lambda: 0, on_failure=failures.append)
    queue.on_idle = queue.close
    outcome = queue.submit(AddRelease(build_request(made)))
    run(made, commands=queue, components=UNBUILDABLE)
    with pytest.raises(NotRunningError, match="the release could not be started"):
        outcome.result()
    assert [type(each) for each in failures] == [MemoryError]
    assert names(made) == {"counts"}
    assert published(made) == [[5.0, 5.0]] * 10


def test_charged_release_that_cannot_be_built_needs_forced_end(tmp_path):
    """The memory of the machine may have been larger when it was charged."""
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    add_releases(made, [build_request(made)])
    for settings in ({}, {"end_releases": ("asked",)}):  # memory may suffice later: an end must not lose ticks
        with pytest.raises(MemoryError):
            run(made, components=UNBUILDABLE, **settings)
    run(made, force_end_releases=("asked",), components=UNBUILDABLE)
    assert made.ledger().releases["asked"].end_tick == 0
    assert published(made) == [[5.0, 5.0]] * 10


def test_request_on_batch_standard_input_is_refused(tmp_path):
    made = made_in(tmp_path, live=False, source="-", format="jsonl")
    (why,) = plan_adhoc(made.file, build_request(made)).refusals
    assert why.startswith("source must be one that can be read again to accept a request")


def test_file_reusing_name_of_ad_hoc_release_is_refused(tmp_path):
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    run(made, adhoc_releases=(build_request(made),))
    other = pipeline(tmp_path, tables({"name": "asked", "sql": COUNTS, "epsilon": "1/8"}))
    with pytest.raises(RunRefusedError, match="rename it in the file, names are taken for ever"):
        run(other)


@pytest.mark.parametrize("second", [9, 11, 12])
def test_release_behind_server_begins_after_readers_can_observe_it(tmp_path, second):
    """Commands of the seconds up to 14 are applied at second 14.4, and readers see them at second 24."""
    made = made_in(tmp_path)
    schedule = CommandSchedule(made.file.stream.start, 12 * SECOND)
    clock = world(tmp_path, at=second)
    add_releases(made, [build_request(made)], clock=clock, schedule=schedule)
    assert clock.second == 15
    assert made.ledger().releases["asked"].first == (24 + 20) // 10 + 2
    clock = world(tmp_path, at=second + 12)
    (ended,) = run_until_applied(made, EndRelease("asked"), clock=clock, schedule=schedule)
    assert (clock.second, ended.result()) == (27, None)
    assert made.ledger().releases["asked"].end_tick == (36 - 5) // 10
