"""The run behind the server: `streamgauge run` in a thread, with a queue of commands.

    Pipeline.open_run -> commit -> PublishThread (the clock) -> EventBuffer -> readers
          ^ add, end, intrude: taken from the queue between two rounds

**Promise.** The run has the lock, key, rollback guard and crash law of `streamgauge run`, from its start to its end.
Commands reopen nothing (`runtime.commands`). After its last tick the run waits for commands, and readers can read.

After a failure readers can still read. The state is "failed" and waiting commands are rejected before lock and
store are released.

**Privacy.** `state` and `error`, the name of a class, are public. `progress`, `failure` and `on_failure` are for the
curator. A failure lives as long as the server, so its frames are cleared first (`clear_traceback`), and with
pan_private = true its lines and its cause, too.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import StopRequestedError, ignore
from streamgauge.memory import clear_traceback
from streamgauge.plan.planner import ReleasePlan
from streamgauge.runtime.adhoc.releases import AdHocRelease, find_source_refusals
from streamgauge.runtime.commands.queue import (
    AddRelease,
    AnnounceIntrusion,
    CatchingUpError,
    Command,
    CommandQueue,
    CommandRefusedError,
    CommandSchedule,
    EndRelease,
    NotRunningError,
    RunStoppingError,
)
from streamgauge.runtime.intrusion.intrude import IntrusionExport
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.options import Options, Progress
from streamgauge.runtime.pipeline import Pipeline
from streamgauge.runtime.session import RunSession
from streamgauge.runtime.ticks import ReleaseSpans
from streamgauge.server.publishing.feed import EventBuffer, PublishThread, RunStatus
from streamgauge.server.publishing.reader import FinishedReleases, ReaderPool, build_ledger_cache
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.sources import open_inbox
from streamgauge.store.drivers import find_driver
from streamgauge.store.errors import StoreNotFoundError
from streamgauge.store.reader import LedgerEntry

__all__ = ["CommandRefusedError", "NotRunningError", "RunStatus", "Runner"]


class RunInterruptedError(RuntimeError):
    """The thread of a run was ended by something that is not an error, such as an interrupted engine."""


class Runner:
    """A pipeline that runs for a server, from `start` to `stop`."""

    def __init__(
        self,
        file: PipelineFile,
        options: Options | None = None,
        *,
        on_progress: Callable[[Progress], None] = ignore,
        on_failure: Callable[[Exception], None] = ignore,
        now: Callable[[], int] | None = None,
        demo: bool = False,
        tuning: Tuning = DEFAULT_TUNING,
        event_buffer: EventBuffer | None = None,
    ) -> None:
        self.file, self.options, self.demo, self.tuning = file, options or Options(), demo, tuning
        self.now = now or self.options.clock.now
        self.inbox = open_inbox(file, self.now)
        self.event_buffer = event_buffer or EventBuffer(ReaderPool(file.folder, find_driver(file)), tuning)
        self.ledger_cache, self._finished = build_ledger_cache(file.stream.unit), FinishedReleases()
        self.progress: Progress | None = None
        self.failure: Exception | None = None
        self.dropped = Counter[str]()  # exact: records dropped by routes, before the run read them
        self._on_progress = on_progress
        self._session: RunSession | None = None
        self._opened: Future[None] = Future()
        self._stop = Flag()
        schedule = CommandSchedule(file.stream.start, file.server.publish_delay, tuning.align_commands)
        self.publisher = PublishThread(file, schedule, self.event_buffer, self.now)
        self.command_queue = CommandQueue(
            schedule,
            self.now,
            on_commit=self._schedule_commands,
            on_idle=self._pause,
            on_failure=on_failure,
            find_finished=self.find_finished,
        )
        self._thread = Thread(target=self._run_thread, name="streamgauge run", daemon=True)

    @property
    def state(self) -> RunStatus:
        return self.event_buffer.state

    @property
    def error(self) -> str:
        return "" if self.failure is None else type(self.failure).__name__

    @property
    def is_catching_up(self) -> bool:
        """True if the run is many ticks behind the clock."""
        progress = None if self._stop.is_set() else self.progress
        return progress is not None and progress.catch_up_tick is not None and progress.tick < progress.catch_up_tick

    @property
    def spans(self) -> ReleaseSpans:
        """Tick ranges of the releases."""
        return ReleaseSpans() if self._session is None else self._session.spans

    @property
    def shares(self) -> dict[str, str]:
        """Shares of the records that have each item; empty if they are not counted."""
        counted = None if self._session is None else self._session.shares
        return {} if counted is None else counted.shares()

    @property
    def is_alive(self) -> bool:
        """True if the thread of the run is alive: it holds lock and store."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the run; return when it is open, or raise what `run` would raise."""
        self.publisher.start()
        self._thread.start()
        if self._opened.exception() is not None and self.failure is not None:
            self.stop()
            raise self.failure

    def disconnect_readers(self) -> None:
        """Disconnect live readers, and reject waiting commands."""
        if self.state != "failed":
            self.event_buffer.set_state("stopping")
        self.event_buffer.close()
        self.command_queue.close()

    def stop(self) -> None:
        """Stop the run after the current batch, and wait for that. Live readers are disconnected first."""
        self._stop.set()
        self.disconnect_readers()
        if self.is_alive:
            self._thread.join()
        if self.inbox is not None:
            self.inbox.close()
        self.publisher.stop()
        self.event_buffer.readers.close()

    def submit_release(
        self, requested: AdHocRelease, plan: ReleasePlan | None = None, requested_at: int = 0
    ) -> Future[None]:
        """Submit a release to be charged and started; return a future of the outcome.

        Raises:
            CommandRefusedError: if the source accepts no release. The future raises it for other refusals.
            NotRunningError: if the run stops. The future raises it for failures.
        """
        return self._submit_adhoc(AddRelease(requested, plan, requested_at=requested_at))

    def submit_end(self, name: str) -> Future[None]:
        """Submit the end of a requested release; return a future, as `submit_release` does."""
        return self._submit_adhoc(EndRelease(name))

    def submit_intrusion(self, to: Path) -> Future[IntrusionExport]:
        """Submit an announced intrusion; return a future of its export, which may raise IntrusionError."""
        return self.command_queue.submit(AnnounceIntrusion(to))

    def _submit_adhoc(self, command: Command) -> Future[Any]:
        if reasons := tuple(find_source_refusals(self.file.stream)):
            raise CommandRefusedError(reasons)
        return self.command_queue.submit(command)

    def load_entries(self) -> tuple[LedgerEntry, ...]:
        """Return the published entries of the ledger."""
        try:
            with self.event_buffer.open_reader() as reader:
                return reader.ledger_entries()
        except StoreNotFoundError:
            return ()

    def load_ledger(self) -> LedgerLog:
        """Return the published ledger. Callers must not change it."""
        return self.ledger_cache(self.load_entries())

    def find_finished(self) -> frozenset[str]:
        """Return releases that were ended, and whose last tick is published."""
        try:
            with self.event_buffer.open_reader() as reader:
                return self._finished.find_finished(self.ledger_cache(reader.ledger_entries()), reader)
        except StoreNotFoundError:
            return frozenset()

    def list_names(self) -> set[str]:
        """Return the names of all releases ever charged."""
        return {act.body["release"] for act in self.load_entries() if act.kind == "charge"}

    def _run_thread(self) -> None:
        """Run the pipeline in its thread."""
        pipeline, options = Pipeline(self.file), self._build_options()
        with self._fail_on_error(), pipeline.open_run(options, source=self.inbox) as session, self._fail_on_error():
            self._run_pipeline(session)

    @contextmanager
    def _fail_on_error(self) -> Iterator[None]:
        """Fail the run on any exception, and reject waiting commands."""
        try:
            yield
        except StopRequestedError:
            pass
        except BaseException as ending:  # nothing above this thread handles it
            clear_traceback(ending, keep_lines=not self.file.stream.pan_private)
            interrupted = RunInterruptedError(f"run must continue until it is stopped, got {type(ending).__name__}")
            self._fail(ending if isinstance(ending, Exception) else interrupted)
        finally:
            self.command_queue.close()
            if not self._opened.done():
                self._opened.set_exception(self.failure or RunStoppingError())

    def _run_pipeline(self, session: RunSession) -> None:
        """Publish the charges of the start at once, since they precede all reads, and ticks by the clock."""
        store, self._session = session.publisher.store, session
        self.publisher.publish_initial(store.number)
        self.event_buffer.set_state("running")
        self._opened.set_result(None)
        for _ in session.ticks:
            # with or without rows: a period may be open
            self.publisher.add_commit(store.number, closed=self.publisher.find_closing_time(store.tick))
        if not self._stop.is_set():
            self._pause()

    def _schedule_commands(self, reply_time: int) -> None:
        """Schedule the commit of commands with their replies."""
        assert self._session is not None  # it has applied them
        closed = reply_time - self.file.server.publish_delay
        self.publisher.add_commit(self._session.publisher.store.number, closed=closed)

    def _pause(self) -> None:
        """Show readers that nothing more is published once they have seen the last commit."""
        if self.progress is not None:
            self.progress = replace(self.progress, catch_up_tick=None)
        self.publisher.finish()
        if self.inbox is not None:
            self.inbox.pause()

    def _build_options(self) -> Options:
        return replace(self.options, stop=self._stop, commands=self.command_queue, on_progress=self.report_progress)

    def report_progress(self, progress: Progress) -> None:
        self.progress = replace(progress, dropped={**progress.dropped, **self.dropped})
        self._on_progress(self.progress)
        if self.is_catching_up:
            self.command_queue.reject_pending(CatchingUpError())

    def _fail(self, failure: Exception) -> None:
        """Fail the run; readers can still read."""
        self.failure = self.failure or failure
        self.event_buffer.set_state("failed")
        if self.inbox is not None:
            self.inbox.close()
