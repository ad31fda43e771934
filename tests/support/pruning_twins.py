"""Broken twins of pruned hierarchies."""

from dataclasses import replace
from fractions import Fraction

from streamgauge.adaptive import PegasusHierarchy
from streamgauge.adaptive.pegasus.hierarchy import HierarchyLevel, Tier
from streamgauge.adaptive.pegasus.node_estimates import NodePruner
from streamgauge.noise.coerce import Bools, Floats


class TickPruner(NodePruner):
    """Broken twin that prunes by the newest tick alone, for any window."""

    def find_pruned(self, read: Bools, newest: Floats, value: Floats, ticks: int) -> Bools:
        return ~read | (newest <= self.threshold)


class TickPrunedHierarchy(PegasusHierarchy):
    """Has a `TickPruner` at each level."""

    def build_tier(self, level: HierarchyLevel, part: Fraction) -> Tier:
        tier = super().build_tier(level, part)
        return replace(tier, pruner=TickPruner(tier.pruner.threshold, tier.pruner.size, tier.pruner.signed))
