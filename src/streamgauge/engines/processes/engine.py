"""Engine that scans a batch with several processes of this machine.

    events    each task has some of the ranges; large files of lines are cut into slices
    users     each task reads all ranges and counts one share of the users, by the hash of their texts
    ticks     the bounds of ticks need all events in one place: the embedded engine scans them
    live      blocks are small, and users are bounded in their order: the embedded engine scans them

Promise
    Sums equal those of the embedded engine to the last bit, for any number of processes and however often one of them
    ends. A sum is an integer, so the order of parts does not matter. A record is in one range, and a user in one
    share, so no record counts twice and bounds see all events of a user.

If a batch needs several passes, each pass reads the ranges again. Only the first one counts all records.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Event as Flag
from typing import Any, ClassVar, Self

from streamgauge.engines.duckdb.engine import open_embedded
from streamgauge.engines.processes.pool import WorkerPool
from streamgauge.engines.processes.tasks import ScanTask
from streamgauge.interfaces import EngineKind, EngineRequest, Range, UserMemory, check_stop
from streamgauge.plan.measure import MAX_PASS_NUMBERS, Measure, Pass, merge_passes, split_ticks, zero_counts
from streamgauge.privacy import Tick, User
from streamgauge.records.blocks import Block, DroppedRecord

TASKS_PER_PROCESS = 4  # so that a process with small ranges can help the others
MAX_PROCESSES = 1024
Header = tuple[str, ...] | None


class ProcessEngine:
    """The embedded engine, with workers for batches."""

    POOL: ClassVar[type[WorkerPool]] = WorkerPool
    MAX_PASS_NUMBERS: ClassVar[int] = MAX_PASS_NUMBERS
    MIN_TASK_BYTES: ClassVar[int] = 2**24  # smaller slices of a file cost more than they save

    def __init__(self, request: EngineRequest, processes: int) -> None:
        self.processes = processes
        self._request, self._embedded = request, open_embedded(request)
        self._pool = self.POOL(request, processes)

    @property
    def bounds(self) -> UserMemory:
        return self._embedded.bounds

    def scan_ranges(self, ranges: Sequence[Range], first: int, last: int, stop: Flag | None = None) -> Iterator[Pass]:
        """Return the sums of the ticks from `first` to `last`, pass by pass."""
        tasks = self._build_tasks(ranges, first, last)
        if len(tasks) < 2:  # the embedded engine uses all cores for one
            yield from self._embedded.scan_ranges(ranges, first, last, stop)
            return
        passes = split_ticks(self._request.measures, first, last, self.MAX_PASS_NUMBERS)
        for number, (begin, end) in enumerate(passes):
            check_stop(stop)
            found = self._pool.answer([replace(task, first=begin, last=end) for task in tasks], stop)
            merged = merge_passes([one for answer in found for one in answer])
            yield merged if number == 0 else drop_first_counts(merged)

    def _build_tasks(self, ranges: Sequence[Range], first: int, last: int) -> list[ScanTask]:
        unit = self._request.stream.unit
        if isinstance(unit, Tick):
            return []
        if isinstance(unit, User):
            shares = 1 << self.processes.bit_length() - 1
            return [ScanTask(ranges, first, last, share, shares) for share in range(shares)]
        most = TASKS_PER_PROCESS * self.processes
        size = max(self.MIN_TASK_BYTES, sum(each.size for each in ranges) // most)
        parts = [part for each in ranges for part in each.split(size)] if self.processes > 1 else ranges
        count = min(len(parts), most)
        return [ScanTask(parts[number::count], first, last) for number in range(count)]

    def scan_block(self, block: Block, first_open: int, last_allowed: int, carry: bool, header: Header = None) -> Pass:
        """Return the sums of a live block."""
        return self._embedded.scan_block(block, first_open, last_allowed, carry, header)

    def scan_empty_block(self, first_open: int, last_allowed: int, header: Header = None) -> None:
        """Do the same work as for a block with one event, on an empty event."""
        self._embedded.scan_empty_block(first_open, last_allowed, header)

    def change_measures(self, measures: Sequence[Measure]) -> None:
        """Answer other measures from the next block on. Users stay bounded as they are."""
        self._embedded.change_measures(measures)
        self._pool.close()
        self._request = replace(self._request, measures=measures)
        self._pool = self.POOL(self._request, self.processes)

    def locate(self, block: Block, header: Header = None) -> tuple[DroppedRecord, ...]:
        """Return the bad records of a block, each with the rule that it breaks."""
        return self._embedded.locate(block, header)

    def close(self) -> None:
        self._pool.close()
        self._embedded.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def drop_first_counts(later: Pass) -> Pass:
    """Return a later pass without the counts that the first pass has, as the embedded engine does."""
    return replace(later, counts=zero_counts() | {"bounded": later.counts["bounded"]}, absences={})


def check_process_options(options: Mapping[str, Any]) -> None:
    processes = options.get("processes", 1)
    if isinstance(processes, bool) or not isinstance(processes, int) or not 1 <= processes <= MAX_PROCESSES:
        raise ValueError(f"processes must be a whole number from 1 to {MAX_PROCESSES}, got {processes!r}")


def open_processes(request: EngineRequest) -> ProcessEngine:
    """Open the engine for a request of a run. By default there is a process for each core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return ProcessEngine(request, request.options.get("processes") or cores or 1)


PROCESSES = EngineKind(open_processes, option_keys=("processes",), check_options=check_process_options)
