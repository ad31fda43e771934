"""Post-processing of releases. It costs no privacy.

consistency      running counts that are whole and never fall
nonnegative      histograms without negative bins
hierarchy        public trees of groups
least_squares    trees whose parents equal the sum of their children
adjustment       published numbers that never fall, add up and stay within bounds
monitor          alerts on jumps, drops, low signals and thresholds
"""

from streamgauge.postprocess.adjustment import AdjustedNumbers, Adjustment
from streamgauge.postprocess.consistency import make_consistent
from streamgauge.postprocess.hierarchy import Hierarchy
from streamgauge.postprocess.least_squares import HierarchyEstimator, add_up
from streamgauge.postprocess.monitor import DetectableEvent, EventMonitor, MonitorRun, NormalTail, Tail, UnionTail
from streamgauge.postprocess.nonnegative import project_nonnegative

__all__ = [
    "AdjustedNumbers",
    "Adjustment",
    "DetectableEvent",
    "EventMonitor",
    "Hierarchy",
    "HierarchyEstimator",
    "MonitorRun",
    "NormalTail",
    "Tail",
    "UnionTail",
    "add_up",
    "make_consistent",
    "project_nonnegative",
]
