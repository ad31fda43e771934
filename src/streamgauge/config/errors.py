"""Errors of the pipeline file and of the queries in it."""


class InvalidReleaseError(ValueError):
    """A release that cannot be computed, requested or ended.

    Its query cannot be answered privately or is not in the dialect, it would begin after the last tick, or its name is
    unknown. The message names the part, the rule and the remedy. It follows from declarations and the ledger alone.
    """


class PipelineFileError(ValueError):
    """A pipeline file that cannot be used: one line with file, key and rule."""
