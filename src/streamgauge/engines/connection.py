"""DuckDB, locked: it writes nothing, loads nothing, and opens nothing but the source.

    nothing on disk     no directory for temporary files: what does not fit is an error, and the work is split
    nothing loaded      no extension is installed or loaded; what is needed (ICU, JSON, Parquet) is built in
    nothing opened      external access is off, but for files in memory and those of the source
    nothing remembered  no cache of files: a descriptor's number comes again with other contents
    nothing piled up    DuckDB 2.0 keeps some 4 kB for good of every block that it has read (measured): a live
                        run begins another database now and then
    nothing told        exceptions are replaced by ones without text

Joins keep their public table on the side that is held in memory, and records on the side that streams.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from streamgauge.engines.failures import EngineFailed, OutOfMemory
from streamgauge.engines.lines import DESCRIPTORS
from streamgauge.engines.quoting import text, texts

WORN = 1024  # blocks after which a database is done with: 4 MB, against some 50 ms to begin another
NEEDED = {"icu", "json", "parquet"}
INTERRUPTED = "Query interrupted"  # what DuckDB says of a Ctrl-C that raised in a handler
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
LOCKS = (
    "SET disabled_optimizers = 'join_order,build_side_probe_side'",
    "SET enable_progress_bar = false",
    f"SET allowed_directories = ['{DESCRIPTORS}/']",
    "SET enable_external_access = false",
)


class Connection:
    """A database in memory. After a failure that shut it, `renew` begins another."""

    def __init__(self, timezone: str, memory: str, threads: int | None, declarations: Sequence[str]) -> None:
        self._settings = SETTINGS | {"memory_limit": memory} | ({"threads": threads} if threads else {})
        self._begin = [
            *LOCKS,
            f"SET TimeZone = {text(timezone)}",
            *declarations,
            "SET lock_configuration = true",
        ]
        self._database: duckdb.DuckDBPyConnection | None = None
        self._allowed: list[str] = []
        self._blocks = 0  # that this database has read

    def allow(self, paths: Sequence[Path]) -> None:
        """Begins a database that may read these files, by their descriptors, and no others."""
        self.close()
        self._allowed = [str(path.resolve()) for path in paths]

    def run(self, sql: str) -> None:
        self._arrays(sql)

    def arrays(self, sql: str) -> dict[str, Any]:
        """The columns of an answer, all of them whole numbers or texts and none NULL."""
        return {column: np.asarray(found) for column, found in self._arrays(sql).items()}

    def texts(self, sql: str) -> list[tuple[str, ...]]:
        """Rows of texts: for what is public, such as the types of a file's columns."""
        try:
            return self._opened().execute(sql).fetchall()
        except (duckdb.Error, MemoryError, RuntimeError, UnicodeError) as error:
            failure = _without_text(error)
        raise failure

    def show(self, name: str, columns: Mapping[str, Any] | Any) -> None:
        """Lets SQL read arrays of this process as a relation."""
        self._opened().register(name, columns)

    def interrupt(self) -> None:
        """Ends the query at hand, if there is one: for another thread to call."""
        if self._database is not None:
            with suppress(duckdb.Error):
                self._database.interrupt()

    def renew(self) -> None:
        self.close()
        self._opened()

    def one_more_block(self) -> None:
        """Begins another database where this one has read its share; tables do not outlive it."""
        if self._blocks >= WORN:
            self.renew()
        self._blocks += 1

    def close(self) -> None:
        database, self._database, self._blocks = self._database, None, 0
        if database is not None:
            database.close()

    def _arrays(self, sql: str) -> dict[str, Any]:
        try:
            return self._opened().execute(sql).fetchnumpy()
        except (duckdb.Error, MemoryError, RuntimeError, UnicodeError) as error:
            failure = _without_text(error)
        raise failure

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            self._database = duckdb.connect(":memory:", config=self._settings)
            _check_extensions(self._database)
            self._database.execute(f"SET allowed_paths = [{texts(self._allowed)}]")
            for sql in self._begin:
                self._database.execute(sql)
        return self._database


def _check_extensions(database: duckdb.DuckDBPyConnection) -> None:
    rows = database.execute("SELECT extension_name FROM duckdb_extensions() WHERE loaded").fetchall()
    missing = NEEDED - {row[0] for row in rows}
    if missing:
        raise EngineFailed(
            f"duckdb must have {', '.join(sorted(NEEDED))} built in, got one without {missing}"
        )


def _without_text(error: Exception) -> BaseException:
    """Tells the kind of a failure only."""
    if isinstance(error, duckdb.InterruptException) or str(error) == INTERRUPTED:
        return KeyboardInterrupt()
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return OutOfMemory("the engine must have enough memory for one tick, got too little")
    return EngineFailed("the engine must be able to read the source, got a failure")
