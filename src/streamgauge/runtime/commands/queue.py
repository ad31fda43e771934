"""Commands that wait for a running pipeline.

    queue = CommandQueue()
    added = queue.submit(AddRelease(requested))       from any thread
    pipeline.run(commands=queue)                      takes them between two ticks
    added.result()                                    None, or raises CommandRefusedError

With a schedule, commands are applied once in each interval, a fifth of it after a multiple, since ticks close at
multiples. Replies leave at the next multiple, less than two intervals after each request:

        request   request  applied     reply
    --|-----x---------x-|----+-----------|-----   multiples of `interval` since the stream's start

Privacy
    When replies leave is a function of request times, unless the work takes longer than that. Then they leave
    at a later multiple. No tick after the last one of a release that waits for its end closes before that end is
    applied (`limit_due_tick`). So its last tick follows from the time of the request. All due ends are applied
    together, so they delay a tick by one round at most.

    Clients get refusals that follow from declarations, the ledger and the clock. Of any other failure they learn only
    that it happened. The curator gets its text.
"""

from collections import deque
from collections.abc import Callable, Collection, Container
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from threading import Event as Flag
from typing import Any

from streamgauge.clock import MICROSECONDS_PER_SECOND, SystemClock
from streamgauge.interfaces import ignore
from streamgauge.plan.planner import ReleasePlan
from streamgauge.runtime.adhoc.releases import AdHocRelease

MAX_BATCH_COMMANDS = 16  # new releases and intrusions of one commit: a due tick closes before the next ones
MAX_BATCH_VALUES = 20_000  # values of a tick of the new releases of one commit, unless the first has more
IDLE_POLL_SECONDS = 0.25
START_DELAY_PART = 5  # commands are applied this part of the interval after a multiple


