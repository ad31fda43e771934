"""The rollback guard: a file outside of the store that detects an older copy of it.

    clinic.key                   the key
    clinic.key.guard             {"<identity of a store>": {"tick": 2160, "chain": "...", "spent": [...]}}
    clinic.streamgauge.guard     the same, next to the store's folder, if the key is no file

The guard has the last tick and chain of each store under the key, and all charges. It is written after a commit and
before anything of it is published. So it may be behind the store, by the commits that a crash separated from it, but
never ahead. A store whose history lacks the guard's trace is therefore an older copy: it would draw again for ticks
that were published. Sinks carry the same trace. The guard of a rotated key points to the guard of the new key.

**Promise.** If any recorded trace is of a history that the store does not have, `find_unknown_traces` returns it.
Proof: chains of different histories differ, and every chain that a store ever had is in its history. Of two copies
that run at once one publishes nothing: a trace is replaced only by a writer that knows it (`concurrent_copy`).

**Promise.** Every charge under which anything was ever published is in the guard, for any restored copies, as
long as each of them was paid for. Proof: the guard is written before publication, with all charges of that history.
A store that replaces another first records the charges that it lacks as `lost_charge` (`SessionBuilder`).

A charge is identified by the chain of its entry, which no other history has, and by its place among all charges.
Columns of reports are not charged here: a device's report is drawn once, for all stores. An announced
intrusion is identified by its chain. Each charge lists the intrusions that its release was exported in.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from streamgauge import files as durable
from streamgauge.store.errors import RollbackError, StoreError, build_guard_error, translate_guard_errors
from streamgauge.store.keys import Key
from streamgauge.store.reader import LedgerEntry, StoreReader, Trace


@dataclass(frozen=True)
class RecordedCharge:
    """One charge. While a release runs under it, `last` may be later than the last drawn tick."""

    id: str
    release: str
    loss: Mapping[str, str]
    first: int
    last: int | None
    delta: str | None = None
    running: bool = False
    intrusions: tuple[str, ...] = ()  # chains of the intrusions that exported it

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "RecordedCharge":
        first, last = int(body["first"]), body["last"]
        loss = {str(name): str(amount) for name, amount in body["loss"].items()}
        delta, running = body.get("delta"), bool(body.get("running", False))
        last, intrusions = None if last is None else int(last), tuple(map(str, body.get("intrusions", ())))
        return cls(str(body["id"]), str(body["release"]), loss, first, last, delta, running, intrusions)

    def to_json(self) -> dict[str, Any]:
        """Return JSON without default values."""
        body = asdict(self) | {"intrusions": list(self.intrusions)}
        return {name: value for name, value in body.items() if name == "last" or value}

    def cap_at_tick(self, tick: int) -> "RecordedCharge":
        """Return the charge of a release that ran until a tick and no further."""
        if not self.running:
            return self
        return replace(self, last=tick if self.last is None else min(self.last, tick), running=False)

    @property
    def is_empty(self) -> bool:
        """True if nothing was ever drawn under it."""
        return self.last is not None and self.last < self.first


def collect_charges(acts: Iterable[tuple[str, LedgerEntry]]) -> tuple[RecordedCharge, ...]:
    """Return all charges among ledger entries with their chains; the end of a release ends its charge."""
    found: dict[str, RecordedCharge] = {}
    running: dict[str, str] = {}  # the charge that a release runs under
    place = count()
    for chain, act in acts:
        if act.kind in {"charge", "recharge", "lost_charge"} and "column" not in act.body:
            runs = act.kind == "charge"
            each = RecordedCharge.from_json({"id": f"{chain}/{next(place)}", "running": runs, **act.body})
            found[each.id] = each
            if runs:
                running[each.release] = each.id
        elif act.kind == "end" and act.body["release"] in running:
            ended = found[running[act.body["release"]]]
            found[ended.id] = replace(ended, last=act.body["last_tick"], running=False)
        for name, intrusions in _find_intrusions(chain, act).items():
            each = found[running[name]]
            found[each.id] = replace(each, intrusions=(*each.intrusions, *intrusions))
    return tuple(found.values())


def _find_intrusions(chain: str, act: LedgerEntry) -> Mapping[str, Sequence[str]]:
    """Return intrusions by release: one of this history, or those of a lost one."""
    if act.kind == "intrusion":
        return {name: [chain] for name in act.body["releases"]}
    return act.body.get("intrusions", {}) if act.kind == "rollback" else {}


GUARD_MARK, GUARD_MARK_VALUE = "rollback_guard", b"yes"  # the mark of a store that has a guard
MAX_HOPS = 16
MAX_TICK = 2**62


def build_rollback_error(store: StoreReader, traces: Iterable[Trace]) -> RollbackError:
    """Return the refusal of a store that does not know some traces: they are of another draw of noise."""
    tick = max(trace.tick for trace in traces)
    return RollbackError(
        f"store must know all that was published, got {store.tick} as the last tick in {store.folder} "
        f"and a trace of another tick {tick}: bring the newest store back, or run with "
        "--accept-rollback, which charges the overlapping ticks again",
        "rollback",
        tick=tick,
        store_tick=store.tick,
    )


def build_missing_guard_error(store: StoreReader, path: Path) -> RollbackError:
    """Return the refusal of a store without the guard that it had: it may not be the newest copy."""
    return RollbackError(
        f"store must have its rollback guard, got none of {store.folder} at {path}: bring it from where it was; "
        "or, if no newer copy of the store was ever run, say so with run --trust-store; or run --accept-rollback, "
        "which charges all ticks up to now again",
        "guard_missing",
    )


def build_replaced_error(store: StoreReader, traces: Iterable[Trace]) -> RollbackError:
    """Return the refusal of a new store in the folder of another, whose published ticks it would draw again."""
    tick = max(trace.tick for trace in traces)
    return RollbackError(
        f"store must be the one that {store.folder} had, got another than the one that published up to "
        f"tick {tick}: bring it back, or run with --accept-rollback, which enters what it charged",
        "store_replaced",
    )


def build_damaged_guard_error(path: Path) -> StoreError:
    return StoreError(
        f"rollback guard must be as it was written, got something else in {path}: check that the store was not "
        "rolled back, move the file away, and run each pipeline of its key once with --trust-store",
        "guard_damaged",
    )


class RollbackGuard:
    """The guard of one store."""

    def __init__(self, path: Path, store: StoreReader) -> None:
        self.path = path
        self.identity = store.identity
        self.folder = str(store.folder.resolve())
        self._last_trace: Trace | None = None
        self._is_loaded = False

    @classmethod
    def find(cls, key: Key, store: StoreReader) -> "RollbackGuard":
        """Return the guard of a store under this key, following moves."""
        path = find_guard_path(key, store)
        for _ in range(MAX_HOPS):
            moved = _read_entry(path, store.identity).get("moved")
            if moved is None:
                return cls(path, store)
            path = Path(str(moved))
        raise build_damaged_guard_error(path)

    def is_missing(self, store: StoreReader) -> bool:
        """Return whether a store that had a guard has none."""
        return store.marks().get(GUARD_MARK) == GUARD_MARK_VALUE and not self._load_entries()

    def traces(self) -> list[Trace]:
        """Return the trace of this store, if there is one."""
        found = [entry.trace for entry in self._load_entries()]
        self._last_trace, self._is_loaded = (found[0] if found else None), True
        return found

    def charges(self) -> tuple[RecordedCharge, ...] | None:
        """Return all charges of the history that was recorded last, if they are known."""
        return next((entry.charges for entry in self._load_entries()), None)

    def other_stores(self) -> list["GuardEntry"]:
        """Return the entries of other stores that the same folder had."""
        with translate_guard_errors(self.path):
            every = _read_guard_file(self.path)
        return [
            self._parse_entry(body)
            for name, body in every.items()
            if name != self.identity
            and isinstance(body, dict)
            and body.get("folder") == self.folder
            and "moved" not in body
        ]

    def check_writable(self) -> None:
        """Reject a folder that cannot be written, before there is anything to write."""
        if not os.access(self.path.parent, os.W_OK):
            raise build_guard_error(self.path, "a folder that is read-only")

    def write(self, trace: Trace, spent: Sequence[RecordedCharge] | None = None) -> None:
        """Replace the entry of this store, with its charges if they are given.

        Compares first: an entry that this run did not write is that of another copy, and stays.
        It is on stable storage when this returns. Entries of other stores stay.
        """
        if not self._is_loaded:
            self.traces()
        with translate_guard_errors(self.path), _lock_guard_file(self.path):
            body = _read_entry(self.path, self.identity)
            if body and (body.get("tick"), body.get("chain")) != self._last_trace:
                raise RollbackError(
                    f"store must be run from one copy at a time, got another that went on, by {self.path}: stop that "
                    "one, then run again",
                    "concurrent_copy",
                )
            body |= {**trace._asdict(), "folder": self.folder}
            if spent is not None:
                body["spent"] = [each.to_json() for each in spent]
            _replace_entry(self.path, self.identity, body)
        self._last_trace = trace

    def replace(self, before: "RollbackGuard", trace: Trace, spent: Sequence[RecordedCharge]) -> None:
        """Replace another guard: this one is written first, then the other points to it."""
        with translate_guard_errors(self.path), _lock_guard_file(self.path):
            charges = [each.to_json() for each in spent]
            body = {**trace._asdict(), "folder": self.folder, "spent": charges}
            _replace_entry(self.path, self.identity, body)
        self._last_trace, self._is_loaded = trace, True
        if before.path != self.path:
            with translate_guard_errors(before.path), _lock_guard_file(before.path):
                _replace_entry(before.path, self.identity, {"moved": str(self.path)})

    def _load_entries(self) -> list["GuardEntry"]:
        body = _read_entry(self.path, self.identity)
        return [self._parse_entry(body)] if body else []

    def _parse_entry(self, body: Mapping[str, Any]) -> "GuardEntry":
        try:
            return GuardEntry.from_json(body)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise build_damaged_guard_error(self.path) from None


@dataclass(frozen=True)
class GuardEntry:
    """The entry of one store in a guard file."""

    trace: Trace
    charges: tuple[RecordedCharge, ...] | None  # None if the file was removed during a run: then unknown

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "GuardEntry":
        trace = Trace(int(body["tick"]), str(body["chain"]))
        if not 0 <= trace.tick < MAX_TICK:
            raise ValueError("tick must be a tick")
        return cls(trace, tuple(map(RecordedCharge.from_json, body["spent"])) if "spent" in body else None)


def find_guard_path(key: Key, store: StoreReader) -> Path:
    """Return the path of the guard: next to the key, or next to the folder if the key is no file."""
    path = store.folder.resolve() if key.path is None else key.path.absolute()
    return path.with_name(path.name + ".guard")


def find_unknown_traces(store: StoreReader, traces: Iterable[Trace]) -> tuple[Trace, ...]:
    """Return the traces that are not of this store's history: later ones, or of another history."""
    return tuple(trace for trace in traces if not store.knows(trace))


def refuse_rollback(store: StoreReader, traces: Iterable[Trace]) -> None:
    """Raise RollbackError if any trace is unknown to the store."""
    unknown = find_unknown_traces(store, traces)
    if unknown:
        raise build_rollback_error(store, unknown)


def _read_guard_file(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        raise build_damaged_guard_error(path) from None
    if not isinstance(body, dict):
        raise build_damaged_guard_error(path)
    return body


def _read_entry(path: Path, identity: str) -> dict[str, Any]:
    """Return the entry of a store; empty if there is none."""
    with translate_guard_errors(path):
        body = _read_guard_file(path).get(identity, {})
    if not isinstance(body, dict):
        raise build_damaged_guard_error(path)
    return body


def _replace_entry(path: Path, identity: str, body: Mapping[str, Any]) -> None:
    durable.replace_file(path, json.dumps(_read_guard_file(path) | {identity: body}, indent=1).encode() + b"\n")


@contextmanager
def _lock_guard_file(path: Path) -> Iterator[None]:
    """Lock the file, so that stores under one key write one after the other."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, durable.PRIVATE_FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
