"""What was ended and runs on: it counts until readers have seen all of it, and a curator can cut it short."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.commands.queue import AddRelease, CommandQueue, CommandRefusedError
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.release_run import Batches
from streamgauge.runtime.session import SessionBuilder
from tests.runtime.test_adhoc_capacity import build_request, made_in
from tests.support.commands import add_releases
from tests.support.pipelines import COUNTS, one_a_second, pipeline, published, run, tables, ticks_of, world, write


class DownError(RuntimeError):
    """What no engine can do."""


def started(folder: Path, **settings: Any) -> Any:
    """A run over a batch file that was asked for a release, and stopped after three ticks of it."""
    made, stop = made_in(folder, live=False, **settings), Flag()
    write(folder, one_a_second())
    run(made, max_batch_ticks=3, adhoc_releases=(build_request(made),), stop=stop, on_progress=lambda _: stop.set())
    assert ticks_of(made, "asked") == [1, 2, 3]
    return made


class FailingBatches(Batches):
    """An engine that cannot answer the ad hoc release."""

    def open_engine(self) -> Any:
        if "asked" in {each.name for each in self.session.runs}:
            raise DownError
        return super().open_engine()


FAILING: dict[type, type] = {Batches: FailingBatches}


@pytest.mark.parametrize("ended_before", [False, True])
def test_a_store_is_rescued_from_what_the_engine_fails_with(tmp_path: Path, ended_before: bool) -> None:
    made = started(tmp_path)
    with pytest.raises(DownError):
        run(made, end_releases=("asked",) if ended_before else (), components=FAILING)
    run(made, force_end_releases=("asked",), components=FAILING)
    assert published(made) == [[5.0, 5.0]] * 10
    assert ticks_of(made, "asked") == [1, 2, 3]
    run(made, components=FAILING)
    assert not made.ledger().active_releases(()).keys() - {"counts"}
    with pytest.raises(InvalidReleaseError, match="must be one that is open"):
        run(made, force_end_releases=("asked",))


def run_after_forced_end(folder: Path, components: dict[type, type]) -> list[int]:
    made, stop = started(folder), Flag()
    stop.set()
    run(made, end_releases=("asked",), stop=stop, components=components)
    run(made, force_end_releases=("asked",), stop=stop, components=components)
    run(made, components=components)
    return ticks_of(made, "asked")


def test_a_release_ended_by_force_is_never_drawn_again(tmp_path: Path) -> None:
    assert run_after_forced_end(tmp_path, {}) == [1, 2, 3]


class ForgetfulBuilder(SessionBuilder):
    """A broken twin: it enters no forced end."""

    def _stop_draining(self) -> list[Any]:
        return []


def test_a_forced_end_without_entry_draws_again(tmp_path: Path) -> None:
    """The store accepts no second value for a tick, so the twin cannot continue."""
    with pytest.raises(Exception, match=r"."):
        run_after_forced_end(tmp_path, {SessionBuilder: ForgetfulBuilder})


def test_releases_of_the_file_are_not_cut(tmp_path: Path) -> None:
    with pytest.raises(InvalidReleaseError, match="take it out there"):
        run(started(tmp_path), force_end_releases=("counts",))


def more_refused(folder: Path) -> list[str]:
    """Why one more is refused while one runs on that was ended, and two may be at work."""
    made, stop = started(folder, server={"adhoc_max_active": 1}), Flag()
    stop.set()
    run(made, end_releases=("asked",), stop=stop)
    more = build_request(made, name="more")
    assert plan_adhoc(made.file, more, finished={"asked"}).refusals == ()
    refused = list(plan_adhoc(made.file, more).refusals)
    if refused:
        with pytest.raises(CommandRefusedError, match="must be at most 1 at a time, got 2"):
            add_releases(made, [more])
        queue = CommandQueue(now=lambda: 0, find_finished=lambda: {"asked"})
        queue.on_idle = queue.close
        outcome = queue.submit(AddRelease(more))
        run(made, commands=queue)
        assert outcome.result(0) is None
    return refused


def test_what_runs_on_takes_room_until_readers_have_observed_it(tmp_path: Path) -> None:
    (why,) = more_refused(tmp_path)
    assert "ad hoc releases must be at most 1 at a time, got 2" in why


def test_a_twin_that_counts_what_is_open_alone_lets_it_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LedgerLog, "active_releases", lambda self, over=(): self.open_releases())
    assert more_refused(tmp_path) == []


def test_an_analyst_asks_for_so_many_ever_ended_ones_too(tmp_path: Path) -> None:
    made, stop = made_in(tmp_path, server={"adhoc_max_total": 1}), Flag()
    add_releases(made, [build_request(made)], clock=world(tmp_path))
    stop.set()
    run(made, clock=world(tmp_path, at=1), end_releases=("asked",), stop=stop)
    (why,) = plan_adhoc(made.file, build_request(made, name="more")).refusals
    assert "releases that ana ever requests must be at most 1, ended ones too, got 2" in why
    assert "adhoc.max_total" in why
    assert plan_adhoc(made.file, build_request(made, "bea", name="more")).refusals == ()


def flaky(failure: Exception) -> dict[type, type]:
    """Return components by which the first ended release that is built again fails."""
    failures = [failure]

    class FlakyBuilder(SessionBuilder):
        def build_run(self, entry: Any) -> Any:
            if entry.end_tick is not None and failures:
                raise failures.pop()
            return super().build_run(entry)

    return {SessionBuilder: FlakyBuilder}


def test_what_fails_for_a_while_fails_the_start_and_loses_no_tick(tmp_path: Path) -> None:
    made, stop, notes = started(tmp_path), Flag(), list[str]()
    stop.set()
    run(made, end_releases=("asked",), stop=stop)
    components = flaky(MemoryError())
    with pytest.raises(MemoryError):
        run(made, note=notes.append, components=components)
    run(made, note=notes.append, components=components)
    assert ticks_of(made, "asked") == list(range(1, 11))
    assert notes == []


def test_what_is_refused_by_declarations_is_cut_and_the_curator_is_reported(tmp_path: Path) -> None:
    made, stop, notes = started(tmp_path), Flag(), list[str]()
    stop.set()
    run(made, end_releases=("asked",), stop=stop)
    run(made, note=notes.append, components=flaky(ValueError("such a mechanism is no more")))
    assert ticks_of(made, "asked") == [1, 2, 3]
    assert notes == ["release asked cannot run on, so it ends where it is"]


def test_a_table_that_was_changed_for_a_while_ends_what_ran_on_for_good(tmp_path: Path) -> None:
    """Its memory is forgotten when it cannot run on: it must not begin anew."""
    (tmp_path / "t.csv").write_text("g,h\na,p\nb,q\n")
    sql = "SELECT h, COUNT(*) FROM v JOIN t USING (g) GROUP BY h"
    lookup = {"lookup": {"t": {"file": "t.csv", "on": "g"}}}
    usual, stop = {"name": "counts", "sql": COUNTS}, Flag()
    write(tmp_path, one_a_second())
    first = pipeline(tmp_path, tables(usual, {"name": "more", "sql": sql}) | lookup)
    run(first, max_batch_ticks=3, stop=stop, on_progress=lambda _: stop.set())
    run(pipeline(tmp_path, tables(usual) | lookup), stop=stop)
    (tmp_path / "t.csv").write_text("g,h\na,p\nb,r\n")
    run(pipeline(tmp_path, tables(usual) | lookup), stop=stop)
    (tmp_path / "t.csv").write_text("g,h\na,p\nb,q\n")
    last = pipeline(tmp_path, tables(usual) | lookup)
    run(last)
    assert (len(ticks_of(last)), ticks_of(last, "more")) == (10, [1, 2, 3])
