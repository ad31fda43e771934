"""Resources of a running pipeline: the lock, the key, the store and the sinks.

With pan_private = true the key is not stored, so that a seized memory opens nothing. The store is sealed before it is
closed, which overwrites all keys.
"""

from contextlib import ExitStack

from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import StepHook
from streamgauge.runtime.publisher import Publisher, SinkCursor, outline_schemas
from streamgauge.sinks import open_sink
from streamgauge.store.drivers import find_driver
from streamgauge.store.errors import translate_store_errors
from streamgauge.store.keys import load_pipeline_key
from streamgauge.store.lock import Lock
from streamgauge.store.rollback_guard import RollbackGuard
from streamgauge.store.store import Store


def acquire_lock(file: PipelineFile, stack: ExitStack) -> None:
    """Lock the folder of a pipeline until the stack is closed."""
    with translate_store_errors(file.folder):
        file.folder.mkdir(mode=0o700, exist_ok=True)
    stack.enter_context(Lock(file.folder))


def open_publisher(file: PipelineFile, step: StepHook, stack: ExitStack) -> Publisher:
    """Open store and sinks until the stack is closed. The caller has the lock.

    No frame that stays alive has the key.
    """
    key = load_pipeline_key(file)
    with ExitStack() as undone:
        store = Store.open_writer(file.folder, key, create=True, steps=step, driver=find_driver(file))
        undone.callback(store.close)
        cursors = []
        for each in file.sinks:
            shapes = outline_schemas(file, store.ledger_entries(), each)
            sink = open_sink(each, file.path.parent, store.identity, shapes)
            undone.callback(sink.close)
            cursors.append(SinkCursor(sink, each.releases))
        publisher = Publisher(store, RollbackGuard.find(key, store), cursors, step)
        if file.stream.pan_private:
            undone.callback(store.seal)
        stack.push(undone.pop_all())
    return publisher
