"""Possible contents of a disk after a power cut: every act on it is recorded, and all outcomes are listed.

Of unflushed content all may be there, a half, nothing, or the earlier content. Of unflushed names a prefix is there.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from streamgauge.files import FileSystem


@dataclass
class RecordingSystem(FileSystem):
    """The system's calls, recorded as they are made; at one of them the process ends."""

    acts: list[tuple[Any, ...]] = field(default_factory=list)
    ends_before: int | None = None

    def record(self, *act: Any) -> None:
        if len(self.acts) == self.ends_before:
            raise Killed
        self.acts.append(act)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        self.record("open", os.path.basename(path), flags, None)
        descriptor = os.open(path, flags, mode)
        self.acts[-1] = (*self.acts[-1][:3], descriptor)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        half = bytes(data[: (len(data) + 1) // 2])  # a system may take less than it is given
        self.record("write", descriptor, half)
        return os.write(descriptor, half)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)  # the system does, for a process that has ended
        self.record("close", descriptor)

    def fsync(self, descriptor: int) -> None:
        self.record("fsync", descriptor)
        os.fsync(descriptor)

    def replace(self, old: Path, new: Path) -> None:
        self.record("replace", os.path.basename(old), os.path.basename(new))
        os.replace(old, new)

    def unlink(self, path: Path) -> None:
        path.stat()  # a call that finds nothing changes nothing
        self.record("unlink", os.path.basename(path))
        os.unlink(path)


class Killed(BaseException):
    """The process has ended."""


class File:
    """Content of a file, and the part of it that is on disk."""

    def __init__(self) -> None:
        self.now = self.safe = b""

    def after_a_cut(self) -> list[bytes]:
        """All that may be found in it."""
        torn = [self.safe, self.now[: len(self.now) // 2], b""]
        return [self.now] if self.now == self.safe else [self.now, *torn]


Names = dict[str, File]


class Disk:
    """A folder after some acts: a method for each kind of them."""

    def __init__(self, folder: str, acts: list[tuple[Any, ...]]) -> None:
        self.folder = folder
        self.names: list[Names] = [{}]  # those that are on disk, and after each change that may not be
        self.opened: dict[int, File | None] = {}  # None is the folder
        for kind, *told in acts:
            getattr(self, kind)(*told)

    def open(self, name: str, flags: int, descriptor: int) -> None:
        if flags & os.O_CREAT and name not in self.names[-1]:
            self.names.append(self.names[-1] | {name: File()})
        self.opened[descriptor] = None if name == self.folder else self.names[-1][name]
        if flags & os.O_TRUNC:
            self.names[-1][name].now = b""

    def write(self, descriptor: int, data: bytes) -> None:
        file = self.opened[descriptor]
        assert file is not None
        file.now += data

    def fsync(self, descriptor: int) -> None:
        """Flush a file. One that was not opened here was opened for reading, so nothing changes."""
        file = self.opened.get(descriptor, File())
        if file is None:
            self.names = self.names[-1:]
        else:
            file.safe = file.now

    def close(self, descriptor: int) -> None:
        self.opened.pop(descriptor, None)

    def replace(self, old: str, new: str) -> None:
        latest = dict(self.names[-1])
        moved = latest.pop(old)
        self.names.append(latest | {new: moved})

    def unlink(self, name: str) -> None:
        self.names.append({each: file for each, file in self.names[-1].items() if each != name})

    def handed(self, number: int) -> None:
        """A report was: the disk does not know."""

    def ended(self) -> None:
        """The process did."""
        self.opened.clear()

    def after_a_cut(self) -> Iterator[dict[str, bytes]]:
        """All that may be found, as {name: content}."""
        for names in self.names:
            for contents in product(*(file.after_a_cut() for file in names.values())):
                yield dict(zip(names, contents, strict=True))
