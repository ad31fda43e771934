"""Which ticks releases take, of a run that is open: by the book and the file, so public.

    ticks     1 2 3 4 5 6 7 8 9 ...
    release   # # # # . . . . .     with a horizon
    another   . . . . . . # # #     asked for meanwhile

What comes for tick 5 would be counted by nobody.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """The ticks of one release; the last is None where there is none."""

    first: int
    last: int | None

    def next(self, tick: int) -> int | None:
        """The first of its ticks that is not before one."""
        found = max(self.first, tick)
        return found if self.last is None or found <= self.last else None


class Taken(tuple[Span, ...]):
    """The ticks of all releases.

    >>> taken = Taken.of([(1, 4), (7, None)])
    >>> [taken.next(tick) for tick in (1, 4, 5, 9)], Taken.of([(1, 4)]).next(5)
    ([1, 4, 7, 9], None)
    """

    __slots__ = ()

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int | None]]) -> "Taken":
        return cls(Span(*each) for each in spans)

    def next(self, tick: int) -> int | None:
        """The first tick, not before one, that a release takes; None if all of them are over by then."""
        return min((found for span in self if (found := span.next(tick)) is not None), default=None)
