"""What both count-mean sketches share: rows of hashed columns, and the arithmetic of collisions.

An item collides with another in a row with chance 1/m, so that of n reports (n - f)/m of other items fall
on an item that f are of. Taking n/m off and multiplying by `stretch` = m/(m - 1) leaves f on average.

The sum of squares, by which errors are stated, is estimated from tables whose rows (or cells, where devices
draw them) are cut to what honest devices send there: liars who all send one report would drown it.
"""

from dataclasses import dataclass
from math import log, sqrt

from streamgauge.localdp.claim import LocalClaim, keep_whole
from streamgauge.localdp.hashing import MOST_HASHES, MOST_SEED, MOST_WIDTH, Hashes
from streamgauge.localdp.oracle import Table, blank_table

MOST_CELLS = 2**30
PART = 2**20  # cells whose squares are summed at once


@dataclass(frozen=True)
class SketchClaim(LocalClaim):
    """The settings of a sketch."""

    hashes: int = 1024
    width: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole(self, "hashes", 1, MOST_HASHES)
        keep_whole(self, "width", 2, MOST_WIDTH)
        keep_whole(self, "seed", 0, MOST_SEED)
        if self.hashes * self.width > MOST_CELLS:
            raise ValueError(f"width must be at most 2**30 / hashes, got {self.width}")
        self.chances  # noqa: B018 - a loss too small to tell anything is refused now

    @property
    def family(self) -> Hashes:
        return Hashes(self.hashes, self.width, self.seed)

    @property
    def stretch(self) -> float:
        return self.width / (self.width - 1)

    @property
    def scale(self) -> float:
        """c: what a flipped sign is multiplied by to be right on average."""
        return float(1 / (1 - 2 * self.chances["flip"]))

    @property
    def shared(self) -> float:
        return 1 / (self.hashes * (self.width - 1))

    @property
    def parts(self) -> int:
        """Into how many parts a table is cut to save memory."""
        return min(self.hashes, -(-self.hashes * self.width // PART))

    def cells(self, width: int) -> Table:
        return blank_table(self.hashes, width)

    @property
    def hashed(self) -> tuple[int, int] | None:
        return self.hashes, self.width

    def squares_from(self, collided: float, alone: int, pairs: float) -> float:
        """The sum of squares of counts from unbiased numbers of pairs of reports, in order: those that
        share a column, and all but the `alone` pairs of a report and itself or a copy. Pairs of one item
        always share one, others with chance 1/m."""
        return alone + self.stretch * (collided - pairs / self.width)


def likely_most(reports: int, parts: int, copies: int = 1) -> float:
    """More reports than any of so many parts of a table has that are drawn at random, but once in 1,000
    tables: Bernstein's bound. What is beyond was sent by liars, whatever the items are."""
    mean, need = reports / copies / parts, log(1000 * parts)
    return copies * (mean + need / 3 + sqrt(need**2 / 9 + 2 * mean * need))
