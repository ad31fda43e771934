"""Application of commands to an open run, between two commits.

    take -> judge by the ledger -> build the runs, change the engine -> commit charges and ends -> resolve

Promise
    Store, lock, sinks, source and open ticks stay as they are. A release is built, and the engine has its measures,
    before its charge is committed. So a charged release can run, and a release that fails is not charged. Charges,
    pins and ends of one batch are in one transaction. No command is resolved before it, and a killed run continues
    with exactly the committed ones. A batch is bounded, and a round follows, so no rate of commands delays a tick.

Privacy
    A new release begins after the last tick that an event may be in when readers see its charge. So no open tick
    lacks events of it. Refusals follow from declarations, the ledger and the clock.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.memory import clear_traceback
from streamgauge.privacy import PrivacyError
from streamgauge.runtime.adhoc.planning import charge_request
from streamgauge.runtime.adhoc.releases import compute_last_tick, find_end_refusals, find_last_row_tick
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
from streamgauge.runtime.ticks import find_opened_tick, newest_tick
from streamgauge.store.encryption import SECRET_PART, overwrite
from streamgauge.store.store import LedgerEntry

if TYPE_CHECKING:
    from streamgauge.runtime.session import RunSession

NOT_STARTED_MESSAGE = "the release could not be started"
PUBLIC_ERRORS = (PrivacyError, InvalidReleaseError)  # by declarations and the ledger alone
ChangeMeasures = Callable[[], None]  # tells engine and open ticks that the releases of the session changed


def apply_due_commands(
    session: "RunSession", queue: CommandQueue, opened_tick: int, change_measures: ChangeMeasures
) -> bool:
    """Apply the due commands; return whether there were any.

    `opened_tick` is the last tick that an event may have been counted in.
    """
    commands = queue.take_due()
    try:
        _apply(partial(CommandBatch, session, queue, opened_tick, change_measures), commands)
    except BaseException:
        for command in commands:
            command.reject(NotRunningError("the run failed"))
        raise
    return bool(commands)


def _apply(build_batch: Callable[[Sequence[Command]], "CommandBatch"], commands: Sequence[Command]) -> None:
    """Apply commands together, or one by one if the engine does not accept all of their releases."""
    batch = build_batch(commands)
    try:
        batch.apply()
    except MeasuresRefusedError as refused:
        if len(commands) == 1:
            batch.queue.on_failure(refused.failure)
            commands[0].reject(NotRunningError(NOT_STARTED_MESSAGE))
        for command in commands if len(commands) > 1 else ():
            _apply(build_batch, [command])


class MeasuresRefusedError(Exception):
    """The engine did not accept the releases of some commands. Nothing has changed."""

    def __init__(self, failure: Exception) -> None:
        super().__init__("the engine must accept the releases, got a failure")
        self.failure = failure


class CommandBatch:
    """Commands that are applied in one commit. Intrusions follow it, each in a commit of its own."""

    def __init__(
        self,
        session: "RunSession",
        queue: CommandQueue,
        opened_tick: int,
        change_measures: ChangeMeasures,
        commands: Sequence[Command],
    ) -> None:
        self.session, self.queue, self.change_measures, self.commands = session, queue, change_measures, commands
        self.file, self.stream = session.file, session.file.stream
        self.opened_tick = max(opened_tick, find_opened_tick(session.publisher.store))
        times = [command.requested_at for command in commands]
        self.reply_time = max(map(queue.schedule.find_reply_time, times), default=0)
        self.log: LedgerLog | None = None  # a changed copy of the ledger
        self.entries: list[LedgerEntry] = []
        self.added: list[ReleaseRun] = []
        self.ended: list[ReleaseRun] = []
        self.refusals: dict[Command, Exception] = {}
        self.failures: list[Exception] = []  # for the curator

    def apply(self) -> None:
        """Apply all commands, and resolve each after its commit."""
        for command in self.commands:
            if isinstance(command, EndRelease):
                self._end(command)
            elif isinstance(command, AddRelease):
                self._add(command)
        if self.added:
            self._change_releases()
        if self.log is not None:
            self._commit(self.log)
        for failure in self.failures:
            self.queue.on_failure(failure)
        for command in self.commands:
            if command in self.refusals:
                command.reject(self.refusals[command])
            elif isinstance(command, AnnounceIntrusion):
                self._announce(command)
            else:
                command.resolve()

    def _find_visible_time(self) -> int:
        """Return the time at which readers see a commit of now."""
        now = self.session.options.clock.now()
        return max(self.reply_time, self.queue.schedule.find_publish_time(now))

    def _end(self, command: EndRelease) -> None:
        """End a release in the ledger, or refuse that. An end that is repeated is accepted."""
        log = self.log or self.session.ledger_log.copy()
        entry = log.latest_releases().get(command.name)
        if entry is not None and entry.requested_by is not None and entry.end_tick is not None:
            return
        reasons = tuple(f"{self.file.path.name}: {each}" for each in find_end_refusals(command.name, log))
        if entry is None or reasons:
            self.refusals[command] = CommandRefusedError(reasons)
            return
        released = self.session.publisher.store.last_released(entry.name)
        moment = self.queue.schedule.find_reply_time(command.requested_at)
        last = compute_last_tick(self.stream, entry, moment, released, self.opened_tick)
        row = find_last_row_tick(self.stream, entry, log, max(released, last))
        self.entries.append(log.end(entry.name, max(released, last), is_draining=True, last_row_tick=row))
        self.ended += [run for run in self.session.runs if run.name == entry.name]
        self.log = log

    def _add(self, command: AddRelease) -> None:
        """Charge a release in the ledger and build its run, or refuse that."""
        log, options = (self.log or self.session.ledger_log).copy(), self.session.options
        try:
            plan, reasons, entries = charge_request(
                self.file, command.release, log, self._find_first_tick(log), self._finished, plan=command.plan
            )
            if plan is None or reasons:
                raise CommandRefusedError(tuple(reasons))
            run = options.find_class(ReleaseRun).start(plan, plan.name, log.releases[plan.name].first, options.noise)
        except CommandRefusedError as refusal:
            self.refusals[command] = refusal
        except PUBLIC_ERRORS as refusal:
            self.refusals[command] = CommandRefusedError((f"{self.file.path.name}: {refusal}",))
        except Exception as failure:
            clear_traceback(failure, keep_lines=not self.stream.pan_private)
            self.failures.append(failure)
            self.refusals[command] = NotRunningError(NOT_STARTED_MESSAGE)
        else:
            self.log = log
            self.entries += entries
            self.added.append(run)

    def _find_first_tick(self, log: LedgerLog) -> int:
        if self.stream.mode == "batch":
            return 1
        return max(self.opened_tick, log.last_end_tick, newest_tick(self.stream, self._find_visible_time())) + 1

    @cached_property
    def _finished(self) -> Collection[str]:
        """The ended releases whose last tick readers see."""
        if self.queue.find_finished is not None:
            return self.queue.find_finished()
        last_released, releases = self.session.publisher.store.last_released, self.session.ledger_log.releases
        return {name for name, each in releases.items() if each.drain_tick and last_released(name) >= each.drain_tick}

    def _change_releases(self) -> None:
        """Add the new runs to the session, and change the engine. A failure changes nothing.

        Raises:
            MeasuresRefusedError: if the engine does not accept them.
        """
        runs, before = self.session.runs, list(self.session.runs)
        runs[:] = [*(run for run in before if not run.is_removed), *self.added]
        try:
            self.change_measures()
        except Exception as failure:
            runs[:] = before
            clear_traceback(failure, keep_lines=not self.stream.pan_private)
            raise MeasuresRefusedError(failure) from None

    def _commit(self, log: LedgerLog) -> None:
        """Commit charges and ends in one transaction."""
        session, options = self.session, self.session.options
        for run in self.ended:
            run.end_tick = log.releases[run.name].drain_tick
        state, time = self._save_state(), self._find_visible_time()
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
        for run in self.ended if self.stream.pan_private else ():
            run.drop_finished_runs()
        session.adopt_ledger(log)
        self.queue.on_commit(self.reply_time)

    def _save_state(self) -> dict[str, bytes | None]:
        """Return the parts that change. With pan_private = true the store is sealed, so a commit needs all of them."""
        runs = self.session.runs if self.stream.pan_private else [run for run in self.ended if run.is_finished]
        state = {name: part for run in runs for name, part in run.save_state().items()}
        return {SECRET_PART: self.session.secret, **state} if self.stream.pan_private else state

    def _announce(self, command: AnnounceIntrusion) -> None:
        """Announce an intrusion. Its failure fails the run if noise was drawn that is not committed."""
        progress = IntrusionProgress()
        try:
            export = announce_intrusion(self.session, command.folder, self._find_visible_time(), progress)
        except Exception as failure:
            if progress.has_drawn and not progress.is_committed:
                raise
            clear_traceback(failure, keep_lines=False)
            refusal = to_public_intrusion_error(failure)
            if refusal.is_fault:
                self.queue.on_failure(failure)
            if progress.is_committed:
                self.queue.on_commit(self.reply_time)
            command.reject(refusal)
        else:
            self.queue.on_commit(self.reply_time)
            command.resolve(export)
