"""Locked DuckDB connection: no writes, no extensions, no files but the source.

    no disk             no directory for temporary files: too large a query is an error, and the work is split
    no extensions       none is installed or loaded; ICU, JSON and Parquet are built in
    no access           external access is off, except for files in memory and those of the source
    no file cache       a descriptor's number comes again with other contents
    no growth           DuckDB 2.0 permanently stores some 4 kB for every block that it has read (measured): a live
                        run opens a new database now and then
    no messages         DuckDB's messages quote values and whole lines, so its exceptions never leave this package,
                        not even as a cause

Names and texts that the curator declared are quoted. SQL never contains events. Records come from files of the source
by their descriptors, or from files in memory.

Joins keep their public table on the side that is in memory, and records on the side that streams.

A requested stop interrupts a running query.

Promise
    After a stop the work inside ends with StopRequestedError, as soon as DuckDB checks for interrupts: after some
    hundred thousand rows. Nothing calls the database when the work has ended.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamgauge.interfaces import StopRequestedError, check_stop

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"
REQUIRED_EXTENSIONS = {"icu", "json", "parquet"}
MEMORY_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
INTERRUPT_MESSAGE = "Query interrupted"  # DuckDB's message for a Ctrl-C that raised in a handler
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "enable_external_file_cache": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
}
LOCK_STATEMENTS = (
    "SET disabled_optimizers = 'join_order,build_side_probe_side'",
    "SET enable_progress_bar = false",
    f"SET allowed_directories = ['{DESCRIPTORS}/']",
    "SET enable_external_access = false",
)


class EngineError(RuntimeError):
    """The engine could not finish.

    The message depends on declarations and on the kind of failure alone.
    """


class EngineMemoryError(EngineError):
    """The memory was too small for the attempted load."""


def quote_text(value: str) -> str:
    """Return a string literal."""
    return "'" + check_no_nul(value).replace("'", "''") + "'"


def quote_name(value: str) -> str:
    """Return an identifier."""
    return '"' + check_no_nul(value).replace('"', '""') + '"'


def quote_texts(values: "tuple[str, ...] | list[str]") -> str:
    """Return string literals between commas."""
    return ", ".join(quote_text(value) for value in values)


def double_literal(value: Fraction | int | float) -> str:
    """Return a DOUBLE literal: a plain one would be a DECIMAL."""
    return f"({float(value)!r})::DOUBLE"


def check_no_nul(value: str) -> str:
    """Reject a NUL, at which DuckDB's parser ends names and texts."""
    if "\0" in value:
        raise ValueError(f"names and labels must have no NUL character, got {value!r}")
    return value


