"""Command batches. The run stops between two ticks, and opens again with all pending commands.

    command -> last tick of the current run -> validated -> run opens with it -> done or refused

All waiting commands share a batch. Commands that the ledger refuses are resolved first (`apply_refusals`), and
the run opens with the others. If that fails, nothing of the batch is charged, unless it was committed already,
and the next batch has no new commands. Ends share the batch after that, and fail if it fails. Each added
release then gets a batch of its own. Announced intrusions run before the run opens, whatever its outcome
(`finish_intrusion`).

Between two batches there is a whole round of the run and a pause (`batch_interval_seconds`), so commands starve
no release of the file. Ticks after the last one of a release that waits for its end wait for that batch
(`limit_due_tick`). So its last tick follows from the time of the request. This wait is short, however many ends
and refusals there are.

**Privacy.** Clients get refusals that follow from declarations and the ledger. Of any other failure, which may
depend on the source, a sink or the store, clients get its existence only. The curator gets its text.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from pathlib import Path
from threading import Condition
from threading import Event as Flag
from time import monotonic
from typing import Any

from streamgauge.clock import MICROSECONDS_PER_SECOND
from streamgauge.config import errors
from streamgauge.privacy import BudgetExceededError, PrivacyError
from streamgauge.runtime.adhoc.releases import AdHocRelease
from streamgauge.runtime.format import exceeded_text
from streamgauge.server.intrusion import IntrusionRecord
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.store.errors import KeyRefusedError

Refusals = tuple[str, ...] | None  # reasons against a command; None if it is done already
PUBLIC_ERRORS = (PrivacyError, errors.InvalidReleaseError)  # by declarations and the ledger alone


class CommandRefusedError(ValueError):
    """A command that the ledger or a declaration refuses. The reasons follow from declarations."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class NotRunningError(RuntimeError):
    """A command to a run that does not exist."""


class KeyUnavailableError(NotRunningError):
    """The key is unavailable, so a run that stops for a command could not resume."""

    def __init__(self) -> None:
        super().__init__(
            "the curator's key must be available for a run to stop and resume, got none: the run "
            "continues, and nothing was charged; retry once the key is back"
        )


class CatchingUpError(NotRunningError):
    """The run catches up with the clock, which takes long. Waiting clients get this reply at once."""

    def __init__(self) -> None:
        super().__init__("the run must have caught up with the clock to accept commands, got one that has not: retry")


class RunStoppingError(NotRunningError):
    """The run stops. Waiting clients get this reply at once, since it does not depend on data."""

    def __init__(self) -> None:
        super().__init__("the run must be active to accept commands, got one that stops")


def to_public_error(failure: BaseException) -> Exception:
    """Return an exception with the public part of a failure."""
    if isinstance(failure, CatchingUpError):
        return failure
    if isinstance(failure, KeyRefusedError):
        return KeyUnavailableError()
    if not isinstance(failure, PUBLIC_ERRORS):
        return NotRunningError("the run could not be opened")
    text = exceeded_text(failure) if isinstance(failure, BudgetExceededError) else str(failure)
    return CommandRefusedError((": ".join([*getattr(failure, "__notes__", []), text]),))


def create_running_future() -> Future[Any]:
    """Return a future that no client can cancel: a client may disconnect, the run sets the result anyway."""
    found: Future[Any] = Future()
    found.set_running_or_notify_cancel()
    return found


@dataclass(eq=False)
class Command:
    """A request to the run, and its outcome."""

    releases: tuple[AdHocRelease, ...] = ()
    end_names: tuple[str, ...] = ()
    export_folder: Path | None = None  # where an intrusion hands over
    requested_at: int = 0  # microseconds
    outcome: Future[Any] = field(default_factory=create_running_future)

    def reject(self, failure: Exception | None) -> None:
        """Fail a command that was never applied."""
        if not self.outcome.done():
            self.outcome.set_exception(RunStoppingError() if failure is None else to_public_error(failure))


