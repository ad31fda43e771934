"""The k-ary counter: running counts from p-sums of k^i items, with k fitted to the stream.

Few levels mean little noise in each p-sum, many mean few p-sums in each count. For pure privacy the
noise's variance grows with the square of the levels, so that broad trees win: at T = 2^20 the best
has k = 17 and 5 levels, and less than half the standard error of Binary.

Privacy, Pan-privacy, Error: as for every tree (see `streamgauge.continual.tree`), h = `levels`.

Reference
    Qardaji, Yang, Li: Understanding hierarchical methods for differentially private histograms,
    VLDB 2013, for broad trees over domains; here they are over time, with the top digit left open.
"""

from dataclasses import KW_ONLY, dataclass

from streamgauge.continual.bound import Bound
from streamgauge.continual.branching import best_branching
from streamgauge.continual.settings import check_noise, check_settings, check_whole
from streamgauge.continual.tree import Tree
from streamgauge.privacy import Event, Loss, Unit

BROADEST = 65


@dataclass(frozen=True)
class Kary(Tree):
    """Running counts from a k-ary tree; without `branching`, the best for the horizon; see the module."""

    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    branching: int = 0
    levels: int = 0
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()
    open_ticks: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=not (self.branching and self.levels))
        if not self.branching:
            object.__setattr__(self, "branching", self._best_branching())
        check_whole("branching", self.branching, least=2)
        if not self.levels:
            object.__setattr__(self, "levels", least_levels(self.branching, self.horizon or 1))
        check_whole("levels", self.levels)
        check_noise(self)

    def _best_branching(self) -> int:
        """The k of least mean variance over the horizon."""
        assert self.horizon is not None
        widest = min(BROADEST, max(2, self.horizon + 1))
        return best_branching(self, range(2, widest + 1))


def least_levels(branching: int, horizon: int) -> int:
    """The least h for which every digit of `horizon`, the top one too, is below `branching`."""
    levels = 1
    while branching**levels <= horizon:
        levels += 1
    return levels
