"""A run over a source that goes on: ticks close by the clock, never by what events say.

    a tick closes when the wall clock has passed its end plus `lateness`, and the source was read up to its
    end as seen at that moment

So an hour's downtime does not turn an hour's backlog into late events. An event for a closed tick is late: it
is dropped, or carried into the oldest open tick. One from further in the future than `earliness` is dropped.

Privacy
    Which tick an event counts in depends on that event and the clock alone. Closed ticks never open again.
    What has arrived for open ticks is kept as sums (`exact_memory`) or, with pan_private = true, not at all
    (`noisy_memory`). Where the source cannot be replayed, sums are committed every 100 ms, and only then is
    the source told that what was read of it is on disk, which acknowledges batches to those who sent them.
    Commits write all when a tick closes; what is of open ticks and users in between; with it the quarantine
    when the source ends. Which tick is open is public, and is committed when the clock opens it, whether
    anything has come or not; with pan_private = true before an event of it is read, for registers that have
    one may be seen, and lost: no later release may begin in that tick.

    How long a round takes tells whether something came, to whoever sees when a tick leaves. So a round in
    which a tick closes does the same whether something came or not: the same queries and commits. What
    analysts can add to it is bounded (`pipeline.work`), for a round before may have had an event.

What devices report counts in the tick that it comes in, or in the first one after it that a release takes:
where none of those that are open is any release's, nothing is read, and who sent something is told (`rest`).
So what is acknowledged is in a tick that a release takes. Which of its columns that one reads is looked at
where it comes in, by the tick of that moment (`server.accepting`): here one tick is as good as another.

Ticks that are far behind the clock are closed many at a time, and a stop is heeded after each commit.

Where others wait for their turn (`Options.turn`), the run ends once a round is whole: all that was there is
read, and all ticks that are due are closed. So however often it is asked to, ticks go on closing. Where a
release is to end, no tick after its last one closes before that turn (`Options.within`): so its last tick is
the same however long the round takes.
"""

from collections.abc import Iterator
from typing import Any

from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.by_clock import closed_tick, newest_tick
from streamgauge.pipeline.clock import SECOND, Watched
from streamgauge.pipeline.exact_memory import ExactMemory, State
from streamgauge.pipeline.finished_run import engine_for
from streamgauge.pipeline.noisy_memory import NoisyMemory
from streamgauge.pipeline.opening import OPENED, Opened
from streamgauge.pipeline.sealed import overwrite
from streamgauge.pipeline.set_down import MARKED, take_up
from streamgauge.query.blocks import Block
from streamgauge.query.formats import REPORTS
from streamgauge.query.protocols import Live
from streamgauge.query.released import Released
from streamgauge.query.settings import Stream

PAUSE = SECOND // 20
BREATH = SECOND // 500  # instead, where somebody waits for the next commit
PARTIAL = SECOND // 10  # how often what cannot be replayed is committed


def live_run(opened: Opened, source: Live) -> Iterator[list[Released]]:
    """Publishes ticks as they close, until all releases are over, standard input ends, or a stop."""
    return LiveRun(opened, source).ticks() if opened.runs else iter(())


