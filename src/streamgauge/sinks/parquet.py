"""Parquet sink: a folder with one numbered part per write, in the long form.

    releases.parquet/part-00000001.parquet     complete, durable, never changed
    releases.parquet/.part-00000002            being written: readers ignore it

All parts together read as one table.

Promise
    A part is complete or absent, and parts that were not committed are removed before the next write.
    Proof: a part gets its name when it is on the disk, and the position is the number of parts. The first write
    removes later parts, newest first, so that no gap is ever visible. Nothing is removed before
    that write: a start that is refused preserves the evidence. The stamp of a write is also in its part's
    metadata. The newest part is only hidden at first, and removed last. So a crash during the removals
    preserves the newest stamp. The run locks the folder from `resume` on, so no two runs write to it at
    once. Other files in the folder stop a start, which names them, and never a write.

DuckDB writes the parts, from arrays: pyarrow is not needed.
"""

import glob
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from streamgauge.config.toml_table import escape_line
from streamgauge.files import sync_path, write_all
from streamgauge.records.fields import quote_text
from streamgauge.releases.release import TickRelease
from streamgauge.sinks.errors import (
    SinkAccessError,
    SinkError,
    describe_divergence,
    describe_missing,
    translate_os_errors,
)
from streamgauge.sinks.file import SinkLocation
from streamgauge.sinks.formats import ChainTrace, Stamp, build_long_columns, build_position, parse_length, sort_by_tick

PART_PATTERN = re.compile(r"part-(\d{8})\.parquet")
UNFINISHED_PATTERN = re.compile(r"\.part-(\d{8})")
METADATA_KEY = "streamgauge"
SELECT_SQL = """
SELECT release::VARCHAR AS release, tick, "start"::TIMESTAMPTZ AS "start", "end"::TIMESTAMPTZ AS "end",
       level, nullif(rank, 0) AS rank, "group"::VARCHAR AS "group", measure::VARCHAR AS measure,
       nullif(value, 'nan') AS value, nullif(stddev, 'nan') AS stddev,
       nullif(low, 'nan') AS low, nullif(high, 'nan') AS high, reliable, trace::VARCHAR AS trace
FROM written
"""


