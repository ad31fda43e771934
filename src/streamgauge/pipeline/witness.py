"""The witness: the last (tick, chain) of a store, kept beside the key, where a copy of the store is not.

    clinic.key            the key
    clinic.key.witness    {"<identity of a store>": {"tick": 2160, "chain": "..."}, ...}

It is written after a commit and before anything is published, so it may be behind the store, by the commits
that a crash cut off from it, but never ahead. A store that does not know its witness is therefore not the
newest one: an old copy was put back, and ticks that were published already would be drawn again. Sinks carry
the same pair.

**Promise.** If any trace that was ever recorded is of a history that the store does not have, `ahead` tells
it: chains of different histories differ, and every chain that a store ever had is in its history.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamgauge.pipeline.durable import PRIVATE_FILE, replace
from streamgauge.pipeline.keys import Key
from streamgauge.pipeline.reader import Reader, Trace
from streamgauge.pipeline.store_errors import DamagedWitness, StoreError, refusals


class RolledBack(StoreError):  # noqa: N818 - refusals are named by what they say
    """Traces of ticks that the store does not know: they were published from another draw of noise.

    `tick` is the last tick that they tell of, `known` the last one in the store.
    """

    def __init__(self, store: Reader, traces: Iterable[Trace]) -> None:
        self.traces = tuple(traces)
        self.tick = max(trace.tick for trace in self.traces)
        self.known = store.tick
        super().__init__(
            f"store must know all that was published, got {self.known} as the last tick in {store.folder} "
            f"and a trace of another tick {self.tick}: bring the newest store back, or run with "
            "--rolled-back, which charges the overlapping ticks again"
        )


class Witness:
    """What one store told of itself; for keys that are no files, and without a path, it remembers nothing."""

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path = path
        self.identity = identity

    @classmethod
    def beside(cls, key: Key, identity: str, path: Path | None = None) -> "Witness":
        """Beside the key's file, unless a path is given."""
        if path is None and key.path is not None:
            path = key.path.with_name(key.path.name + ".witness")
        return cls(path, identity)

    def traces(self) -> list[Trace]:
        """The trace of this store, if there is one."""
        if self.path is None:
            return []
        told = _read(self.path).get(self.identity)
        if told is None:
            return []
        try:
            return [Trace(int(told["tick"]), str(told["chain"]))]
        except (KeyError, TypeError, ValueError):
            raise DamagedWitness(self.path) from None

    def write(self, trace: Trace) -> None:
        """Replaces the trace of this store and leaves those of others, on the disk when it returns."""
        if self.path is None:
            return
        with refusals(self.path), _alone(self.path):
            told = _read(self.path) | {self.identity: trace._asdict()}
            replace(self.path, json.dumps(told, indent=1).encode() + b"\n")


def ahead(store: Reader, traces: Iterable[Trace]) -> tuple[Trace, ...]:
    """The traces that are not of this store's history: later than it, or of another."""
    return tuple(trace for trace in traces if not store.knows(trace))


def refuse_rollback(store: Reader, traces: Iterable[Trace]) -> None:
    """Raises RolledBack if any trace is ahead."""
    unknown = ahead(store, traces)
    if unknown:
        raise RolledBack(store, unknown)


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise DamagedWitness(path) from None
    if not isinstance(told, dict):
        raise DamagedWitness(path)
    return told


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Stores that share a key write one after the other."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
