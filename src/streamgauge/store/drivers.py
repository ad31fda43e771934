"""Choice of the store driver: by the URL of `[stream] store`, or SQLite in the pipeline's folder.

    (none)                       store.db in the pipeline's folder
    store = "postgresql://..."   the factory of the scheme, from a package that `[plugins] allow` names

A factory of the entry point group `streamgauge.stores` gets the URL and returns a `StoreDriver`.
"""

from collections.abc import Callable
from contextlib import closing

from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import StoreDriver
from streamgauge.registry import Registry, RegistryError
from streamgauge.store.errors import StoreError
from streamgauge.store.reader import SQLITE, StoreReader

StoreFactory = Callable[[str], StoreDriver]
STORES: Registry[StoreFactory] = Registry("store", "streamgauge.stores")


def find_driver(file: PipelineFile) -> StoreDriver:
    """Return the driver of a pipeline's store; reject one that the stream must not use."""
    if file.stream.store is None:
        return SQLITE
    try:
        driver = STORES.load(file.stream.store.partition(":")[0], file.plugins)(file.stream.store)
    except RegistryError as error:
        raise StoreError(f"{file.path.name}: stream.store: {error}", "unknown_driver") from None
    if file.stream.pan_private and not driver.erases_slots:
        raise StoreError(
            f"{file.path.name}: stream.store must erase destroyed keys where pan_private = true, got a store that "
            "retains them: leave store out",
            "retains_keys",
        )
    return driver


def has_store(file: PipelineFile) -> bool:
    """Return whether the pipeline has a store, without a lock and without a key."""
    return find_driver(file).exists(file.folder)


def read_last_write_time(file: PipelineFile) -> int:
    """Return a time after all commits, in microseconds since 1970. It depends on unpublished commits."""
    with closing(find_driver(file).open_reader(file.folder)) as rows:
        return rows.last_write_time()


def open_reader(file: PipelineFile) -> StoreReader:
    """Open a pipeline's store for reading; this needs no key and no lock."""
    return StoreReader.open(file.folder, find_driver(file))
