"""Bytes that are still there after the power was cut."""

import os
from contextlib import suppress
from pathlib import Path

try:
    from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]  # macOS alone has it
except ImportError:
    F_FULLFSYNC = None


def write_all(fd: int, data: bytes) -> None:
    """All of them, however many the system takes at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync(fd: int) -> None:
    """Returns when the disk has what was written, not only the system."""
    if F_FULLFSYNC is None:
        os.fsync(fd)
        return
    with suppress(OSError):
        fcntl(fd, F_FULLFSYNC)
        return
    os.fsync(fd)


def sync_path(path: Path) -> None:
    """The same for a file or a folder, whose names it makes durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)
