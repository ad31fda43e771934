"""Releases and charges, read from the store without its key and during a run."""

from collections.abc import Callable
from typing import TypeVar

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import PipelineFile
from streamgauge.releases.release import Releases, TickRelease
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.publisher import build_schemas
from streamgauge.runtime.ticks import find_opened_tick
from streamgauge.store.drivers import open_reader
from streamgauge.store.errors import StoreNotFoundError
from streamgauge.store.reader import LedgerEntry, StoreReader

T = TypeVar("T")


def _read(file: PipelineFile, read: Callable[[StoreReader], T], default: T) -> T:
    """Return a value from the store, or the default if the pipeline never ran."""
    try:
        with open_reader(file) as reader:
            return read(reader)
    except StoreNotFoundError:
        return default


def read_ledger_entries(file: PipelineFile) -> tuple[LedgerEntry, ...]:
    """Return all ledger entries; none if the pipeline never ran."""
    return _read(file, lambda reader: reader.ledger_entries(), ())


def read_opened_tick(file: PipelineFile) -> int:
    """Return the last tick that an event may have been counted in.

    0 before the first run.
    """
    return _read(file, find_opened_tick, 0)


def read_tick(file: PipelineFile) -> int:
    """Return the last committed tick, 0 before the first."""
    return _read(file, lambda reader: reader.tick, 0)


def read_last_released(file: PipelineFile, name: str) -> int:
    """Return the last published tick of a release, 0 before the first."""
    with open_reader(file) as reader:
        return reader.last_released(name)


def read_ledger_log(file: PipelineFile) -> LedgerLog:
    return LedgerLog.read(read_ledger_entries(file), file.stream.unit)


def read_releases(
    file: PipelineFile, name: str | None, first: int = 1, last: int | None = None, contributions: str = ""
) -> Releases:
    """Return the published ticks of a release.

    `name` may be None if there is only one release.
    """
    with open_reader(file) as reader:
        shapes = build_schemas(reader.ledger_entries(), contributions)
        if name is None and len(shapes) == 1:
            (name,) = shapes
        if name is None or name not in shapes:
            raise InvalidReleaseError(f"release must be one of {', '.join(shapes) or 'none so far'}, got {name}")
        shape = shapes[name]
        rows = reader.releases(shape.release, first, last)
        return Releases.from_releases(shape, [TickRelease.unpack(shape, payload) for _, payload in rows])
