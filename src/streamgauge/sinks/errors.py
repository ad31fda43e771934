"""Errors of sinks: one line with the sink and the reason, never with a release."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from streamgauge.config.toml_table import escape_line

MAX_COLUMNS_SHOWN, MAX_NAME_SHOWN = 6, 60  # columns, and characters of each


class SinkAccessError(RuntimeError):
    """A sink that could not be read or written. The next write undoes a partial write."""


class SinkError(ValueError):
    """A sink that the run must not write. It was not changed.

    Codes: `foreign` (of another owner, or with changed content), `columns` (that a wide CSV sink cannot have, or that
    its header excludes), `in_use` (open in another run).
    """

    def __init__(self, message: str, code: str = "foreign") -> None:
        super().__init__(message)
        self.code = code


def describe_missing(name: str, length: int, what: str, found: int) -> str:
    """Return the refusal of a sink that has lost some of its content."""
    rule = f"sink {name} must have the {length} {what} that were written to it"
    return f"{rule}, got {found}: restore it, or name a new sink"


def describe_divergence(name: str) -> str:
    """Return the refusal of a sink whose content was replaced."""
    return f"sink {name} must be as this pipeline left it, got another content: restore it, or name a new sink"


def describe_columns(name: str, before: Sequence[str], after: Sequence[str]) -> str:
    """Return the refusal of a sink whose header has other columns than its releases."""
    changes = [f"+{column}" for column in after if column not in before]
    changes += [f"-{column}" for column in before if column not in after]
    names = [escape_line(change[:MAX_NAME_SHOWN]) for change in changes[:MAX_COLUMNS_SHOWN]]
    shown = ", ".join(names) or "another order"
    more = ", ..." if len(changes) > MAX_COLUMNS_SHOWN else ""
    return (
        f"sink {name} must keep the columns of its header, got a change ({shown}{more}): undo the edit, or "
        'name a new sink; with shape = "long" all releases have the same columns'
    )


@contextmanager
def translate_os_errors(name: str) -> Iterator[None]:
    """Convert errors of the system into errors of sinks."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SinkAccessError(f"sink {name} could not be used: {reason}") from None
