"""The witness: the last (tick, chain) of a store and what it charged, beside the key, where no copy of it is.

    clinic.key                   the key
    clinic.key.witness           {"<identity of a store>": {"tick": 2160, "chain": "...", "spent": [...]}}
    clinic.streamgauge.witness   the same, where the key is no file: beside the store's folder

It is written after a commit and before anything is published, so it may be behind the store, by the commits
that a crash cut off from it, but never ahead. A store that does not know its witness is therefore not the
newest one: an old copy was put back, and ticks that were published already would be drawn again. Sinks carry
the same pair. A witness whose key was rotated points to the one that took its place.

**Promise.** If any trace that was ever recorded is of a history that the store does not have, `ahead` tells
it: chains of different histories differ, and every chain that a store ever had is in its history. Of two
copies that run at once one publishes nothing: a trace is replaced only by who knows it (`Overtaken`).
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamgauge.pipeline import durable
from streamgauge.pipeline.keys import Key
from streamgauge.pipeline.reader import Reader, Trace
from streamgauge.pipeline.spent import Spent
from streamgauge.pipeline.store_errors import DamagedWitness, StoreError, WitnessUnwritable, witnessing

WITNESSED, KEPT = "witnessed", b"yes"  # the mark of a store that has a witness
HOPS = 16
LATEST = 2**62


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

    def __init__(self, store: Reader, path: Path) -> None:
        super().__init__(
            f"store must have its witness, got none of {store.folder} at {path}: bring it from where it was; "
            "or, if no newer copy of the store was ever run, say so with run --newest; or run --rolled-back, "
            "which charges all ticks up to now again"
        )


class StoreGone(StoreError):  # noqa: N818 - the same
    """A new store where the witness knows of another one: what that one published would be drawn again."""

    def __init__(self, store: Reader, traces: Iterable[Trace]) -> None:
        self.traces = tuple(traces)
        tick = max(trace.tick for trace in self.traces)
        super().__init__(
            f"store must be the one that {store.folder} had, got another than the one that published up to "
            f"tick {tick}: bring it back, or run with --rolled-back, which enters what it charged"
        )


class Overtaken(StoreError):  # noqa: N818 - the same
    """Another copy of the store went on meanwhile. Nothing of the last commit was published."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"store must be run from one copy at a time, got another that went on, by {path}: stop that one, "
            "then run again"
        )


class Witness:
    """What one store told of itself."""

    def __init__(self, path: Path, store: Reader) -> None:
        self.path = path
        self.identity = store.identity
        self.folder = str(store.folder.absolute())
        self._known: Trace | None = None
        self._looked = False

    @classmethod
    def beside(cls, key: Key, store: Reader) -> "Witness":
        """The one that a store under this key has, wherever it has moved to."""
        path = place(key, store)
        for _ in range(HOPS):
            moved = _entry(path, store.identity).get("moved")
            if moved is None:
                return cls(path, store)
            path = Path(str(moved))
        raise DamagedWitness(path)

    def missing(self, store: Reader) -> bool:
        """Whether a store that had a witness has none."""
        return store.marks().get(WITNESSED) == KEPT and not self._told()

    def traces(self) -> list[Trace]:
        """The trace of this store, if there is one."""
        found = [told.trace for told in self._told()]
        self._known, self._looked = (found[0] if found else None), True
        return found

    def spent(self) -> tuple[Spent, ...] | None:
        """All charges of the history that was witnessed last, if they were told."""
        return next((told.spent for told in self._told()), None)

    def others(self) -> list["Told"]:
        """What is told of other stores that the same folder had."""
        with witnessing(self.path):
            every = _read(self.path)
        there = [told for name, told in every.items() if name != self.identity and _of(told, self.folder)]
        return [self._checked(told) for told in there]

    def ready(self) -> None:
        """Refuses a place where nothing can be noted, before there is anything to note."""
        if not os.access(self.path.parent, os.W_OK):
            raise WitnessUnwritable(self.path, "a folder that is read-only")

    def write(self, trace: Trace, spent: Sequence[Spent] | None = None) -> None:
        """Replaces what is told of this store, its charges if they are given, and leaves the other stores.

        It is on the disk when this returns.
        """
        if not self._looked:
            self.traces()
        with witnessing(self.path), _alone(self.path):
            told = _entry(self.path, self.identity)
            if told and (told.get("tick"), told.get("chain")) != self._known:
                raise Overtaken(self.path)
            told |= {**trace._asdict(), "folder": self.folder}
            if spent is not None:
                told["spent"] = [each.as_json() for each in spent]
            _replace_entry(self.path, self.identity, told)
        self._known = trace

    def replace(self, before: "Witness", trace: Trace, spent: Sequence[Spent]) -> None:
        """Takes the place of another: first it is written, then the other points to it."""
        with witnessing(self.path), _alone(self.path):
            charges = [each.as_json() for each in spent]
            told = {**trace._asdict(), "folder": self.folder, "spent": charges}
            _replace_entry(self.path, self.identity, told)
        self._known, self._looked = trace, True
        if before.path != self.path:
            with witnessing(before.path), _alone(before.path):
                _replace_entry(before.path, self.identity, {"moved": str(self.path)})

    def _told(self) -> list["Told"]:
        """Nothing, or what was written, checked."""
        told = _entry(self.path, self.identity)
        return [self._checked(told)] if told else []

    def _checked(self, told: Mapping[str, Any]) -> "Told":
        try:
            return Told.of_json(told)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DamagedWitness(self.path) from None


@dataclass(frozen=True)
class Told:
    """An entry of a witness."""

    trace: Trace
    spent: tuple[Spent, ...] | None  # earlier versions did not tell it

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Told":
        trace = Trace(int(told["tick"]), str(told["chain"]))
        if not 0 <= trace.tick < LATEST:
            raise ValueError("tick must be a tick")
        return cls(trace, tuple(map(Spent.of_json, told["spent"])) if "spent" in told else None)


def place(key: Key, store: Reader) -> Path:
    """Where the witness of a store belongs: beside the key, or beside the folder if the key is no file."""
    path = (store.folder if key.path is None else key.path).absolute()
    return path.with_name(path.name + ".witness")


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
    except (ValueError, RecursionError):
        raise DamagedWitness(path) from None
    if not isinstance(told, dict):
        raise DamagedWitness(path)
    return told


def _entry(path: Path, identity: str) -> dict[str, Any]:
    """What is told of a store; empty if nothing is."""
    with witnessing(path):
        told = _read(path).get(identity, {})
    if not isinstance(told, dict):
        raise DamagedWitness(path)
    return told


def _of(told: object, folder: str) -> bool:
    """Whether an entry is of a store in this folder, and not one that has moved."""
    return isinstance(told, dict) and told.get("folder") == folder and "moved" not in told


def _replace_entry(path: Path, identity: str, told: Mapping[str, Any]) -> None:
    durable.replace(path, json.dumps(_read(path) | {identity: told}, indent=1).encode() + b"\n")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Stores that share a key write one after the other."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, durable.PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
