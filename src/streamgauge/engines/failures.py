"""What an engine may say when it fails: nothing of what it read.

DuckDB's messages quote values and whole lines; so its exceptions never leave this room, not even as a cause.
"""


class EngineFailed(RuntimeError):  # noqa: N818 - named for what happened
    """The engine could not finish. The message depends on declarations and on the kind of failure alone."""


class OutOfMemory(EngineFailed):
    """There was too little memory for what was tried at once."""
