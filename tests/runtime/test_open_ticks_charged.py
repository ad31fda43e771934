"""An open tick with events in registers stays charged, and no later release begins in it."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.privacy import BudgetExceededError, Ledger, Pure, WEvent
from streamgauge.runtime.adhoc import releases as running_on
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import CommandRefusedError
from streamgauge.runtime.ledger.log import ChargedRelease
from streamgauge.runtime.live.run import LiveRun
from streamgauge.runtime.published import read_opened_tick
from streamgauge.runtime.session import SessionBuilder
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.store.store import LedgerEntry
from tests.support.crash_readers import in_memory
from tests.support.pipelines import event, pipeline, tables, world
from tests.support.pipelines import run as run_pipeline

LIVE: dict[str, Any] = {"source": "http", "mode": "streaming", "pan_private": True, "end": None, "sinks": []}
COUNTS = {
    "name": "a",
    "sql": "SELECT g, COUNT(*) FROM v GROUP BY g",
    "window": "running",
    "epsilon": 1,
    "horizon": "100s",
}
tmp_path = pytest.fixture(in_memory, name="tmp_path")


def made_of(folder: Path, unit: Any, name: str) -> Pipeline:
    return pipeline(folder, tables({**COUNTS, "name": name}, unit=unit, **LIVE))


def run(made: Pipeline, begin: int, sent: int, until: int, **settings: Any) -> None:
    clock, stop, inbox = (world(made.file.path.parent, at=begin), Flag(), EphemeralInbox(max_waiting_bytes=10**6))
    send = partial(inbox.put, "k", json.dumps(event(sent)).encode())
    clock.acts = {until: stop.set, sent: send}
    run_pipeline(made, clock=clock, source=inbox, stop=stop, **settings)


def after_an_end(folder: Path, unit: Any) -> tuple[int, list[int], list[int]]:
    """End a release while tick 2 is open and has an event, and start another one.

    Return the last charged tick of the first release, and the published ticks of both.
    """
    run(made_of(folder, unit, "a"), 0, 13, 15)
    made = made_of(folder, unit, "b")
    run(made, 16, 33, 45)
    ended = made.ledger().releases["a"].end_tick
    assert ended is not None
    return ended, *([each.tick for each in made.releases(name)] for name in "ab")


def test_window_with_open_tick_cannot_be_charged_twice(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError, match="from tick 3"):
        after_an_end(tmp_path, {"w_event": 2})


def test_twin_that_refunds_open_tick_lets_window_lose_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a view of tick 2 and the release of tick 3 belong to one unit."""
    monkeypatch.setattr(running_on, "count_open_at_end", lambda stream: 0)
    assert after_an_end(tmp_path, {"w_event": 2}) == (1, [1], [3, 4])


def test_event_level_release_does_not_begin_in_open_tick(tmp_path: Path) -> None:
    assert after_an_end(tmp_path, "event") == (1, [1], [3, 4])


def ended_before_it_published(folder: Path, back: int = 0, **end: Any) -> tuple[int, list[int]]:
    """End an ad hoc release while its first tick, 3, is open and has an event, and request another one.

    Return the last charged tick of the first release, and the published ticks of the other.
    """
    small = {**COUNTS, "epsilon": "1/100"}
    made = pipeline(folder, tables(small, unit={"w_event": 2}, **LIVE))

    def asked(name: str) -> tuple[AdHocRelease, ...]:
        large = {**small, "name": name, "epsilon": "99/100"}
        return (AdHocRelease(parse_adhoc_release(large, made.file.stream), "ana"),)

    run(made, 0, 13, 15)
    run(made, 16, 22, 25, adhoc_releases=asked("b"))
    assert (made.ledger().releases["b"].first, read_opened_tick(made.file)) == (3, 3)
    run(made, 26 - back, 99, 27 - back, **end)
    ended = made.ledger().releases["b"].end_tick
    assert ended is not None
    run(made, 28, 33, 45, adhoc_releases=asked("c"))
    return ended, [each.tick for each in made.releases("c")]


ENDS: dict[str, Any] = {
    "cut": {"force_end_releases": ("b",)},
    "with the clock set back": {"end_releases": ("b",), "back": 15},
}


@pytest.mark.parametrize("how", ENDS)
def test_open_first_tick_stays_charged_before_any_publication(tmp_path: Path, how: str) -> None:
    with pytest.raises(CommandRefusedError, match="on top of epsilon 1"):
        ended_before_it_published(tmp_path, **ENDS[how])


def test_twin_that_ends_after_last_published_tick_refunds_first(tmp_path: Path) -> None:
    """The broken twin."""

    class HastyBuilder(SessionBuilder):
        def end_release(self, name: str) -> LedgerEntry:
            return self.ledger_log.end(name, self.store.last_released(name) + 1)

    components = {SessionBuilder: HastyBuilder}
    assert ended_before_it_published(tmp_path, **ENDS["cut"], components=components) == (1, [4])


@pytest.mark.parametrize(("published", "opened", "last"), [(0, 0, 5), (0, 5, 5), (6, 7, 7), (6, 9, 9)])
def test_every_opened_tick_stays_charged_for_any_clock(tmp_path: Path, published: int, opened: int, last: int) -> None:
    stream = made_of(tmp_path, {"w_event": 2}, "a").file.stream
    charge = Ledger(Pure(1), WEvent(2)).charge("a", Pure(1), 5, None, native=True)
    entry = ChargedRelease("a", charge, 5, None, "")
    assert running_on.compute_last_tick(stream, entry, stream.start, published, opened) == last
    assert running_on.min_last_tick(stream, entry, published, opened) == last
    assert running_on.min_last_tick(stream, replace(entry, last=6), published, opened) == min(last, 6)


def marked(folder: Path, components: dict[type, type] | None = None) -> list[int]:
    """Return the last tick that was recorded as open, after each block that was read."""
    made, known = made_of(folder, "event", "a"), list[int]()

    def step(name: str) -> None:
        if name == "block_read":
            known.append(read_opened_tick(made.file))

    run(made, 0, 20, 23, step=step, components=components or {})
    return known


def test_open_tick_is_recorded_before_its_events_are_counted(tmp_path: Path) -> None:
    assert marked(tmp_path) == [3]


class LateRun(LiveRun):
    """A broken twin: it marks the open tick at the end of a round."""

    def commit(self, *, state: Any, **what: Any) -> None:
        if state or self.has_input:
            super().commit(state=state, **what)


def test_twin_that_records_open_tick_after_round_is_caught(tmp_path: Path) -> None:
    assert marked(tmp_path, {LiveRun: LateRun}) == [2]
