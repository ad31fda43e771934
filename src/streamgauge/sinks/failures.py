"""How sinks fail: in one line that names the sink and the reason, and never a release."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from streamgauge.query.toml_keys import one_line

MAX_COLUMNS_SHOWN, MAX_NAME_SHOWN = 6, 60  # columns, and characters of each


class SinkFailed(RuntimeError):  # noqa: N818 - named for what it is
    """A sink that could not be read or written; what it has half taken is undone by the next write."""


class ReaderGone(SinkFailed):
    """Whoever read standard output has closed it."""


class ForeignSink(ValueError):  # noqa: N818 - named for what it is
    """A file that is not ours, or not as it was left: nothing was changed in it."""


class SinkColumnsError(ValueError):
    """Columns that a wide CSV sink cannot have, or not beside those in its header."""


class SinkInUse(ValueError):  # noqa: N818 - the same
    """A sink that another run has open: nothing was changed in it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"sink {name} must be written by one run at a time, got one that another run has open: stop that "
            "run, or name another sink"
        )


def lacking(name: str, length: int, what: str, found: int) -> str:
    """What is said of a sink that has lost some of what was written to it."""
    rule = f"sink {name} must have the {length} {what} that were written to it"
    return f"{rule}, got {found}: restore it, or name a new sink"


def of_another_history(name: str) -> str:
    """What is said of a sink that has something else in place of what was written to it."""
    return (
        f"sink {name} must be as this pipeline left it, got another content: restore it, or name a new sink"
    )


def describe_columns(name: str, before: Sequence[str], after: Sequence[str]) -> str:
    """Return the refusal of a sink whose header has other columns than its releases."""
    changes = [f"+{column}" for column in after if column not in before]
    changes += [f"-{column}" for column in before if column not in after]
    names = [one_line(change[:MAX_NAME_SHOWN]) for change in changes[:MAX_COLUMNS_SHOWN]]
    shown = ", ".join(names) or "another order"
    more = ", ..." if len(changes) > MAX_COLUMNS_SHOWN else ""
    return (
        f"sink {name} must keep the columns of its header, got a change ({shown}{more}): undo the edit, or "
        'name a new sink; with shape = "long" all releases have the same columns'
    )


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Turns errors of the system into ours."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SinkFailed(f"sink {name} could not be used: {reason}") from None
