"""Benchmark of device reports in a pipeline, from messages to committed estimates.

    python benchmarks/reports.py [--reports N]

Messages of 20,000 reports arrive in one tick of ten seconds. A manual clock removes all waiting. CPU time covers the
parsing of messages, the reading and committing of records and the estimates of 200 values. The estimates must equal
those of a collector with the same reports.
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

SECOND_MICROSECONDS = 10**6
START = 1_767_571_200 * SECOND_MICROSECONDS  # 2026-01-05T00:00:00Z
MESSAGE_REPORTS = 20_000
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


def build_poll(folder: Path, protocol: str) -> Pipeline:
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
class SendingClock(ManualClock):
    """A clock that puts a message into the inbox at each sleep, then stops the run."""

    time: int = START + SECOND_MICROSECONDS
    blocks: Iterator[bytes] = field(default_factory=lambda: iter(()))
    inbox: Inbox | None = None
    stop: Event = field(default_factory=Event)

    def sleep(self, microseconds: int) -> None:
        block = next(self.blocks, None)
        if block is None:
            super().sleep(4 * SECOND_MICROSECONDS)
        elif self.inbox is not None:
            super().sleep(SECOND_MICROSECONDS // 1000)
            self.inbox.put(None, block)
        if self.time > START + 15 * SECOND_MICROSECONDS:
            self.stop.set()


def measure_protocol(protocol: str, count: int) -> tuple[int, float]:
    """Return the bytes of a report and the reports per CPU second."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = build_poll(Path(folder), protocol)
        stream = pipeline.file.stream
        claim: Any = stream.reports["answer"].mechanism
        reports = claim.privatise_many([VALUES[number % 50] for number in range(count)])
        messages = [
            wire.pack_message(claim, piece) for piece in np.array_split(reports, max(count // MESSAGE_REPORTS, 1))
        ]
        start = process_time()
        batches = [parse_records("", message, stream, None, MESSAGE_REPORTS) for message in messages]
        clock = SendingClock(blocks=iter([batch.to_lines(START + 2 * SECOND_MICROSECONDS) for batch in batches]))
        clock.inbox = build_inbox(pipeline.file, clock.now)
        pipeline.run(clock=clock, source=clock.inbox, stop=clock.stop)
        seconds = process_time() - start
        collector = claim.build_collector()
        collector.add(reports)
        estimates = next(iter(pipeline.releases("all"))).value[0]
        if not np.array_equal(estimates, collector.estimate(VALUES).count):
            raise RuntimeError("estimates must equal those of a collector, got others")
    return claim.report_size, count / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--reports", type=int, default=300_000, help="reports of each protocol")
    count = parser.parse_args().reports
    print(f"\n{count:,} reports through a pipeline, 200 values\n")
    print("| | bytes each | reports per CPU second |\n|---|---:|---:|")
    measure_protocol("RandomisedResponse", MESSAGE_REPORTS)  # warm up, since the first run imports modules
    for protocol in PROTOCOLS:
        size, rate = measure_protocol(protocol, count)
        print(f"| {protocol} | {size} | {rate:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
