"""Settings of a run that are not in its file, and its reports to the curator.

Settings are injected dependencies, and decisions that a curator must state explicitly.

Shares of records
    Shares of records that have a time, a column, a value reveal a wrong name:

    of 20,000 records 100 % have a readable time inside the stream (ts), 100 % have the column origin, 0 %
    have a declared value of origin
    warning: none of 20,000 records has a declared value of origin: releases that need it publish noise alone

    The curator gets this after the first block of records and at the end. For a batch source all records are
    counted before the first tick is published, so there is only one report. It counts the time, the user and the
    columns that releases read, each as a share of all records, readable or not.

Privacy
    Shares and progress depend on the data, so they are for the curator only. They go to a terminal or to curator.log,
    never to standard output, a release, an exit code or the store. With pan_private = true nothing is counted, and
    there is no `RecordShares`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, TypeVar

from streamgauge.clock import Clock, SystemClock
from streamgauge.config.settings import Stream
from streamgauge.interfaces import StepHook, ignore
from streamgauge.noise import Noise
from streamgauge.plan.measure import Pass

if TYPE_CHECKING:
    from streamgauge.runtime.commands.queue import CommandQueue

T = TypeVar("T")
MAX_BATCH_PLACES = 2**21  # places of vectors in one commit when catching up
MAX_BATCH_TICKS = 4096  # ticks in one commit when catching up
UNTIMED_RULES = ("no time", "not readable", "outside")  # rules by which a record has no time inside the stream


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


class RecordShares:
    """Counts of records of one run so far."""

    def __init__(self, stream: Stream, tell: Callable[[str], None]) -> None:
        self._time = f"a readable time inside the stream ({stream.time})"
        self._tell = tell
        self._counts: dict[str, tuple[int, int]] = {}  # exact: records that have it, and all records
        self._has_reported = False  # True after the first report
        self._last_report: list[str] = []  # exact: the last report

    def restart(self) -> None:
        """Reset the counts, for a source that is read again from its beginning."""
        self._counts, self._has_reported = {}, False

    def add(self, answer: Pass) -> None:
        """Add the counts of a pass. Report the first pass that has records at once."""
        records = answer.counts["records"]
        untimed = sum(answer.counts[rule] for rule in UNTIMED_RULES)
        for what, absent in {self._time: untimed, **answer.absences}.items():
            before = self._counts.get(what, (0, 0))
            self._counts[what] = before[0] + records - absent, before[1] + records
        if records and not self._has_reported:
            self._has_reported = True
            self.report()

    def report(self) -> None:
        """Report to the curator, unless the last report was the same."""
        lines = list(self._lines())
        if lines != self._last_report:
            self._last_report = lines
            for line in lines:
                self._tell(line)

    def shares(self) -> dict[str, str]:
        """Return the share of records that have each item, in whole percents."""
        found = dict(self._counts).items()
        return {what: percent(count, records) for what, (count, records) in found if records}

    def _lines(self) -> Iterator[str]:
        """Yield one line with all shares, and a warning for each share of 0."""
        if not self._counts:
            return
        records = self._counts[self._time][1]
        if not records:
            yield "warning: no record was read: what is published is noise alone"
            return
        shares = [f"{share} have {what}" for what, share in self.shares().items()]
        yield f"of {_count(records)} {', '.join(shares)}"
        for what, (count, records) in self._counts.items():
            if records and not count:
                yield f"warning: none of {_count(records)} has {what}: releases that need it publish noise alone"


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


def percent(count: int, records: int) -> str:
    """Return a share in whole percents; 0 and 100 are exact.

    >>> [percent(count, 1000) for count in (0, 4, 504, 996, 1000)]
    ['0 %', 'under 1 %', '50 %', 'over 99 %', '100 %']
    """
    whole = round(100 * count / records)
    if whole == 0 and count:
        return "under 1 %"
    return "over 99 %" if whole == 100 and count < records else f"{whole} %"


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
    commands: "CommandQueue | None" = None  # commands that the run takes between two ticks
    on_progress: Callable[[Progress], None] = ignore
    note: Callable[[str], None] = ignore  # the curator's log
    diagnose: Callable[[str], None] = ignore  # private lines: to a terminal, or else to the curator's log
    step: StepHook = ignore
    standard_input: int = 0  # the file descriptor
    end_releases: tuple[str, ...] = ()  # ad hoc releases that end at this start
    force_end_releases: tuple[str, ...] = ()  # those that end at once, since they cannot run on
    components: Mapping[type, type] = field(default_factory=dict)  # subclasses to use, by the class that they replace

    def find_class(self, kind: type[T]) -> type[T]:
        """Return the class to use for a part of the run."""
        return self.components.get(kind, kind)
