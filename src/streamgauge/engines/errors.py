"""Errors of engines, without data of records.

DuckDB's messages quote values and whole lines. So its exceptions never leave this package, not even as a cause.
"""


class EngineError(RuntimeError):
    """The engine could not finish.

    The message depends on declarations and on the kind of failure alone.
    """


class EngineMemoryError(EngineError):
    """The memory was too small for the attempted load."""
