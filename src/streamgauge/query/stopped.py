"""A stop that was asked for, wherever it is heard."""

from threading import Event as Flag


class Stopped(Exception):  # noqa: N818 - no error: somebody asked for it
    """What was begun is not finished, and nothing came of it."""


def check(stop: Flag | None) -> None:
    """Raises Stopped if a stop was asked for."""
    if stop is not None and stop.is_set():
        raise Stopped
