"""Mechanisms that look, privately, at their data to spend noise where it matters: one claim per file."""

from streamgauge.adaptive.adaptive import Adaptive
from streamgauge.adaptive.bars import Bar, Unknown
from streamgauge.adaptive.budget_absorption import BudgetAbsorption
from streamgauge.adaptive.budget_distribution import BudgetDistribution
from streamgauge.adaptive.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.dissimilarity import Fresh, Stale
from streamgauge.adaptive.group_history import Grouped, GroupHistory
from streamgauge.adaptive.grouper import Grouper
from streamgauge.adaptive.pegasus import Pegasus
from streamgauge.adaptive.pegasus_hierarchy import Nodes, PegasusHierarchy
from streamgauge.adaptive.released import Released
from streamgauge.adaptive.sparse_choice import choose, compare
from streamgauge.adaptive.sparse_counter import SparseCounter
from streamgauge.adaptive.w_event_sample import WEventSample
from streamgauge.adaptive.w_event_uniform import WEventUniform

__all__ = [
    "Adaptive",
    "Bar",
    "BudgetAbsorption",
    "BudgetDistribution",
    "CascadingBuffers",
    "Fresh",
    "GroupHistory",
    "Grouped",
    "Grouper",
    "Nodes",
    "Pegasus",
    "PegasusHierarchy",
    "Released",
    "SparseCounter",
    "Stale",
    "Unknown",
    "WEventSample",
    "WEventUniform",
    "choose",
    "compare",
]
