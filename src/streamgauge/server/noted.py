"""How far readers have come, noted beside the store, so that a restart takes nothing back from them.

The note is the last entry that has left and the chain there. A note of another history, or none, is no harm:
what is committed then leaves as if it had been committed when the store was last written, which is later.
"""

import json
import os
from pathlib import Path

from streamgauge.pipeline import database
from streamgauge.pipeline.durable import PRIVATE_FILE
from streamgauge.pipeline.reader import Reader

NAME = "departed"


class Noted:
    """The note of one store. It need not survive a power cut."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME

    def write(self, number: int, chain: str) -> None:
        fresh = self.path.with_suffix(".new")
        with open(fresh, "w", opener=_private) as file:
            json.dump({"number": number, "chain": chain}, file)
        os.replace(fresh, self.path)

    def read(self, reader: Reader) -> int:
        """The last entry that has left, as far as is known; 0 if none is."""
        try:
            told = json.loads(self.path.read_bytes())
            number, chain = int(told["number"]), str(told["chain"])
        except (OSError, ValueError, LookupError, TypeError):
            return 0
        known = 0 < number <= reader.number and reader.trace_at(number).chain == chain
        return number if known else 0

    def last_write(self) -> int:
        """When the store was last written, in microseconds since 1970: all its commits were before."""
        files = (self.folder / (database.STORE + end) for end in ("", "-wal"))
        return max((path.stat().st_mtime_ns for path in files if path.exists()), default=0) // 1000


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)
