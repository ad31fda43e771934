"""The event buffer: published events, waiting readers, and one encoding for each event."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from streamgauge.server.publishing.feed import EventBuffer, ReleaseEvent, encode_sse, trim_events
from streamgauge.server.publishing.reader import ReaderPool
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from tests.support.served import (
    CountedBuffer,
    Stepped,
    close,
    file_of,
    leave,
    publish_and_encode,
    running,
    stepped,
    write,
)

Live = tuple[Runner, Stepped]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A run with tick 1 published and tick 2 committed."""
    write(tmp_path, 60)
    clock = stepped()
    with running(file_of(tmp_path), clock, buffer=CountedBuffer) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        close(runner, clock, 2)
        yield runner, clock


def test_tick_enters_buffer_at_its_publish_time(live: Live) -> None:
    runner, clock = live
    assert (runner.event_buffer.published.row_number, runner.event_buffer.find_buffered(0, 9)[-1].row_number) == (1, 1)
    clock.to(31.999)
    runner.publisher.publish_due()
    assert runner.event_buffer.published.row_number == 1
    leave(runner, clock, 32)
    assert (runner.event_buffer.published.row_number, runner.event_buffer.find_buffered(0, 9)[-1].row_number) == (2, 2)


def test_id_of_unpublished_event_is_unknown(live: Live) -> None:
    runner, _ = live
    whole = EventBuffer(runner.event_buffer.readers)
    publish_and_encode(whole, 2**62)  # a twin that does not wait
    place, mark = whole.published.id.split(".")
    assert whole.is_known_id(int(place), mark)
    assert not runner.event_buffer.is_known_id(int(place), mark)
    assert runner.event_buffer.is_known_id(*_split(runner.event_buffer.published.id))
    assert not runner.event_buffer.is_known_id(1, "00000000")


def _split(ident: str) -> tuple[int, str]:
    place, mark = ident.split(".")
    return int(place), mark


def test_event_is_encoded_once_for_all_readers(live: Live) -> None:
    runner, clock = live
    assert isinstance(runner.event_buffer, CountedBuffer)
    leave(runner, clock, 32)
    assert all(runner.event_buffer.find_buffered(1, 64) == runner.event_buffer.find_buffered(1, 64) for _ in range(500))
    assert runner.event_buffer.encoded_ticks == [1, 2]


def test_stored_events_equal_buffered_ones(live: Live) -> None:
    runner, clock = live
    leave(runner, clock, 32)
    assert runner.event_buffer.read_stored(0, 64) == runner.event_buffer.find_buffered(0, 64)
    assert [event.row_number for event in runner.event_buffer.read_stored(1, 1)] == [2]
    assert runner.event_buffer.find_buffered(2, 64) == runner.event_buffer.read_stored(2, 64) == []


ONE_EVENT = Tuning(max_buffered_events=1)


def test_buffer_is_bounded_and_the_rest_comes_from_the_store(live: Live) -> None:
    runner, _ = live
    buffer = EventBuffer(runner.event_buffer.readers, ONE_EVENT)
    publish_and_encode(buffer, runner.event_buffer.published.commit_number)
    assert [event.row_number for event in buffer.find_buffered(0, 64) or []] == [1]
    publish_and_encode(buffer, 2**62)
    assert buffer.find_buffered(0, 64) is None
    assert [event.row_number for event in buffer.find_buffered(1, 64) or []] == [2]
    assert [event.row_number for event in buffer.read_stored(0, 64)] == [1, 2]


def test_burst_larger_than_buffer_leaves_no_gap(live: Live) -> None:
    runner, _ = live
    fresh = EventBuffer(runner.event_buffer.readers, ONE_EVENT)
    publish_and_encode(fresh, 2**62)
    assert fresh.published.row_number == 2
    assert fresh.find_buffered(0, 64) is None
    assert [event.row_number for event in fresh.find_buffered(1, 64) or []] == [2]


def test_trimming_keeps_newest_events_that_fit() -> None:
    most = DEFAULT_TUNING.max_buffered_bytes
    events = [ReleaseEvent(place, "", "r", bytes(most // 3)) for place in range(1, 6)]
    assert [event.row_number for event in trim_events(events)] == [3, 4, 5]
    assert trim_events([ReleaseEvent(1, "", "r", bytes(most + 1))]) == []


def test_waiting_readers_wake_once_for_change_of_another_thread(tmp_path: Path) -> None:
    buffer = EventBuffer(ReaderPool(tmp_path))

    async def woken() -> list[bool]:
        waiting = [asyncio.create_task(buffer.wait_newer(buffer.version, 20)) for _ in range(50)]
        await asyncio.sleep(0)
        thread = Thread(target=buffer.set_state, args=["running"])
        thread.start()
        found = await asyncio.gather(*waiting)
        thread.join()
        return [*found, await buffer.wait_newer(buffer.version - 1, 20), await buffer.wait_newer(buffer.version, 0.001)]

    assert asyncio.run(woken()) == [True] * 51 + [False]
    buffer.set_state("ended")  # raises nothing although the loop is closed


def test_event_of_a_wide_release_has_its_address(live: Live) -> None:
    runner, _ = live
    buffer = EventBuffer(runner.event_buffer.readers, Tuning(max_event_groups=1))
    buffer.publish(runner.event_buffer.published.commit_number)
    (event,) = buffer.read_stored(0, 1)
    assert b'"href":"/api/releases/counts?from=1&to=1"' in event.data
    assert b"measures" not in event.data


def test_event_with_line_breaks_in_label_is_one_message() -> None:
    details = encode_sse("release", {"group": "a\n\ndata: b\r\u2028"}, "1.x")
    assert details.count(b"\n") == 4
    assert b"\r" not in details
