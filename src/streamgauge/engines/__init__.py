"""Engines: from records to exact sums by tick, group and cell.

kinds      the engine of a pipeline file
errors     errors without data of records
duckdb/    the embedded engine
"""

from streamgauge.engines.duckdb.engine import DuckEngine
from streamgauge.engines.errors import EngineError, EngineMemoryError
from streamgauge.engines.kinds import open_engine
from streamgauge.plan.measure import Counts, Pass

__all__ = ["Counts", "DuckEngine", "EngineError", "EngineMemoryError", "Pass", "open_engine"]
