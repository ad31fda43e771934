"""Scan of a live block, piece by piece, in the available memory.

    pieces     of about MAX_PIECE_BYTES; out of memory, half of a piece, down to MIN_PIECE_BYTES
    frames     then fewer of them in one query, down to one; then again half of a piece, down to one line

Promise
    None of this changes an answer, and no event is admitted twice. The bounds of users are applied once to each
    line, in the order of the source. The result stays with the lines in any pieces they are
    cut. Later blocks reuse the reduced load. It changes their duration and nothing else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import numpy as np

from streamgauge.engines.duckdb.aggregation import Answers
from streamgauge.engines.duckdb.connection import EngineMemoryError, quote_name
from streamgauge.engines.duckdb.readers import NUMBER_COLUMN, Header, RecordReader
from streamgauge.engines.duckdb.rows import TICK, USER, RowSource, TickRule
from streamgauge.engines.duckdb.user_bounds import UserBounds
from streamgauge.noise import Ints
from streamgauge.plan.measure import BOUNDED, Pass, merge_passes

T = TypeVar("T")
MAX_PIECE_BYTES = 2**22  # bytes of a piece: with half of it, adding up takes 1.3 times as long (measured)
BLOCK_TABLE, REJECTED_TABLE = '"$block"', "$beyond"
REJECTED_NUMBER = '"$beyond number"'


@dataclass
class LinePiece:
    """Whole lines of a block, and which of them exceed the bounds of users, if known."""

    data: bytes = field(repr=False)
    begin: int = 0  # offset in the block
    rejected_lines: Ints | None = field(default=None, repr=False)  # exact: numbers of lines, from 0

    @property
    def halves(self) -> list["LinePiece"]:
        """Two parts of about the same length, or the line itself if it is one."""
        middle = self.data.find(b"\n", len(self.data) // 2) + 1
        if middle in (0, len(self.data)):
            middle = self.data.rfind(b"\n", 0, max(0, len(self.data) - 1)) + 1
        return [self] if middle == 0 else self._split(middle)

    def _split(self, at: int) -> list["LinePiece"]:
        number = self.data.count(b"\n", 0, at)
        one, other = self.rejected_lines, self.rejected_lines
        if self.rejected_lines is not None:
            first = self.rejected_lines < number
            one, other = self.rejected_lines[first], self.rejected_lines[~first] - number
        return [LinePiece(self.data[:at], self.begin, one), LinePiece(self.data[at:], self.begin + at, other)]


def split_pieces(data: bytes, max_bytes: int = MAX_PIECE_BYTES) -> Iterator[LinePiece]:
    """Return all lines, in order, in at least one piece.

    >>> [piece.data for piece in split_pieces(b"1\\n22\\n3\\n4444\\n", 5)]
    [b'1\\n22\\n', b'3\\n', b'4444\\n']
    """
    begin = 0
    while True:
        end = data.rfind(b"\n", begin, begin + max_bytes) + 1 or data.find(b"\n", begin) + 1 or len(data)
        yield LinePiece(data[begin:end], begin)
        begin = end
        if begin >= len(data):
            return


def line_numbers(numbers: Ints) -> Ints:
    """Return line numbers from DuckDB's row numbers.

    The first line in memory is an empty one, and has number 1.
    """
    return np.asarray(numbers, np.int64) - 2


@dataclass
class LiveScan:
    """Scan of blocks that remembers which load the memory allows."""

    MIN_PIECE_BYTES: ClassVar[int] = 2**16  # below it, half of the frames saves more than half of a piece
    source: RowSource
    reader: RecordReader
    answers: Answers
    users: UserBounds | None
    max_piece_bytes: int = MAX_PIECE_BYTES

    def scan_block(self, data: bytes, ticks: TickRule, first: int, last: int, header: Header) -> Pass:
        """Return the sums of the ticks from `first` to `last`."""

        def scan_lines(lines: LinePiece) -> Pass:
            self.answers.clear()
            with self._rows(lines, ticks, header) as rows:
                self.answers.add(rows)
            counts, columns = self.answers.counts(), self.answers.absences()
            return Pass(first, last, self.answers.tallies(first, last), counts, columns)

        return merge_passes(list(self.map_pieces(data, scan_lines)))

    def map_pieces(self, data: bytes, scan: Callable[[LinePiece], T]) -> Iterator[T]:
        """Return the result of each piece. A piece that does not fit is retried in halves."""
        waiting = list(split_pieces(data, self.max_piece_bytes))
        while waiting:
            lines = waiting.pop(0)
            self.reader.connection.count_block()
            try:
                result = scan(lines)
            except EngineMemoryError:
                waiting[:0] = self.reduce_load(lines)
            else:
                yield result

    def reduce_load(self, lines: LinePiece) -> list[LinePiece]:
        """Start again with less load; raise if the load is minimal."""
        self.reader.connection.renew()
        halves = lines.halves
        if self.answers.frames > 1 and (len(lines.data) <= self.MIN_PIECE_BYTES or len(halves) == 1):
            self.answers = self.answers.halve_frames()
            return [lines]
        if len(halves) == 1:
            raise EngineMemoryError("memory must be enough for one record and one measure, got too little")
        self.max_piece_bytes = max(1, len(lines.data) // 2)
        return halves

    @contextmanager
    def _rows(self, lines: LinePiece, ticks: TickRule, header: Header) -> Iterator[str]:
        """Return SQL of the rows. They are materialised if they are read more than once."""
        bounded = self.users is not None
        with self.reader.open_block(lines.data, header, in_order=bounded) as relation:
            rows = self.source.sql(relation, ticks, also=[NUMBER_COLUMN] if bounded else [])
            if bounded or len(self.answers.aggregations) > 1:
                self.reader.connection.run(f"CREATE OR REPLACE TABLE {BLOCK_TABLE} AS SELECT * FROM {rows}")
                rows = BLOCK_TABLE
            yield rows if self.users is None else self._mark_rejected(lines, self.users)

    def _mark_rejected(self, lines: LinePiece, users: UserBounds) -> str:
        """Return SQL of the materialised rows with BOUNDED as the tick of excess events."""
        if lines.rejected_lines is None:
            lines.rejected_lines = self._find_rejected(users)
        self.reader.connection.register(REJECTED_TABLE, {"$beyond number": lines.rejected_lines + 2})
        ruled = f"CASE WHEN {REJECTED_NUMBER} IS NULL THEN {TICK} ELSE {BOUNDED} END AS {TICK}"
        joined = f"LEFT JOIN {quote_name(REJECTED_TABLE)} ON {NUMBER_COLUMN} = {REJECTED_NUMBER}"
        return f"(SELECT * REPLACE ({ruled}) FROM {BLOCK_TABLE} {joined})"

    def _find_rejected(self, users: UserBounds) -> Ints:
        """Apply the bounds, which remember it. Nothing here may fail afterwards."""
        found = self.reader.connection.fetch_arrays(
            f"SELECT {NUMBER_COLUMN} AS number, {TICK} AS tick, ({USER} >> 64)::UBIGINT AS high, "
            f"({USER} & {2**64 - 1})::UBIGINT AS low FROM {BLOCK_TABLE} WHERE {TICK} >= 1 ORDER BY {NUMBER_COLUMN}"
        )
        numbers = line_numbers(found["number"])
        return numbers[~users.admit_events(found["high"], found["low"], found["tick"])]