class CommandRefusedError(ValueError):
    """A command that the ledger or a declaration refuses. The reasons follow from declarations."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class NotRunningError(RuntimeError):
    """A command to a run that does not exist, or that failed with it."""


class CatchingUpError(NotRunningError):
    """The run catches up with the clock, which takes long. Waiting clients get this reply at once."""

    def __init__(self) -> None:
        super().__init__("the run must have caught up with the clock to accept commands, got one that has not: retry")


class RunStoppingError(NotRunningError):
    """The run stops. Waiting clients get this reply at once, since it does not depend on data."""

    def __init__(self) -> None:
        super().__init__("the run must be active to accept commands, got one that stops")


def create_running_future() -> Future[Any]:
    """Return a future that no client can cancel: a client may disconnect, the run sets the result anyway."""
    found: Future[Any] = Future()
    found.set_running_or_notify_cancel()
    return found


@dataclass(eq=False, kw_only=True)
class Command:
    """A request to the run, and its outcome."""

    requested_at: int = 0  # microseconds; 0 for the time of `submit`
    outcome: Future[Any] = field(default_factory=create_running_future)

    def resolve(self, result: object = None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(result)

    def reject(self, failure: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(failure)


@dataclass(eq=False)
class EndRelease(Command):
    """End a requested release. Its last tick is the last one that is closed when readers see the command."""

    name: str


@dataclass(eq=False)
class AddRelease(Command):
    """Charge a requested release and start it."""

    release: AdHocRelease
    plan: ReleasePlan | None = None  # without one, the run plans it

    @property
    def size(self) -> int:
        """Number of values of one tick; 0 without a plan."""
        return 0 if self.plan is None else sum(part.value_count for part in self.plan.parts)


@dataclass(eq=False)
class AnnounceIntrusion(Command):
    """Export the pan-private state to a new folder. The result is an `IntrusionExport`."""

    folder: Path


def next_multiple(start: int, interval: int, moment: int) -> int:
    """Return the first multiple of an interval since `start` that is at or after a moment.

    >>> [next_multiple(5, 10, moment) for moment in (5, 6, 15, 16)], next_multiple(5, 0, 7)
    ([5, 15, 15, 25], 7)
    """
    return start - (start - moment) // interval * interval if interval else moment


@dataclass(frozen=True)
class CommandSchedule:
    """Times of commands, in microseconds. With interval 0 they are applied and visible at once."""

    start: int = 0
    interval: int = 0
    is_aligned: bool = True  # False: commands are applied when they arrive, and their replies are aligned

    @property
    def start_delay(self) -> int:
        """Time from a multiple to the application of commands."""
        return self.interval // START_DELAY_PART

    def find_start_time(self, requested_at: int) -> int:
        """Return the time at which a command is applied."""
        first = self.start + self.start_delay
        return next_multiple(first, self.interval, requested_at) if self.is_aligned else requested_at

    def find_reply_time(self, requested_at: int) -> int:
        """Return the earliest time at which readers and the client see the result."""
        return self.find_publish_time(self.find_start_time(requested_at) + self.interval - self.start_delay)

    def find_publish_time(self, moment: int) -> int:
        """Return the earliest time at which readers see a commit of a moment."""
        return next_multiple(self.start, self.interval, moment)


@dataclass
class CommandQueue:
    """Commands that wait for a run. Any thread submits; the thread of the run takes them.

    A run with a queue waits for commands when it has nothing left to publish. It ends when the queue is closed.
    """

    schedule: CommandSchedule = CommandSchedule()
    now: Callable[[], int] = field(default_factory=lambda: SystemClock().now)
    on_commit: Callable[[int], None] = ignore  # gets the reply time of commands after their commit
    on_idle: Callable[[], None] = ignore  # called when the run begins to wait for commands
    on_failure: Callable[[Exception], None] = ignore  # gets failures that clients learn nothing of
    find_finished: Callable[[], Collection[str]] | None = None  # ended releases whose last tick readers see
    max_batch: int = MAX_BATCH_COMMANDS
    _pending: deque[Command] = field(default_factory=deque)
    _condition: Condition = field(default_factory=Condition)  # reentrant
    _is_closed: bool = False

    @property
    def pending_count(self) -> int:
        """Number of commands that wait."""
        return len(self._pending)

    def submit(self, command: Command) -> Future[Any]:
        """Add a command; return a future of its outcome.

        Raises:
            RunStoppingError: if the queue is closed.
        """
        with self._condition:
            if self._is_closed:
                raise RunStoppingError
            command.requested_at = command.requested_at or self.now()
            self._pending.append(command)
            self._condition.notify()
        return command.outcome

    def take_due(self) -> list[Command]:
        """Return the due commands in the order of their application: all ends, and a bounded number of others."""
        with self._condition:
            find_start = self.schedule.find_start_time
            due = [each for each in self._pending if find_start(each.requested_at) <= self.now()]
            found: list[Command] = [each for each in due if isinstance(each, EndRelease)]
            others = [each for kind in (AddRelease, AnnounceIntrusion) for each in due if isinstance(each, kind)]
            size = 0
            for count, each in enumerate(others):
                size += each.size if isinstance(each, AddRelease) else 0
                if count == self.max_batch or (count and size > MAX_BATCH_VALUES):
                    break
                found.append(each)
            taken = set(found)
            self._pending = deque(each for each in self._pending if each not in taken)
            return found

    def has_due(self) -> bool:
        """Return whether a command is due by now."""
        with self._condition:
            return self._find_wait_microseconds() == 0

    def limit_due_tick(self, due: Callable[[], int], last: Callable[[int], int], endable: Container[str]) -> int:
        """Return the last due tick, at most the last tick of an `endable` release that waits for its end.

        One lock covers both. So a tick that is due before a request to end a release is not after its last tick.
        """
        with self._condition:
            ends = [each for each in self._pending if isinstance(each, EndRelease) and each.name in endable]
            return min([due(), *(last(self.schedule.find_reply_time(each.requested_at)) for each in ends)])

    def wait(self, stop: Flag) -> bool:
        """Wait until a command is due; return False once the queue is closed or a stop is requested."""
        if not self.has_due():
            self.on_idle()
        with self._condition:
            while not (self._is_closed or stop.is_set() or self.has_due()):
                left = self._find_wait_microseconds()
                seconds = IDLE_POLL_SECONDS if left is None else left / MICROSECONDS_PER_SECOND
                self._condition.wait(min(seconds, IDLE_POLL_SECONDS))
            return not (self._is_closed or stop.is_set())

    def reject_pending(self, failure: Exception) -> None:
        """Reject all waiting commands."""
        with self._condition:
            while self._pending:
                self._pending.popleft().reject(failure)

    def close(self) -> None:
        """Reject waiting and later commands. A run that waits for commands ends."""
        with self._condition:
            self._is_closed = True
            self.reject_pending(RunStoppingError())
            self._condition.notify()

    def _find_wait_microseconds(self) -> int | None:
        """Return the time until a command is due; None if none waits."""
        starts = (self.schedule.find_start_time(each.requested_at) for each in self._pending)
        return max(0, min(starts) - self.now()) if self._pending else None
