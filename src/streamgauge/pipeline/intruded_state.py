"""What an intruder sees of a run and of the disk: arrays by the names of their files, and what each is.

    fever.0.total.npy     of release fever, part 0, the field `total` of its state
    secret.npy            what is remembered beside the runs

A claim, told with its arrays, has all constants of the noise that is in them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.pipeline import database
from streamgauge.pipeline.handed_over import Arrays, written
from streamgauge.pipeline.lock import NAME as LOCK
from streamgauge.pipeline.release_run import AnyPartRun, ReleaseRun

Named = tuple[str, Arrays]  # the name of a field, and what is in it

ON_DISK = {
    database.STORE: "the store: public history in the clear, the state sealed under the key of its slot",
    f"{database.STORE}-wal": "the journal of the store: what lingers in it is under keys that are destroyed",
    f"{database.STORE}-shm": "the index of the journal",
    database.SLOTS: "the slots: the key of the newest state, under the curator's key",
    LOCK: "who runs the pipeline",
}


@dataclass(frozen=True)
class PartSeen:
    """What one part of a release remembered at the hand-over."""

    claim: str
    record: Mapping[str, int]
    about: str
    numbers: Mapping[str, int]
    files: Mapping[str, Named]

    @classmethod
    def of(cls, name: str, part: AnyPartRun) -> "PartSeen":
        """Intrudes upon a run: noise, a copy, noise."""
        seen, claim = part.run.intrude(), part.part.statistic.counter
        found = dict(_members(seen))
        arrays = {field: each for field, each in found.items() if isinstance(each, np.ndarray)}
        numbers = {field: int(each) for field, each in found.items() if field not in arrays}
        files = {f"{name}.{field}.npy": (field, array) for field, array in arrays.items()}
        about = " ".join((getdoc(type(seen)) or "").split())
        return cls(repr(claim), part.run.record, about, numbers, files)

    def as_json(self) -> dict[str, Any]:
        told = {"claim": self.claim, "record": dict(self.record), "about": self.about}
        return told | {"numbers": dict(self.numbers), "arrays": described(self.files)}


@dataclass(frozen=True)
class ReleaseSeen:
    """The same of all parts of a release."""

    run: ReleaseRun
    parts: tuple[PartSeen, ...]

    @classmethod
    def of(cls, run: ReleaseRun) -> "ReleaseSeen":
        return cls(run, tuple(PartSeen.of(f"{run.name}.{i}", part) for i, part in enumerate(run.runs)))

    @property
    def files(self) -> dict[str, Named]:
        return {name: each for part in self.parts for name, each in part.files.items()}

    def as_json(self) -> dict[str, Any]:
        planned = self.run.planned
        return {
            "release": self.run.name,
            "sql": planned.query.text,
            "layout": planned.layout,
            "first_tick": self.run.first,
            "next_tick": self.run.next_tick,
            "parts": [part.as_json() for part in self.parts],
        }


def _members(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All arrays and numbers of a state, by the fields that lead to them."""
    if is_dataclass(state):
        for each in fields(state):
            yield from _members(getattr(state, each.name), f"{path}.{each.name}" if path else each.name)
    elif isinstance(state, tuple | list):
        for place, each in enumerate(state):
            yield from _members(each, f"{path}.{place}")
    else:
        yield path, state


def described(files: Mapping[str, Named]) -> list[dict[str, Any]]:
    """What a manifest says of arrays."""
    return [
        {
            "file": name,
            "field": field,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "sha256": hashlib.sha256(written(array)).hexdigest(),
        }
        for name, (field, array) in files.items()
    ]


def on_disk(folder: Path) -> list[dict[str, Any]]:
    """All files of a pipeline's folder, as they are now."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    return [
        {
            "file": path.name,
            "bytes": path.stat().st_size,
            "sha256": _hash_of(path),
            "about": ON_DISK.get(path.name, ""),
        }
        for path in files
    ]


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
