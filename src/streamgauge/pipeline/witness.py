"""The witness: the last (tick, chain) of a store and what it charged, beside the key, where no copy of it is.

    clinic.key            the key
    clinic.key.witness    {"<identity of a store>": {"tick": 2160, "chain": "...", "spent": [...]}, ...}

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamgauge.pipeline.durable import PRIVATE_FILE, replace
from streamgauge.pipeline.keys import Key
from streamgauge.pipeline.reader import Reader, Trace
from streamgauge.pipeline.spent import Spent
from streamgauge.pipeline.store_errors import DamagedWitness, StoreError, WitnessUnwritable, witnessing

WITNESSED = "witnessed"


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


class Unwitnessed(StoreError):  # noqa: N818 - the same
    """A store that had a witness, and has none now: nothing tells whether it is the newest copy."""

    def __init__(self, store: Reader, path: Path | None) -> None:
        where = "beside a key that is no file" if path is None else f"at {path}"
        super().__init__(
            f"store must have its witness, got none of {store.folder} {where}: bring it from beside the key "
            "as it was; or, if no newer copy of the store was ever run, say so with run --newest; or run "
            "--rolled-back, which charges all ticks up to now again"
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

    @property
    def mark(self) -> dict[str, bytes]:
        """For the store, once the witness is written: whether it must be there from now on."""
        return {WITNESSED: b"no" if self.path is None else b"yes"}

    def missing(self, store: Reader) -> bool:
        """Whether a store that had a witness has none."""
        return store.marks().get(WITNESSED) == b"yes" and not self._told()

    def traces(self) -> list[Trace]:
        """The trace of this store, if there is one."""
        return [Trace(told["tick"], told["chain"]) for told in self._told()]

    def spent(self) -> tuple[Spent, ...] | None:
        """All charges of the history that was witnessed last, if they were told."""
        return next((told["spent"] for told in self._told()), None)

    def ready(self) -> None:
        """Refuses a place where nothing can be noted, before there is anything to note."""
        if self.path is not None and not os.access(self.path.parent, os.W_OK):
            raise WitnessUnwritable(self.path, "a folder that is read-only")

    def write(self, trace: Trace, spent: Sequence[Spent] | None = None) -> None:
        """Replaces what is told of this store, its charges if they are given, and leaves the other stores.

        It is on the disk when this returns.
        """
        if self.path is None:
            return
        with witnessing(self.path), _alone(self.path):
            every = _read(self.path)
            told = every.get(self.identity, {}) | trace._asdict()
            if spent is not None:
                told["spent"] = [each.as_json() for each in spent]
            replace(self.path, json.dumps(every | {self.identity: told}, indent=1).encode() + b"\n")

    def _told(self) -> list[dict[str, Any]]:
        """Nothing, or what was written, checked."""
        if self.path is None:
            return []
        told = _read(self.path).get(self.identity)
        if told is None:
            return []
        try:
            spent = tuple(map(Spent.of_json, told["spent"])) if "spent" in told else None
            return [{"tick": int(told["tick"]), "chain": str(told["chain"]), "spent": spent}]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DamagedWitness(self.path) from None


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
