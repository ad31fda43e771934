"""What may be done to releases for nothing: consistency, histograms, hierarchies that add up, alerts."""

from streamgauge.postprocess.consistency import consistent
from streamgauge.postprocess.hierarchy import Hierarchy
from streamgauge.postprocess.histograms import non_negative
from streamgauge.postprocess.least_squares import AddUp, add_up
from streamgauge.postprocess.monitor import Detectable, EventMonitor, Watch
from streamgauge.postprocess.tails import EitherTail, NormalTail, Tail

__all__ = [
    "AddUp",
    "Detectable",
    "EitherTail",
    "EventMonitor",
    "Hierarchy",
    "NormalTail",
    "Tail",
    "Watch",
    "add_up",
    "consistent",
    "non_negative",
]
