"""Engines: from records to exact sums by tick, group and cell.

duckdb/       the embedded engine, and errors without data of records
processes/    the embedded engine in several processes, over parts of a batch
"""

from streamgauge.engines.duckdb.connection import EngineError, EngineMemoryError
from streamgauge.engines.duckdb.engine import DuckEngine

__all__ = ["DuckEngine", "EngineError", "EngineMemoryError"]
