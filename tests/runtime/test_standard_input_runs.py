"""Runs on standard input: a batch input is read to its end first, a live one is stored as it arrives."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from streamgauge.runtime.session import RunRefusedError
from streamgauge.testing.noise import SilentNoise
from tests.support.pipelines import (
    COUNTS,
    Tables,
    World,
    event,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
)

INPUT: Tables = {"source": "-", "format": "jsonl"}
LIVE: Tables = {**INPUT, "live": True, "end": "2026-01-05T00:01:00Z"}


def text(events: list[Tables]) -> bytes:
    return "".join(f"{json.dumps(each)}\n" for each in events).encode()


@pytest.fixture
def pipe() -> Iterator[Callable[[bytes], int]]:
    """Return a function that makes descriptors with some bytes, and then an end."""
    opened: list[int] = []
    threads: list[Thread] = []

    def make(data: bytes) -> int:
        reading, writing = os.pipe()
        opened.append(reading)

        def feed() -> None:
            with os.fdopen(writing, "wb") as file:
                file.write(data)

        threads.append(Thread(target=feed))
        threads[-1].start()
        return reading

    yield make
    for thread in threads:
        thread.join()
    for descriptor in opened:
        os.close(descriptor)


def test_a_finished_input_is_published_when_it_has_ended(tmp_path: Path, pipe: Callable[[bytes], int]) -> None:
    made = pipeline(tmp_path, tables(**INPUT))
    report = run(made, standard_input=pipe(text(one_a_second()[::-1])))
    assert report.ticks == {"counts": 10}
    assert published(made) == [[5.0, 5.0]] * 10


def test_nothing_of_batch_input_is_published_before_end(tmp_path: Path) -> None:
    made, stop = pipeline(tmp_path, tables(**INPUT)), Flag()
    reading, writing = os.pipe()
    os.write(writing, text(one_a_second()))
    clock = world(tmp_path)
    clock.acts[1] = stop.set
    run(made, standard_input=reading, stop=stop, clock=clock)
    os.close(writing)
    os.close(reading)
    assert ticks_of(made) == []


def test_stopped_run_continues_with_same_input(tmp_path: Path, pipe: Callable[[bytes], int]) -> None:
    made, data = pipeline(tmp_path, tables(**INPUT)), text(one_a_second())
    ticks = made.ticks(standard_input=pipe(data), max_batch_ticks=2)
    next(ticks)
    ticks.close()
    before = published(made)
    run(made, standard_input=pipe(data))
    assert (published(made)[:2], ticks_of(made)) == (before, list(range(1, 11)))
    assert published(made)[2:] == [[5.0, 5.0]] * 8


def test_stopped_run_refuses_another_input(tmp_path: Path, pipe: Callable[[bytes], int]) -> None:
    made = pipeline(tmp_path, tables(**INPUT))
    ticks = made.ticks(standard_input=pipe(text(one_a_second())), max_batch_ticks=2)
    next(ticks)
    ticks.close()
    with pytest.raises(RunRefusedError, match="standard input must be what was charged, got another: nothing"):
        run(made, standard_input=pipe(text(one_a_second(99))))
    assert ticks_of(made) == [1, 2]


def test_new_release_on_finished_input_needs_that_input(tmp_path: Path, pipe: Callable[[bytes], int]) -> None:
    data = text(one_a_second())
    run(pipeline(tmp_path, tables(**INPUT)), standard_input=pipe(data))
    made = tables({"name": "counts", "sql": COUNTS}, {"name": "new", "sql": COUNTS, "epsilon": "1/4"}, **INPUT)
    edited = pipeline(tmp_path, made)
    with pytest.raises(RunRefusedError, match="got another"):
        run(edited, standard_input=pipe(b""))
    run(edited, standard_input=pipe(data))
    assert published(edited, "new") == published(edited) == [[5.0, 5.0]] * 10


def test_fully_published_input_is_not_read_again(tmp_path: Path, pipe: Callable[[bytes], int]) -> None:
    made = pipeline(tmp_path, tables(**INPUT))
    run(made, standard_input=pipe(text(one_a_second())))
    assert str(run(made, standard_input=pipe(b""))) == "nothing was left to publish"


def test_input_too_large_by_declarations_is_refused_before_charge(
    tmp_path: Path, pipe: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamgauge.runtime.plan.limits.MAX_INPUT_PLACES", 19)
    made = pipeline(tmp_path, tables(**INPUT))
    rule = "ticks x groups must be at most 19 for a batch standard input, got 10 ticks x 2 places"
    assert rule in made.plan().refusals[0]
    with pytest.raises(RunRefusedError, match=rule):
        run(made, standard_input=pipe(b""))
    assert made.ledger().ledger is None


@pytest.mark.parametrize("stopped", [False, True])
def test_users_of_batch_input_are_bounded_across_resumed_runs(
    tmp_path: Path, pipe: Callable[[bytes], int], stopped: bool
) -> None:
    unit = {"user": "u", "max_events_per_tick": 2, "max_ticks": 3}
    made = pipeline(tmp_path, tables({"name": "r", "sql": "SELECT COUNT(*) FROM v"}, unit=unit, **INPUT))
    if stopped:
        ticks = made.ticks(standard_input=pipe(text(one_a_second())), noise=SilentNoise(), max_batch_ticks=2)
        next(ticks)
        ticks.close()
    run(made, standard_input=pipe(text(one_a_second())))
    assert [row[0] for row in published(made, "r")] == [6, 6, 6, *[0] * 7]


def test_comma_separated_input_has_a_header(tmp_path: Path, pipe: Callable[[bytes], int]) -> None:
    made = pipeline(tmp_path, tables(**(INPUT | {"format": "csv"})))
    rows = [f"{each['g']},{each['ts']},{each['x']}\n" for each in one_a_second()]
    run(made, standard_input=pipe(("g,ts,x\n" + "".join(rows)).encode()))
    assert published(made) == [[5.0, 5.0]] * 10


class Typing(World):
    """A world that writes into a pipe, and closes it at a given second."""

    def __init__(self, like: World, happens: dict[float, bytes], ends: float) -> None:
        super().__init__(time=like.time, path=like.path)
        self.descriptor, self._writing = os.pipe()
        for second, data in happens.items():
            self.acts[second] = lambda data=data: os.write(self._writing, data)
        self.acts[ends] = lambda: os.close(self._writing)


def typed(folder: Path, made: Any, happens: dict[float, bytes], ends: float, **settings: Any) -> Typing:
    clock = Typing(world(folder, at=settings.pop("at", 0)), happens, ends)
    run(made, clock=clock, standard_input=clock.descriptor, **settings)
    os.close(clock.descriptor)
    return clock


def by_fives(first: int, last: int) -> dict[float, bytes]:
    events = one_a_second(last)
    return {second + 5: text(events[second : second + 5]) for second in range(first, last, 5)}


def test_a_live_input_is_published_as_ticks_close(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(**LIVE))
    typed(tmp_path, made, by_fives(0, 60), ends=70)
    assert published(made) == [[5.0, 5.0]] * 6


def test_ended_live_input_leaves_open_ticks_to_next_run(tmp_path: Path) -> None:
    """The input ends in the middle of tick 3; its events are stored, and the next run continues there."""
    made = pipeline(tmp_path, tables(**LIVE))
    clock = typed(tmp_path, made, by_fives(0, 25), ends=26)
    assert (ticks_of(made), clock.second) == ([1, 2], 26)
    typed(tmp_path, made, by_fives(25, 60), ends=70, at=26)
    assert published(made) == [[5.0, 5.0]] * 6


def test_block_is_durable_before_next_one_is_read(tmp_path: Path) -> None:
    """The run stops between two blocks of one tick; the first is stored, and cannot be sent again."""
    made = pipeline(tmp_path, tables(**LIVE))
    reads = []

    def step(name: str) -> None:
        reads.extend([name] * (name == "block_read"))
        if len(reads) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        typed(tmp_path, made, by_fives(0, 60), ends=70, step=step)
    typed(tmp_path, made, by_fives(10, 60), ends=70, at=12)
    assert published(made) == [[5.0, 5.0]] * 6


def test_live_input_ticks_close_by_clock_not_by_events(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(**LIVE))
    clock = typed(tmp_path, made, {2: text([event(1), event(30), event(10**9)])}, ends=70)
    assert published(made) == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert clock.second == 65