class ParquetParts:
    """Sink that is a folder of parts.

    `name` is the sink's name in the pipeline file, `owner` the store that it belongs to.
    """

    def __init__(self, name: str, folder: Path, owner: str = "") -> None:
        self.name = name
        self.folder = folder
        self.owner = owner
        self._location = SinkLocation(name, folder, folder=True)
        self._length = 0  # parts that are committed, or written by this run and durable
        self._engine: Any = None

    def resume(self, position: bytes | None) -> ChainTrace | None:
        self._length = parse_length(position)
        with translate_os_errors(self.name):
            if self.folder.exists() and not self.folder.is_dir():
                raise self._foreign_error
            with self._location.reopen():
                self._refuse_others()
                newest = self._find_newest()
                return newest and newest.check_owner(self.owner, self.name)

    def diverged(self, knows: Callable[[ChainTrace], bool]) -> str | None:
        with translate_os_errors(self.name):
            if lost := self._describe_lost():
                return lost
            last = self._read_stamp(self._part_path(self._length)) if self._length else None
            stands = not self._length or (last is not None and knows(last.trace))
            return None if stands else describe_divergence(self.name)

    def check_columns(self) -> None:
        """Do nothing: parts have the same columns for all releases."""

    @property
    def _foreign_error(self) -> SinkError:
        return SinkError(f"sink must be a new folder or one of ours, got {self.name}")

    def _refuse_others(self) -> None:
        """Reject a folder that contains anything but parts and hidden files."""
        names = [name for name in os.listdir(self.folder) if not name.startswith(".")]
        others = sorted(name for name in names if not PART_PATTERN.fullmatch(name))
        if others:
            raise SinkError(f"{self._foreign_error} with {escape_line(others[0])} in it")

    def _list_numbers(self, kind: re.Pattern[str]) -> list[int]:
        """Return the numbers of the present parts."""
        found = map(kind.fullmatch, os.listdir(self.folder))
        return sorted(int(match[1]) for match in found if match)

    def _describe_lost(self) -> str | None:
        """Return the refusal if committed parts are missing, or None."""
        present = sum(number <= self._length for number in self._list_numbers(PART_PATTERN))
        return describe_missing(self.name, self._length, "parts", present) if present < self._length else None

    def _find_newest(self) -> Stamp | None:
        """Return the stamp of the newest whole part, even if it is hidden."""
        numbers = self._list_numbers(PART_PATTERN)
        last = numbers[-1] if numbers else 0
        hidden = [number for number in reversed(self._list_numbers(UNFINISHED_PATTERN)) if number > last]
        found = next(filter(None, map(self._read_stamp, map(self._hidden_path, hidden))), None)
        if found is None and last:
            found = self._read_stamp(self._part_path(last))
            if found is None:
                raise self._foreign_error
        return found

    def _read_stamp(self, path: Path) -> Stamp | None:
        """Return the stamp of a part, or None if it is not ours."""
        import duckdb

        query = "SELECT value FROM parquet_kv_metadata(?) WHERE key = ?"
        try:
            rows = self._open_engine().execute(query, [glob.escape(str(path)), METADATA_KEY.encode()]).fetchall()
        except duckdb.Error:
            return None
        return Stamp.parse(rows[0][0].decode(errors="replace")) if rows else None

    def write(self, releases: Sequence[TickRelease], tick: int, chain: str) -> bytes:
        with translate_os_errors(self.name):
            self._location.open()
            self._location.keep()
            if lost := self._describe_lost():
                raise SinkAccessError(lost)
            self._undo()
            if releases:
                stamp = str(Stamp(tick, chain, self.owner))
                self._write_part(self._length + 1, sort_by_tick(releases), stamp)
                self._length += 1
        return build_position((tick, chain), self._length)

    def _undo(self) -> None:
        """Remove uncommitted and unfinished parts."""
        beyond = [number for number in self._list_numbers(PART_PATTERN) if number > self._length]
        for number in beyond[-1:]:
            self._part_path(number).replace(self._hidden_path(number))
            sync_path(self.folder)
        hidden = self._list_numbers(UNFINISHED_PATTERN)
        for path in [*map(self._part_path, reversed(beyond[:-1])), *map(self._hidden_path, hidden)]:
            path.unlink()
            sync_path(self.folder)

    def _write_part(self, number: int, releases: Sequence[TickRelease], stamp: str) -> None:
        unfinished = self._hidden_path(number)
        counts = next((each.shape.contributions for each in releases if each.shape.contributions), "")
        rules = {each.release: each.shape.consistency for each in releases if each.shape.consistency}
        notes = {METADATA_KEY: stamp} | ({"contributions": counts} if counts else {})
        notes |= {"consistency": json.dumps(rules)} if rules else {}
        self._copy(unfinished, build_long_columns(releases, stamp), notes)
        sync_path(unfinished)
        unfinished.rename(self._part_path(number))
        sync_path(self.folder)
        sync_path(self.folder.parent)

    def _copy(self, path: Path, columns: dict[str, Any], notes: Mapping[str, str]) -> None:
        import duckdb

        engine = self._open_engine()
        engine.register("written", columns)
        pairs = ", ".join(f"{key}: {quote_text(text)}" for key, text in notes.items())
        options = f"FORMAT parquet, USE_TMP_FILE false, KV_METADATA {{{pairs}}}"
        try:
            engine.execute(f"COPY ({SELECT_SQL}) TO {quote_text(str(path))} ({options})")
        except duckdb.Error:
            probe(path)
            raise SinkAccessError(f"sink {self.name} could not be used: the engine did not write it") from None
        finally:
            engine.unregister("written")

    def _open_engine(self) -> Any:
        if self._engine is None:
            import duckdb

            closed = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
            self._engine = duckdb.connect(":memory:", config={**closed, "temp_directory": ""})
            self._engine.execute("SET TimeZone = 'UTC'")
        return self._engine

    def _part_path(self, number: int) -> Path:
        return self.folder / f"part-{number:08d}.parquet"

    def _hidden_path(self, number: int) -> Path:
        return self.folder / f".part-{number:08d}"

    def close(self) -> None:
        self._location.close()
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def probe(path: Path) -> None:
    """Raise the system's error for writing there, instead of the engine's message."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        write_all(fd, bytes(2**16))
        os.fsync(fd)
    finally:
        os.close(fd)
