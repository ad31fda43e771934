"""A block of a live source, piece by piece: whatever comes is added up in the memory that there is.

    pieces     of MOST bytes or so; out of memory, half of a piece, down to FEW
    frames     then fewer of them in one query, down to one; then again half of a piece, down to one line

Promise
    None of this changes an answer, and no event is admitted twice: which lines are beyond the bounds of users
    is asked once for each, in the order of the source, and goes with the lines into whatever pieces they are
    cut. What was learnt about memory holds for later blocks; it changes how long they take and nothing else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from streamgauge.engines.answers import Answers
from streamgauge.engines.failures import OutOfMemory
from streamgauge.engines.line_pieces import MOST, Lines, line_numbers, pieces
from streamgauge.engines.lines import NUMBER
from streamgauge.engines.passes import BOUNDED, Pass, together
from streamgauge.engines.quoting import name
from streamgauge.engines.reading import Header, Reading
from streamgauge.engines.row_source import TICK, USER, RowSource, Ruled
from streamgauge.engines.user_bounds import UserBounds
from streamgauge.noise import Ints

T = TypeVar("T")
FEW = 2**16  # bytes, of which half would not help as much as half of the frames
BLOCK, BEYOND = '"$block"', "$beyond"
GONE = '"$beyond number"'


@dataclass
class LiveScan:
    """Blocks, and what was learnt about adding them up."""

    source: RowSource
    reading: Reading
    answers: Answers
    users: UserBounds | None
    most: int = MOST

    def block(self, data: bytes, ticks: Ruled, first: int, last: int, header: Header) -> Pass:
        """The sums of the ticks from `first` to `last`."""

        def taken(lines: Lines) -> Pass:
            self.answers.clear()
            with self._rows(lines, ticks, header) as rows:
                self.answers.add(rows)
            counts, columns = self.answers.counts(), self.answers.absences()
            return Pass(first, last, self.answers.tallies(first, last), counts, columns)

        return together(list(self.each(data, taken)))

    def each(self, data: bytes, take: Callable[[Lines], T]) -> Iterator[T]:
        """What is made of each piece; one that does not fit is tried again, in halves."""
        waiting = list(pieces(data, self.most))
        while waiting:
            lines = waiting.pop(0)
            self.reading.connection.one_more_block()
            try:
                taken = take(lines)
            except OutOfMemory:
                waiting[:0] = self._lighter(lines)
            else:
                yield taken

    def _lighter(self, lines: Lines) -> list[Lines]:
        """Begins afresh, with less at once; raises where there is no less."""
        self.reading.connection.renew()
        halves = lines.halves
        if self.answers.frames > 1 and (len(lines.data) <= FEW or len(halves) == 1):
            self.answers = self.answers.narrower()
            return [lines]
        if len(halves) == 1:
            raise OutOfMemory("memory must be enough for one record and one measure, got too little")
        self.most = max(1, len(lines.data) // 2)
        return halves

    @contextmanager
    def _rows(self, lines: Lines, ticks: Ruled, header: Header) -> Iterator[str]:
        """SQL of the rows; they are held in memory where they are looked at more than once."""
        bounded = self.users is not None
        with self.reading.block(lines.data, header, in_order=bounded) as relation:
            rows = self.source.sql(relation, ticks, also=[NUMBER] if bounded else [])
            if bounded or len(self.answers.aggregations) > 1:
                self.reading.connection.run(f"CREATE OR REPLACE TABLE {BLOCK} AS SELECT * FROM {rows}")
                rows = BLOCK
            yield rows if self.users is None else self._admitted(lines, self.users)

    def _admitted(self, lines: Lines, users: UserBounds) -> str:
        """The rows that are held, with BOUNDED in place of the ticks of events beyond the bounds."""
        if lines.beyond is None:
            lines.beyond = self._beyond(users)
        self.reading.connection.show(BEYOND, {"$beyond number": lines.beyond + 2})
        ruled = f"CASE WHEN {GONE} IS NULL THEN {TICK} ELSE {BOUNDED} END AS {TICK}"
        return f"(SELECT * REPLACE ({ruled}) FROM {BLOCK} LEFT JOIN {name(BEYOND)} ON {NUMBER} = {GONE})"

    def _beyond(self, users: UserBounds) -> Ints:
        """Asks the bounds, which remember it: nothing here may fail after that."""
        found = self.reading.connection.arrays(
            f"SELECT {NUMBER} AS number, {TICK} AS tick, ({USER} >> 64)::UBIGINT AS high, "
            f"({USER} & {2**64 - 1})::UBIGINT AS low FROM {BLOCK} WHERE {TICK} >= 1 ORDER BY {NUMBER}"
        )
        numbers = line_numbers(found["number"])
        return numbers[~users.admitted(found["high"], found["low"], found["tick"])]
