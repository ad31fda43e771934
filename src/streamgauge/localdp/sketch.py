"""What both count-mean sketches share: rows of hashed columns, and the arithmetic of collisions.

An item collides with another in a row with chance 1/m, so that of n reports (n - f)/m of other items fall
on an item that f are of. Taking n/m off and multiplying by `stretch` = m/(m - 1) leaves f on average.
"""

from dataclasses import dataclass

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

    def squares_from(self, collided: float, reports: int, pairs: float) -> float:
        """The sum of squares of counts from unbiased numbers of pairs of reports, in order: those that
        share a column, and all. Pairs of one item always do, others with chance 1/m."""
        return reports + self.stretch * (collided - pairs / self.width)
