"""From events to exact sums, by tick, group and cell: the embedded engine."""

from streamgauge.engines.duck import DuckEngine
from streamgauge.engines.failures import EngineFailed, OutOfMemory
from streamgauge.engines.passes import Counts, Pass

__all__ = ["Counts", "DuckEngine", "EngineFailed", "OutOfMemory", "Pass"]
