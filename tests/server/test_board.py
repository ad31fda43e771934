"""The board: what is shown, who is woken, and that every event is encoded once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from served import Stepped, close, file_of, leave, running, stepped, write

from streamgauge.server import board as boards
from streamgauge.server.board import Board, Event, within
from streamgauge.server.departed import Readers
from streamgauge.server.runner import Runner

Live = tuple[Runner, Stepped]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A run of which tick 1 has left, and tick 2 is committed."""
    write(tmp_path, 60)
    clock = stepped()
    with running(file_of(tmp_path), clock) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        close(runner, clock, 2)
        yield runner, clock


def test_a_tick_is_on_the_board_when_it_has_left_and_not_before(live: Live) -> None:
    runner, clock = live
    assert (runner.board.shown.place, runner.board.kept(0, 9)[-1].place) == (1, 1)
    clock.to(31.999)
    runner._leaving.look()
    assert runner.board.shown.place == 1
    leave(runner, clock, 32)
    assert (runner.board.shown.place, runner.board.kept(0, 9)[-1].place) == (2, 2)


def test_an_id_of_what_has_not_left_is_not_known(live: Live) -> None:
    runner, _ = live
    whole = Board(runner.board.readers)
    whole.advance(2**62)  # a twin that does not wait
    place, mark = whole.shown.id.split(".")
    assert whole.knows(int(place), mark)
    assert not runner.board.knows(int(place), mark)
    assert runner.board.knows(*_split(runner.board.shown.id))
    assert not runner.board.knows(1, "00000000")


def _split(ident: str) -> tuple[int, str]:
    place, mark = ident.split(".")
    return int(place), mark


def test_every_event_is_encoded_once_whatever_the_number_of_readers(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, clock = live
    unpacked = []
    monkeypatch.setattr(boards, "event_as_json", lambda released: unpacked.append(released.tick) or {})
    leave(runner, clock, 32)
    assert all(runner.board.kept(1, 64) == runner.board.kept(1, 64) for _ in range(500))
    assert unpacked == [2]


def test_what_is_read_anew_is_what_was_kept(live: Live) -> None:
    runner, clock = live
    leave(runner, clock, 32)
    assert runner.board.stored(0, 64) == runner.board.kept(0, 64)
    assert [event.place for event in runner.board.stored(1, 1)] == [2]
    assert runner.board.kept(2, 64) == runner.board.stored(2, 64) == []


def test_what_is_kept_is_bounded_and_the_rest_comes_from_the_store(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, clock = live
    monkeypatch.setattr(boards, "KEPT", 1)
    leave(runner, clock, 32)
    assert runner.board.kept(0, 64) is None
    assert [event.place for event in runner.board.kept(1, 64) or []] == [2]
    assert [event.place for event in runner.board.stored(0, 64)] == [1, 2]


def test_a_burst_larger_than_what_is_kept_leaves_no_gap(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, _ = live
    monkeypatch.setattr(boards, "KEPT", 1)
    fresh = Board(runner.board.readers)
    fresh.advance(2**62)
    assert fresh.shown.place == 2
    assert fresh.kept(0, 64) is None
    assert [event.place for event in fresh.kept(1, 64) or []] == [2]


def test_the_newest_events_are_kept_that_fit() -> None:
    events = [Event(place, "", "r", bytes(boards.KEPT_BYTES // 3)) for place in range(1, 6)]
    assert [event.place for event in within(events)] == [3, 4, 5]
    assert [event.place for event in within([Event(1, "", "r", bytes(boards.KEPT_BYTES + 1))])] == []


def test_who_waits_is_woken_from_another_thread_and_never_twice_for_one_thing(tmp_path: Path) -> None:
    board = Board(Readers(tmp_path))

    async def woken() -> list[bool]:
        waiting = [asyncio.create_task(board.after(board.version, 20)) for _ in range(50)]
        await asyncio.sleep(0)
        thread = Thread(target=board.tell, args=["running"])
        thread.start()
        found = await asyncio.gather(*waiting)
        thread.join()
        return [*found, await board.after(board.version - 1, 20), await board.after(board.version, 0.001)]

    assert asyncio.run(woken()) == [True] * 51 + [False]
    board.tell("ended")  # the loop is closed, and nobody minds


def test_a_wide_release_is_told_of_by_its_address(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, _ = live
    monkeypatch.setattr(boards, "WIDEST", 1)
    (event,) = runner.board.stored(0, 1)
    assert b'"href":"/api/releases/counts?from=1&to=1"' in event.data
    assert b"measures" not in event.data


def test_an_event_is_one_message_whatever_a_label_is() -> None:
    told = boards.message("release", {"group": "a\n\ndata: b\r\u2028"}, "1.x")
    assert told.count(b"\n") == 4
    assert b"\r" not in told
