"""Application of commands to an open run, between two commits.

    take -> judge by the ledger -> build the runs, change the engine -> commit charges and ends -> resolve

Promise
    Store, lock, sinks, source and open ticks stay as they are. A release is built, and the engine accepts it, before
    its charge is committed. So a charged release can run, and a release that fails is not charged. Charges, pins and
    ends of one batch are in one transaction. If that commit fails, the run fails, as after any commit. A killed run
    continues with exactly the commands that were committed.

    A batch has a bounded number of commands, and a round of the run follows. So no rate of commands delays a tick.

Privacy
    A new release begins after the last tick that an event may be in when readers see its charge. So no open tick
    lacks events of it. Refusals follow from declarations, the ledger and the clock.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.memory import clear_traceback
from streamgauge.plan.planner import ReleasePlan
from streamgauge.privacy import PrivacyError
from streamgauge.runtime.adhoc.planning import charge_request
from streamgauge.runtime.adhoc.releases import compute_last_tick, find_end_refusals
from streamgauge.runtime.commands.queue import (
    AddRelease,
    AnnounceIntrusion,
    Command,
    CommandQueue,
    CommandRefusedError,
    EndRelease,
    NotRunningError,
)
from streamgauge.runtime.intrusion.intrude import IntrusionProgress, announce_intrusion, to_public_intrusion_error
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.ticks import newest_tick
from streamgauge.store.encryption import SECRET_PART, overwrite
from streamgauge.store.store import LedgerEntry

if TYPE_CHECKING:
    from streamgauge.runtime.session import RunSession

NOT_STARTED_MESSAGE = "the release could not be started"
PUBLIC_ERRORS = (PrivacyError, InvalidReleaseError)  # by declarations and the ledger alone


def keep_measures() -> None:
    """Keep the engine as it is: it has no release of this run loop yet."""


class CommandRunner:
    """The commands of one run."""

    def __init__(self, session: "RunSession", queue: CommandQueue) -> None:
        self.session, self.queue, self.schedule = session, queue, queue.schedule

    def apply_due(self, opened_tick: int = 0, change_measures: Callable[[], None] = keep_measures) -> bool:
        """Apply the due commands of one time; return whether there were any.

        `opened_tick` is the last tick that an event may have been counted in. `change_measures` tells the engine and
        the open ticks that the releases of the session changed.
        """
        commands = self.queue.take_due()
        try:
            self._apply(commands, opened_tick, change_measures)
        except BaseException:
            for command in commands:
                command.reject(NotRunningError("the run failed"))
            raise
        return bool(commands)

    def _apply(self, commands: Sequence[Command], opened_tick: int, change_measures: Callable[[], None]) -> None:
        """Apply commands together, or one by one if the engine does not accept all of their releases."""
        try:
            self._apply_together(commands, opened_tick, change_measures)
        except MeasuresRefusedError as refused:
            if len(commands) > 1:
                for command in commands:
                    self._apply([command], opened_tick, change_measures)
            else:
                self.queue.on_failure(refused.failure)
                commands[0].reject(NotRunningError(NOT_STARTED_MESSAGE))

    def _apply_together(
        self, commands: Sequence[Command], opened_tick: int, change_measures: Callable[[], None]
    ) -> None:
        batch = CommandBatch(self.session, self.queue, opened_tick, change_measures, commands)
        for command in commands:
            if isinstance(command, EndRelease):
                batch.end(command)
            elif isinstance(command, AddRelease):
                batch.add(command)
        batch.change_releases()
        batch.commit()
        for command in commands:
            if isinstance(command, AnnounceIntrusion):
                self._announce(command, batch)

    def _announce(self, command: AnnounceIntrusion, batch: "CommandBatch") -> None:
        record = IntrusionProgress()
        try:
            export = announce_intrusion(self.session, command.folder, batch.find_visible_time(), record)
        except Exception as failure:
            if record.has_drawn and not record.is_committed:
                raise
            clear_traceback(failure, keep_lines=False)
            refusal = to_public_intrusion_error(failure)
            if refusal.is_fault:
                self.queue.on_failure(failure)
            if record.is_committed:
                self.queue.on_commit(batch.start_time)
            command.reject(refusal)
            return
        self.queue.on_commit(batch.start_time)
        command.resolve(export)


class MeasuresRefusedError(Exception):
    """The engine did not accept the releases of some commands. Nothing has changed."""

    def __init__(self, failure: Exception) -> None:
        super().__init__("the engine must accept the releases, got a failure")
        self.failure = failure


class CommandBatch:
    """Commands that are applied in one commit."""

    def __init__(
        self,
        session: "RunSession",
        queue: CommandQueue,
        opened_tick: int,
        change_measures: Callable[[], None],
        commands: Sequence[Command],
    ) -> None:
        self.session, self.queue, self.change_measures = session, queue, change_measures
        self.file, self.stream, self.opened_tick = session.file, session.file.stream, opened_tick
        times = [command.requested_at for command in commands]
        self.start_time = max(map(queue.schedule.find_start_time, times), default=0)
        self.reply_time = max(map(queue.schedule.find_reply_time, times), default=0)
        self.log: LedgerLog | None = None  # a changed copy of the ledger
        self.entries: list[LedgerEntry] = []
        self.accepted: list[Command] = []
        self.added: list[ReleaseRun] = []
        self.ended: list[ReleaseRun] = []
        self._finished: Collection[str] | None = None

    def find_visible_time(self) -> int:
        """Return the time at which readers see a commit of now."""
        now = self.session.options.clock.now()
        return max(self.reply_time, self.queue.schedule.find_publish_time(now))

    def end(self, command: EndRelease) -> None:
        """End a release in the ledger, or refuse that. An end that is repeated is accepted."""
        log = self.log or self.session.ledger_log.copy()
        entry = log.latest_releases().get(command.name)
        if entry is None or entry.requested_by is None or entry.end_tick is None:
            if reasons := tuple(f"{self.file.path.name}: {each}" for each in find_end_refusals(command.name, log)):
                command.reject(CommandRefusedError(reasons))
                return
            assert entry is not None  # otherwise refused
            released = self.session.publisher.store.last_released(entry.name)
            moment = self.queue.schedule.find_reply_time(command.requested_at)
            last = compute_last_tick(self.stream, entry, moment, released, self.opened_tick)
            self.entries.append(log.end(entry.name, max(released, last), is_draining=True))
            self.ended += [run for run in self.session.runs if run.name == entry.name]
            self.log = log
        self.accepted.append(command)

    def add(self, command: AddRelease) -> None:
        """Charge a release in the ledger and build its run, or refuse that."""
        log = (self.log or self.session.ledger_log).copy()
        first, finished = self._find_first_tick(log), self._find_finished()
        plan, refused, entries = charge_request(self.file, command.release, log, first, finished, plan=command.plan)
        if plan is None or refused:
            command.reject(CommandRefusedError(tuple(refused)))
            return
        try:
            self.added.append(self._build_run(plan, log))
        except PUBLIC_ERRORS as refusal:
            command.reject(CommandRefusedError((f"{self.file.path.name}: {refusal}",)))
        except Exception as failure:
            clear_traceback(failure, keep_lines=not self.stream.pan_private)
            self.queue.on_failure(failure)
            command.reject(NotRunningError(NOT_STARTED_MESSAGE))
        else:
            self.log = log
            self.entries += entries
            self.accepted.append(command)

    def _build_run(self, plan: ReleasePlan, log: LedgerLog) -> ReleaseRun:
        options = self.session.options
        return options.find_class(ReleaseRun).start(plan, plan.name, log.releases[plan.name].first, options.noise)

    def change_releases(self) -> None:
        """Add the new runs to the session, and change the engine. A failure changes nothing.

        Raises:
            MeasuresRefusedError: if the engine does not accept them.
        """
        if not self.added:
            return
        runs, before = self.session.runs, list(self.session.runs)
        runs[:] = [*(run for run in before if not run.is_removed), *self.added]
        try:
            self.change_measures()
        except Exception as failure:
            runs[:] = before
            clear_traceback(failure, keep_lines=not self.stream.pan_private)
            raise MeasuresRefusedError(failure) from None

    def _find_first_tick(self, log: LedgerLog) -> int:
        if self.stream.mode == "batch":
            return 1
        return max(self.opened_tick, log.last_end_tick, newest_tick(self.stream, self.find_visible_time())) + 1

    def _find_finished(self) -> Collection[str]:
        """Return the ended releases whose last tick readers see."""
        if self._finished is None:
            last_released, releases = self.session.publisher.store.last_released, self.session.ledger_log.releases
            self._finished = (
                self.queue.find_finished()
                if self.queue.find_finished is not None
                else {name for name, each in releases.items() if each.end_tick and last_released(name) >= each.end_tick}
            )
        return self._finished

    def commit(self) -> None:
        """Commit charges and ends in one transaction, then resolve their commands."""
        session, options = self.session, self.session.options
        if self.log is not None:
            for run in self.ended:
                run.end_tick = self.log.releases[run.name].end_tick
            state, time = self._save_state(), self.find_visible_time()
            try:
                options.step("commands_judged")
                session.publisher.commit(
                    acts=[replace(entry, time=time) for entry in self.entries],
                    state=state,
                    marks=session.build_opened_marks(self.opened_tick),
                )
            finally:
                if self.stream.pan_private:
                    overwrite(state)
            options.step("commands_committed")
            for run in self.ended:
                if self.stream.pan_private:
                    run.drop_finished_runs()
            session.adopt_ledger(self.log)
            self.queue.on_commit(self.start_time)
        for command in self.accepted:
            command.resolve()

    def _save_state(self) -> dict[str, bytes | None]:
        """Return the parts that change. With pan_private = true the store is sealed, so a commit needs all of them."""
        runs = self.session.runs if self.stream.pan_private else [run for run in self.ended if run.is_finished]
        state = {name: part for run in runs for name, part in run.save_state().items()}
        return {SECRET_PART: self.session.secret, **state} if self.stream.pan_private else state
