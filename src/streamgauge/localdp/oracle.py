"""A frequency oracle: what the claims of this room have in common, and how wrong their estimates are.

A device sends one report of its item; a collector adds reports up in a table and estimates how many devices
have an item. With `count` of `reports` reports from devices that have the item, an estimate is unbiased and
has exactly the variance

    count own + (reports - count) other + (squares - (reports - count)) shared

where `own` and `other` are what one report of the item, or of another, adds. Where items share cells at
random, reports of one other item collide with the item together: each pair of them adds `shared`, and
`squares`, the sum of the squares of the other items' counts, is how many ordered pairs there are, with each
report beside itself. A report that is there t times adds t^2 times its variance: with at most `copies` of
each, `copies` times as much for every report is enough, and pairs of copies are no collisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.reports import Reports
from streamgauge.noise import Chance
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.privacy import Pure

Item = str | int
Table = npt.NDArray[np.signedinteger[Any]]
SMALL = 2**22  # cells: up to here 8 bytes each, beyond it 4


@dataclass(frozen=True)
class Spread:
    """What each report adds to the variance of an estimate; see the module's formula."""

    own: float
    other: float
    shared: float = 0.0

    def variance(self, count: Any, reports: int, squares: Any = 0, copies: int = 1) -> Any:
        """Of a count, or of each of an array; `squares` is never below every other report's own."""
        own = np.clip(count, 0, reports)
        chance = copies * (own * self.own + (reports - own) * self.other)
        return chance + self.collided(count, reports, squares, copies)

    def collided(self, count: Any, reports: int, squares: Any, copies: int = 1) -> Any:
        """The part of it that is by collisions."""
        others = copies * (reports - np.clip(count, 0, reports))
        return (np.maximum(squares, others) - others) * self.shared


class Oracle(Protocol):
    """A claim that privatises items, and the arithmetic by which a `Collector` counts them."""

    @property
    def loss(self) -> Pure:
        """Of one report: the laws of a report for any two items are within e^epsilon."""
        ...

    @property
    def report_bits(self) -> int:
        """What tells one report from any other."""
        ...

    @property
    def report_size(self) -> int:
        """Bytes of one report."""
        ...

    @property
    def influence(self) -> float:
        """The most that one report, whoever made it, moves any estimate."""
        ...

    @property
    def spread(self) -> Spread: ...

    @property
    def apart(self) -> float:
        """By what the values of an estimate are apart; 0 where they are anywhere."""
        ...

    def privatise(self, item: Item, noise: Chance | None = None) -> bytes: ...

    def privatise_many(self, items: Sequence[Item], noise: Chance | None = None) -> Reports:
        """One report for each of many devices."""
        ...

    def variance(self, count: Any, reports: int, squares: Any = 0, copies: int = 1) -> Any: ...

    @property
    def hashed(self) -> tuple[int, int] | None:
        """Hashes and their width, where items share cells."""
        ...

    def identity(self) -> str:
        """All settings, so that tables of two claims are never mixed."""
        ...

    def blank(self) -> Table:
        """The table of no reports."""
        ...

    def well_formed(self, reports: Reports) -> Bools:
        """Which rows an honest device might have sent; looks at each alone."""
        ...

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        """Adds well-formed reports to the table (weight 1), or takes them out (-1)."""
        ...

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        """Unbiased estimates of how many of the reports are of each item."""
        ...

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        """An estimate of the sum of the squares of all items' counts, if every report is there `copies`
        times; 0 where items share no cells."""
        ...


def blank_table(*shape: int) -> Table:
    """Zeros; a collector makes cells of 4 bytes into ones of 8 before there are 2^31 reports."""
    return np.zeros(shape, np.int64 if np.prod(shape) <= SMALL else np.int32)
