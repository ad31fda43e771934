"""A run over a streaming source. The clock closes ticks, never the events.

    A tick closes if two conditions are met: the wall clock has passed its end plus `allowed_lateness`, and the
    source has been read up to the end that it had at that moment.

So an hour of downtime does not make an hour of late events. A late event is dropped, or counted in the oldest open
tick. An event further in the future than `allowed_earliness` is dropped.

Privacy
    The tick of an event depends on that event and the clock only. Closed ticks never open again. Events of open
    ticks are stored as sums (`ExactMemory`) or, with pan_private = true, not at all (`NoisyMemory`).

    If the source cannot be replayed, the sums are committed every 100 ms. Only then the source learns that its data
    is on disk, and acknowledges batches to their senders. A commit that closes a tick writes the whole state. A
    commit in between writes open ticks and users, and at the end of the source also the quarantine.

    The number of the open tick is public. It is committed when the clock opens the tick, with or without events. With
    pan_private = true it is committed before an event of the tick is read. Registers that have the event may be
    seized and then lost, so no later release may begin in that tick.

    The duration of a round reveals the presence of events to an observer of the publication times. So a round that
    closes a tick executes the same queries and commits with and without events. The work that analysts can add is
    bounded (`plan.limits`), since an earlier round may have had an event.

Reports
    A report counts in the tick of its arrival, or in the first later tick that a release covers. If no release covers
    an open tick, nothing is read, and the source rejects further reports (`StreamingSource.pause`). So an acknowledged
    report is in a tick of a release. The server checks, by the tick of arrival, that the release reads one of its
    columns (`server.routes.events`). Here all covered ticks are equal.

Backlog and commands
    A backlog of ticks is closed in batches, and a stop takes effect after each commit. Due commands are applied after a
    complete round. So ticks close however many commands arrive. A run that has nothing left to publish waits for
    commands, and reads nothing. It ends when no command can come.
"""

from collections.abc import Generator, Iterator
from typing import Any

from streamgauge.clock import MICROSECONDS_PER_SECOND, CheckedClock
from streamgauge.config.settings import Stream
from streamgauge.interfaces import StreamingSource
from streamgauge.records.blocks import Block
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.live.state import CLEAN_SHUTDOWN_STATE, ExactMemory, NoisyMemory, StateParts, resume
from streamgauge.runtime.release_run import Batches
from streamgauge.runtime.session import RunSession
from streamgauge.runtime.ticks import OPENED_MARK, closed_tick, newest_tick
from streamgauge.store.encryption import overwrite

POLL_MICROSECONDS = MICROSECONDS_PER_SECOND // 20
WAITER_POLL_MICROSECONDS = MICROSECONDS_PER_SECOND // 500  # the interval if a client waits for the next commit
PARTIAL_COMMIT_MICROSECONDS = MICROSECONDS_PER_SECOND // 10  # interval of commits if the source cannot be replayed


def run_live(session: RunSession, source: StreamingSource) -> Generator[list[TickRelease]]:
    """Publish ticks as they close.

    Ends when all releases are finished, standard input ends, or a stop is requested. With a queue of commands it waits
    for more.
    """
    if not session.runs and session.options.commands is not None:
        source.pause()
    while not session.runs:
        if not session.wait_for_commands():
            return
        session.apply_commands(lambda: None)  # there is no engine yet
    yield from session.options.find_class(LiveRun)(session, source).ticks()


