"""Typed errors of the store and of its keys. Each says what happened and what to do next.

No text depends on private data: they name folders, files, ticks and rules.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import (
    SQLITE_BUSY,
    SQLITE_CANTOPEN,
    SQLITE_FULL,
    SQLITE_IOERR,
    SQLITE_LOCKED,
    SQLITE_NOMEM,
    SQLITE_PERM,
    SQLITE_READONLY,
    SQLITE_TOOBIG,
    Error,
    ProgrammingError,
)

EXTERNAL_CAUSES = {  # causes outside of the file; all others are damage
    SQLITE_BUSY: "a file that another program is using",
    SQLITE_CANTOPEN: "a file that cannot be opened",
    SQLITE_FULL: "a full disk",
    SQLITE_IOERR: "a disk that fails or is full",
    SQLITE_LOCKED: "a file that another program is using",
    SQLITE_NOMEM: "too little memory",
    SQLITE_PERM: "a file that may not be used",
    SQLITE_READONLY: "a file that is read-only",
    SQLITE_TOOBIG: "a part of more than 10^9 bytes",
}


class StoreError(Exception):
    """A problem with the store, its key or its rollback guard that a curator must solve."""


class StoreNotFoundError(StoreError):
    def __init__(self, folder: Path) -> None:
        super().__init__(f"folder must hold a store, got none in {folder}: run the pipeline once")


class DamagedStoreError(StoreError):
    """The stored rows are not those that were committed."""

    def __init__(self, folder: Path | str, found: str) -> None:
        super().__init__(
            f"store must be as it was committed, got {found} in {folder}: restore a backup; without one the "
            "budget spent so far is lost, and must be counted against the same people by hand"
        )


class StoreVersionError(StoreError):
    """The store has the format of another version."""

    def __init__(self, folder: Path, version: int, known: int) -> None:
        super().__init__(
            f"store must be of format {known}, got format {version} in {folder}: "
            "install the version of streamgauge that wrote it"
        )


class StoreUnwritableError(StoreError):
    """The disk is full, read-only or failing. What was committed is safe."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            f"store must be readable and writable, got {why} at {path}: mend that, then run again; "
            "nothing committed was lost"
        )


class AlreadyReleasedError(StoreError):
    """A second value for a tick. Nothing was changed."""

    def __init__(self, release: str, tick: int) -> None:
        self.release, self.tick = release, tick
        super().__init__(f"tick must be released once, got tick {tick} of {release} again")


class WriterReplacedError(StoreError):
    """Another writer committed since this one opened the store. Nothing of the last commit was written."""

    def __init__(self, address: str) -> None:
        super().__init__(f"store must have one writer, got a commit of another in {address}: stop one, then run again")


class AlreadyRunningError(StoreError):
    def __init__(self, folder: Path, pid: int | None) -> None:
        self.pid = pid
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(f"folder must be used by one run at a time, got {folder}, which {who} is using")


class KeyRefusedError(StoreError):
    """A key that cannot be read, or whose file others can read."""


class WrongKeyError(StoreError):
    """The store is complete, and was written under another key."""

    def __init__(self, folder: Path | str, source: str) -> None:
        super().__init__(f"key must be the one that the store in {folder} was written under, got another from {source}")


class DamagedGuardError(StoreError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"rollback guard must be as it was written, got something else in {path}: check that the store was not "
            "rolled back, move the file away, and run each pipeline of its key once with --trust-store"
        )


class GuardUnwritableError(StoreUnwritableError):
    """The key can be read, and the rollback guard beside it cannot be written."""

    def __init__(self, path: Path, why: str) -> None:
        Exception.__init__(
            self,
            f"rollback guard must be writable, got {why} at {path}: a run records there how far its "
            "store is, so that an old copy is detected; make that folder writable, or move the "
            "key to another, or use env: or command:, whose rollback guard is beside the store",
        )


@contextmanager
def translate_guard_errors(path: Path) -> Iterator[None]:
    """Raise errors of the operating system about a rollback guard as typed errors."""
    try:
        yield
    except OSError as error:
        raise GuardUnwritableError(path, (error.strerror or type(error).__name__).lower()) from None


@contextmanager
def translate_store_errors(path: Path | str) -> Iterator[None]:
    """Raise errors of SQLite and of the operating system as typed errors."""
    try:
        yield
    except Error as error:
        raise _translate_error(path, error) from None
    except UnicodeDecodeError:
        raise DamagedStoreError(path, "a damaged file") from None
    except OSError as error:
        raise StoreUnwritableError(path, (error.strerror or type(error).__name__).lower()) from None


def _translate_error(path: Path | str, error: Error) -> Exception:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, ProgrammingError):
        return error
    if code is None or code & 0xFF not in EXTERNAL_CAUSES:
        return DamagedStoreError(path, "a damaged file")
    return StoreUnwritableError(path, EXTERNAL_CAUSES[code & 0xFF])
