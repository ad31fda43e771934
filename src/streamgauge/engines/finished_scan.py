"""Finished files, scanned: once if memory allows, and otherwise as often as it takes.

    passes      what is handed over: cut by declarations alone
    scans       of as many passes as fit; out of memory, half of them are tried, then half of a pass
    parts       where users are bounded, so many parts of them, one after another; out of memory, more

None of this changes an answer. A file that DuckDB fails to read by itself is read block by block instead.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag

from streamgauge.engines.answers import Answers
from streamgauge.engines.failures import EngineFailed, OutOfMemory
from streamgauge.engines.interrupts import ended_by
from streamgauge.engines.passes import Absences, Counts, Pass, joined, nothing_counted
from streamgauge.engines.ranking import bounded
from streamgauge.engines.reading import Piece, Reading
from streamgauge.engines.row_source import TICK, RowSource, Ruled, UserPart, finished_ticks
from streamgauge.privacy import User
from streamgauge.query.blocks import FilePart
from streamgauge.query.measure import Tally
from streamgauge.query.stopped import check

MOST_PARTS = 4096
EVENTS = '"$events"'
Ticks = tuple[int, int]


class Distrusted(Exception):  # noqa: N818 - no error: the files are read another way
    """DuckDB failed to read some files by itself."""

    def __init__(self, paths: frozenset[Path]) -> None:
        super().__init__()
        self.paths = paths


@dataclass
class FinishedScan:
    """Files, and what was learnt about reading them."""

    source: RowSource
    reading: Reading
    answers: Answers
    files: Sequence[FilePart]
    stop: Flag | None = None  # heard within a query, between blocks, and whenever less is tried at once
    parts: int = 1
    distrusted: frozenset[Path] = frozenset()
    counts: Counts = field(default_factory=nothing_counted, init=False)  # until they are handed over
    absences: Absences = field(default_factory=dict, init=False)  # the same
    counted: bool = field(default=False, init=False)  # whether there was a scan of everything

    def passes(self, cut: Sequence[Ticks]) -> Iterator[Pass]:
        """The passes, in order. All records are counted with the first."""
        waiting = [list(cut)] if cut else []
        while waiting:
            together = waiting.pop(0)
            done = 0
            try:
                for first, last, tallies in self._answered(together):
                    yield Pass(first, last, tallies, *self._handed_over())
                    done += 1
            except OutOfMemory:
                if len(together) == 1:
                    raise
                left = together[done:]
                half = len(left) if self._lighter() else max(1, len(left) // 2)
                waiting[:0] = [part for part in (left[:half], left[half:]) if part]

    def _answered(self, together: Sequence[Ticks]) -> Iterator[tuple[int, int, list[Tally]]]:
        if len(together) == 1:
            first, last = together[0]
            yield first, last, self._one(first, last)
            return
        self._scan(together[0][0], together[-1][1])
        for first, last in together:
            yield first, last, self.answers.tallies(first, last)

    def _one(self, first: int, last: int) -> list[Tally]:
        """The answers of one pass, in two halves if they do not fit."""
        try:
            self._scan(first, last)
            return self.answers.tallies(first, last)
        except OutOfMemory:
            lighter = self._lighter()
            if first == last and not lighter:
                raise
        if lighter:
            return self._one(first, last)
        middle = (first + last) // 2
        halves = zip(self._one(first, middle), self._one(middle + 1, last), strict=True)
        return [joined(both) for both in halves]

    def _lighter(self) -> bool:
        """Begins afresh; whether there are more parts of users than before."""
        self.reading.connection.renew()
        if not self.source.bounds_users or self.parts >= MOST_PARTS:
            return False
        self.parts *= 4
        return True

    def _handed_over(self) -> tuple[Counts, Absences]:
        handed_over = self.counts, self.absences
        self.counts, self.absences = nothing_counted(), {}
        return handed_over

    def _scan(self, first: int, last: int) -> None:
        """Adds up all events of some ticks."""
        while True:
            self.answers.clear()
            try:
                with ended_by(self.stop, self.reading.connection):
                    self._attempt(first, last)
                break
            except Distrusted as found:
                self.distrusted |= found.paths
            self.reading.connection.renew()
        self._count()

    def _count(self) -> None:
        """Everything once; how many are beyond the bounds of users is counted for each range of ticks."""
        found = self.answers.counts()
        if self.counted:
            self.counts["bounded"] += found["bounded"]
        else:
            self.counts, self.counted = found, True
            self.absences = self.answers.absences()

    def _attempt(self, first: int, last: int) -> None:
        pieces = self.reading.pieces(self.files, self.distrusted)
        unit = self.source.stream.unit
        if isinstance(unit, User):
            for part in range(self.parts):
                self._add_users(pieces, unit, first, last, UserPart(part, self.parts))
            return
        for piece in pieces:
            self._each(
                piece,
                finished_ticks(self.source.stream, first, last),
                lambda rows: self.answers.add(rows, self._chosen),
            )

    def _add_users(self, pieces: Sequence[Piece], unit: User, first: int, last: int, part: UserPart) -> None:
        """Adds up what survives of one part of the users, all of whose events must be seen first."""
        run, begun = self.reading.connection.run, False

        def chosen(rows: str) -> str:
            return f"(SELECT * FROM {rows} WHERE {self._chosen})"

        def add(rows: str) -> None:
            self.answers.add(bounded(chosen(rows), unit, first))

        def gather(rows: str) -> None:
            nonlocal begun
            into = f"INSERT INTO {EVENTS}" if begun else f"CREATE TABLE {EVENTS} AS"
            run(f"{into} SELECT * FROM {chosen(rows)}")
            begun = True

        alone = len(pieces) == 1 and pieces[0].trusted
        for piece in pieces:
            self._each(piece, finished_ticks(self.source.stream, 1, last), add if alone else gather, part)
        if begun:
            self.answers.add(bounded(EVENTS, unit, first))
            run(f"DROP TABLE {EVENTS}")

    def _each(
        self, piece: Piece, ticks: Ruled, use: Callable[[str], None], part: UserPart | None = None
    ) -> None:
        """Uses SQL of the rows of a piece, one relation after another; a failure tells whom not to trust."""
        try:
            with piece.relations() as relations:
                for relation in relations:
                    check(self.stop)
                    use(self.source.sql(relation, ticks, part))
        except OutOfMemory:
            raise
        except EngineFailed:
            if not piece.trusted:
                raise
            raise Distrusted(piece.trusted) from None

    @property
    def _chosen(self) -> str:
        """All rows are looked at once, to be counted; later only those with a tick."""
        return f"{TICK} >= 1" if self.counted else "true"
