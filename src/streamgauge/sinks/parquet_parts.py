"""Parquet: a folder of numbered parts, one for each write, that reads as one table in the long form.

    releases.parquet/part-00000001.parquet     complete, durable, never changed
    releases.parquet/.part-00000002            being written: readers pass over it

Promise
    A part is there whole or not at all, and parts that were not committed are gone before the next write.
    Proof: a part gets its name when it is on the disk, and the position is the number of parts; later ones
    are removed by the first write, newest first, so that no gap is ever seen. Nothing is removed before
    that write: a start that is refused leaves the evidence. The stamp of a write is in its part's metadata,
    too. The folder is held from `resume` on, so no two runs write to it at once.

DuckDB writes the parts, from arrays: pyarrow is not needed.
"""

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streamgauge.query.durable import sync_path, write_all
from streamgauge.query.released import Released
from streamgauge.sinks.failures import ForeignSink, SinkFailed, failing
from streamgauge.sinks.lines import Stamp, Trace, in_order, length_of, told
from streamgauge.sinks.long_form import long_columns
from streamgauge.sinks.place import Place

PART = re.compile(r"part-(\d{8})\.parquet")
UNFINISHED = re.compile(r"\.part-\d{8}")
KEY = "streamgauge"
SELECT = """
SELECT release::VARCHAR AS release, tick, "start"::TIMESTAMPTZ AS "start", "end"::TIMESTAMPTZ AS "end",
       level, "group"::VARCHAR AS "group", measure::VARCHAR AS measure,
       nullif(value, 'nan') AS value, nullif(stddev, 'nan') AS stddev,
       nullif(low, 'nan') AS low, nullif(high, 'nan') AS high, enough, chain::VARCHAR AS chain
FROM written
"""


class ParquetParts:
    """A sink that is a folder; `name` is what the pipeline file calls it, `owner` the store it belongs to."""

    def __init__(self, name: str, folder: Path, owner: str = "") -> None:
        self.name = name
        self.folder = folder
        self.owner = owner
        self._place = Place(name, folder, folder=True)
        self._length = 0  # parts that are committed, or written by us and durable
        self._engine: Any = None

    def resume(self, position: bytes | None) -> Trace | None:
        self._length = length_of(position)
        with failing(self.name):
            if self.folder.exists() and not self.folder.is_dir():
                raise self._foreign
            with self._place.taken():
                return self._found(self._numbers())

    def _found(self, numbers: Sequence[int]) -> Trace | None:
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < self._length:
            raise ForeignSink(
                f"sink {self.name} must have the {self._length} parts that were written to it, "
                f"got {len(numbers)}: restore it, or name a new folder"
            )
        return self._stamp(numbers[-1]).of_owner(self.owner, self.name) if numbers else None

    @property
    def _foreign(self) -> ForeignSink:
        return ForeignSink(f"sink must be a new folder or one of ours, got {self.name}")

    def _numbers(self) -> list[int]:
        """The parts that are there; refuses to share the folder with anything else."""
        names = [name for name in os.listdir(self.folder) if not UNFINISHED.fullmatch(name)]
        found = [PART.fullmatch(name) for name in names]
        if not all(found):
            raise self._foreign
        return sorted(int(match[1]) for match in found if match)

    def _stamp(self, number: int) -> Stamp:
        """What a part says of itself."""
        import duckdb

        asked = "SELECT value FROM parquet_kv_metadata(?) WHERE key = ?"
        try:
            rows = (
                self._duck().execute(asked, [glob.escape(str(self._part(number))), KEY.encode()]).fetchall()
            )
        except duckdb.Error:
            rows = []
        stamp = Stamp.of(rows[0][0].decode(errors="replace")) if rows else None
        if stamp is None:
            raise self._foreign
        return stamp

    def write(self, releases: Sequence[Released], tick: int, chain: str) -> bytes:
        with failing(self.name):
            self._place.open()
            self._place.keep()
            self._undo()
            if releases:
                stamp = str(Stamp(tick, chain, self.owner))
                self._write_part(self._length + 1, in_order(releases), stamp)
                self._length += 1
        return told((tick, chain), self._length)

    def _undo(self) -> None:
        """Removes what was written and not committed, and what was not finished."""
        unfinished = [name for name in os.listdir(self.folder) if UNFINISHED.fullmatch(name)]
        beyond = [number for number in self._numbers() if number > self._length]
        for path in [self.folder / name for name in unfinished] + [self._part(n) for n in reversed(beyond)]:
            path.unlink()
            sync_path(self.folder)

    def _write_part(self, number: int, releases: Sequence[Released], stamp: str) -> None:
        unfinished = self.folder / f".part-{number:08d}"
        self._copy(unfinished, long_columns(releases, stamp), stamp)
        sync_path(unfinished)
        unfinished.rename(self._part(number))
        sync_path(self.folder)
        sync_path(self.folder.parent)

    def _copy(self, path: Path, columns: dict[str, Any], stamp: str) -> None:
        import duckdb

        engine = self._duck()
        engine.register("written", columns)
        options = f"FORMAT parquet, USE_TMP_FILE false, KV_METADATA {{{KEY}: {literal(stamp)}}}"
        try:
            engine.execute(f"COPY ({SELECT}) TO {literal(str(path))} ({options})")
        except duckdb.Error:
            probe(path)
            raise SinkFailed(f"sink {self.name} could not be used: the engine did not write it") from None
        finally:
            engine.unregister("written")

    def _duck(self) -> Any:
        if self._engine is None:
            import duckdb

            closed = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
            self._engine = duckdb.connect(":memory:", config={**closed, "temp_directory": ""})
            self._engine.execute("SET TimeZone = 'UTC'")
        return self._engine

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:08d}.parquet"

    def close(self) -> None:
        self._place.close()
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def literal(value: str) -> str:
    """A text as SQL has it."""
    return "'" + value.replace("'", "''") + "'"


def probe(path: Path) -> None:
    """Raises what the system says of writing there: the engine's own words are not passed on."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        write_all(fd, bytes(2**16))
        os.fsync(fd)
    finally:
        os.close(fd)
