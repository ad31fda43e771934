"""Server-sent events of a real server on loopback: each reader gets every tick once and in order,
also after a reconnect. No slow reader delays another."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.settings import ServerSettings
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.server.http.limits import Limits
from streamgauge.server.publishing.feed import EventBuffer, build_event_id
from streamgauge.server.routes.live import LiveRoutes, Subscriber
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from tests.support.served import (
    IMMEDIATE,
    CountedBuffer,
    Listener,
    LiveEvent,
    Stepped,
    close,
    eventually,
    file_of,
    leave,
    listening,
    publish_and_encode,
    running,
    stepped,
    ticks_of,
    write,
)

OTHER = {"name": "other", "sql": "SELECT COUNT(*), AVG(x) FROM v"}
COUNTS = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g"}


class World:
    """A run, its clock and its port."""

    def __init__(self, runner: Runner, clock: Stepped, port: int) -> None:
        self.runner, self.clock, self.port = runner, clock, port
        self.tick = 0

    def step(self) -> int:
        """Commit and publish the next tick."""
        self.tick += 1
        close(self.runner, self.clock, self.tick)
        leave(self.runner, self.clock, 10 * self.tick + 12)
        return self.tick


@contextmanager
def world_in(folder: Path, live: type[LiveRoutes] = LiveRoutes, **settings: Any) -> Iterator[World]:
    """A new run whose first tick is published. `settings` are those of `running`."""
    write(folder, 600)
    clock = stepped()
    file = file_of(folder, COUNTS, OTHER, server={"max_streams_per_client": 101})
    with running(file, clock, **settings) as runner, listening(runner, live=live) as port:
        made = World(runner, clock, port)
        made.step()
        yield made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One run for all tests. Each test continues from the current tick."""
    with world_in(tmp_path_factory.mktemp("live"), tuning=IMMEDIATE) as made:
        yield made


def test_published_tick_is_sent_in_the_columns_form(world: World) -> None:
    with Listener(world.port) as listener:
        assert listener.reply.getheader("content-type") == "text/event-stream; charset=utf-8"
        assert listener.next() == LiveEvent(listener.id, "status", {"state": "running"})
        place, tick = world.runner.event_buffer.published.row_number, world.step()
        counts, other = listener.until("release")[-1], listener.until("release")[-1]
        assert (counts.data["tick"], counts.data["end"]) == (tick, f"2026-01-05T00:00:{10 * tick}Z")
        assert counts.data["places"] == [{"g": "a"}, {"g": "b"}]
        assert counts.data["measures"]["count"]["value"] == [5.0, 5.0]
        assert set(counts.data["measures"]["count"]) == {"value", "stddev", "low", "high", "reliable"}
        assert (other.data["release"], set(other.data["measures"])) == ("other", {"count", "avg_x"})
        assert [int(each.id.split(".")[0]) - place for each in (counts, other)] == [1, 2]


def test_reader_without_id_gets_later_ticks_only(world: World) -> None:
    with Listener(world.port) as listener:
        listener.until("status")
        tick = world.step()
        assert ticks_of(listener.until("release", tick)) == [tick]


def resumed(world: World) -> list[int]:
    """Return the ticks of a listener that reconnects after each tick, with others published meanwhile."""
    observed = [world.tick]
    with Listener(world.port, "?release=counts") as listener:
        listener.until("status")
        world.step()
        observed += ticks_of(listener.until("release"))
    for missed in (0, 2):
        for _ in range(missed):
            world.step()
        with Listener(world.port, "?release=counts", listener.id) as again:
            world.step()
            observed += ticks_of(again.until("release", world.tick))
        listener = again
    return observed


def test_reader_that_reconnects_gets_every_tick_once(world: World) -> None:
    begin = world.tick
    assert resumed(world) == list(range(begin, world.tick + 1))


def test_reader_that_reconnects_after_the_buffer_misses_nothing(tmp_path: Path) -> None:
    with world_in(tmp_path, tuning=Tuning(max_buffered_events=1, max_write_events=2)) as world:
        assert resumed(world) == list(range(1, world.tick + 1))


@pytest.mark.parametrize("offset", [-2, 2])
def test_twin_that_repeats_or_skips_after_a_reconnect_is_caught(tmp_path: Path, offset: int) -> None:
    class ShiftedSubscriber(Subscriber):
        async def encode_start(self) -> bytes:
            head = await super().encode_start()
            self.row_number = max(0, self.row_number + offset) if self.last_id else self.row_number
            return head

    class ShiftedRoutes(LiveRoutes):
        subscriber = ShiftedSubscriber

    with world_in(tmp_path, ShiftedRoutes, tuning=Tuning(heartbeat_seconds=0.5)) as world:
        try:
            ticks = resumed(world)
        except AssertionError:
            ticks = []
        assert ticks != list(range(1, world.tick + 1))


def test_last_event_id_may_be_a_query_parameter(world: World) -> None:
    with world.runner.event_buffer.open_reader() as reader:
        first = build_event_id(0, reader.find_row_chain(0) or "")
    with Listener(world.port, f"?last_event_id={first}&release=counts") as listener:
        assert ticks_of(listener.until("release")) == [1]


@pytest.mark.parametrize("last", ["1.ffffffff", "999.00000000", "x"])
def test_id_of_another_history_gets_a_reset(world: World, last: str) -> None:
    with Listener(world.port, "?release=counts", last) as listener:
        details = listener.next()
        assert (details.event, details.id) == ("reset", world.runner.event_buffer.published.id)
        tick = world.step()
        assert ticks_of(listener.until("release")) == [tick]


