"""The exported state of an intrusion: a folder of arrays with a manifest.

    fever.0.total.npy     of release fever, part 0, the field `total` of its state
    secret.npy            state outside of the runs

The folder is complete or absent. Disk space for all of it is reserved before anything is drawn. So a full disk is
detected before anything has happened. The folder is written under another name, which must not exist either, and
renamed when it is complete. The manifest has the mechanism of each array, with all constants of its noise.
"""

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.config.settings import PipelineFile
from streamgauge.files import PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE, create_file, rename, sync_path
from streamgauge.runtime.part_runs import PartRun
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.store import schema as database
from streamgauge.store.errors import StoreError, StoreUnwritableError, describe_os_error
from streamgauge.store.lock import LOCK_FILE as LOCK

Arrays = npt.NDArray[Any]
PLACEHOLDER_FILE = "space"
FOLDER_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,100}")
EXPORT_SUFFIX = ".intrusions"
EXPORT_LOST_TEXT = "the intrusion is on record, and the exported state is lost: another attempt is another intrusion"


def build_export_error(path: Path, error: OSError, done: str = "nothing was drawn") -> StoreUnwritableError:
    """Return the error of an export that cannot be written. `done` describes the effects so far."""
    return StoreUnwritableError(
        f"export must be writable, got {describe_os_error(error)} at {path}: {done}", "export_unwritable"
    )


def to_partial_path(to: Path) -> Path:
    return to.with_name(to.name + ".partial")


def check_outside(to: Path, own: Path) -> None:
    """Reject a folder inside the one of the store."""
    if Path(os.path.realpath(to)).is_relative_to(os.path.realpath(own)):
        raise StoreError(f"export must go to a folder outside of the store's own, got {to}", "export_inside_store")


def check_export_path(to: Path) -> None:
    """Reject a folder that exists or was begun, and a parent that is no folder."""
    parents = () if to.parent.is_dir() else (to.parent,)
    for path in (*parents, to, to_partial_path(to)):
        if path.exists() or path.is_symlink():
            partial = path.name.endswith(".partial")
            why = ", which an interrupted export leaves: look at it, then remove it" if partial else ""
            raise StoreError(f"export must go to a new folder, got {path}, which exists{why}", "export_exists")


def build_export_path(file: PipelineFile, name: str) -> Path:
    """Return the path of the export of this name, next to the file."""
    return file.path.with_suffix(EXPORT_SUFFIX) / name


@contextmanager
def reserve_export_folder(to: Path, size_bytes: int) -> Iterator[Path]:
    """Create a folder under another name, with disk space, and remove it on exit.

    A renamed folder stays.
    """
    check_export_path(to)
    partial = to_partial_path(to)
    with ExitStack() as stack:
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            partial.mkdir(PRIVATE_FOLDER_MODE)
            stack.callback(shutil.rmtree, partial, ignore_errors=True)
            allocate_file(partial / PLACEHOLDER_FILE, size_bytes)
        except OSError as error:
            raise build_export_error(to, error) from None
        yield partial


def allocate_file(path: Path, size_bytes: int) -> None:
    """Create a file with reserved disk space."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE_MODE)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    finally:
        os.close(descriptor)


def write_export(partial: Path, to: Path, arrays: Mapping[str, Arrays], manifest: Mapping[str, Any]) -> None:
    """Write arrays and manifest, and rename the folder."""
    try:
        (partial / PLACEHOLDER_FILE).unlink()
        for name, array in arrays.items():
            create_file(partial / name, encode_array(array))
        create_file(partial / "manifest.json", json.dumps(manifest, indent=2).encode() + b"\n")
        sync_path(partial)
        rename(partial, to)
    except OSError as error:
        raise build_export_error(to, error, EXPORT_LOST_TEXT) from None


def encode_array(array: Arrays) -> bytes:
    """Return the bytes of an `.npy` file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


NamedArray = tuple[str, Arrays]  # the name of a field, and its content

DISK_FILE_NOTES = {
    database.STORE_FILE: "the store: public history in the clear, the state sealed under the key of its slot",
    f"{database.STORE_FILE}-wal": "the journal of the store: its remains are under keys that are destroyed",
    f"{database.STORE_FILE}-shm": "the index of the journal",
    database.SLOTS_FILE: "the slots: the key of the newest state, under the curator's key",
    LOCK: "the process that runs the pipeline",
}


@dataclass(frozen=True)
class PartSnapshot:
    """State of one part of a release at the intrusion."""

    claim: str
    record: Mapping[str, int]
    description: str
    numbers: Mapping[str, int]
    files: Mapping[str, NamedArray]

    @classmethod
    def capture(cls, name: str, part: PartRun) -> "PartSnapshot":
        """Intrude upon a run: noise, a copy, noise."""
        state, claim = part.run.intrude(), part.part.statistic.counter
        found = dict(_walk_fields(state))
        arrays = {field: each for field, each in found.items() if isinstance(each, np.ndarray)}
        numbers = {field: int(each) for field, each in found.items() if field not in arrays}
        files = {f"{name}.{field}.npy": (field, array) for field, array in arrays.items()}
        about = " ".join((getdoc(type(state)) or "").split())
        return cls(repr(claim), part.run.record, about, numbers, files)

    def to_json(self) -> dict[str, Any]:
        body = {"claim": self.claim, "record": dict(self.record), "description": self.description}
        return body | {"numbers": dict(self.numbers), "arrays": describe_arrays(self.files)}


@dataclass(frozen=True)
class ReleaseSnapshot:
    """State of all parts of a release."""

    run: ReleaseRun
    parts: tuple[PartSnapshot, ...]

    @classmethod
    def capture(cls, run: ReleaseRun) -> "ReleaseSnapshot":
        return cls(run, tuple(PartSnapshot.capture(f"{run.name}.{i}", part) for i, part in enumerate(run.runs)))

    @property
    def files(self) -> dict[str, NamedArray]:
        return {name: each for part in self.parts for name, each in part.files.items()}

    def to_json(self) -> dict[str, Any]:
        planned = self.run.plan
        return {
            "release": self.run.name,
            "sql": planned.query.text,
            "layout": planned.layout,
            "first_tick": self.run.first,
            "next_tick": self.run.next_tick,
            "parts": [part.to_json() for part in self.parts],
        }


def _walk_fields(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all arrays and numbers of a state, by the path of their fields."""
    if is_dataclass(state):
        for each in fields(state):
            yield from _walk_fields(getattr(state, each.name), f"{path}.{each.name}" if path else each.name)
    elif isinstance(state, tuple | list):
        for place, each in enumerate(state):
            yield from _walk_fields(each, f"{path}.{place}")
    else:
        yield path, state


def describe_arrays(files: Mapping[str, NamedArray]) -> list[dict[str, Any]]:
    """Return the manifest entries of arrays."""
    return [
        {
            "file": name,
            "field": field,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "sha256": hashlib.sha256(encode_array(array)).hexdigest(),
        }
        for name, (field, array) in files.items()
    ]


def list_disk_files(folder: Path) -> list[dict[str, Any]]:
    """Return the manifest entries of all files in a pipeline's folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    entries = []
    for path in files:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        note = DISK_FILE_NOTES.get(path.name, "")
        entries.append({"file": path.name, "bytes": path.stat().st_size, "sha256": digest, "description": note})
    return entries
