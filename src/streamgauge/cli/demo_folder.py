"""The folder of a demo: one demo at a time, which begins with nothing of an earlier one.

**Promise.** Nothing is removed before it is known that the folder is a demo's and that nobody is at work in
it: no other demo, and no run or server of its pipelines.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streamgauge.cli.failures import bad_argument

STORES = ("clinic.streamgauge", "emoji.streamgauge")
FILES = ("clinic.toml", "visits.jsonl", "releases.jsonl", "plot.html", "plot.png", "emoji.toml")
KEYS = tuple(
    f"{name}.key{rest}" for name in ("clinic", "emoji") for rest in ("", ".witness", ".witness.lock")
)


@contextmanager
def anew(folder: Path) -> Iterator[None]:
    """An empty folder, or what an earlier demo left, removed; another demo is kept out until the end."""
    if folder.exists() and not folder.is_dir():
        bad_argument("--folder", "a folder", folder)
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        if any(folder.iterdir()) and not is_demo(folder):
            bad_argument("--folder", "an empty folder, or one of an earlier demo", folder)
        clear(folder)
        yield


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    from streamgauge.pipeline.lock import holder
    from streamgauge.pipeline.store_errors import AlreadyRunning
    from streamgauge.query.held import Held

    try:
        held = Held(folder, os.O_RDONLY)
    except BlockingIOError:
        holders = [holder(folder / store) for store in STORES]
        raise AlreadyRunning(folder, next(filter(None, holders), None)) from None
    try:
        yield
    finally:
        held.close()


def is_demo(folder: Path) -> bool:
    from streamgauge.cli.clinic import MARK
    from streamgauge.cli.emoji_crowd import MARK as POLLED

    files = {folder / "clinic.toml": MARK, folder / "emoji.toml": POLLED}
    return any(file.is_file() and file.read_bytes().startswith(mark.encode()) for file, mark in files.items())


def clear(folder: Path) -> None:
    """Removes all that demos make, unless a run holds a part of it."""
    from streamgauge.pipeline.lock import Lock

    with ExitStack() as locks:
        for store in STORES:
            if (folder / store).is_dir():
                locks.enter_context(Lock(folder / store))
        for name in (*STORES, *FILES, *KEYS):
            remove(folder / name)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
