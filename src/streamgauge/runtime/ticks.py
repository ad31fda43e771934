"""Open and closed ticks, and tick ranges of releases. Public.

Open and closed ticks depend on the clock only, not on the data.

Tick ranges of the active releases depend on the ledger and the pipeline file only:

    ticks     1 2 3 4 5 6 7 8 9 ...
    release   # # # # . . . . .     with a horizon
    another   . . . . . . # # #     requested in the meantime

No release would count a record of tick 5. No release would count a record of tick 4 either, if it has none of the
columns that the first release reads.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from streamgauge.config.settings import Stream

if TYPE_CHECKING:
    from streamgauge.store.reader import StoreReader

OPENED_MARK = "open_tick"  # mark in the store: last tick that an event may have been counted in, by the clock alone


def find_opened_tick(store: "StoreReader") -> int:
    """Return the last tick that an event may have been counted in, by a store."""
    return max(store.tick, int(store.marks().get(OPENED_MARK, b"0")))


def newest_tick(stream: Stream, now: int) -> int:
    """Return the last tick that an event may be in by now; 0 before the first."""
    return clamp_tick(stream, (now + stream.allowed_earliness - stream.start) // stream.tick + 1)


def closed_tick(stream: Stream, now: int) -> int:
    """Return the last tick whose end and allowed lateness have passed, or 0."""
    return clamp_tick(stream, (now - stream.start - stream.allowed_lateness) // stream.tick)


def max_open_ticks(stream: Stream) -> int:
    """Return the largest number of open ticks while a live source is read in time.

    0 for a batch source.
    """
    if stream.mode == "batch":
        return 0
    most = (stream.allowed_lateness + stream.allowed_earliness) // stream.tick + 2
    return most if stream.ticks is None else min(most, stream.ticks)


def next_start_tick(stream: Stream, now: int) -> int:
    """Return the first tick of a release that is requested now.

    It is after all ticks that an event may be in.
    """
    return 1 if stream.mode == "batch" else newest_tick(stream, now) + 1


def clamp_tick(stream: Stream, tick: int) -> int:
    return max(0, tick if stream.ticks is None else min(tick, stream.ticks))


class ReleaseSpan(NamedTuple):
    """The ticks of one release. `last` is None if there is no last tick."""

    first: int
    last: int | None
    columns: frozenset[str] = frozenset()  # columns that it reads; empty if it counts all records

    def next_tick(self, tick: int) -> int | None:
        """Return its first tick that is not before `tick`."""
        found = max(self.first, tick)
        return found if self.last is None or found <= self.last else None

    def reads(self, columns: frozenset[str]) -> bool:
        """Return whether it counts records that have exactly these columns."""
        return not self.columns or not self.columns.isdisjoint(columns)


class ReleaseSpans(tuple[ReleaseSpan, ...]):
    """The ticks of all releases.

    >>> spans = ReleaseSpans.from_tuples([(1, 4), (7, None)])
    >>> [spans.next_tick(tick) for tick in (1, 4, 5, 9)], ReleaseSpans.from_tuples([(1, 4)]).next_tick(5)
    ([1, 4, 7, 9], None)
    >>> spans = ReleaseSpans.from_tuples([(1, 4, frozenset("a")), (1, None, frozenset("b"))])
    >>> [spans.next_tick(tick, frozenset("a")) for tick in (4, 5)], spans.next_tick(5)
    ([4, None], 5)
    """

    __slots__ = ()

    @classmethod
    def from_tuples(
        cls, spans: Iterable[tuple[int, int | None] | tuple[int, int | None, frozenset[str]]]
    ) -> "ReleaseSpans":
        return cls(ReleaseSpan(*each) for each in spans)

    def next_tick(self, tick: int, columns: frozenset[str] | None = None) -> int | None:
        """Return the first tick of a release that is not before `tick`, or None.

        With columns, only releases that read one of them count.
        """
        ticks = (span.next_tick(tick) for span in self if columns is None or span.reads(columns))
        return min((found for found in ticks if found is not None), default=None)
