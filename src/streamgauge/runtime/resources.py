"""Resources of a running pipeline: the lock, the key, the store and the sinks.

A run opens them itself. A server owns them from its first run to its last. So no other process gets the store in
between, the key is loaded once, and no run fails because a sink changed in between. After a failure that may have left
the store in doubt, store and sinks are opened again, under the same lock and key.

With pan_private = true the store is sealed once a run has begun, and the key is dropped. The state of the last commit
would be a second look at the registers in memory, and would show the events in between without noise. So a
server opens the store for each of its runs, and loads the key each time. A store is sealed before it is closed, which
overwrites all keys.
"""

from contextlib import ExitStack
from typing import Self

from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import StepHook
from streamgauge.runtime.publisher import Publisher, SinkCursor, outline_schemas
from streamgauge.sinks import open_sink
from streamgauge.store.drivers import find_driver
from streamgauge.store.errors import translate_store_errors
from streamgauge.store.keys import Key, load_pipeline_key
from streamgauge.store.lock import Lock
from streamgauge.store.rollback_guard import RollbackGuard
from streamgauge.store.store import Store


class RunResources:
    """Resources of one pipeline, for one thread.

    They are open from the first `open_publisher` until `close`.
    """

    def __init__(self, file: PipelineFile) -> None:
        self.file = file
        self.has_run = False  # True if all traces were compared and lock and store stayed open since: no rollback check
        self._lock_stack, self._store_stack = ExitStack(), ExitStack()
        self._key: Key | None = None
        self._has_lock = False
        self._publisher: Publisher | None = None

    def open_publisher(self, step: StepHook) -> Publisher:
        """Return the publisher. Open it on the first call, and again after it was sealed."""
        if self._publisher is not None and self._publisher.store.is_sealed:
            self.close_store()
        if self._publisher is None:
            self._publisher = self._build_publisher(self._key or self._acquire_key(), step)
        return self._publisher

    def _acquire_key(self) -> Key:
        """Return the key, under the lock.

        With pan_private = true the key is not stored, so that a seized memory opens nothing.
        """
        folder = self.file.folder
        with translate_store_errors(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as undone:
            if not self._has_lock:
                undone.enter_context(Lock(folder))
            key = load_pipeline_key(self.file)
            if not self._has_lock:
                self._lock_stack, self._has_lock = undone.pop_all(), True
        self._key = None if self.file.stream.pan_private else key
        return key

    def _build_publisher(self, key: Key, step: StepHook) -> Publisher:
        with ExitStack() as undone:
            store = Store.open_writer(self.file.folder, key, create=True, steps=step, driver=find_driver(self.file))
            undone.callback(store.close)
            cursors = []
            for each in self.file.sinks:
                shapes = outline_schemas(self.file, store.ledger_entries(), each)
                sink = open_sink(each, self.file.path.parent, store.identity, shapes)
                undone.callback(sink.close)
                cursors.append(SinkCursor(sink, each.releases))
            publisher = Publisher(store, RollbackGuard.find(key, store), cursors, step)
            self._store_stack = undone.pop_all()
        return publisher

    def close_store(self) -> None:
        """Close store and sinks. Lock and key stay."""
        if self._publisher is not None and self.file.stream.pan_private:
            self._publisher.store.seal()
        self._publisher, self.has_run = None, False
        self._store_stack.close()

    def close(self) -> None:
        self.close_store()
        self._key, self._has_lock = None, False
        self._lock_stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
