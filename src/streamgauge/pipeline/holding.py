"""What a pipeline holds while it runs: the lock, the key, the store and the sinks.

A run holds them by itself. A server holds them from its first run to its last: nobody else gets the store
in between, the key is asked for once, and no run stumbles over what became of a sink meanwhile. After a
failure that may have left the store uncertain, store and sinks are opened anew, under the same lock and key.

With pan_private = true the store is sealed once a run has begun, and the key let go of: beside the memory
of a run, what it wrote at its last commit would be a second look at the same registers, and what came in
between plain. A server then opens the store anew for each of its runs, and asks for the key as often. What is
closed is sealed first, which overwrites all keys.
"""

from contextlib import ExitStack
from typing import Self

from streamgauge.pipeline.keys import Key, key_of
from streamgauge.pipeline.lock import Lock
from streamgauge.pipeline.publishing import Outlet, Publisher, outline_shapes
from streamgauge.pipeline.store import Steps, Store
from streamgauge.pipeline.store_errors import refusals
from streamgauge.pipeline.witness import Witness
from streamgauge.query.settings import PipelineFile
from streamgauge.sinks import open_sink


class Holding:
    """Of one pipeline, from its first `publisher` until `close`; one thread."""

    def __init__(self, file: PipelineFile) -> None:
        self.file = file
        self.begun = False  # whether a run has begun with this publisher: it was compared with all traces
        self._locked, self._opened = ExitStack(), ExitStack()
        self._key: Key | None = None
        self._has_lock = False
        self._publisher: Publisher | None = None

    def publisher(self, step: Steps) -> Publisher:
        """The one that is held; opened at the first call, and anew where it was sealed since."""
        if self._publisher is not None and self._publisher.store.sealed:
            self.let_go()
        if self._publisher is None:
            self._publisher = self._open(self._key or self._lock(), step)
        return self._publisher

    def _lock(self) -> Key:
        """The key, under the lock; it is not held on to where nothing may be opened by who has the memory."""
        folder = self.file.folder
        with refusals(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as undone:
            if not self._has_lock:
                undone.enter_context(Lock(folder))
            key = key_of(self.file)
            if not self._has_lock:
                self._locked, self._has_lock = undone.pop_all(), True
        self._key = None if self.file.stream.pan_private else key
        return key

    def _open(self, key: Key, step: Steps) -> Publisher:
        with ExitStack() as undone:
            store = Store.open(self.file.folder, key, create=True, steps=step)
            undone.callback(store.close)
            outlets = []
            for each in self.file.sinks:
                shapes = outline_shapes(self.file, store.acts(), each)
                sink = open_sink(each, self.file.path.parent, store.identity, shapes)
                undone.callback(sink.close)
                outlets.append(Outlet(sink, each.releases))
            publisher = Publisher(store, Witness.beside(key, store), outlets, step)
            self._opened = undone.pop_all()
        return publisher

    def let_go(self) -> None:
        """Closes store and sinks; lock and key are held on to."""
        if self._publisher is not None and self.file.stream.pan_private:
            self._publisher.store.seal()
        self._publisher, self.begun = None, False
        self._opened.close()

    def close(self) -> None:
        self.let_go()
        self._key, self._has_lock = None, False
        self._locked.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
