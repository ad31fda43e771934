"""Broken twins of the publisher that replace it in a child. The crash law must catch them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streamgauge.engines.duckdb.user_bounds import UserBounds
from streamgauge.records.blocks import Block
from streamgauge.releases.release import ReleaseSchema, TickRelease
from streamgauge.runtime import publisher as publishing
from streamgauge.runtime.live.open_ticks import OpenTicks
from streamgauge.runtime.publisher import Publisher, SinkCursor
from streamgauge.runtime.release_run import Batches
from streamgauge.sources.http import COUNT_STRUCT, MAGIC, Inbox, resolve_ticket


def replace(owner: Any, **parts: Any) -> None:
    """Put others in the place of parts that the owner has."""
    for name, part in parts.items():
        assert hasattr(owner, name), f"{owner} must have {name}, got none"
        setattr(owner, name, part)


def publish_first() -> None:
    """Publish releases, and commit them afterwards."""
    commit = Publisher.commit

    def hasty(self: Publisher, *, released: Sequence[TickRelease] = (), **what: Any) -> None:
        for outlet in self.sink_cursors if released else ():
            wanted = [each for each in released if outlet.wants(each.release)]
            if wanted:
                outlet.sink.write(wanted, *self.store.trace)
        commit(self, released=released, **what)

    replace(Publisher, commit=hasty)


def draw_again() -> None:
    """Publish committed values that are not yet published from another draw."""
    unpack = TickRelease.unpack

    def drawn(shape: ReleaseSchema, payload: bytes) -> TickRelease:
        released = unpack(shape, payload)
        released.value[:] += np.random.default_rng().laplace(size=released.value.shape)
        return released

    replace(TickRelease, unpack=drawn)


def forget_the_state() -> None:
    """Commit releases without the state that continues from them."""
    replace(Batches, save_state=lambda self: {})


def mark_first() -> None:
    """Record that a sink has a release before it is written."""

    def hasty(self: Publisher, outlet: SinkCursor, released: Sequence[TickRelease], number: int) -> None:
        noted = dict.fromkeys(filter(outlet.wants, self.schemas), number)
        self.store.mark({outlet.commit_mark: publishing.encode_written_commits(noted)})
        self.step("sink_position_saved")
        wanted = [each for each in released if outlet.wants(each.release)]
        if wanted:
            position = outlet.sink.write(wanted, *self.store.trace_at(number))
            self.store.mark({outlet.position_mark: position})
        self.step("sink_written")

    replace(Publisher, _write_sink=hasty)


def forget_what_waits() -> None:
    """Resume the source at its position, without the events of open ticks."""
    replace(OpenTicks, restore=lambda self, saved: None)


def forget_the_users() -> None:
    """Resume without the ticks that each user has used."""
    replace(UserBounds, restore=lambda self, state: None)


def acknowledge_what_was_read() -> None:
    """Acknowledge a batch when it was read, before it is on disk."""
    read = Inbox.read

    def hasty(self: Inbox) -> Block | None:
        block = read(self)
        for batch in self._uncommitted.values():
            for ticket in batch.tickets:
                resolve_ticket(ticket)
            batch.tickets = []
        return block

    replace(Inbox, read=hasty)


def forget_the_keys() -> None:
    """Resume without the keys of counted batches."""
    replace(Inbox, position=lambda self: COUNT_STRUCT.pack(MAGIC, 0))


def forget_too_soon() -> None:
    """Forget a key when its batch is on disk, while its ticks are open."""
    committed = Inbox.commit

    def hasty(self: Inbox, closed_until: int = 0) -> None:
        committed(self, closed_until)
        self._committed_keys = {}

    replace(Inbox, commit=hasty)


TWINS: dict[str, Callable[[], None]] = {
    twin.__name__: twin
    for twin in (
        publish_first,
        draw_again,
        forget_the_state,
        mark_first,
        forget_what_waits,
        forget_the_users,
        acknowledge_what_was_read,
        forget_the_keys,
        forget_too_soon,
    )
}
