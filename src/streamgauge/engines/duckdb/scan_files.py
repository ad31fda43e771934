"""Scans of batch files: one if memory allows, otherwise several.

    passes      the units of the result: only declarations determine their limits
    scans       of as many passes as fit; out of memory, half of them are tried, then half of a pass
    parts       of the users, if they are bounded, one after another; out of memory, more parts

None of this changes an answer. If DuckDB fails to read a file directly, it is read block by block.

**Bounds on users.** At most so many events of a user count in a tick, in so many ticks.

    per tick    events are ordered by a hash of the record; the first `max_events_per_tick` survive
    per stream  the first `max_ticks` ticks in which the user has any event survive; if contributions renew, the first
                of each block of ticks

If ticks are the unit, all events of a tick are ordered by the hash, as if one user had them.

Privacy
    A user's events alone decide which of them survive: windows are partitioned by user, and the hash
    orders by content, so neither other users nor the order of the file matter. (Records with equal hashes are
    equal, but for a chance of 2^-64, and then either is the user's own.) Bounds apply before any WHERE, across
    groups, and count from the stream's first tick, wherever a run resumes. Records that were dropped before
    are not events of their users: they are separate partitions.

All windows have the same partitions, so that events are sorted once, by tick and hash. The rank of an event in its
tick is its overall rank minus the number of events in earlier ticks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from typing import ClassVar

from streamgauge.engines.duckdb.aggregation import Answers
from streamgauge.engines.duckdb.connection import EngineError, EngineMemoryError, interrupt_on_stop
from streamgauge.engines.duckdb.readers import RecordPiece, RecordReader
from streamgauge.engines.duckdb.rows import ORDER, TICK, USER, RowSource, TickRule, UserPart, build_file_tick_rule
from streamgauge.interfaces import Range, check_stop
from streamgauge.plan.measure import (
    BOUNDED,
    OTHER_SCAN,
    Absences,
    Counts,
    Pass,
    Tally,
    concatenate_tallies,
    zero_counts,
)
from streamgauge.privacy import Tick, User


def bound_users_sql(rows: str, unit: User | Tick, first: int) -> str:
    """Return SQL of rows with BOUNDED as the tick of events that do not survive.

    Ticks before `first` belong to another scan. Records without a user have their own hash as partition, which divides
    many of them.
    """
    block = f"{TICK} >= 1" if unit.block_ticks is None else f"CASE WHEN {TICK} >= 1 THEN {build_block_sql(unit)} END"
    user = f"PARTITION BY {block}, COALESCE({USER}, {ORDER}::VARCHAR)"
    by_tick = f"({user} ORDER BY {TICK})"
    event = f"row_number() OVER ({user} ORDER BY {TICK}, {ORDER}) - rank() OVER {by_tick}"
    ranked = f'SELECT *, {event} AS "$event", dense_rank() OVER {by_tick} AS "$ticks" FROM {rows}'
    survives = f'"$event" < {unit.events} AND "$ticks" <= {unit.ticks_per_block}'
    ruled = (
        f"CASE WHEN {TICK} < 1 THEN {TICK} WHEN {TICK} < {first} THEN {OTHER_SCAN} "
        f"WHEN {survives} THEN {TICK} ELSE {BOUNDED} END"
    )
    return f"(SELECT * REPLACE ({ruled} AS {TICK}) FROM ({ranked}))"


def build_block_sql(unit: User | Tick) -> str:
    """Return SQL of the number of the block of a tick."""
    return f"({TICK} - 1) // {unit.block_ticks}"


def find_first_read_tick(unit: User | Tick, first: int) -> int:
    """Return the first tick whose events decide which ones survive from `first` on."""
    return 1 if unit.block_ticks is None else first - (first - 1) % unit.block_ticks


MAX_USER_PARTS = 4096
EVENTS_TABLE = '"$events"'
Ticks = tuple[int, int]


class UntrustedFilesError(Exception):
    """DuckDB failed to read some files directly."""

    def __init__(self, paths: frozenset[Path]) -> None:
        super().__init__()
        self.paths = paths


@dataclass
class FileScan:
    """Scan of files that remembers which load the memory allows."""

    MEMORY_RATIOS: ClassVar[Mapping[str, float]] = {"jsonl": 1.2, "csv": 2.5, "parquet": 8}  # rows to files (measured)
    source: RowSource
    reader: RecordReader
    answers: Answers
    files: Sequence[Range]
    stop: Flag | None = None  # checked in a query, between blocks, and whenever the load is reduced
    parts: int = 1
    share: int = 0  # of the users that this scan counts
    shares: int = 1  # a power of two; each share has as many parts
    untrusted_paths: frozenset[Path] = frozenset()
    counts: Counts = field(default_factory=zero_counts, init=False)  # until they are returned
    absences: Absences = field(default_factory=dict, init=False)  # until they are returned
    has_counts: bool = field(default=False, init=False)  # true after a scan of all records

    def split_users(self) -> None:
        """Cut the users into parts that probably fit, so that no attempt is lost. Sizes of files alone decide it."""
        if not self.source.bounds_users:
            return
        expected = self.MEMORY_RATIOS[self.source.stream.format] * sum(each.size for each in self.files)
        limit = self.reader.connection.read_memory_limit()
        while expected > self.parts * limit and self.parts < MAX_USER_PARTS:
            self.parts *= 2

    def passes(self, ranges: Sequence[Ticks]) -> Iterator[Pass]:
        """Yield the passes, in order. The first includes the counts of all records."""
        waiting = [list(ranges)] if ranges else []
        while waiting:
            together = waiting.pop(0)
            done = 0
            try:
                for first, last, tallies in self._read_passes(together):
                    yield Pass(first, last, tallies, *self._pop_counts())
                    done += 1
            except EngineMemoryError:
                if len(together) == 1:
                    raise
                left = together[done:]
                half = len(left) if self.reduce_load() else max(1, len(left) // 2)
                waiting[:0] = [part for part in (left[:half], left[half:]) if part]

    def _read_passes(self, ranges: Sequence[Ticks]) -> Iterator[tuple[int, int, list[Tally]]]:
        if len(ranges) == 1:
            first, last = ranges[0]
            yield first, last, self._scan_pass(first, last)
            return
        self.scan_ticks(ranges[0][0], ranges[-1][1])
        for first, last in ranges:
            yield first, last, self.answers.tallies(first, last)

    def _scan_pass(self, first: int, last: int) -> list[Tally]:
        """Return the answers of one pass, in two halves if they do not fit."""
        try:
            self.scan_ticks(first, last)
            return self.answers.tallies(first, last)
        except EngineMemoryError:
            lighter = self.reduce_load()
            if first == last and not lighter:
                raise
        if lighter:
            return self._scan_pass(first, last)
        middle = (first + last) // 2
        halves = zip(self._scan_pass(first, middle), self._scan_pass(middle + 1, last), strict=True)
        return [concatenate_tallies(both) for both in halves]

    def reduce_load(self) -> bool:
        """Start again with less load. Return whether the users have more parts now."""
        self.reader.connection.renew()
        if not self.source.bounds_users or self.parts >= MAX_USER_PARTS:
            return False
        self.parts *= 2  # each part reads all files again
        return True

    def _pop_counts(self) -> tuple[Counts, Absences]:
        found, self.counts, self.absences = (self.counts, self.absences), zero_counts(), {}
        return found

    def scan_ticks(self, first: int, last: int) -> None:
        """Add up all events of some ticks."""
        while True:
            self.answers.clear()
            try:
                with interrupt_on_stop(self.stop, self.reader.connection):
                    self._attempt(first, last)
                break
            except UntrustedFilesError as found:
                self.untrusted_paths |= found.paths
            self.reader.connection.renew()
        self._count()

    def _count(self) -> None:
        """Count all records once.

        Records beyond the bounds of users are counted for each range of ticks.
        """
        found = self.answers.counts()
        if self.has_counts:
            self.counts["bounded"] += found["bounded"]
        else:
            self.counts, self.has_counts = found, True
            self.absences = self.answers.absences()

    def _attempt(self, first: int, last: int) -> None:
        pieces = self.reader.build_pieces(self.files, self.untrusted_paths)
        unit = self.source.stream.unit
        if isinstance(unit, User | Tick):
            for part in range(self.share, self.parts, self.shares):
                self._add_users(pieces, unit, first, last, UserPart(part, self.parts))
            return
        ticks = build_file_tick_rule(self.source.stream, first, last)
        for piece in pieces:
            self._use_relations(piece, ticks, lambda rows: self.answers.add(rows, self._row_filter))

    def _add_users(
        self, pieces: Sequence[RecordPiece], unit: User | Tick, first: int, last: int, part: UserPart
    ) -> None:
        """Add up the surviving events of one part of the users, after reading all of them."""
        run, begun = self.reader.connection.run, False

        def select_rows(rows: str) -> str:
            return f"(SELECT * FROM {rows} WHERE {self._row_filter})"

        def add(rows: str) -> None:
            self.answers.add(bound_users_sql(select_rows(rows), unit, first))

        def gather(rows: str) -> None:
            nonlocal begun
            into = f"INSERT INTO {EVENTS_TABLE}" if begun else f"CREATE TABLE {EVENTS_TABLE} AS"
            run(f"{into} SELECT * FROM {select_rows(rows)}")
            begun = True

        use = add if len(pieces) == 1 and pieces[0].trusted_paths else gather
        ticks = build_file_tick_rule(self.source.stream, find_first_read_tick(unit, first), last)
        for piece in pieces:
            self._use_relations(piece, ticks, use, part)
        if begun:
            self.answers.add(bound_users_sql(EVENTS_TABLE, unit, first))
            run(f"DROP TABLE {EVENTS_TABLE}")

    def _use_relations(
        self, piece: RecordPiece, ticks: TickRule, use: Callable[[str], None], part: UserPart | None = None
    ) -> None:
        """Apply `use` to SQL of the rows of a piece, one relation after another.

        A failure marks the files as untrusted.
        """
        try:
            with piece.open_relations() as relations:
                for relation in relations:
                    check_stop(self.stop)
                    use(self.source.sql(relation, ticks, part))
        except EngineMemoryError:
            raise
        except EngineError:
            if not piece.trusted_paths:
                raise
            raise UntrustedFilesError(piece.trusted_paths) from None

    @property
    def _row_filter(self) -> str:
        """SQL filter: at first all rows, to count them; later only those with a tick."""
        return f"{TICK} >= 1" if self.has_counts else "true"
