"""Parquet: a folder of numbered parts, one for each write, that reads as one table in the long form.

    releases.parquet/part-00000001.parquet     complete, durable, never changed
    releases.parquet/.part-00000002            being written: readers pass over it

Promise
    A part is there whole or not at all, and parts that were not committed are gone before the next write.
    Proof: a part gets its name when it is on the disk, and the position is the number of parts; later ones
    are removed by the first write, newest first, so that no gap is ever seen. Nothing is removed before
    that write: a start that is refused leaves the evidence. The stamp of a write is in its part's metadata,
    too; the newest part is only hidden at first, and removed last, so that a crash among the removals leaves
    the trace that was there before them. The folder is held from `resume` on, so no two runs write to it at
    once; what others put beside the parts stops a start, which names it, and never a write.

DuckDB writes the parts, from arrays: pyarrow is not needed.
"""

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from streamgauge.query.durable import sync_path, write_all
from streamgauge.query.released import Released
from streamgauge.query.toml_keys import one_line
from streamgauge.sinks.failures import ForeignSink, SinkFailed, failing, lacking, of_another_history
from streamgauge.sinks.lines import Stamp, Trace, in_order, length_of, told
from streamgauge.sinks.long_form import long_columns
from streamgauge.sinks.place import Place

PART = re.compile(r"part-(\d{8})\.parquet")
UNFINISHED = re.compile(r"\.part-(\d{8})")
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
                self._refuse_others()
                newest = self._newest()
                return newest and newest.of_owner(self.owner, self.name)

    def astray(self, knows: Callable[[Trace], bool]) -> str | None:
        with failing(self.name):
            if lost := self._lost():
                return lost
            last = self._stamp(self._part(self._length)) if self._length else None
            stands = not self._length or (last is not None and knows(last.trace))
            return None if stands else of_another_history(self.name)

    @property
    def _foreign(self) -> ForeignSink:
        return ForeignSink(f"sink must be a new folder or one of ours, got {self.name}")

    def _refuse_others(self) -> None:
        """Refuses to share the folder with anything but what is hidden."""
        names = [name for name in os.listdir(self.folder) if not name.startswith(".")]
        others = sorted(name for name in names if not PART.fullmatch(name))
        if others:
            raise ForeignSink(f"{self._foreign} with {one_line(others[0])} in it")

    def _numbers(self, kind: re.Pattern[str]) -> list[int]:
        """The parts that are there."""
        found = map(kind.fullmatch, os.listdir(self.folder))
        return sorted(int(match[1]) for match in found if match)

    def _lost(self) -> str | None:
        """What is said if parts are gone that were committed."""
        kept = sum(number <= self._length for number in self._numbers(PART))
        return lacking(self.name, self._length, "parts", kept) if kept < self._length else None

    def _newest(self) -> Stamp | None:
        """What the newest part says, be it hidden and whole; one that is not whole says nothing."""
        numbers = self._numbers(PART)
        last = numbers[-1] if numbers else 0
        hidden = [number for number in reversed(self._numbers(UNFINISHED)) if number > last]
        found = next(filter(None, map(self._stamp, map(self._hidden, hidden))), None)
        if found is None and last:
            found = self._stamp(self._part(last))
            if found is None:
                raise self._foreign
        return found

    def _stamp(self, path: Path) -> Stamp | None:
        """What a part says of itself, if it is one of ours."""
        import duckdb

        asked = "SELECT value FROM parquet_kv_metadata(?) WHERE key = ?"
        try:
            rows = self._duck().execute(asked, [glob.escape(str(path)), KEY.encode()]).fetchall()
        except duckdb.Error:
            return None
        return Stamp.of(rows[0][0].decode(errors="replace")) if rows else None

    def write(self, releases: Sequence[Released], tick: int, chain: str) -> bytes:
        with failing(self.name):
            self._place.open()
            self._place.keep()
            if lost := self._lost():
                raise SinkFailed(lost)
            self._undo()
            if releases:
                stamp = str(Stamp(tick, chain, self.owner))
                self._write_part(self._length + 1, in_order(releases), stamp)
                self._length += 1
        return told((tick, chain), self._length)

    def _undo(self) -> None:
        """Removes what was written and not committed, and what was not finished."""
        beyond = [number for number in self._numbers(PART) if number > self._length]
        for number in beyond[-1:]:
            self._part(number).replace(self._hidden(number))
            sync_path(self.folder)
        hidden = self._numbers(UNFINISHED)
        for path in [*map(self._part, reversed(beyond[:-1])), *map(self._hidden, hidden)]:
            path.unlink()
            sync_path(self.folder)

    def _write_part(self, number: int, releases: Sequence[Released], stamp: str) -> None:
        unfinished = self._hidden(number)
        counts = next((each.shape.contributions for each in releases if each.shape.contributions), "")
        notes = {KEY: stamp} | ({"contributions": counts} if counts else {})
        self._copy(unfinished, long_columns(releases, stamp), notes)
        sync_path(unfinished)
        unfinished.rename(self._part(number))
        sync_path(self.folder)
        sync_path(self.folder.parent)

    def _copy(self, path: Path, columns: dict[str, Any], notes: Mapping[str, str]) -> None:
        import duckdb

        engine = self._duck()
        engine.register("written", columns)
        pairs = ", ".join(f"{key}: {literal(text)}" for key, text in notes.items())
        options = f"FORMAT parquet, USE_TMP_FILE false, KV_METADATA {{{pairs}}}"
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

    def _hidden(self, number: int) -> Path:
        return self.folder / f".part-{number:08d}"

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
