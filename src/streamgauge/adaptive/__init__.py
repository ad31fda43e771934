"""Mechanisms that read their data privately to spend noise where it matters.

mechanism    the base class `AdaptiveMechanism`
estimate     releases of adaptive mechanisms, and their error bounds
pegasus/     counts smoothed over groups of ticks
w_event/     a budget for every window of w ticks
sparse/      counters for few events
"""

from streamgauge.adaptive.estimate import AdaptiveRelease, ErrorBound, UnknownErrorBound
from streamgauge.adaptive.mechanism import AdaptiveMechanism
from streamgauge.adaptive.pegasus.grouper import Grouper
from streamgauge.adaptive.pegasus.hierarchy import NodeRelease, PegasusHierarchy
from streamgauge.adaptive.pegasus.pegasus import GroupedRelease, GroupHistory, Pegasus
from streamgauge.adaptive.sparse.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.sparse.choice import choose, compare
from streamgauge.adaptive.sparse.sparse_counter import SparseCounter
from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.distribution import BudgetDistribution
from streamgauge.adaptive.w_event.republish import FreshErrorBound, StaleErrorBound
from streamgauge.adaptive.w_event.sample import WEventSample
from streamgauge.adaptive.w_event.uniform import WEventUniform

__all__ = [
    "AdaptiveMechanism",
    "AdaptiveRelease",
    "BudgetAbsorption",
    "BudgetDistribution",
    "CascadingBuffers",
    "ErrorBound",
    "FreshErrorBound",
    "GroupHistory",
    "GroupedRelease",
    "Grouper",
    "NodeRelease",
    "Pegasus",
    "PegasusHierarchy",
    "SparseCounter",
    "StaleErrorBound",
    "UnknownErrorBound",
    "WEventSample",
    "WEventUniform",
    "choose",
    "compare",
]