def test_id_of_unpublished_event_gets_a_reset(world: World) -> None:
    close(world.runner, world.clock, world.tick + 1)
    whole = EventBuffer(world.runner.event_buffer.readers)
    publish_and_encode(whole, 2**62)
    assert whole.published.row_number > world.runner.event_buffer.published.row_number
    with Listener(world.port, "", whole.published.id) as listener:
        assert listener.next().event == "reset"
    world.step()


def test_releases_are_filtered_and_unknown_ones_get_404(world: World) -> None:
    with Listener(world.port, "?release=other") as listener:
        listener.until("status")
        world.step()
        details = listener.until("release", world.step())
        assert {each.data["release"] for each in details} == {"other"}
    unknown = Listener(world.port, "?release=other&release=none")
    assert unknown.reply.status == 404
    unknown.close()


def test_charge_and_end_are_sent_as_ledger_events(world: World) -> None:
    body = {"name": "more", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": 0.25}
    with Listener(world.port) as listener:
        listener.until("status")
        world.runner.submit_release(AdHocRelease(parse_adhoc_release(body, world.runner.file.stream), "ana")).result()
        world.step()
        charged = listener.until("ledger")[-1].data["entries"]
        world.runner.submit_end("more").result()
        world.step()
        assert listener.until("ledger")[-1].data["entries"] > charged


def test_stopping_server_sends_status_and_disconnects_readers(tmp_path: Path) -> None:
    with world_in(tmp_path) as world, Listener(world.port) as listener:
        listener.until("status")
        world.runner.stop()
        assert listener.until("status")[-1].data == {"state": "stopping"}
        assert {details.event for details in iter(listener.next, None)} <= {"ledger"}  # entries due by then


def test_idle_stream_sends_heartbeats(world: World) -> None:
    beating = listening(world.runner, tuning=Tuning(heartbeat_seconds=0.01), disconnect=False)
    with beating as port, Listener(port) as listener:
        lines = [listener.reply.readline() for _ in range(8)]
        assert b": beat\n" in lines
        assert lines[0] == b"retry: 1000\n"


def test_hundred_readers_get_every_tick_of_one_encoding(tmp_path: Path) -> None:
    with world_in(tmp_path, buffer=CountedBuffer) as world, ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        listeners = [stack.enter_context(Listener(world.port, "?release=counts")) for _ in range(100)]
        for listener in listeners:
            listener.until("status")
        ticks = [world.step(), world.step()]
        observed = list(pool.map(lambda listener: ticks_of(listener.until("release", ticks[-1])), listeners))
        buffer = world.runner.event_buffer
    assert observed == [ticks] * 100
    assert isinstance(buffer, CountedBuffer)
    assert buffer.encoded_ticks == sorted([1, *ticks] * 2)  # two releases a tick


class PaddedBuffer(EventBuffer):
    """A buffer of events that fill the buffers of a connection."""

    def encode_event(self, released: TickRelease, ident: str) -> bytes:
        return super().encode_event(released, ident) + b": " + bytes(2**22) + b"\n\n"


def test_reader_that_accepts_nothing_is_dropped_and_delays_no_other(tmp_path: Path) -> None:
    """The readers use two servers of one run, because only the server of the slow one is impatient."""
    limits, impatient = Limits(ServerSettings()), Tuning(send_timeout_seconds=0.2)
    with (
        world_in(tmp_path, buffer=PaddedBuffer, tuning=Tuning(send_timeout_seconds=60.0)) as world,
        listening(world.runner, tuning=impatient, limits=limits, disconnect=False) as port,
        socket.create_connection(("127.0.0.1", port)) as slow,
        Listener(world.port) as listener,
    ):
        slow.sendall(b"GET /api/live HTTP/1.1\r\nHost: x\r\n\r\n")
        listener.until("status")
        eventually(lambda: b"status" in slow.recv(2**10), "the reply")
        assert limits.live_connections == 1
        ticks = [world.step(), world.step()]
        assert ticks_of(listener.until("release", ticks[-1])) == ticks
        eventually(lambda: limits.live_connections == 0, "the end of the slow one")


def test_reader_that_falls_too_far_behind_is_dropped(world: World) -> None:
    lagging = listening(world.runner, tuning=Tuning(max_lag_events=-1), disconnect=False)
    dropped = pytest.raises(Exception, match=r"IncompleteRead|end after")
    with lagging as port, Listener(port) as listener, dropped:
        listener.until("release")


def test_live_connections_are_bounded_and_released(world: World) -> None:
    most = 101  # of one client, as it was declared
    with ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(Listener(world.port)).until("status")
        refused = stack.enter_context(Listener(world.port))
        assert refused.reply.status == 429
        assert refused.reply.getheader("retry-after") == "5"

    def again() -> bool:
        with Listener(world.port) as listener:
            return listener.reply.status == 200

    eventually(again, "room for one more")


def test_head_request_gets_headers_and_ends(world: World) -> None:
    with socket.create_connection(("127.0.0.1", world.port)) as requested:
        requested.sendall(b"HEAD /api/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reply = b""
        while some := requested.recv(2**12):
            reply += some
    assert reply.startswith(b"HTTP/1.1 200")
    assert reply.endswith(b"\r\n\r\n")
