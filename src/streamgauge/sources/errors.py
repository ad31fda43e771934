"""What can be wrong with a source as a whole. One line each; never a byte of what the source holds."""


class SourceError(ValueError):
    """A source that cannot be read as declared: what it must be, and what to do."""


class SourceTruncated(SourceError):  # noqa: N818 - what happened is its name
    """A followed file has become shorter, or what was read of it has been written over."""


class SourceLost(SourceError):  # noqa: N818 - what happened is its name
    """The file that was being read when the run stopped is not there any more."""


def unreadable(path: object, error: OSError) -> SourceError:
    """What the system said, in one line."""
    return SourceError(f"source must be readable, got {path}: {error.strerror or 'it failed'}")
