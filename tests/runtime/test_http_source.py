"""Runs on sent events: their inbox outlives a run, and the disk does not reveal them."""

import json
from contextlib import closing
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.runtime.session import RunRefusedError
from streamgauge.sources import Inbox, build_inbox
from streamgauge.store.reader import SQLITE
from tests.support.forked import Fault
from tests.support.pipelines import COUNTS, Tables, World, event, pipeline, published, run, tables, world

SENT = {"live": True, "source": "http"}


def lines(*events: Tables) -> bytes:
    return "\n".join(map(json.dumps, events)).encode()


def sending(folder: Path, made: Any, *, at: float = 0, until: float = 40) -> tuple[World, Inbox, Flag]:
    """Return a clock, an inbox, and a stop flag that is set at second `until`."""
    clock, stop = world(folder, at=at), Flag()
    clock.acts[until] = stop.set
    return clock, build_inbox(made.file, clock.now), stop


def test_run_without_server_is_refused_for_sent_events(tmp_path):
    made = pipeline(tmp_path, tables(**SENT))
    with pytest.raises(
        RunRefusedError, match=r"v.toml: source must be .* got events, which are sent: use streamgauge serve"
    ):
        run(made)
    assert not made.file.folder.exists()


@pytest.mark.parametrize("how", [{}, {"mechanism": "Pegasus", "alerts": {"kind": "low", "size": 3, "window": "20s"}}])
def test_events_that_are_sent_are_published_as_ticks_close(tmp_path, how):
    made = pipeline(tmp_path, tables({"name": "counts", "sql": COUNTS, **how}, **SENT))
    clock, inbox, stop = sending(tmp_path, made)
    for second in (2, 12, 22):
        clock.acts[second] = lambda s=second: inbox.put(str(s), lines(event(s), event(s, "b"), event(s)))
    run(made, clock=clock, source=inbox, stop=stop)
    assert published(made) == [[2, 1]] * 3
    if how:
        assert published(made, measure=1) == [[0, 0], [0, 1], [0, 1]]


def test_inbox_outlives_stopped_run_and_loses_nothing(tmp_path):
    """The next run reads the batches that still wait in the inbox."""
    made = pipeline(tmp_path, tables(**SENT))
    clock, inbox, stop = sending(tmp_path, made, until=4)
    clock.acts[2] = lambda: inbox.put("a", lines(event(1)))
    run(made, clock=clock, source=inbox, stop=stop)
    waiting = inbox.put("b", lines(event(3)))
    assert (inbox.find_status("a"), inbox.find_status("b"), waiting.done.done()) == ("committed", "waiting", False)
    stop.clear()
    clock.acts[20] = stop.set
    run(made, clock=clock, source=inbox, stop=stop)
    assert (waiting.done.done(), published(made)) == (True, [[2, 0]])


@pytest.mark.parametrize(
    "step", ["block_read", "commit_begun", "slot_written", "transaction_committed", "store_committed"]
)
def test_run_failed_at_any_step_continues_in_same_process(tmp_path, step):
    made = pipeline(tmp_path, tables(**SENT))
    clock, inbox, stop = sending(tmp_path, made, until=30)
    sent: list[Any] = []
    clock.acts[2] = lambda: sent.append(inbox.put("a", lines(event(1))))

    def fail(name: str) -> None:
        if sent and name == step:
            raise Fault(step)

    with pytest.raises(Fault):
        run(made, clock=clock, source=inbox, stop=stop, step=fail)
    assert not sent[0].done.done()
    run(made, clock=clock, source=inbox, stop=stop)
    assert sent[0].done.result(0) is None
    assert published(made) == [[1, 0], [0, 0]]


def test_batch_sent_again_after_hours_is_counted_once(tmp_path):
    """No run has closed its ticks since then, and the clock alone forgets no key."""
    made = pipeline(tmp_path, tables(**SENT))
    clock, inbox, stop = sending(tmp_path, made, until=4)
    clock.acts[2] = lambda: inbox.put("a", lines(event(1)))
    run(made, clock=clock, source=inbox, stop=stop)
    later, fresh, stop = sending(tmp_path, made, at=7200, until=7210)
    ticket = fresh.put("a", lines(event(1)))
    run(made, clock=later, source=fresh, stop=stop)
    assert (ticket.is_duplicate, published(made)[0]) == (True, [1, 0])


def test_batch_sent_again_after_key_is_forgotten_is_late(tmp_path):
    made = pipeline(tmp_path, tables(**SENT))
    clock, inbox, stop = sending(tmp_path, made, until=200)
    clock.acts[2] = lambda: inbox.put("a", lines(event(1)))
    again: list[Any] = []
    clock.acts[100] = lambda: again.append(inbox.put("a", lines(event(1))))
    run(made, clock=clock, source=inbox, stop=stop)
    assert (again[0].is_duplicate, sum(row[0] for row in published(made))) == (False, 1)


def test_bad_records_are_dropped_alone_and_recorded_for_the_curator(tmp_path):
    made = pipeline(tmp_path, tables(**SENT))
    clock, inbox, stop = sending(tmp_path, made)
    bad = b'\xff\n{"ts": "none", "g": "a"}\n{"ts": \n' + lines(event(1))
    clock.acts[2] = lambda: inbox.put("a", bad)
    run(made, clock=clock, source=inbox, stop=stop)
    assert published(made)[0] == [1, 0]
    assert len(made.quarantine()) == 3


def test_store_reveals_neither_number_nor_keys_of_batches(tmp_path):
    """Without the curator's key, a disk shows the parts that a commit writes, and their lengths."""
    found = []
    for number, batches in enumerate((1, 40)):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = pipeline(folder, tables(**SENT))
        clock, inbox, stop = sending(folder, made, until=25)
        clock.acts[2] = lambda n=batches, i=inbox: [i.put(f"patient {k}", lines(event(1))) for k in range(n)]
        run(made, clock=clock, source=inbox, stop=stop)
        assert all(b"patient" not in path.read_bytes() for path in made.file.folder.iterdir())
        with closing(SQLITE.open_reader(made.file.folder)) as driver:
            found.append(sorted((part.name, len(part.sealed)) for part in driver.parts()))
    assert found[0] == found[1]
