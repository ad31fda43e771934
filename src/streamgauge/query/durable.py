"""Bytes that are still there after the power was cut: what sinks, stores and keys are written with."""

import os
from contextlib import suppress
from pathlib import Path

try:
    from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]  # macOS alone has it
except ImportError:
    F_FULLFSYNC = None


def write_all(descriptor: int, data: bytes) -> None:
    """All of them, however many the system takes at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync(descriptor: int) -> None:
    """Returns when the disk has what was written: on macOS that takes more than fsync."""
    if F_FULLFSYNC is None:
        os.fsync(descriptor)
        return
    with suppress(OSError):  # some file systems know fsync alone
        fcntl(descriptor, F_FULLFSYNC)
        return
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """The same for a file by its name, or for the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
