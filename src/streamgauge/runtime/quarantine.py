"""Records that could not be read: position, length and rule, never the text.

All of it depends on the data, so it is for the curator only. It is stored with the state and encrypted like it. It is
bounded: at most MAX_RECORDS are inspected, and the first of them that fit into SAVED_BYTES are saved. Later ones are
counted only, in the progress of a run.

Privacy
    It is saved with the same length and at the same moments, for any content. An observer of the disk sees both
    without a key.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from itertools import accumulate, islice

from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import BatchSource, Engine, Range, open_engine
from streamgauge.plan.measure import Measure
from streamgauge.records.blocks import Block, DroppedRecord

MAX_RECORDS = 10_000
QUARANTINE_PART = "quarantine"  # part of the state
SAVED_BYTES = 2**17  # saved length
UNCOUNTED_TEXT = "with pan_private = true neither records nor those that were dropped are counted"
BAD_RECORD_RULES = ("not readable", "no time", "no user")  # rules of the engine for a bad record


class Quarantine:
    """The bad records of a source so far."""

    def __init__(self, saved: bytes | None = None) -> None:
        self.records: list[DroppedRecord] = [DroppedRecord(*row) for row in json.loads(saved or b"[]")]

    def inspect_block(self, engine: Engine, block: Block, counts: dict[str, int], header: Sequence[str] | None) -> None:
        """Record the bad records of a block. `counts` are the engine's counts of it."""
        self._add(block.dropped_records)
        if any(counts.get(rule) for rule in BAD_RECORD_RULES) and len(self.records) < MAX_RECORDS:
            known = None if header is None else tuple(header)
            self._add(each for each in engine.locate(block, known) if each.rule in BAD_RECORD_RULES)

    def inspect_file(self, engine: Engine, file: Range) -> None:
        """Record the bad records of a whole file."""
        for block in file.blocks():
            before = len(self.records)
            self.inspect_block(engine, block, dict.fromkeys(BAD_RECORD_RULES, 1), file.header)
            self.records[before:] = [replace(each, file=file.path.name) for each in self.records[before:]]
            if len(self.records) >= MAX_RECORDS:
                return

    def save_state(self) -> dict[str, bytes | None]:
        """Return the part of the state, at its fixed length."""
        rows = [json.dumps(astuple(record), separators=(",", ":")) for record in self.records]
        ends = accumulate(len(row) + 1 for row in rows)
        fitting = [row for row, end in zip(rows, ends, strict=True) if end < SAVED_BYTES]
        return {QUARANTINE_PART: f"[{','.join(fitting)}]".encode().ljust(SAVED_BYTES)}

    @classmethod
    def from_files(cls, file: PipelineFile, source: BatchSource) -> "Quarantine":
        """Return the bad records of a batch source, which is read again for it.

        A run does not stop to inspect them, since the delay would reveal them. Parquet files have no lines to point at.
        """
        found = cls()
        if file.stream.format == "parquet":
            return found
        anything = [Measure(where=None, groups=())]
        with open_engine(file, anything, bytes(32)) as engine:
            for part in source.ranges:
                found.inspect_file(engine, part)
        return found

    def _add(self, dropped: Iterable[DroppedRecord]) -> None:
        self.records += islice(dropped, max(0, MAX_RECORDS - len(self.records)))
