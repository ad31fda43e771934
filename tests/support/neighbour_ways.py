"""Ways by which records reach a pipeline: files of all kinds, a followed one, standard input.

Each way gets arrivals: a time, and the bytes of a line without its end. So one line more or less does not change when
the others arrive.
"""

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from streamgauge.testing.noise import ManualClock
from tests.support.neighbour_streams import HEADER, HOUR, RELEASES, START, TICKS, Record, csv_line, json_line
from tests.support.watched_runs import ONE, House, Watched, tables

Arrival = tuple[int, bytes]
LIVE = {"mode": "streaming", "allowed_lateness": "10m", "allowed_earliness": "1h"}


class Arriving(ManualClock):
    """A clock under which lines arrive: as it moves, `write` is given those that are due."""

    def __init__(self, arrivals: Iterable[Arrival], write: Callable[[bytes], object]) -> None:
        super().__init__(START)
        self._waiting = list(arrivals)
        self._write = write

    def sleep(self, microseconds: int) -> None:
        self.time += max(microseconds, HOUR)
        due = [line for moment, line in self._waiting if moment <= self.time]
        del self._waiting[: len(due)]
        if due:
            self._write(b"".join(due))


@dataclass
class Way:
    """A source of one kind; `format` is "jsonl" or "csv"."""

    house: House
    format: str = "jsonl"
    suffix: str = ""
    live: bool = False
    piped: bool = False
    unit: Any = "event"
    releases: Any = None
    stream: Any = None
    loss: Any = None
    header: bytes = HEADER  # of CSV
    components: dict[type, type] = field(default_factory=dict)  # broken twins of parts of the run

    def line(self, record: Record) -> bytes:
        return (csv_line if self.format == "csv" else json_line)(record)

    def arrivals(self, records: Iterable[Record]) -> list[Arrival]:
        return [(moment(record), self.line(record)) for record in records]

    def run(self, arrivals: Iterable[Arrival], end: bytes = b"\n") -> Watched:
        """Runs over all of it; `end` is that of the last line, where the source is written at once."""
        lines = [(at, line + b"\n") for at, line in sorted(arrivals, key=lambda arrival: arrival[0])]
        header = [(START, self.header + b"\n")] if self.format == "csv" else []
        path = self.house.folder / ("v.in" if self.piped else f"v.{self.format}{self.suffix}")
        for earlier in self.house.folder.glob("v.[cij]*"):  # by whatever way
            earlier.unlink()
        if self.live and not self.piped:
            return self._followed(path, header + lines)
        data = b"".join(line for _, line in header + lines).removesuffix(b"\n") + end
        path.write_bytes(gzip.compress(data, 1) if self.suffix else data)
        if not self.piped:
            return self.house.run(self._tables(path.name), components=self.components)
        with path.open("rb") as file:
            clock = ManualClock(START + (TICKS + 1) * HOUR)
            return self.house.run(
                self._tables("-"), standard_input=file.fileno(), clock=clock, components=self.components
            )

    def _followed(self, path: Any, lines: list[Arrival]) -> Watched:
        def write(data: bytes) -> None:
            with path.open("ab") as file:
                file.write(data)

        return self.house.run(self._tables(path.name), clock=Arriving(lines, write), components=self.components)

    def _tables(self, source: str) -> dict[str, Any]:
        more = {"format": self.format, "mode": "batch"} if self.piped else {}
        more |= (LIVE if self.live else {}) | (self.stream or {})
        return tables(source, self.unit, self.releases or RELEASES, self.loss or ONE, **more)


def moment(record: Record) -> int:
    """Return the arrival time of a record: its own time, if it has one."""
    return int(datetime.fromisoformat(record["ts"]).timestamp()) * 1_000_000


def somewhere(number: int) -> int:
    """The beginning, the middle or the end of a stream, each in its turn."""
    return (START, START + 3 * HOUR + HOUR // 2, START + TICKS * HOUR)[number % 3]
