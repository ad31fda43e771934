"""Typed refusals of the store and of its keys: each says what was met and what to do next.

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

ELSEWHERE = {  # causes that lie outside of the file; all others are damage
    SQLITE_BUSY: "a file that another program holds",
    SQLITE_CANTOPEN: "a file that cannot be opened",
    SQLITE_FULL: "a full disk",
    SQLITE_IOERR: "a disk that fails or is full",
    SQLITE_LOCKED: "a file that another program holds",
    SQLITE_NOMEM: "too little memory",
    SQLITE_PERM: "a file that may not be used",
    SQLITE_READONLY: "a file that is read-only",
    SQLITE_TOOBIG: "a part of more than 10^9 bytes",
}


class StoreError(Exception):
    """Something about the store, its key or its witness that a curator must look at."""


class NoStore(StoreError):  # noqa: N818 - refusals are named by what they say
    def __init__(self, folder: Path) -> None:
        super().__init__(f"folder must hold a store, got none in {folder}: run the pipeline once")


class DamagedStore(StoreError):  # noqa: N818 - the same
    """What is stored is not what was committed."""

    def __init__(self, folder: Path, found: str) -> None:
        super().__init__(
            f"store must be as it was committed, got {found} in {folder}: restore a backup; without one the "
            "budget spent so far is lost, and must be counted against the same people by hand"
        )


class NewerStore(StoreError):  # noqa: N818 - the same
    def __init__(self, folder: Path, version: int, known: int) -> None:
        super().__init__(
            f"store must be of version {known} or earlier, got {version} in {folder}: "
            "install the version of streamgauge that wrote it, or a later one"
        )


class OlderStore(StoreError):  # noqa: N818 - the same
    def __init__(self, folder: Path, version: int, known: int) -> None:
        super().__init__(
            f"store must be of version {known} to be read, got {version} in {folder}: "
            "run the pipeline once, which brings it up to date"
        )


class StoreUnwritable(StoreError):  # noqa: N818 - the same
    """The disk is full, read-only or failing. What was committed is safe."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"store must be readable and writable, got {why} at {path}: mend that, then run again; "
            "nothing committed was lost"
        )


class AlreadyReleased(StoreError):  # noqa: N818 - the same
    """A second value for a tick. Nothing was changed."""

    def __init__(self, release: str, tick: int) -> None:
        self.release, self.tick = release, tick
        super().__init__(f"tick must be released once, got tick {tick} of {release} again")


class AlreadyRunning(StoreError):  # noqa: N818 - the same
    def __init__(self, folder: Path, pid: int | None) -> None:
        self.pid = pid
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(f"folder must be used by one run at a time, got {folder}, which {who} is using")


class KeyRefused(StoreError):  # noqa: N818 - the same
    """A key that cannot be had, or should not be used as it lies."""


class WrongKey(StoreError):  # noqa: N818 - the same
    """The store is whole, and this is not the key that it was written under."""

    def __init__(self, folder: Path, source: str) -> None:
        super().__init__(
            f"key must be the one that the store in {folder} was written under, got another from {source}"
        )


class DamagedWitness(StoreError):  # noqa: N818 - the same
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"witness must be as it was written, got something else in {path}: check that the store was not "
            "rolled back, move the file away, and run each pipeline of its key once with --newest"
        )


class WitnessUnwritable(StoreUnwritable):
    """The key can be read, and nothing can be noted beside it."""

    def __init__(self, path: Path, why: str) -> None:
        Exception.__init__(
            self,
            f"witness must be writable, got {why} at {path}: a run notes there how far its "
            "store is, so that an old copy is known for what it is; let that folder be written, or keep the "
            "key in another, or have it from env: or command:, whose witness is beside the store",
        )


@contextmanager
def witnessing(path: Path) -> Iterator[None]:
    """Turns what the operating system raises about a witness into what a curator can act on."""
    try:
        yield
    except OSError as error:
        raise WitnessUnwritable(path, (error.strerror or type(error).__name__).lower()) from None


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turns what SQLite and the operating system raise into what a curator can act on."""
    try:
        yield
    except Error as error:
        raise _refusal(path, error) from None
    except UnicodeDecodeError:
        raise DamagedStore(path, "a damaged file") from None
    except OSError as error:
        raise StoreUnwritable(path, (error.strerror or type(error).__name__).lower()) from None


def _refusal(path: Path, error: Error) -> Exception:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, ProgrammingError):
        return error
    if code is None or code & 0xFF not in ELSEWHERE:
        return DamagedStore(path, "a damaged file")
    return StoreUnwritable(path, ELSEWHERE[code & 0xFF])
