"""Records that could not be read: where each lies, how long it is, which rule it breaks. Never its text.

All of it depends on the data, so it is the curator's alone: kept with the state, encrypted as that is. It is
bounded: at most MOST are looked at, and of these the first that fit into ROOM are saved; what comes later is
counted in the progress of a run and nowhere else.

**Privacy.** It is saved with the same length at the same moments whatever is in it, for who has the disk sees
both without a key.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from itertools import accumulate

from streamgauge.engines import DuckEngine
from streamgauge.query.blocks import Block, Dropped, FilePart
from streamgauge.query.measure import Measure
from streamgauge.query.protocols import Finished
from streamgauge.query.settings import PipelineFile

MOST = 10_000
PART = "quarantine"  # of the state
ROOM = 2**17  # bytes, saved
UNCOUNTED = "with pan_private = true neither records nor those that were dropped are counted"
BAD = ("not readable", "no time", "no user")  # rules of the engine that make a record one to be looked at


class Quarantine:
    """The bad records of a source so far."""

    def __init__(self, saved: bytes | None = None) -> None:
        self.records: list[Dropped] = [Dropped(*row) for row in json.loads(saved or b"[]")]

    def look(
        self, engine: DuckEngine, block: Block, counts: dict[str, int], header: Sequence[str] | None
    ) -> None:
        """Takes down what is bad in a block, of which `counts` was counted."""
        self._add(block.dropped)
        if any(counts.get(rule) for rule in BAD) and len(self.records) < MOST:
            known = None if header is None else tuple(header)
            self._add(each for each in engine.locate(block, known) if each.rule in BAD)

    def look_through(self, engine: DuckEngine, file: FilePart) -> None:
        """The same for a whole file."""
        for block in file.blocks():
            before = len(self.records)
            self.look(engine, block, dict.fromkeys(BAD, 1), file.header)
            self.records[before:] = [replace(each, file=file.path.name) for each in self.records[before:]]
            if len(self.records) >= MOST:
                return

    def saved(self) -> dict[str, bytes | None]:
        """The part of the state, as long as ever."""
        rows = [json.dumps(astuple(record), separators=(",", ":")) for record in self.records]
        ends = accumulate(len(row) + 1 for row in rows)
        fitting = [row for row, end in zip(rows, ends, strict=True) if end < ROOM]
        return {PART: f"[{','.join(fitting)}]".encode().ljust(ROOM)}

    @classmethod
    def of_files(cls, file: PipelineFile, source: Finished) -> "Quarantine":
        """Bad records of a finished source, which is read for it: a run that stopped to look would tell.

        Parquet files have no lines, and nothing to point at.
        """
        found = cls()
        if file.stream.format == "parquet":
            return found
        anything = [Measure(where=None, groups=())]
        with DuckEngine(file.stream, file.lookups, anything, secret=bytes(32)) as engine:
            for part in source.files:
                found.look_through(engine, part)
        return found

    def _add(self, dropped: Iterable[Dropped]) -> None:
        for each in dropped:
            if len(self.records) >= MOST:
                return
            self.records.append(each)
