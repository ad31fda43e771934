"""Errors of the pipeline file and of the queries in it."""


class InvalidReleaseError(ValueError):
    """A query that cannot be answered privately, or is not in the dialect.

    The message names the part of the query, the rule and the remedy.
    """


class PipelineFileError(ValueError):
    """A pipeline file that cannot be used: one line with file, key and rule."""
