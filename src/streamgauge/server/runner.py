"""The run behind the server: `streamgauge run` in a thread, with commands.

    Pipeline.ticks -> commit -> PublishThread (the clock) -> EventBuffer -> readers
          ^ add, end, intrude: the run stops after a whole round, and resumes

**Promise.** The run has the lock, key, rollback guard and crash law of `streamgauge run`. Lock, key, store, sinks and
a source that cannot be replayed stay open from the first batch to the last (`RunResources`). If the run cannot
open with a batch, it continues without it, or stays idle if its last tick was over. Nothing of the batch is
charged then, unless a sink failed after the commit. In that case the charge stands and the next batch starts
the release; a client that repeats its request gets the first reply.

With pan_private = true, a run whose key is unavailable does not stop for commands. One that has stopped waits
for its key, and continues.

After the end or a failure of the run, readers can still read. Whatever ends its thread, the state is then
"failed" and waiting commands are rejected. Only after that are lock and store released.

**Privacy.** `state` and `error` are public; the error is the name of a class. `progress`, `failure` and the
messages of `on_failure` are for the curator. A failure lives as long as the server, so its frames, which
reference records and registers, are cleared first (`clear_traceback`). With pan_private = true its lines and
its cause are cleared, too.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import StreamingSource
from streamgauge.memory import clear_traceback
from streamgauge.runtime.adhoc.releases import AdHocRelease, find_source_refusals
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.options import Options, Progress, RecordShares, ignore_progress
from streamgauge.runtime.pipeline import Pipeline, open_live_source
from streamgauge.runtime.published import read_ledger_log
from streamgauge.runtime.resources import RunResources
from streamgauge.runtime.session import RunRefusedError
from streamgauge.runtime.ticks import ReleaseSpans, closed_tick
from streamgauge.server.command_validation import validate_commands
from streamgauge.server.commands import (
    PUBLIC_ERRORS,
    Command,
    CommandBatch,
    CommandQueue,
    CommandRefusedError,
    KeyUnavailableError,
    NotRunningError,
)
from streamgauge.server.intrusion import IntrusionRecord, PublishTimeClock, export_intrusion, to_public_intrusion_error
from streamgauge.server.publishing.command_schedule import CommandSchedule
from streamgauge.server.publishing.commit_listener import CommitListener
from streamgauge.server.publishing.feed import EventBuffer, PublishThread, RunStatus
from streamgauge.server.publishing.reader import FinishedReleases, ReaderPool, build_ledger_cache
from streamgauge.server.run_totals import RunTotals
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.sources import open_inbox
from streamgauge.store.drivers import find_driver
from streamgauge.store.errors import KeyRefusedError, StoreNotFoundError
from streamgauge.store.keys import is_key_missing
from streamgauge.store.reader import LedgerEntry

__all__ = ["CommandRefusedError", "NotRunningError", "RunStatus", "Runner"]

ONE_START_OPTIONS: dict[str, Any] = {
    "recharge_source": False,
    "accept_rollback": False,
    "trust_store": False,
    "change_budget": False,
    "end_releases": (),
    "force_end_releases": (),
}  # options of one start only


class RunInterruptedError(RuntimeError):
    """The thread of a run was ended by something that is not an error, such as an interrupted engine."""


def ignore_failure(failure: Exception) -> None:
    """Ignore a failure."""


class Runner:
    """A pipeline that runs for a server, from `start` to `stop`."""

    command_queue = CommandQueue
    run_resources = RunResources

    def __init__(
        self,
        file: PipelineFile,
        options: Options | None = None,
        *,
        on_progress: Callable[[Progress], None] = ignore_progress,
        on_failure: Callable[[Exception], None] = ignore_failure,
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
        self.spans = ReleaseSpans()  # tick ranges of releases
        self.progress: Progress | None = None
        self.failure: Exception | None = None
        self.dropped = Counter[str]()  # exact: records dropped by routes, before the run read them
        self.delayed_entries: dict[int, int] = {}  # by index: publish times later than the time of an entry
        self.shares = None if file.stream.pan_private else RecordShares(file.stream, self.options.diagnose)
        self._on_progress, self._totals, self.is_waiting_for_key = on_progress, RunTotals(), False
        self._command_schedule = CommandSchedule.from_file(file, tuning)
        self._commands = self.command_queue(self.now, self.find_batch_start, tuning)
        self._on_failure, self._resources = on_failure, self.run_resources(file)
        self.source: StreamingSource | None = self.inbox
        self.publisher = PublishThread(file, self.event_buffer, self.now)
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
        progress = self.progress
        return progress is not None and progress.catch_up_tick is not None and progress.tick < progress.catch_up_tick

    @property
    def is_alive(self) -> bool:
        """True if the thread of the run is alive: it holds lock and store."""
        return self._thread.is_alive()

    @property
    def pending_commands(self) -> int:
        """Number of commands that wait for their batch."""
        return self._commands.pending_count

    def start(self) -> None:
        """Start the run; return when it is open, or raise what `run` would raise."""
        first = self._commands.current
        self.publisher.start()
        self._thread.start()
        if first.outcome.exception() is not None and self.failure is not None:
            self.stop()
            raise self.failure

    def disconnect_readers(self) -> None:
        """Disconnect live readers, and reject waiting commands."""
        if self.state != "failed":
            self.event_buffer.set_state("stopping")
        self.event_buffer.close()
        self._commands.reject_new()

    def stop(self) -> None:
        """Stop the run after the current batch, and wait for that. Live readers are disconnected first."""
        self.disconnect_readers()
        self._commands.close()
        if self.is_alive:
            self._thread.join()
        if self.shares is not None:
            self.shares.report()
        if self.inbox is not None:
            self.inbox.close()
        self.publisher.stop()
        self.event_buffer.readers.close()

    def add_release(self, requested: AdHocRelease, share: Fraction | None = None) -> None:
        """Charge a release and start it; block until that is done.

        Raises: CommandRefusedError or NotRunningError.
        """
        self.submit_release(requested, share).result()

    def end_release(self, name: str) -> None:
        """End a requested release; block until the end is charged.

        Its last tick is the last one that is closed when readers see the command.

        Raises: CommandRefusedError or NotRunningError.
        """
        self.submit_end(name).result()

    def intrude(self, to: Path) -> IntrusionRecord:
        """Run an announced intrusion between two batches; block until its export is in a new folder.

        Raises: IntrusionError or NotRunningError.
        """
        found: IntrusionRecord = self.submit_intrusion(to).result()
        return found

    def submit_release(self, requested: AdHocRelease, share: Fraction | None = None) -> Future[None]:
        """Submit what `add_release` does; return a future."""
        return self._submit_adhoc(Command(releases=(requested if share is None else replace(requested, share=share),)))

    def submit_end(self, name: str) -> Future[None]:
        """Submit what `end_release` does; return a future."""
        return self._submit_adhoc(Command(end_names=(name,)))

    def submit_intrusion(self, to: Path) -> Future[IntrusionRecord]:
        """Submit what `intrude` does; return a future."""
        return self._submit(Command(export_folder=to))

    def _submit_adhoc(self, command: Command) -> Future[None]:
        if reasons := tuple(find_source_refusals(self.file.stream)):
            raise CommandRefusedError(reasons)
        return self._submit(command)

    def _submit(self, command: Command) -> Future[Any]:
        """Submit a command, unless the run could not resume."""
        if not self.is_key_available():
            raise KeyUnavailableError
        return self._commands.submit(command)

    def is_key_available(self) -> bool:
        """Return whether the run could resume. With pan_private = true it stores no key."""
        return not (self.file.stream.pan_private and is_key_missing(self.file))

    def find_batch_start(self, requested_at: int) -> int:
        """Return the time at which the batch of a command begins."""
        return self._command_schedule.find_start_time(requested_at)

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
        """Run all batches in the thread of the run."""
        with self._fail_on_error(), self._resources, self._fail_on_error():
            self._run_batches()

    @contextmanager
    def _fail_on_error(self) -> Iterator[None]:
        """Fail the run on any exception, and reject waiting commands."""
        try:
            yield
        except Exception as failure:
            self._fail(self._clear_failure(failure))
        except BaseException as ending:  # nothing above this thread handles it
            clear_traceback(ending, keep_lines=not self.file.stream.pan_private)
            self._fail(RunInterruptedError(f"run must continue until it is stopped, got {type(ending).__name__}"))
        finally:
            self._commands.abandon(self.failure)

    def _run_batches(self) -> None:
        batch: CommandBatch | None = self._commands.current
        idle = False  # whether the run has nothing to do
        while batch is not None:
            idle = self._run_batch(batch, idle=idle)
            batch = self._commands.next_batch(idle=idle)

    def _run_batch(self, batch: CommandBatch, *, idle: bool) -> bool:
        """Run one batch; return whether the run has nothing to do. Its failure is cleared before the next."""
        failure = self._run_pipeline(batch, idle=idle)
        if failure is None:
            idle = not batch.is_interrupted
        elif self._is_missing_key(batch, failure):
            self._commands.wait_for_key(failure)
        elif batch.is_required:
            self._fail(failure)
        else:
            self._continue_after(failure)
        if idle and failure is None:
            self.publisher.finish()
            if self.inbox is not None:
                self.inbox.pause()
        self._commands.finish_batch(batch, failure)
        return idle

    def _is_missing_key(self, batch: CommandBatch, failure: Exception) -> bool:
        """Return whether a stopped run waits for its key.

        All its state is in the store, which cannot be opened without the key. The curator gets one
        message.
        """
        before, self.is_waiting_for_key = (
            self.is_waiting_for_key,
            isinstance(failure, KeyRefusedError) and self.state == "running",
        )
        waits = self.is_waiting_for_key and batch.is_required and not batch.outcome.done()
        if waits and not before:
            self._on_failure(failure)
        return waits

    def _validate_commands(self, batch: CommandBatch) -> None:
        """Reject at once the commands that the ledger refuses."""
        if batch.commands:
            refusals = validate_commands(
                self.file,
                batch.commands,
                read_ledger_log(self.file),
                find_reply_time=self._command_schedule.find_reply_time,
                published_at=self._build_publish_time(batch)(self.now()),
                finished=self.find_finished(),
            )
            self._commands.apply_refusals(batch, refusals)

    def _continue_after(self, failure: Exception) -> None:
        """Continue the run without the commands of a failed batch."""
        if not isinstance(failure, PUBLIC_ERRORS):
            self._on_failure(failure)
        if not isinstance(failure, (*PUBLIC_ERRORS, RunRefusedError)):  # the store may be uncertain
            self._resources.close_store()

    def _run_pipeline(self, batch: CommandBatch, *, idle: bool) -> Exception | None:
        """Run the pipeline until it ends or is stopped; return its failure, if any."""
        self._totals.start_run()
        try:
            commits = CommitListener(self.file, self.publisher, self.delayed_entries)
            self._export_intrusions(batch, commits)
            self._validate_commands(batch)
            if idle and not batch.commands:
                return None
            with commits:
                for released in Pipeline(self.file).ticks(self._build_options(batch, commits)):
                    commits.on_commit(released)
        except Exception as failure:
            return self._clear_failure(failure)
        finally:
            self._clear_catch_up()
        return None

    def _clear_catch_up(self) -> None:
        """Clear the catch-up target of a run that is over."""
        if self.progress is not None:
            self.progress = replace(self.progress, catch_up_tick=None)

    def _export_intrusions(self, batch: CommandBatch, commits: CommitListener) -> None:
        """Run the announced intrusions, and resolve their commands."""
        for command in batch.commands:
            if command.export_folder is not None:
                with commits.watch_commits(self._find_start_time(batch)):
                    found = self._export_intrusion(command.export_folder, self._build_publish_time(batch))
                self._commands.finish_intrusion(batch, command, found)

    def _export_intrusion(self, to: Path, departs: Callable[[int], int]) -> IntrusionRecord | Exception:
        clock, noise = PublishTimeClock(self.options.clock, departs), self.options.noise
        try:
            return export_intrusion(self._resources, to, clock, noise, self.options.step)
        except Exception as failure:
            refusal = to_public_intrusion_error(self._clear_failure(failure))
            if refusal.code in ("export_failed", "intrusion_failed", "no_disk_space", "key_unavailable"):
                self._on_failure(failure)
            return refusal

    def _clear_failure(self, failure: Exception) -> Exception:
        clear_traceback(failure, keep_lines=not self.file.stream.pan_private)
        return failure

    def _build_options(self, batch: CommandBatch, commits: CommitListener) -> Options:
        def step(name: str) -> None:
            self.options.step(name)
            if name == "session_opened":
                commits.on_open(first=self.state == "starting", started_at=self._find_start_time(batch))
                self.options = replace(self.options, **ONE_START_OPTIONS)
                self.event_buffer.set_state("running")
                self._commands.mark_opened(batch)

        find_reply_time = self._command_schedule.find_reply_time
        return replace(
            self.options,
            stop=batch.stop,
            commands_waiting=batch.timer,
            on_progress=self.report_progress,
            step=step,
            on_spans=self._set_spans,
            shares=self.shares,
            inbox=self._open_source(),
            resources=self._resources,
            find_publish_time=self._build_publish_time(batch),
            adhoc_releases=batch.releases,
            finished_releases=self.find_finished() if batch.releases else frozenset(),
            end_releases=(*self.options.end_releases, *batch.end_names),
            end_times={name: find_reply_time(moment) for name, moment in batch.end_requests.items()},
            limit_due_tick=self._limit_due_tick,
        )

    def _find_start_time(self, batch: CommandBatch) -> int:
        """Return the scheduled start of a batch; 0 if it has no commands."""
        return max((self._command_schedule.find_start_time(each.requested_at) for each in batch.commands), default=0)

    def _build_publish_time(self, batch: CommandBatch) -> Callable[[int], int]:
        """Return a function from commit times to publish times, for the opening of a batch."""
        least = max((self._command_schedule.find_reply_time(each.requested_at) for each in batch.commands), default=0)
        return lambda moment: max(least, self.publisher.schedule.find_publish_time(moment))

    def _limit_due_tick(self, due: Callable[[], int]) -> int:
        """Return the last tick that may close: not after the end of a release that waits for its end."""
        find_reply_time, stream = self._command_schedule.find_reply_time, self.file.stream
        return self._commands.limit_due_tick(due, lambda moment: closed_tick(stream, find_reply_time(moment)))

    def _open_source(self) -> StreamingSource | None:
        """Return the source; one that cannot be read again outlives a batch."""
        if self.source is None and not self.file.stream.source_facts.is_replayable:
            self.source = open_live_source(self.file, self.options)
        return self.source

    def _set_spans(self, spans: ReleaseSpans) -> None:
        self.spans = spans

    def report_progress(self, progress: Progress) -> None:
        total = self._totals.add_earlier(progress)
        self.progress = replace(total, dropped={**total.dropped, **self.dropped})
        self._on_progress(self.progress)
        if self.is_catching_up:
            self._commands.reject_pending()

    def _fail(self, failure: Exception) -> None:
        """Fail the run; readers can still read."""
        self.failure = self.failure or failure
        self.event_buffer.set_state("failed")
        if self.inbox is not None:
            self.inbox.close()
        self._commands.close()
