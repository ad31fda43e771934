"""`streamgauge serve` with a poll, in a process that is killed: no report is lost or counted twice."""

import re
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.localdp import wire
from streamgauge.localdp.report_bytes import Reports, unpack_codes
from streamgauge.records.reports import encode_reports
from tests.support.clinics import invoke, started

VALUES = [*"abc", *map(str, range(70))]
COLUMNS = {
    "HadamardCountMeanSketch": "hashes = 8, width = 16, seed = 7, ",
    "CountMeanSketch": "hashes = 8, width = 100, seed = 7, ",
    "UnaryEncoding": "",
}
OFTEN = 'on_repeat = "charge", reports_per_user = 9'
TOML = """
[stream]
name = "poll"
source = "reports"
allow_reports_from = "anyone"
tick = "2s"
start = "{start:%Y-%m-%dT%H:%M:%SZ}"
unit = "report"
budget = {{ epsilon = 2 }}
key = "file:poll.key"

[stream.columns]
emoji = {{ report = "{protocol}", epsilon = 2, {more}values = {values}, {often} }}

[server]
publish_delay = "100ms"
anonymous = true

[[release]]
name = "all"
sql = "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"

[[release]]
name = "now"
sql = "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"
window = "each"
"""


class Poll:
    """A report server that is killed and started again."""

    def __init__(self, folder: Path, protocol: str) -> None:
        start = datetime.now(UTC) - timedelta(seconds=3)
        settings = {"protocol": protocol, "values": VALUES, "more": COLUMNS[protocol], "often": OFTEN}
        (folder / "poll.toml").write_text(TOML.format(start=start, **settings))
        assert invoke("key", "create", folder / "poll.key").exit_code == 0
        self.file: PipelineFile = read_pipeline(folder / "poll.toml")
        self.report = self.file.stream.reports["emoji"]
        self.process: subprocess.Popen[str] | None = None

    def begin(self) -> httpx.Client:
        self.process = started("serve", self.file.path, "--port", "0", stdin=subprocess.DEVNULL)
        assert self.process.stderr is not None
        said = ""
        while (found := re.search(r"serving on (http://127\.0\.0\.1:\d+)", said)) is None:
            line = self.process.stderr.readline()
            assert line, said
            said += line
        return httpx.Client(base_url=found[1], timeout=30, trust_env=False)

    def kill(self) -> None:
        """Kill the server, as a failing machine would."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def send(self, client: httpx.Client, rows: Reports) -> None:
        """Send half of the reports as a message and half as records; all are acknowledged."""
        half = len(rows) // 2
        later = encode_reports(rows[half:]) if self.report.is_vector else unpack_codes(rows[half:]).tolist()
        message = wire.pack_message(self.report.mechanism, rows[:half])
        replies = [
            client.post("/api/reports", content=message),
            client.post("/api/reports", json=[{"emoji": each} for each in later]),
        ]
        accepted = [half, len(rows) - half]
        assert [reply.json() for reply in replies] == [{"accepted": n, "durable": True} for n in accepted]


def columns(client: httpx.Client, release: str) -> tuple[list[int], np.ndarray[Any, Any]]:
    """Return the ticks of a release, and the counts of each tick."""
    details = client.get(f"/api/releases/{release}?from=1&shape=columns").json()
    counts = np.array(details["measures"]["count"]["value"], float)
    return details["tick"], counts.reshape(-1, len(VALUES))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", COLUMNS)
def test_killed_server_counts_every_acknowledged_report_once(tmp_path: Path, protocol: str) -> None:
    poll = Poll(tmp_path, protocol)
    claim = poll.report.mechanism
    collector, sent = claim.build_collector(), 0
    try:
        for items in ("aab" * 8, "c" * 10, "ab" * 15):
            rows = claim.privatise_many(list(items))
            with poll.begin() as client:
                poll.send(client, rows)
                sent += collector.add(rows)
            poll.kill()
        with poll.begin() as client:
            expected, until = collector.estimate(VALUES).count, time.monotonic() + 60
            while time.monotonic() < until:
                found = columns(client, "all")[1]
                if len(found) and np.array_equal(found[-1], expected):
                    break
                time.sleep(0.1)
            each = columns(client, "now")[1]
        assert found[-1].tolist() == expected.tolist()
        assert np.abs(each.sum(0) - expected).max() < 1e-9 * sent
    finally:
        poll.kill()
