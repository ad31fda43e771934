"""Broken twins of the publisher, put in its place in a child: what the crash law must catch."""

from collections.abc import Callable

import numpy as np

from streamgauge.engines.user_bounds import UserBounds
from streamgauge.pipeline import publishing
from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.open_ticks import OpenTicks
from streamgauge.pipeline.publishing import Publisher
from streamgauge.query.released import Released
from streamgauge.sources.inbox import COUNT, MAGIC, Inbox, resolved


def publish_first() -> None:
    """Lets releases out, and commits them afterwards."""
    commit = Publisher.commit

    def hasty(self, *, released=(), **what):
        for outlet in self.outlets if released else ():
            wanted = [each for each in released if outlet.wants(each.release)]
            if wanted:
                outlet.sink.write(wanted, *self.store.trace)
        commit(self, released=released, **what)

    Publisher.commit = hasty


def draw_again() -> None:
    """Publishes what was committed and not yet published from another draw."""
    unpack = Released.unpack

    def drawn(shape, payload):
        released = unpack(shape, payload)
        released.value[:] += np.random.default_rng().laplace(size=released.value.shape)
        return released

    publishing.Released.unpack = drawn


def forget_the_state() -> None:
    """Commits releases without the state that goes on from them."""
    Batches.saved = lambda self: {}


def mark_first() -> None:
    """Notes that a sink has what it is about to get."""

    def hasty(self, outlet, released, number, *more):
        self.store.mark({outlet.entry: str(number).encode()})
        self.step("marked")
        wanted = [each for each in released if outlet.wants(each.release)]
        if wanted:
            position = outlet.sink.write(wanted, *self.store.trace_at(number))
            self.store.mark({outlet.position: position})
        self.step("written")

    Publisher._let_out = hasty


def forget_what_waits() -> None:
    """Goes on from where the source was read to, without what was read for ticks that are open."""
    OpenTicks.restore = lambda self, saved: None


def forget_the_users() -> None:
    """Goes on without knowing who was in how many ticks."""
    UserBounds.restore = lambda self, state: None


def acknowledge_what_was_read() -> None:
    """Tells senders that a batch is on disk when it was read."""
    read = Inbox.read

    def hasty(self):
        block = read(self)
        for batch in self._read.values():
            for ticket in batch.tickets:
                resolved(ticket)
            batch.tickets = []
        return block

    Inbox.read = hasty


def forget_the_keys() -> None:
    """Goes on without knowing which batches were counted."""
    Inbox.position = lambda self: COUNT.pack(MAGIC, 0)


def forget_too_soon() -> None:
    """Forgets a key when its batch is on disk, while its ticks are open."""
    committed = Inbox.committed

    def hasty(self, closed=0):
        committed(self, closed)
        self._known = {}

    Inbox.committed = hasty


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
