"""Which ticks releases take, of a run that is open: by the book and the file, so public.

    ticks     1 2 3 4 5 6 7 8 9 ...
    release   # # # # . . . . .     with a horizon
    another   . . . . . . # # #     asked for meanwhile

What comes for tick 5 would be counted by nobody. Nor would what comes for tick 4, if it has none of the
columns that the first release reads.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """The ticks of one release; the last is None where there is none."""

    first: int
    last: int | None
    columns: frozenset[str] = frozenset()  # that it reads; none if it counts records whatever they have

    def next(self, tick: int) -> int | None:
        """The first of its ticks that is not before one."""
        found = max(self.first, tick)
        return found if self.last is None or found <= self.last else None

    def reads(self, columns: frozenset[str]) -> bool:
        """Whether it looks at records that have these columns, and no others."""
        return not self.columns or not self.columns.isdisjoint(columns)


class Taken(tuple[Span, ...]):
    """The ticks of all releases.

    >>> taken = Taken.of([(1, 4), (7, None)])
    >>> [taken.next(tick) for tick in (1, 4, 5, 9)], Taken.of([(1, 4)]).next(5)
    ([1, 4, 7, 9], None)
    >>> taken = Taken.of([(1, 4, frozenset("a")), (1, None, frozenset("b"))])
    >>> [taken.next(tick, frozenset("a")) for tick in (4, 5)], taken.next(5)
    ([4, None], 5)
    """

    __slots__ = ()

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int | None] | tuple[int, int | None, frozenset[str]]]) -> "Taken":
        return cls(Span(*each) for each in spans)

    def next(self, tick: int, columns: frozenset[str] | None = None) -> int | None:
        """The first tick, not before one, that a release takes; None if all of them are over by then.

        With columns, one that a release takes which reads one of them.
        """
        asked = [span for span in self if columns is None or span.reads(columns)]
        return min((found for span in asked if (found := span.next(tick)) is not None), default=None)
