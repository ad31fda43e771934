"""What is asked for can be run: it is bounded by declarations, and built before it is charged."""

from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.planner import plan_release
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.plan import limits as room
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.session import RunRefusedError, SessionBuilder
from tests.support.pipelines import COUNTS, one_a_second, pipeline, published, run, tables, world, write

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
    """Why a run does not take releases, which the plan of the last one tells too; nothing is charged."""
    stop = Flag()
    stop.set()
    with pytest.raises(InvalidReleaseError) as why:
        run(made, adhoc_releases=wanted, stop=stop)
    assert names(made) <= {"counts"}
    return str(why.value)


def test_what_would_keep_too_much_is_refused_by_declarations(tmp_path):
    made = made_in(tmp_path)
    long = build_request(made, **LONG)
    why = refused(made, long)
    assert "must keep at most 64000000 bytes in all" in why
    assert "; ".join(each.removeprefix("v.toml: ") for each in plan_adhoc(made.file, long).refusals) in why


def test_all_that_is_open_is_counted(tmp_path):
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    (keeps,) = {
        room.memory_bytes(plan_release(made.file, build_request(made, name=name).attributed_release)) for name in "ab"
    }
    made.file = replace(made.file, server=replace(made.file.server, adhoc_max_memory=2 * keeps))
    run(made, adhoc_releases=(build_request(made, name="a"),))
    third = build_request(made, name="c")
    assert plan_adhoc(made.file, build_request(made, name="b")).refusals == ()
    with pytest.raises(InvalidReleaseError, match="must keep at most"):
        run(made, adhoc_releases=(build_request(made, name="b"), third))
    run(made, adhoc_releases=(build_request(made, name="b"),))
    (why,) = plan_adhoc(made.file, third).refusals
    assert f"got {3 * keeps}" in why


def test_what_a_release_keeps_is_what_its_run_has(tmp_path):
    """Within a factor that the words of Python around it make."""
    made = made_in(tmp_path)
    for body in ({}, {"window": "sliding 1000s"}, {"window": "running", "horizon": "5000s"}):
        plan = plan_release(made.file, build_request(made, **body).attributed_release)
        saved = ReleaseRun.start(plan, "asked", 1, None).save_state()
        assert sum(map(len, saved.values())) <= room.memory_bytes(plan) + 4096


def test_too_many_groups_or_releases_are_refused(tmp_path):
    made = made_in(tmp_path, server={"adhoc_max_groups": 1})
    assert "groups of release asked must be at most 1" in refused(made, build_request(made))
    made = made_in(tmp_path, server={"adhoc_max_active": 1})
    assert "must be at most 1 at a time, got 2" in refused(
        made, build_request(made), build_request(made, "bea", name="b")
    )
    made = made_in(tmp_path, server={"adhoc_max_active_per_analyst": 1})
    assert "releases of ana must be at most 1" in refused(made, build_request(made), build_request(made, name="b"))
    both = build_request(made), build_request(made, "bea", name="b")
    assert all(plan_adhoc(made.file, each).refusals == () for each in both)


class LargeRun(ReleaseRun):
    """A release that does not fit into memory, if it is the ad hoc one."""

    @classmethod
    def start(cls, plan, name, *rest):
        if name == "asked":
            raise MemoryError
        return super().start(plan, name, *rest)


UNBUILDABLE: dict[type, type] = {ReleaseRun: LargeRun}


def test_what_cannot_be_built_is_never_charged(tmp_path):
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    with pytest.raises(MemoryError):
        run(made, adhoc_releases=(build_request(made),), components=UNBUILDABLE)
    run(made, components=UNBUILDABLE)
    assert names(made) == {"counts"}
    assert published(made) == [[5.0, 5.0]] * 10


class LazyBuilder(SessionBuilder):
    """A start that charges releases without building them."""

    def build_runs(self):
        pass


def test_what_was_charged_and_cannot_be_built_is_ended_by_the_curator(tmp_path):
    """As a pipeline may be that was charged before runs were built first."""
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    run(made, adhoc_releases=(build_request(made),), components={SessionBuilder: LazyBuilder})
    for settings in ({}, {"end_releases": ("asked",)}):  # there may be memory again: so an end loses nothing
        with pytest.raises(MemoryError):
            run(made, components=UNBUILDABLE, **settings)
    run(made, force_end_releases=("asked",), components=UNBUILDABLE)
    assert made.ledger().releases["asked"].end_tick == 0
    assert published(made) == [[5.0, 5.0]] * 10


def test_a_finished_standard_input_cannot_be_requested(tmp_path):
    made = made_in(tmp_path, live=False, source="-", format="jsonl")
    (why,) = plan_adhoc(made.file, build_request(made)).refusals
    assert why.startswith("source must be one that can be read again to be asked")


def test_a_file_that_uses_a_name_that_was_requested_for_is_reported_the_way_out(tmp_path):
    made = made_in(tmp_path, live=False)
    write(tmp_path, one_a_second())
    run(made, adhoc_releases=(build_request(made),))
    other = pipeline(tmp_path, tables({"name": "asked", "sql": COUNTS, "epsilon": "1/8"}))
    with pytest.raises(RunRefusedError, match="rename it in the file, names are taken for ever"):
        run(other)


@pytest.mark.parametrize("second", [9, 11, 12])
def test_behind_a_server_a_release_begins_by_the_moment_at_which_it_is_observed(tmp_path, second):
    made = made_in(tmp_path)
    start = made.file.stream.start
    observed = {"find_publish_time": lambda now: start + -(-(now - start) // 12_000_000) * 12_000_000}
    stop = Flag()
    stop.set()
    run(made, clock=world(tmp_path, at=second), adhoc_releases=(build_request(made),), stop=stop, **observed)
    assert made.ledger().releases["asked"].first == (12 + 20) // 10 + 2
    run(made, clock=world(tmp_path, at=second + 12), end_releases=("asked",), stop=stop, **observed)
    assert made.ledger().releases["asked"].end_tick == (24 - 5) // 10
