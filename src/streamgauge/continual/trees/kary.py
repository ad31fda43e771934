"""The k-ary counter: running counts from p-sums of k^i items, with a fitted k.

Few levels mean little noise in each p-sum, many mean few p-sums in each count. For pure privacy the
noise's variance grows with the square of the levels, so that broad trees win. At T = 2^20 the best
has k = 17 and 5 levels, and less than half the standard error of Binary. Without `branching`, all k are tried for
the least mean variance over the horizon, once per settings.

Privacy, Pan-privacy, Error: as for every tree (see `streamgauge.continual.trees.tree`), h = `levels`.

Reference
    Qardaji, Yang, Li: Understanding hierarchical methods for differentially private histograms,
    VLDB 2013, for broad trees over domains. Here they are over time, with the top digit left open.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from streamgauge.continual.mechanism import LinearMechanism, Settings
from streamgauge.continual.trees.tree import Tree
from streamgauge.continual.validation import check_noise, check_settings, check_whole


def find_best_branching(tree: LinearMechanism[Any], branchings: range) -> int:
    """Return the best for a tree whose other settings are all in place."""
    claim: Any = tree  # a dataclass, as all claims are
    others = tuple((field.name, getattr(tree, field.name)) for field in fields(claim))
    return _search_branching(type(tree), tuple(setting for setting in others if setting[0] != "branching"), branchings)


@lru_cache(maxsize=256)
def _search_branching(tree: Any, settings: tuple[tuple[str, Any], ...], branchings: range) -> int:
    made = [tree(**dict(settings), branching=branching) for branching in branchings]
    best: int = min(made, key=lambda tried: tried.mean_variance(tried.horizon or 1)).branching
    return best


MAX_BRANCHING = 65


@dataclass(frozen=True, kw_only=True)
class Kary(Settings, Tree):
    """Running counts from a k-ary tree, by default the best; see the module's claim."""

    branching: int = 0
    levels: int = 0
    open_ticks: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=not (self.branching and self.levels))
        if not self.branching:
            widest = min(MAX_BRANCHING, max(2, (self.horizon or 1) + 1))
            object.__setattr__(self, "branching", find_best_branching(self, range(2, widest + 1)))
        check_whole("branching", self.branching, least=2)
        if not self.levels:
            object.__setattr__(self, "levels", least_levels(self.branching, self.horizon or 1))
        check_whole("levels", self.levels)
        check_noise(self)


def least_levels(branching: int, horizon: int) -> int:
    """Return the least h for which every digit of `horizon` is below `branching`.

    The top digit counts, too.
    """
    levels = 1
    while branching**levels <= horizon:
        levels += 1
    return levels
