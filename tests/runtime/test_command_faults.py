"""Commands under floods, failures and clocks that were set back: no tick is late, no charge without a reply."""

import itertools
import json
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.runtime.commands.queue import (
    AddRelease,
    Command,
    CommandQueue,
    CommandRefusedError,
    EndRelease,
    NotRunningError,
)
from streamgauge.runtime.live.run import LiveRun
from streamgauge.sources.errors import SourceError
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.testing.noise import SilentNoise
from tests.runtime.test_adhoc_releases import build_request, live, until
from tests.runtime.test_announced_intrusions import counts
from tests.support.pipelines import COUNTS, SECOND, event, published, ticks_of, world
from tests.support.pipelines import write as write_events

SHORT = {"name": "counts", "sql": COUNTS, "epsilon": "1/2", "horizon": "60s", "window": "each"}


class SlowQueue(CommandQueue):
    """A queue whose run needs half a second for each round, by its clock."""

    clock: Any
    stop: Flag
    inbox: EphemeralInbox | None = None
    sent_second = 1

    def take_due(self) -> list[Command]:
        self.clock.time += SECOND // 2
        while self.inbox is not None and self.sent_second < self.clock.second:
            self.inbox.put(str(self.sent_second), json.dumps(event(self.sent_second)).encode())
            self.sent_second += 1
        if self.clock.second > 60:
            self.stop.set()
        return super().take_due()


class OneByOneQueue(SlowQueue):
    """A twin that applies one end in each round."""

    def take_due(self) -> list[Command]:
        found, self._pending = self._pending, type(self._pending)()
        self._pending.append(found.popleft()) if found else None
        taken = super().take_due()
        self._pending.extend(found)
        return taken


def flood(made: Any, kind: type[SlowQueue], names: list[str], inbox: EphemeralInbox | None = None) -> dict[int, float]:
    """Run for a minute under many requests to end releases. Return the delay of each tick in seconds."""
    clock, stop = world(made.file.path.parent, at=1), Flag()
    clock.stride = 1
    queue, delays = kind(now=clock.now), dict[int, float]()
    queue.clock, queue.stop, queue.inbox = clock, stop, inbox
    for name in names:
        queue.submit(EndRelease(name))
    source = {} if inbox is None else {"source": inbox}

    def note(progress: Any) -> None:
        for tick in range(1, progress.tick + 1):
            delays.setdefault(tick, clock.second - 10 * tick)

    made.run(clock=clock, stop=stop, commands=queue, noise=SilentNoise(), on_progress=note, **source)
    return delays


def test_flood_of_ends_delays_no_tick(tmp_path: Path) -> None:
    made = live(tmp_path, allowed_lateness="0s")
    until(made, tmp_path, 0.5, adhoc_releases=(build_request(made),))
    assert max(flood(made, SlowQueue, ["nothing", "asked"] * 250).values()) < 2


def test_twin_that_applies_ends_one_by_one_delays_ticks(tmp_path: Path) -> None:
    made = live(tmp_path, allowed_lateness="0s")
    until(made, tmp_path, 0.5, adhoc_releases=(build_request(made),))
    assert max(flood(made, OneByOneQueue, ["nothing"] * 60 + ["asked"]).values()) > 5


def test_flood_of_ends_loses_no_event_of_pan_private_run(tmp_path: Path) -> None:
    made, inbox = counts(tmp_path), EphemeralInbox(max_waiting_bytes=10**6)
    flood(made, SlowQueue, ["nothing"] * 500, inbox)
    values = [row[0] for row in published(made)]
    assert [after - before for before, after in itertools.pairwise(values)] == [10] * (len(values) - 1)


def test_release_begins_after_opened_ticks_despite_earlier_clock(tmp_path: Path) -> None:
    made = live(tmp_path, SHORT)
    until(made, tmp_path, 100)
    clock, stop = world(tmp_path, at=15), Flag()
    queue = CommandQueue(now=clock.now)
    added = queue.submit(AddRelease(build_request(made)))
    clock.acts[60] = stop.set
    made.run(clock=clock, stop=stop, commands=queue, noise=SilentNoise())
    added.result(0)
    first = made.ledger().releases["asked"].first
    assert first > 6
    until(made, tmp_path, 300, at=120)
    assert ticks_of(made, "asked")[0] == first


class RefusingRun(LiveRun):
    """A run whose engine refuses the release "bad"."""

    def _change_measures(self) -> None:
        if any(run.name == "bad" for run in self.session.runs):
            raise RuntimeError("engine")
        super()._change_measures()


def test_release_is_charged_exactly_if_client_gets_success(tmp_path: Path) -> None:
    """Each release needs the whole budget that is left. The engine refuses the first."""
    made = live(tmp_path)
    until(made, tmp_path, 3)
    clock, stop = world(tmp_path, at=3), Flag()
    queue = CommandQueue(now=clock.now)
    bad, good = [queue.submit(AddRelease(build_request(made, name=name, epsilon="1/2"))) for name in ("bad", "good")]
    clock.acts[30] = stop.set
    made.run(clock=clock, stop=stop, commands=queue, noise=SilentNoise(), components={LiveRun: RefusingRun})
    assert isinstance(bad.exception(0), NotRunningError)
    assert good.exception(0) is None
    assert set(made.ledger().releases) == {"counts", "good"}


def test_failed_search_for_finished_releases_fails_only_request(tmp_path: Path) -> None:
    made = live(tmp_path)
    clock, stop, failures = world(tmp_path), Flag(), list[Exception]()

    def fail() -> list[str]:
        raise OSError(24, "Too many open files")

    queue = CommandQueue(now=clock.now, find_finished=fail, on_failure=failures.append)
    added = queue.submit(AddRelease(build_request(made)))
    clock.acts[40] = stop.set
    made.run(clock=clock, stop=stop, commands=queue, noise=SilentNoise())
    assert isinstance(added.exception(0), NotRunningError)
    assert [type(each) for each in failures] == [OSError]
    assert (ticks_of(made), set(made.ledger().releases)) == ([1, 2, 3], {"counts"})


def test_source_that_cannot_resume_fails_run_before_charge(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_events(tmp_path / "in", [event(1)], "a.jsonl")
    made = live(tmp_path, SHORT, source="in", format="jsonl")
    clock, stop, outcomes = world(tmp_path), Flag(), list[Any]()
    queue = CommandQueue(now=clock.now)

    def lose_source() -> None:
        (tmp_path / "in" / "a.jsonl").unlink()
        clock.time += 20 * SECOND
        outcomes.append(queue.submit(AddRelease(build_request(made))))

    queue.on_idle = lose_source
    with pytest.raises(SourceError, match="must stay until it was read"):
        made.run(clock=clock, stop=stop, commands=queue, noise=SilentNoise())
    assert isinstance(outcomes[0].exception(0), NotRunningError)
    assert set(made.ledger().releases) == {"counts"}


def test_repeated_request_for_one_name_is_refused_in_one_batch(tmp_path: Path) -> None:
    made = live(tmp_path)
    clock, stop = world(tmp_path), Flag()
    queue = CommandQueue(now=clock.now)
    first, second = [queue.submit(AddRelease(build_request(made))) for _ in range(2)]
    clock.acts[20] = stop.set
    made.run(clock=clock, stop=stop, commands=queue, noise=SilentNoise())
    assert first.exception(0) is None
    assert isinstance(second.exception(0), CommandRefusedError)
