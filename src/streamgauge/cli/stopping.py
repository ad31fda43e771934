"""Ctrl-C and SIGTERM: the first ends a run after the batch at hand, a second one at once.

**Promise.** Both are safe: what is committed is published, now or by the next run, and nothing else is.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event as Flag
from typing import Any, Protocol

from streamgauge.cli.failures import STOPPED

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Watcher(Protocol):
    """Who is told."""

    def stopping(self) -> None:
        """The run will end after the batch at hand."""
        ...

    def dying(self) -> None:
        """The process ends now."""
        ...


@contextmanager
def stopping(stop: Flag, watcher: Watcher) -> Iterator[None]:
    """Sets `stop` at the first signal; the former handlers are back at the end."""
    before = {number: signal.signal(number, _first(stop, watcher)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _first(stop: Flag, watcher: Watcher) -> Callable[[int, Any], None]:
    def heard(number: int, frame: Any) -> None:
        if stop.is_set():
            watcher.dying()
            os._exit(STOPPED)
        stop.set()
        watcher.stopping()

    return heard
