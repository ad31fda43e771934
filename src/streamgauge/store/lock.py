"""The lock of a pipeline's folder: one run at a time. It names the process that has it. Readers need none."""

import os
from pathlib import Path
from typing import Self

from streamgauge.files import PRIVATE_FILE_MODE, FileLock
from streamgauge.store.errors import AlreadyRunningError, translate_store_errors

LOCK_FILE = "lock"


class Lock:
    """A lock from construction until `release`, the end of a `with` block, or the end of the process."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        with translate_store_errors(path):
            try:
                self._file_lock = FileLock(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE_MODE)
            except BlockingIOError:
                raise AlreadyRunningError(folder, read_holder_pid(folder)) from None
        try:
            with translate_store_errors(path):
                os.ftruncate(self._file_lock.descriptor, 0)
                os.pwrite(self._file_lock.descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        self._file_lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.release()


def read_holder_pid(folder: Path) -> int | None:
    """Return the process that last acquired the lock, if it wrote its number."""
    try:
        digits = (folder / LOCK_FILE).read_bytes().strip()
    except OSError:
        return None
    return int(digits) if digits.isdigit() else None