class LiveRun:
    """The loop: read, sum, close due ticks."""

    def __init__(self, session: RunSession, source: StreamingSource) -> None:
        self.session, self.source = session, source
        self.stream: Stream = session.file.stream
        self.clock = CheckedClock(session.options.clock, self.stream.tick, session.options.accept_clock)
        self.batches = session.options.find_class(Batches)(session, session.runs)
        if self.stream.pan_private:
            resume(session)
        kind: type[ExactMemory | NoisyMemory] = NoisyMemory if self.stream.pan_private else ExactMemory
        self.memory = session.options.find_class(kind)(session, self.batches, source)
        self.engine = self.batches.open_engine()
        self.closed_tick = session.publisher.store.tick
        self.newest_tick = int(session.publisher.store.marks().get(OPENED_MARK, b"0"))
        self.committed_at = self.clock.now()  # time of the last commit of open ticks
        self.has_uncommitted = False  # True if events arrived since
        self.committed_newest_tick = self.newest_tick  # newest tick in the committed mark
        self.is_closing, self.has_input = False, False  # True if this round closes a tick; True if it had events
        self.is_paused, self.has_read_end = False, False  # True if nothing is read; True after the end of the source
        self.header: tuple[str, ...] | None = None  # of the file of the last block
        self.memory.restore(session.state, self.engine)

    def ticks(self) -> Iterator[list[TickRelease]]:
        try:
            yield from self._run_rounds()
            if self.memory.is_forgetful:
                self._commit_clean_shutdown()
        finally:
            self.engine.close()

    def _run_rounds(self) -> Iterator[list[TickRelease]]:
        while not self.session.options.stop.is_set():
            if self._is_finished() and not self._wait_for_commands():
                return
            due = self.find_due_tick()
            self.is_closing, self.has_input = due > self.closed_tick, False
            behind = self.batches.report_backlog(self.closed_tick, due)  # before any read, so by the clock alone
            self.read_all()
            if self.session.options.stop.is_set():
                return
            if self.is_closing:
                yield from self._close(due, behind)
            if self.session.options.stop.is_set():
                return
            if self.memory.is_forgetful and self.find_due_tick() > self.closed_tick:
                continue
            self._reset_engine()
            self.memory.end_round()
            applied = self.session.apply_commands(self._change_measures, self.newest_tick)
            if not (applied or self.is_closing or self._is_finished()):
                self.clock.sleep(WAITER_POLL_MICROSECONDS if self.source.has_waiters else POLL_MICROSECONDS)

    def _change_measures(self) -> None:
        """Adapt the engine, then the open ticks, to the releases of the run."""
        self.engine.change_measures(list(self.batches.measures.values()))
        self.memory.change_measures()

    def _wait_for_commands(self) -> bool:
        """Wait until commands leave something to publish; return False if none can come. Nothing is read meanwhile.

        The source resumes before commands are applied. So a source that cannot resume fails the run before a charge.
        """
        while self._is_finished():
            if self.session.options.commands is None:
                return False
            self.source.pause()
            if not self.session.wait_for_commands():
                return False
            self.source.resume(None if self.memory.is_forgetful else self.source.position())
            self.session.apply_commands(self._change_measures, self.newest_tick)
        return True

    def _reset_engine(self) -> None:
        """Replace the engine if nothing of the read data may be remembered.

        The flag of input is cleared as well.
        """
        if self.memory.is_forgetful and self.has_input:
            self.engine.close()
            self.engine, self.has_input = self.batches.open_engine(), False

    def _is_finished(self) -> bool:
        """Return whether nothing is left to publish."""
        if self.source.is_exhausted and self.find_due_tick() == self.closed_tick:
            return self.has_read_end
        return all(run.last_tick is not None and self.closed_tick >= run.last_tick for run in self.session.runs)

    def find_due_tick(self) -> int:
        """Return the last tick whose end and allowed lateness have passed.

        It is at most the last tick of a release that is to end.
        """
        stream, queue, endable = self.stream, self.session.options.commands, self.session.endable_releases
        if queue is None:
            return max(self.closed_tick, closed_tick(stream, self.clock.now()))
        due = queue.limit_due_tick(
            lambda: closed_tick(stream, self.clock.now()), lambda moment: closed_tick(stream, moment), endable
        )
        return max(self.closed_tick, due)

    def _find_newest_allowed_tick(self) -> int:
        """Return the last tick that an event may be in by now."""
        return newest_tick(self.stream, self.clock.now())

    def read_all(self) -> None:
        """Read the source up to its end at the time of the last block."""
        while not self.session.options.stop.is_set():
            allowed = self._find_newest_allowed_tick()
            self.newest_tick = max(self.newest_tick, allowed)  # with or without events
            if self.memory.is_forgetful and self.newest_tick > self.committed_newest_tick:
                self.commit(state={})
            block = None if self._update_pause(allowed) else self.source.read()
            if block is not None:
                self._add(block, allowed)
            if self.is_paused or self.source.at_end:
                break
        if self.is_closing and not self.has_input and not self._is_stopping:
            self.pad_work()
        self.has_read_end = self.source.is_exhausted
        changed = self.has_uncommitted or self._is_stopping or self.newest_tick > self.committed_newest_tick
        if changed and not self.source.replayable:
            self._commit_partial()

    def _find_oldest_tick(self) -> int | None:
        """Return the first tick that new data may count in.

        None if no release covers an open or later tick, which concerns reports only.
        """
        first = self.closed_tick + 1
        return self.session.spans.next_tick(first) if self.stream.has_reports else first

    def _update_pause(self, allowed: int) -> bool:
        """Return whether reads are paused since no release would count the reports."""
        if not self.stream.has_reports:
            return False
        oldest, before = self._find_oldest_tick(), self.is_paused
        self.is_paused = oldest is None or oldest > allowed
        if self.is_paused:
            self.source.pause()
        elif before:
            self.source.resume(self.source.position())
        return self.is_paused

    def pad_work(self) -> None:
        """Do the work of an event in a round that had none."""
        self.engine.scan_empty_block(self.closed_tick + 1, self._find_newest_allowed_tick(), self.source.header)
        self.has_uncommitted = not self.memory.is_forgetful
        self.has_input = self.memory.is_forgetful

    def _add(self, block: Block, allowed: int) -> None:
        carry, header = self.stream.late == "next_tick", self.source.header
        if header != self.header:
            self.header = header
            self.session.warn_of_header(header)
        oldest = self._find_oldest_tick() or self.closed_tick + 1
        answer = self.engine.scan_block(block, oldest, allowed, carry, header)
        self.has_uncommitted, self.has_input = not self.memory.is_forgetful, True
        self.session.options.step("block_read")
        self.memory.add(self.engine, block, answer, self.closed_tick + 1)
        if (
            self.has_uncommitted
            and not self.source.replayable
            and self.clock.now() - self.committed_at >= PARTIAL_COMMIT_MICROSECONDS
        ):
            self._commit_partial()

    def _commit_partial(self) -> None:
        """Commit the events of open ticks, if the source cannot replay them."""
        self.commit(state=self.memory.save_partial(self.engine, self._open_tick_count, self._is_stopping))

    def _commit_clean_shutdown(self) -> None:
        """Commit everything that was read, so that the next run continues from here."""
        state = self.memory.save_partial(self.engine, self._open_tick_count, stopping=True)
        forgets = self.memory.is_forgetful
        self.commit(state={**state, **(CLEAN_SHUTDOWN_STATE if forgets else {})}, entered=forgets)
        self.batches.report_progress(self.closed_tick)

    def _close(self, due: int, behind: int | None) -> Iterator[list[TickRelease]]:
        for begin, end in self.batches.split_ticks(self.closed_tick + 1, due):
            released = self.batches.release_ticks(self.memory.close(end), begin, end)
            self.session.options.step("noise_drawn")
            self.closed_tick = end
            self.memory.discard_closed(self.engine, end)
            state = self.memory.save_all(self.engine, self._open_tick_count)
            self.commit(tick=end, released=released, state=state)
            self.batches.report_progress(end, behind)
            self._reset_engine()
            yield released
            if self.session.options.stop.is_set():
                return

    def commit(self, *, state: StateParts, **what: Any) -> None:
        try:
            self.session.publisher.commit(**what, state=state, marks=self.session.build_opened_marks(self.newest_tick))
        finally:
            if self.memory.is_forgetful:
                overwrite(state)
        self.source.commit(self.stream.tick_start(self.closed_tick + 1))
        self.committed_at, self.committed_newest_tick = self.clock.now(), self.newest_tick
        self.has_uncommitted = False

    @property
    def _is_stopping(self) -> bool:
        """True if nothing more will be read."""
        return self.source.is_exhausted or self.session.options.stop.is_set()

    @property
    def _open_tick_count(self) -> int:
        """Upper bound of the number of open ticks."""
        return max(0, self.newest_tick - self.closed_tick)
