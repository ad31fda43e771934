"""Errors of a source as a whole, in one line and without any byte of its records."""


class SourceError(ValueError):
    """A source that cannot be read as declared.

    With code `truncated` a followed file was shortened, or bytes already read were overwritten. With code `lost` the
    file that was being read when the run stopped is missing.
    """

    def __init__(self, message: str, code: str = "unreadable") -> None:
        super().__init__(message)
        self.code = code


class SourceAccessError(SourceError):
    """A source that cannot be reached now. The run ends with exit code 1; start it again later."""


def build_unreadable_error(path: object, error: OSError) -> SourceError:
    """Return the system's error in one line."""
    return SourceError(f"source must be readable, got {path}: {error.strerror or 'it failed'}")
