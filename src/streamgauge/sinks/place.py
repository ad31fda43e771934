"""Where a sink lies: held by one run at a time, and left as it was found if nothing was written to it.

Promise
    From `open` until `close`, or the death of the process, no other run has the place open. What was made for
    holding it is removed again, unless `keep` was said: a start that is refused leaves nothing behind.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamgauge.query.durable import sync_path
from streamgauge.query.held import Held
from streamgauge.sinks.failures import SinkInUse


class Place:
    """A file or a folder that one run may have open."""

    def __init__(self, name: str, path: Path, *, folder: bool) -> None:
        self.name = name
        self.path = path
        self.folder = folder
        self._held: Held | None = None
        self._made = False

    @contextmanager
    def taken(self) -> Iterator[int]:
        """Opened anew, and closed again if what is found there is refused."""
        self.close()
        try:
            yield self.open()
        except BaseException:
            self.close()
            raise

    def open(self) -> int:
        """Its descriptor."""
        if self._held is None:
            made = not self.path.exists()
            (self.path if self.folder else self.path.parent).mkdir(parents=True, exist_ok=True)
            try:
                self._held = Held(self.path, os.O_RDONLY if self.folder else os.O_RDWR | os.O_CREAT)
            except BlockingIOError:
                raise SinkInUse(self.name) from None
            self._made = made
            if made:
                sync_path(self.path.parent)
        return self._held.descriptor

    def keep(self) -> None:
        """Something is written: the place stays."""
        self._made = False

    def close(self) -> None:
        if self._held is None:
            return
        if self._made:
            with suppress(OSError):
                self._remove()
        self._held.close()
        self._held, self._made = None, False

    def _remove(self) -> None:
        if self.folder:
            self.path.rmdir()  # which refuses one that is not empty
        elif not os.fstat(self.open()).st_size:
            self.path.unlink()