class LiveRun:
    """The loop: read, add up, close what is due."""

    def __init__(self, opened: Opened, source: Live) -> None:
        self.opened, self.source = opened, source
        self.stream: Stream = opened.file.stream
        self.clock = Watched(opened.options.clock, self.stream.tick, opened.options.accept_clock)
        self.batches = Batches(opened, opened.runs)
        if self.stream.pan_private:
            take_up(opened)
        memory = NoisyMemory if self.stream.pan_private else ExactMemory
        self.memory: ExactMemory | NoisyMemory = memory(opened, self.batches, source)
        self.engine = engine_for(opened, self.batches)
        self.closed = opened.publisher.store.tick
        self.newest = int(opened.publisher.store.marks().get(OPENED, b"0"))
        self.kept, self.unkept = self.clock.now(), False  # when open ticks were committed; what came since
        self.told = self.newest  # the newest tick of which it was committed that it is open
        self.closing, self.came = False, False  # whether in this round a tick closes; whether anything came
        self.taken, self.resting = opened.taken, False  # which ticks are releases'; whether nothing is read
        self.header: tuple[str, ...] | None = None  # of the file that the last block came from
        self.memory.restore(opened.state, self.engine)

    def ticks(self) -> Iterator[list[Released]]:
        try:
            yield from self._rounds()
            if self.memory.forgets or self.opened.options.turn.is_set():
                self._set_down()
        finally:
            self.engine.close()

    def _rounds(self) -> Iterator[list[Released]]:
        while not self._over():
            due = self._due()
            self.closing, self.came = due > self.closed, False
            behind = self.batches.behind(self.closed, due)  # before anything is read: by the clock
            self._read_all()
            if self.opened.options.stop.is_set():
                return
            if self.closing:
                yield from self._close(due, behind)
            if self.opened.options.stop.is_set():
                return
            if self.memory.forgets and self._due() > self.closed:
                continue
            self._renew()
            self.memory.rested()
            if self.source.ended and not self.closing:
                return
            if not self.closing and not self.opened.options.turn.is_set():
                self.clock.sleep(BREATH if self.source.pressing else PAUSE)
            if self.opened.options.turn.is_set():
                return

    def _renew(self) -> None:
        """Where nothing may be remembered of what was read, the engine goes, and whether anything came."""
        if self.memory.forgets and self.came:
            self.engine.close()
            self.engine, self.came = engine_for(self.opened, self.batches), False

    def _over(self) -> bool:
        lasts = [run.last_tick for run in self.opened.runs]
        ended = all(last is not None and self.closed >= last for last in lasts)
        return ended or self.opened.options.stop.is_set()

    def _due(self) -> int:
        """The last tick whose end and lateness have passed; none after one at which a release is to end."""
        due = self.opened.options.within(lambda: closed_tick(self.stream, self.clock.now()))
        return max(self.closed, due)

    def _allowed(self) -> int:
        """The last tick that an event may lie in by now."""
        return newest_tick(self.stream, self.clock.now())

    def _read_all(self) -> None:
        """Reads the source up to its end as it is when the last block is read."""
        while not self.opened.options.stop.is_set():
            allowed = self._allowed()
            self.newest = max(self.newest, allowed)  # whether anything has come or not
            if self.memory.forgets and self.newest > self.told:
                self._commit(state={})
            block = None if self._rests(allowed) else self.source.read()
            if block is not None:
                self._add(block, allowed)
            if self.resting or self.source.caught_up:
                break
        if self.closing and not self.came and not self._leaving:
            self._even_out()
        if not self.source.replayable and (self.unkept or self._leaving or self.newest > self.told):
            self._keep()

    def _oldest(self) -> int | None:
        """The first tick that what is read may count in; None if there is none for what devices report."""
        first = self.closed + 1
        return self.taken.next(first) if self.stream.source == REPORTS else first

    def _rests(self, allowed: int) -> bool:
        """Whether nothing is read of what devices report, since no release would count it."""
        if self.stream.source != REPORTS:
            return False
        oldest, before = self._oldest(), self.resting
        self.resting = oldest is None or oldest > allowed
        if self.resting:
            self.source.rest()
        elif before:
            self.source.resume(self.source.position())
        return self.resting

    def _even_out(self) -> None:
        """Does what is done for an event, where there was none."""
        self.engine.idle(self.closed + 1, self._allowed(), self.source.header)
        self.unkept = not self.memory.forgets
        self.came = self.memory.forgets

    def _add(self, block: Block, allowed: int) -> None:
        carry, header = self.stream.late == "carry", self.source.header
        if header != self.header:
            self.header = header
            self.opened.warn_of_header(header)
        oldest = self._oldest() or self.closed + 1
        answer = self.engine.block(block.data, oldest, allowed, carry, header)
        self.unkept, self.came = not self.memory.forgets, True
        self.opened.options.step("read")
        self.memory.add(self.engine, block, answer, self.closed + 1)
        if self.unkept and not self.source.replayable and self.clock.now() - self.kept >= PARTIAL:
            self._keep()

    def _keep(self) -> None:
        """Commits what has arrived for open ticks, where it will not come again."""
        self._commit(state=self.memory.between(self.engine, self._ticks, self._leaving))

    def _set_down(self) -> None:
        """Commits all that was read: the next run goes on from here."""
        state = self.memory.between(self.engine, self._ticks, leaving=True)
        forgets = self.memory.forgets
        self._commit(state={**state, **(MARKED if forgets else {})}, entered=forgets)
        self.batches.seen(self.closed)

    def _close(self, due: int, behind: int | None) -> Iterator[list[Released]]:
        for begin, end in self.batches.cut(self.closed + 1, due):
            released = self.batches.take(self.memory.close(end), begin, end)
            self.opened.options.step("drawn")
            self.closed = end
            self.memory.closed(self.engine, end)
            state = self.memory.whole(self.engine, self._ticks)
            self._commit(tick=end, released=released, state=state)
            self.batches.seen(end, behind)
            self._renew()
            yield released
            if self.opened.options.stop.is_set():
                return

    def _commit(self, *, state: State, **what: Any) -> None:
        try:
            self.opened.publisher.commit(**what, state=state, marks={OPENED: str(self.newest).encode()})
        finally:
            if self.memory.forgets:
                overwrite(state)
        self.source.committed(self.stream.begins(self.closed + 1))
        self.kept, self.unkept, self.told = self.clock.now(), False, self.newest

    @property
    def _leaving(self) -> bool:
        """Whether nothing more will be read."""
        return self.source.ended or self.opened.options.stop.is_set()

    @property
    def _ticks(self) -> int:
        """How many may be open."""
        return max(0, self.newest - self.closed)