@contextmanager
def open_descriptors(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Open files by descriptor, so that the engine never reads a path as a pattern."""
    files: list[int] = []
    try:
        for path in paths:
            files.append(os.open(path, os.O_RDONLY))
        yield [f"{DESCRIPTORS}/{file}" for file in files]
    finally:
        for file in files:
            os.close(file)


def has_memory_files() -> bool:
    """Return whether this system has files in memory. If not, a block uses a pipe."""
    return hasattr(os, "memfd_create")


@contextmanager
def open_memory_file(data: bytes) -> Iterator[str]:
    """Open a file that is never on disk.

    It begins with an empty line. DuckDB would remove a byte order mark from the first line of a file, so no record
    may be the first.
    """
    if not has_memory_files():
        with _open_pipe(data) as path:
            yield path
        return
    file = os.memfd_create("block", os.MFD_CLOEXEC)
    try:
        _write(file, data)
        yield f"{DESCRIPTORS}/{file}"
    finally:
        os.close(file)


@contextmanager
def _open_pipe(data: bytes) -> Iterator[str]:
    """Open a pipe with the data, for systems that have no files in memory."""
    out, into = os.pipe()

    def fill() -> None:
        try:
            _write(into, data)
        except BrokenPipeError:
            pass
        finally:
            os.close(into)

    writer = Thread(target=fill, daemon=True)
    writer.start()
    try:
        yield f"{DESCRIPTORS}/{out}"
    finally:
        os.close(out)
        writer.join()


def _write(file: int, data: bytes) -> None:
    with open(file, "wb", closefd=False) as out:
        out.write(b"\n")
        out.write(data)


class DuckConnection:
    """Database in memory. After a failure that shut it, `renew` opens another."""

    MAX_BLOCKS: ClassVar[int] = 1024  # a new database follows: 4 MB of growth, against some 50 ms to open one

    def __init__(
        self, timezone: str, memory: str, threads: int | None, declarations: Mapping[str, Sequence[str]]
    ) -> None:
        self._settings = SETTINGS | {"memory_limit": memory} | ({"threads": threads} if threads else {})
        self._timezone, self.declarations = timezone, dict(declarations)
        self._database: DuckDBPyConnection | None = None
        self._allowed_paths: list[str] = []
        self._blocks = 0  # read by this database
        self.interrupts = 0  # number of calls of `interrupt`

    def allow(self, paths: Sequence[Path]) -> None:
        """Open a database that may read only these files, by their descriptors."""
        self.close()
        self._allowed_paths = [str(path.resolve()) for path in paths]

    def add_declarations(self, declarations: Mapping[str, Sequence[str]]) -> None:
        """Run new declarations, now and in each later database. If one fails, none is added."""
        try:
            for sql in chain.from_iterable(declarations.values()) if self._database is not None else ():
                self.run(sql)
        except BaseException:
            self.close()
            raise
        self.declarations |= declarations

    def run(self, sql: str) -> None:
        self.execute(sql, "fetchnumpy")

    def fetch_arrays(self, sql: str) -> dict[str, Any]:
        """Return the columns of an answer: whole numbers or texts, none NULL."""
        return {column: np.asarray(found) for column, found in self.execute(sql, "fetchnumpy").items()}

    def fetch_texts(self, sql: str) -> list[tuple[str, ...]]:
        """Return rows of public texts, such as the types of a file's columns."""
        rows: list[tuple[str, ...]] = self.execute(sql, "fetchall")
        return rows

    def execute(self, sql: str, fetch: str) -> Any:
        """Execute a statement and call a method of its result. All statements pass here."""
        import duckdb

        try:
            return getattr(self._open_database().execute(sql), fetch)()
        except (duckdb.Error, MemoryError, RuntimeError, UnicodeError) as error:
            failure = redact_error(error)
        raise failure

    def read_memory_limit(self) -> float:
        """Return the bytes that queries may use."""
        ((text,),) = self.fetch_texts("SELECT value FROM duckdb_settings() WHERE name = 'memory_limit'")
        number, unit = text.split()
        return float(number) * MEMORY_UNITS[unit]

    def register(self, name: str, columns: Mapping[str, Any] | Any) -> None:
        """Register arrays of this process as a relation for SQL."""
        self._open_database().register(name, columns)

    def interrupt(self) -> None:
        """Interrupt the running query, if there is one. Another thread calls this."""
        self.interrupts += 1
        if self._database is not None:
            import duckdb

            with suppress(duckdb.Error):
                self._database.interrupt()

    def renew(self) -> None:
        self.close()
        self._open_database()

    def count_block(self) -> None:
        """Open a new database after MAX_BLOCKS blocks. Tables do not survive it."""
        if self._blocks >= self.MAX_BLOCKS:
            self.renew()
        self._blocks += 1

    def close(self) -> None:
        database, self._database, self._blocks = self._database, None, 0
        if database is not None:
            database.close()

    def _open_database(self) -> "DuckDBPyConnection":
        import duckdb

        if self._database is None:
            self._database = duckdb.connect(":memory:", config=self._settings)
            rows = self._database.execute("SELECT extension_name FROM duckdb_extensions() WHERE loaded").fetchall()
            if missing := REQUIRED_EXTENSIONS - {row[0] for row in rows}:
                rule = f"duckdb must have {', '.join(sorted(REQUIRED_EXTENSIONS))} built in"
                raise EngineError(f"{rule}, got one without {missing}")
            self._database.execute(f"SET allowed_paths = [{quote_texts(self._allowed_paths)}]")
            time_zone = f"SET TimeZone = {quote_text(self._timezone)}"
            declared = chain.from_iterable(self.declarations.values())
            for sql in (*LOCK_STATEMENTS, time_zone, *declared, "SET lock_configuration = true"):
                self._database.execute(sql)
        return self._database


def redact_error(error: Exception) -> BaseException:
    """Return an error with only the kind of the failure."""
    import duckdb

    if isinstance(error, duckdb.InterruptException) or str(error) == INTERRUPT_MESSAGE:
        return KeyboardInterrupt()
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return EngineMemoryError("the engine must have enough memory for one tick, got too little")
    return EngineError("the engine must be able to read the source, got a failure")


POLL_SECONDS = 0.02  # interval of checks for a stop


@contextmanager
def interrupt_on_stop(stop: Flag | None, connection: DuckConnection) -> Iterator[None]:
    """Interrupt the queries of the block repeatedly once a stop is requested."""
    check_stop(stop)
    if stop is None:
        yield
        return
    finished = Flag()

    def listen() -> None:
        while not finished.wait(POLL_SECONDS):
            if stop.is_set():
                connection.interrupt()

    listener = Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield
    except KeyboardInterrupt:
        if not stop.is_set():
            raise
        raise StopRequestedError from None
    finally:
        finished.set()
        listener.join()
