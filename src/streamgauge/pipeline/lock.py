"""One run at a time: the folder's lock, which says who holds it. Readers need none."""

import os
from pathlib import Path
from typing import Self

from streamgauge.pipeline.durable import PRIVATE_FILE
from streamgauge.pipeline.store_errors import AlreadyRunning, refusals
from streamgauge.query.held import Held

NAME = "lock"


class Lock:
    """Held from construction until `release`, the end of a `with` block, or the end of the process."""

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        with refusals(path):
            try:
                self._held = Held(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            except BlockingIOError:
                raise AlreadyRunning(folder, holder(folder)) from None
        self._sign(path)

    def _sign(self, path: Path) -> None:
        """Says who holds it, for the message that the next one gets."""
        try:
            with refusals(path):
                os.ftruncate(self._held.descriptor, 0)
                os.pwrite(self._held.descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.release()


def holder(folder: Path) -> int | None:
    """The process that took the lock last, if it said so."""
    try:
        told = (folder / NAME).read_bytes().strip()
    except OSError:
        return None
    return int(told) if told.isdigit() else None