class BatchTimer(Flag):
    """A flag that is set if a command waits, its batch begins by the clock, and a failed batch has had its pause."""

    failed_at, pause = -inf, 0.0  # seconds of the steady clock, and after a failure
    find_wait: Callable[[], int] = staticmethod(lambda: 0)  # how many microseconds, by the clock
    steady: Callable[[], float] = staticmethod(monotonic)

    def is_set(self) -> bool:
        return super().is_set() and self.find_remaining_seconds() <= 0

    def find_remaining_seconds(self) -> float:
        """Return the seconds until the next batch may begin."""
        return max(self.failed_at + self.pause - self.steady(), self.find_wait() / MICROSECONDS_PER_SECOND)


@dataclass
class CommandBatch:
    """Commands with which a run is opened, and their outcome."""

    commands: tuple[Command, ...] = ()
    outcome: Future[None] = field(default_factory=Future)  # when it is open
    stop: Flag = field(default_factory=Flag)
    timer: BatchTimer = field(default_factory=BatchTimer)

    @property
    def releases(self) -> tuple[AdHocRelease, ...]:
        return tuple(chain.from_iterable(command.releases for command in self.commands))

    @property
    def end_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(command.end_names for command in self.commands)))

    @property
    def end_requests(self) -> dict[str, int]:
        """Time of the first request to end each release."""
        return {name: command.requested_at for command in reversed(self.commands) for name in command.end_names}

    @property
    def is_required(self) -> bool:
        """True if a failure of the batch is a failure of the run: it was opened, or has no commands."""
        return self.outcome.done() or not self.commands

    @property
    def is_interrupted(self) -> bool:
        """True if the run may have more to do."""
        return self.stop.is_set() or self.timer.is_set()


