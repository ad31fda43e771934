"""Reports of devices through a pipeline: from messages as they are sent to estimates that are committed.

    python benchmarks/reports.py [--reports N]

Messages of 20,000 reports come in within one tick of ten seconds, by a clock that is moved by hand, so that
nothing waits; processor time is that of taking messages apart, reading records, committing what came and
estimating 200 values. The estimates must be those of a collector that was given the same reports.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import process_time
from typing import Any

import numpy as np

from streamgauge import Pipeline
from streamgauge.localdp import wire
from streamgauge.server.routes.reports import parse_records
from streamgauge.sources.http import Inbox, build_inbox
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import ManualClock

SECOND = 10**6
START = 1_767_571_200 * SECOND  # 2026-01-05T00:00:00Z
EACH = 20_000
VALUES = [f"value {number}" for number in range(200)]
SKETCH = {"hashes": 1024, "width": 1024, "seed": 7}
PROTOCOLS: dict[str, dict[str, int]] = {
    "HadamardCountMeanSketch": SKETCH,
    "LocalHashing": {"hashes": 1024, "width": 8, "seed": 7},
    "CountMeanSketch": SKETCH,
    "UnaryEncoding": {},
    "RandomisedResponse": {},
    "HadamardResponse": {},
}


def poll(folder: Path, protocol: str) -> Pipeline:
    column = {"report": protocol, "epsilon": 2, "values": VALUES, "on_repeat": "repeat", "reports_per_user": 1}
    stream = {
        "name": "poll",
        "source": "reports",
        "allow_reports_from": "curator",
        "tick": "10s",
        "start": "2026-01-05T00:00:00Z",
        "unit": "report",
        "budget": {"epsilon": 2},
        "key": "file:poll.key",
        "columns": {"answer": {**column, **PROTOCOLS[protocol]}},
    }
    create_key(folder / "poll.key")
    release = {"name": "all", "sql": "SELECT answer, COUNT(*) FROM poll GROUP BY answer"}
    return Pipeline.from_tables({"stream": stream, "release": [release]}, folder / "poll.toml")


@dataclass
class Sending(ManualClock):
    """A clock that puts a message into an inbox at every sleep, and then ends the run."""

    time: int = START + SECOND
    blocks: Iterator[bytes] = field(default_factory=lambda: iter(()))
    inbox: Inbox | None = None
    stop: Event = field(default_factory=Event)

    def sleep(self, microseconds: int) -> None:
        block = next(self.blocks, None)
        if block is None:
            super().sleep(4 * SECOND)
        elif self.inbox is not None:
            super().sleep(SECOND // 1000)
            self.inbox.put(None, block)
        if self.time > START + 15 * SECOND:
            self.stop.set()


def measured(protocol: str, count: int) -> tuple[int, float]:
    """Bytes of a report, and reports a CPU second."""
    with tempfile.TemporaryDirectory() as folder:
        made = poll(Path(folder), protocol)
        stream = made.file.stream
        claim: Any = stream.reports["answer"].mechanism
        reports = claim.privatise_many([VALUES[number % 50] for number in range(count)])
        messages = [wire.pack_message(claim, piece) for piece in np.array_split(reports, max(count // EACH, 1))]
        begun = process_time()
        sent = [parse_records("", message, stream, None, EACH) for message in messages]
        clock = Sending(blocks=iter([each.to_lines(START + 2 * SECOND) for each in sent]))
        clock.inbox = build_inbox(made.file, clock.now)
        made.run(clock=clock, inbox=clock.inbox, stop=clock.stop)
        seconds = process_time() - begun
        collector = claim.build_collector()
        collector.add(reports)
        told = next(iter(made.releases("all"))).value[0]
        if not np.array_equal(told, collector.estimate(VALUES).count):
            raise RuntimeError("estimates must be those of a collector, got others")
    return claim.report_size, count / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--reports", type=int, default=300_000, help="how many of each protocol")
    count = parser.parse_args().reports
    print(f"\n{count:,} reports through a pipeline, 200 values\n")
    print("| | bytes each | reports a CPU second |\n|---|---:|---:|")
    measured("RandomisedResponse", EACH)  # imports of a first run are not part of the figures
    for protocol in PROTOCOLS:
        size, rate = measured(protocol, count)
        print(f"| {protocol} | {size} | {rate:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
