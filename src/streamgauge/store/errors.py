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
    """A problem with the store, its key or its rollback guard that a curator must solve.

    `code` names the problem.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class StoreNotFoundError(StoreError):
    def __init__(self, folder: Path) -> None:
        super().__init__(f"folder must hold a store, got none in {folder}: run the pipeline once", "not_found")


class StoreUnwritableError(StoreError):
    """The disk is full, read-only or failing. Committed data is safe."""

    def __init__(self, message: str, code: str = "unwritable") -> None:
        super().__init__(message, code)


class AlreadyRunningError(StoreError):
    def __init__(self, folder: Path, pid: int | None) -> None:
        self.pid = pid
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"folder must be used by one run at a time, got {folder}, which {who} is using", "already_running"
        )


class KeyRefusedError(StoreError):
    """A key that cannot be read, whose file others can read, or that is not the store's (`wrong_key`)."""

    def __init__(self, message: str, code: str = "key_refused") -> None:
        super().__init__(message, code)


class RollbackError(StoreError):
    """A store that may not be the newest copy, so that published ticks would get a second draw of noise.

    Codes: `rollback` (an older copy), `guard_missing`, `store_replaced`, `concurrent_copy`. For an older copy `tick` is
    the last published tick, and `store_tick` the last one in the store.
    """

    def __init__(self, message: str, code: str, *, tick: int | None = None, store_tick: int | None = None) -> None:
        super().__init__(message, code)
        self.tick, self.store_tick = tick, store_tick


def build_damage_error(folder: Path | str, found: str) -> StoreError:
    """Return the refusal of stored rows that are not those that were committed."""
    return StoreError(
        f"store must be as it was committed, got {found} in {folder}: restore a backup; without one the "
        "budget spent so far is lost, and must be counted against the same people by hand",
        "damaged",
    )


def build_repeat_error(release: str, tick: int) -> StoreError:
    """Return the refusal of a second value for a tick. Nothing was changed."""
    return StoreError(f"tick must be released once, got tick {tick} of {release} again", "already_released")


def build_writer_error(address: str) -> StoreError:
    """Return the refusal of a commit after that of another writer. Nothing of it was written."""
    return StoreError(
        f"store must have one writer, got a commit of another in {address}: stop one, then run again", "writer_replaced"
    )


@contextmanager
def translate_guard_errors(path: Path) -> Iterator[None]:
    """Raise errors of the operating system about a rollback guard as typed errors."""
    try:
        yield
    except OSError as error:
        raise build_guard_error(path, describe_os_error(error)) from None


def build_guard_error(path: Path, why: str) -> StoreUnwritableError:
    """Return the error of a readable key whose rollback guard cannot be written."""
    return StoreUnwritableError(
        f"rollback guard must be writable, got {why} at {path}: a run records there how far its "
        "store is, so that an old copy is detected; make that folder writable, or move the "
        "key to another, or use env: or command:, whose rollback guard is beside the store",
        "guard_unwritable",
    )


@contextmanager
def translate_store_errors(path: Path | str) -> Iterator[None]:
    """Raise errors of SQLite and of the operating system as typed errors."""
    try:
        yield
    except Error as error:
        raise _translate_error(path, error) from None
    except UnicodeDecodeError:
        raise build_damage_error(path, "a damaged file") from None
    except OSError as error:
        raise build_access_error(path, describe_os_error(error)) from None


def build_access_error(path: Path | str, why: str) -> StoreUnwritableError:
    """Return the error of a store that cannot be read or written."""
    return StoreUnwritableError(
        f"store must be readable and writable, got {why} at {path}: mend that, then run again; "
        "nothing committed was lost"
    )


def describe_os_error(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _translate_error(path: Path | str, error: Error) -> Exception:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, ProgrammingError):
        return error
    if code is None or code & 0xFF not in EXTERNAL_CAUSES:
        return build_damage_error(path, "a damaged file")
    return build_access_error(path, EXTERNAL_CAUSES[code & 0xFF])