class CommandQueue:
    """Commands that wait for a batch. Any thread submits; one thread takes batches."""

    def __init__(
        self,
        now: Callable[[], int] = lambda: 0,
        find_start_time: Callable[[int], int] = lambda requested_at: requested_at,
        tuning: Tuning = DEFAULT_TUNING,
        steady: Callable[[], float] = monotonic,
    ) -> None:
        self._now, self._find_start_time, self._tuning, self._steady = now, find_start_time, tuning, steady
        self._pending: deque[Command] = deque()
        self._retries: deque[Command] = deque()  # of a batch that failed to open
        self._is_closed, self._has_failed = False, False
        self._is_rejecting = False  # whether new commands are rejected, though the run may continue for a while
        self._condition = Condition()
        self.current = self._build_batch()

    @property
    def pending_count(self) -> int:
        """Number of commands that wait for a batch."""
        return len(self._pending) + len(self._retries)

    def submit(self, command: Command) -> Future[Any]:
        """Add a command; return a future of its outcome."""
        with self._condition:
            if self._is_rejecting:
                raise RunStoppingError
            command.requested_at = self._now()
            self._pending.append(command)
            self.current.timer.set()
            self._condition.notify()
        return command.outcome

    def limit_due_tick(self, due: Callable[[], int], last: Callable[[int], int]) -> int:
        """Return the last due tick, at most the last tick of a release that waits for its end.

        One lock covers both. So a tick that is due before a request to end a release is not after its last
        tick.
        """
        with self._condition:
            waiting = (*self._pending, *self._retries, *self.current.commands)
            ends = [command.requested_at for command in waiting if command.end_names and not command.outcome.done()]
            return min([due(), *map(last, ends)])

    def mark_opened(self, batch: CommandBatch) -> None:
        """Resolve the commands of a batch that was opened and charged; start the next batch if commands wait."""
        with self._condition:
            batch.outcome.set_result(None)
            for command in batch.commands:
                command.outcome.set_result(None)
            if self._pending or self._retries:
                batch.timer.set()

    def apply_refusals(self, batch: CommandBatch, refusals: Sequence[Refusals]) -> None:
        """Resolve refused commands and those that are done already; keep the others in the batch."""
        with self._condition:
            for command, verdict in zip(batch.commands, refusals, strict=True):
                if verdict:
                    command.outcome.set_exception(CommandRefusedError(verdict))
                elif verdict is None:
                    command.outcome.set_result(None)
            batch.commands = tuple(command for command in batch.commands if not command.outcome.done())

    def finish_intrusion(self, batch: CommandBatch, command: Command, outcome: IntrusionRecord | Exception) -> None:
        """Resolve an intrusion; keep the other commands in the batch."""
        with self._condition:
            if isinstance(outcome, Exception):
                command.outcome.set_exception(outcome)
            else:
                command.outcome.set_result(outcome)
            batch.commands = tuple(each for each in batch.commands if each is not command)

    def finish_batch(self, batch: CommandBatch, failure: Exception | None) -> None:
        """Close a batch; retry or reject its unresolved commands."""
        with self._condition:
            self._has_failed = failure is not None
            if self._has_failed:
                batch.timer.failed_at = self._steady()
            left = [command for command in batch.commands if not command.outcome.done()]
            asks = [command for command in left if command.releases]
            if asks and len(left) > 1 and not self._is_rejecting:
                self._retries.extend(asks)
                self._pending.extendleft(command for command in reversed(left) if not command.releases)
                return
            for command in left:
                command.reject(failure)
            if not batch.outcome.done():
                batch.outcome.set_exception(failure or RunStoppingError())

    def wait_for_key(self, failure: Exception) -> None:
        """Reject waiting commands and pause, since the run cannot resume without its key."""
        with self._condition:
            self._reject_pending(failure)
            if not self._is_closed:
                self._condition.wait(self._tuning.key_retry_seconds)

    def reject_pending(self) -> None:
        """Reject waiting commands, since the run has to catch up."""
        with self._condition:
            self._reject_pending(CatchingUpError())

    def _reject_pending(self, failure: Exception | None) -> None:
        for command in (*self._retries, *self._pending):
            command.reject(failure)
        self._retries.clear()
        self._pending.clear()

    def next_batch(self, *, idle: bool) -> CommandBatch | None:
        """Return the next batch; None after the queue is closed.

        If nothing is left to run, wait for a command. After a failed batch the run continues without commands.
        """
        with self._condition:
            while idle and not self._is_closed and (wait := self._find_idle_wait()) != 0:
                self._condition.wait(wait)
            if self._is_closed:
                return None
            self.current = self._build_batch(() if self._has_failed and not idle else self._take_due())
            return self.current

    def reject_new(self) -> None:
        """Reject waiting and new commands; the current run continues."""
        with self._condition:
            self._is_rejecting = True
            self._reject_pending(None)

    def close(self) -> None:
        """Stop the current run, and reject all commands."""
        self.reject_new()
        with self._condition:
            self._is_closed = True
            self.current.stop.set()
            self._condition.notify()

    def abandon(self, failure: Exception | None) -> None:
        """Reject all commands after the thread of the run has died, whatever the cause."""
        self.close()
        self.finish_batch(self.current, failure)

    def _find_idle_wait(self) -> float | None:
        """Return the seconds to the next batch of an idle run; None if no command waits."""
        return max(0.0, self.current.timer.find_remaining_seconds()) if self._pending or self._retries else None

    def _build_batch(self, commands: tuple[Command, ...] = ()) -> CommandBatch:
        """Return a batch of these commands, with a timer for the commands that wait."""
        batch = CommandBatch(commands)
        batch.timer.find_wait, batch.timer.steady = self._find_wait, self._steady
        batch.timer.pause = self._tuning.batch_interval_seconds
        batch.timer.failed_at = self.current.timer.failed_at if self._has_failed else -inf
        return batch

    def _find_wait(self) -> int:
        """Return the microseconds until the batch of the oldest waiting command begins."""
        waiting = (
            [] if self._retries else [self._find_start_time(command.requested_at) for command in list(self._pending)]
        )
        return max(0, min(waiting, default=0) - self._now())

    def _take_due(self) -> tuple[Command, ...]:
        """Return the commands that are due. After a failed batch: ends first, then one release alone."""
        now = self._now()
        found = [command for command in self._pending if self._find_start_time(command.requested_at) <= now]
        if self._retries:
            found = [command for command in found if not command.releases] or [self._retries.popleft()]
        self._pending = deque(command for command in self._pending if command not in found)
        return tuple(found)
