"""Settings of a run that are not in its file.

They are injected dependencies, and decisions that a curator must state explicitly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING

from streamgauge.clock import Clock, SystemClock
from streamgauge.interfaces import StepHook, StreamingSource, ignore_step
from streamgauge.noise import Noise
from streamgauge.runtime.adhoc.releases import AdHocRelease
from streamgauge.runtime.record_shares import RecordShares
from streamgauge.runtime.ticks import ReleaseSpans

if TYPE_CHECKING:
    from streamgauge.runtime.resources import RunResources

MAX_BATCH_PLACES = 2**21  # places of vectors in one commit when catching up
MAX_BATCH_TICKS = 4096  # ticks in one commit when catching up


@dataclass(frozen=True)
class Progress:
    """Progress of a run, for the curator. Private, since it counts events."""

    tick: int
    ticks: int | None
    events: int
    dropped: dict[str, int]
    counts_events: bool = True  # False with pan_private = true: events are not counted
    catch_up_tick: int | None = None  # last tick of a backlog that needs several commits

    @property
    def status_prefix(self) -> str:
        """Prefix of the status line while a run catches up."""
        return "" if self.catch_up_tick is None else "catching up: "

    @property
    def target_tick(self) -> int | None:
        """Last tick of the backlog or, without one, of the stream."""
        return self.ticks if self.catch_up_tick is None else self.catch_up_tick


def ignore_progress(progress: Progress) -> None:
    """Ignore progress."""


def ignore_line(what: str) -> None:
    """Ignore a line of the log."""


def ignore_spans(spans: ReleaseSpans) -> None:
    """Ignore the tick ranges of releases."""


def close_due_ticks(due: Callable[[], int]) -> int:
    """Close all due ticks: no release is to end."""
    return due()


@dataclass
class Options:
    """All settings of a run that are not in its file."""

    noise: Noise | None = None  # by default the noise of the machine, fresh for every run
    clock: Clock = field(default_factory=SystemClock)
    recharge_source: bool = False  # charge a changed batch file again
    accept_rollback: bool = False  # charge a store again that is behind its traces
    trust_store: bool = False  # accept a store without its rollback guard as the newest copy
    accept_clock: bool = False
    change_budget: bool = False
    max_batch_places: int = MAX_BATCH_PLACES
    max_batch_ticks: int = MAX_BATCH_TICKS
    memory: str = "600MB"
    stop: Flag = field(default_factory=Flag)  # set by Ctrl-C
    commands_waiting: Flag = field(default_factory=Flag)  # set if commands wait: the current round is the last
    on_progress: Callable[[Progress], None] = ignore_progress
    note: Callable[[str], None] = ignore_line  # the curator's log
    diagnose: Callable[[str], None] = ignore_line  # private lines: to a terminal, or else to the curator's log
    shares: RecordShares | None = None  # shared by the runs of a process; without it a run counts its own
    step: StepHook = ignore_step
    standard_input: int = 0  # the file descriptor
    inbox: StreamingSource | None = None  # a source that outlives the run: data sent to a server, or its input
    resources: "RunResources | None" = None  # lock, key, store and sinks, if they outlive the run
    find_publish_time: Callable[[int], int] | None = None  # time at which readers see a commit
    adhoc_releases: tuple[AdHocRelease, ...] = ()  # charged at this start, in no file
    end_releases: tuple[str, ...] = ()  # ad hoc releases that end at this start
    force_end_releases: tuple[str, ...] = ()  # those that end at once, since they cannot run on
    finished_releases: frozenset[str] = frozenset()  # ended releases whose last tick is visible to readers
    end_times: Mapping[str, int] = field(default_factory=dict)  # time at which readers learn of an end, if known
    on_spans: Callable[[ReleaseSpans], None] = (
        ignore_spans  # called with the tick ranges of releases, before the first tick closes
    )
    limit_due_tick: Callable[[Callable[[], int]], int] = close_due_ticks  # last of the due ticks that may close
