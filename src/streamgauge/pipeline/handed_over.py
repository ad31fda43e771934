"""Where a hand-over lies: a folder of arrays with a manifest, whole or not there.

Room for all of it is taken before anything is drawn, so that a full disk is met while nothing has happened.
The folder is made under another name, which must be free too, and gets its own once it is whole.
"""

import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.pipeline.durable import PRIVATE_FILE, PRIVATE_FOLDER, new_file, rename
from streamgauge.pipeline.store_errors import StoreError, StoreUnwritable
from streamgauge.query.durable import sync_path

Arrays = npt.NDArray[Any]
ROOM = "room"
GONE = "the intrusion is on record, and what was to be handed over is gone: another try is another intrusion"


class PlaceTaken(StoreError):  # noqa: N818 - refusals are named by what they say
    """A hand-over that would write over something."""

    def __init__(self, path: Path) -> None:
        broken = path.name.endswith(".partial")
        why = ", which one that was broken off leaves: look at it, then remove it" if broken else ""
        super().__init__(f"hand-over must go to a new folder, got {path}, which exists{why}")


class NoPlace(StoreUnwritable):
    """There is no room for a hand-over; `done` says what has happened already."""

    def __init__(self, path: Path, error: OSError, done: str = "nothing was drawn") -> None:
        why = (error.strerror or type(error).__name__).lower()
        Exception.__init__(self, f"hand-over must be writable, got {why} at {path}: {done}")


def partial_of(to: Path) -> Path:
    return to.with_name(to.name + ".partial")


class WithinStore(StoreError):  # noqa: N818 - refusals are named by what they say
    """A hand-over into the folder of the store that it is of."""

    def __init__(self, to: Path) -> None:
        super().__init__(f"hand-over must go to a folder outside of the store's own, got {to}")


def check_outside(to: Path, own: Path) -> None:
    """Refuses a folder in the one that the store owns."""
    if Path(os.path.realpath(to)).is_relative_to(os.path.realpath(own)):
        raise WithinStore(to)


def check_place(to: Path) -> None:
    """Refuses a folder that exists, one that was begun, and one in something else than a folder."""
    beside = () if to.parent.is_dir() else (to.parent,)
    for path in (*beside, to, partial_of(to)):
        if path.exists() or path.is_symlink():
            raise PlaceTaken(path)


@contextmanager
def place(to: Path, room: int) -> Iterator[Path]:
    """A folder with room for so many bytes, under another name; what is not handed over is removed."""
    check_place(to)
    partial = partial_of(to)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(PRIVATE_FOLDER)
    except OSError as error:
        raise NoPlace(to, error) from None
    try:
        _take(partial / ROOM, room, to)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _take(path: Path, room: int, to: Path) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            os.posix_fallocate(descriptor, 0, room)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise NoPlace(to, error) from None


def hand_over(partial: Path, to: Path, arrays: Mapping[str, Arrays], manifest: Mapping[str, Any]) -> None:
    """Writes all of it, and gives the folder its name."""
    try:
        (partial / ROOM).unlink()
        for name, array in arrays.items():
            new_file(partial / name, written(array))
        new_file(partial / "manifest.json", json.dumps(manifest, indent=2).encode() + b"\n")
        sync_path(partial)
        rename(partial, to)
    except OSError as error:
        raise NoPlace(to, error, GONE) from None


def written(array: Arrays) -> bytes:
    """An array as a file of its own."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()
