"""`streamgauge serve` as a process of its own on loopback, with `streamgauge token`."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from streamgauge.cli.runs.server import FailureMonitor
from tests.support.clinics import invoke, line_of, started

TOML = """
[stream]
name = "visits"
source = "http"
time = "ts"
tick = "1s"
start = "{start:%Y-%m-%dT%H:%M:%SZ}"
allowed_lateness = "0s"
unit = "event"
budget = {{ epsilon = 1.0 }}
key = "file:clinic.key"

[stream.columns]
region = {{ values = ["north", "south"] }}

[server]
publish_delay = "100ms"

[[release]]
name = "visits"
sql = "SELECT region, COUNT(*) FROM visits GROUP BY region"
window = "each"
epsilon = 0.25
"""


class Served:
    """A running server with a token for each role."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clinic.toml"
        self.file.write_text(TOML.format(start=datetime.now(UTC) - timedelta(seconds=2)))
        assert invoke("key", "create", folder / "clinic.key").exit_code == 0
        roles = {"reader": (), "analyst": ("--share", "1/2"), "curator": ()}
        made = {
            role: invoke("token", "create", self.file, f"the-{role}", "--role", role, *more)
            for role, more in roles.items()
        }
        self.tokens = {role: found.stdout.strip() for role, found in made.items()}
        self.process = started("serve", self.file, "--port", "0", stdin=subprocess.DEVNULL)
        assert self.process.stderr is not None
        self.said = ""
        while "serving on" not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        found = re.search(r"serving on (http://127\.0\.0\.1:\d+)", self.said)
        assert found is not None, self.said
        self.address = found[1]

    def client(self, role: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=30, trust_env=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(tmp_path_factory.mktemp("served"))
    yield found
    if found.process.poll() is None:
        found.process.kill()
    found.process.communicate()


def test_a_batch_is_accepted_counted_once_and_released(served: Served) -> None:
    with served.client("curator") as curator:
        visit = {"ts": datetime.now(UTC).isoformat(), "region": "north"}
        for repeated in (False, True):
            reply = curator.post("/api/events", json=[visit, visit], headers={"Batch-Key": "ward-7-1"})
            assert reply.json() == {"batch": "ward-7-1", "durable": True, "duplicate": repeated}
        assert curator.get("/api/events/ward-7-1").json()["status"] == "committed"
        while (details := curator.get("/api/quarantine").json())["records"] != 2:
            assert details == {"records": 0, "drops": details["drops"], "shares": details["shares"]}
            time.sleep(0.1)  # a loop without a pause would meet the rate limit
        assert details["shares"]["a readable time inside the stream (ts)"] == "100 %"
        assert "streamgauge_events_total 2" in curator.get("/metrics").text


def test_reader_receives_live_releases(served: Served) -> None:
    with served.client("reader") as reader, reader.stream("GET", "/api/live?release=visits") as live:
        for line in live.iter_lines():
            if line.startswith("data:") and "tick" in line:
                observed = json.loads(line.removeprefix("data:"))
                break
    with served.client("reader") as reader:
        details = reader.get(f"/api/releases/visits?from={observed['tick']}&to={observed['tick']}&shape=columns").json()
    assert details["tick"] == [observed["tick"]]
    assert details["measures"]["count"]["value"] == [observed["measures"]["count"]["value"]]


def test_release_requested_by_analyst_is_added_to_run(served: Served) -> None:
    requested = {"name": "norths", "sql": "SELECT COUNT(*) FROM visits WHERE region = 'north'", "epsilon": 0.4}
    with served.client("analyst") as analyst:
        assert analyst.post("/api/plan", json=requested).json()["refusals"] == []
        assert analyst.post("/api/releases", json=requested).status_code == 201
        assert analyst.get("/api/session").json()["remaining"] == {"epsilon": "1/10"}
        again = analyst.post("/api/releases", json={**requested, "name": "others"})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "release_rejected")
        assert analyst.get("/api/ledger").json()["requested_by"] == {"norths": "the-analyst"}
    with served.client("curator") as curator:
        visit = {"ts": datetime.now(UTC).isoformat(), "region": "north"}
        assert curator.post("/api/events", json=visit, headers={"Batch-Key": "after"}).json()["durable"]
    with served.client("analyst") as analyst:
        assert analyst.delete("/api/releases/norths").json() == {"release": "norths", "is_ended": True}


def test_revoked_token_is_refused(served: Served) -> None:
    secret = invoke("token", "create", served.file, "guest", "--role", "reader").stdout.strip()
    headers = {"Authorization": f"Bearer {secret}"}
    url = f"{served.address}/api/ledger"
    assert httpx.get(url, headers=headers, timeout=30, trust_env=False).status_code == 200
    assert invoke("token", "revoke", served.file, "guest").exit_code == 0
    assert httpx.get(url, headers=headers, timeout=30, trust_env=False).status_code == 401


@pytest.mark.slow
def test_second_server_or_used_port_is_one_line_error(served: Served, tmp_path: Path) -> None:
    second = started("serve", served.file, "--port", "0", "--quiet")
    said = second.communicate()[1].strip()
    assert (second.returncode, "must be used by one run at a time" in said, "\n" in said) == (2, True, False)
    port = served.address.rpartition(":")[2]
    other = tmp_path / "other.toml"
    other.write_text(served.file.read_text())
    third = started("serve", other, "--port", port, "--quiet")
    said = third.communicate()[1].strip()
    assert (third.returncode, "\n" in said) == (1, False)
    assert said.startswith(f"streamgauge: address must be free to listen on, got 127.0.0.1:{port}")
    assert not other.with_suffix(".streamgauge").exists()


def test_access_log_is_readable_by_curator_only(served: Served) -> None:
    folder = served.file.with_suffix(".streamgauge")
    log = folder / "access.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "the-curator POST /api/events 200" in log.read_text()
    assert "?" not in log.read_text()


def test_malformed_http_gets_error_reply_in_json(served: Served) -> None:
    host, _, port = served.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as line:
        line.sendall(b"\x16\x03\x01 is no HTTP\r\n\r\n")
        reply = line.makefile("rb").read()
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["code"] == "malformed_request"
    with socket.create_connection((host, int(port)), timeout=30) as line:
        line.sendall(b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"a" * 2**15)
        assert line.makefile("rb").read().startswith(b"HTTP/1.1 400 ")


def test_signal_stops_server_and_notifies_live_readers(served: Served) -> None:
    """The server process ends here; later tests use only its files."""
    with served.client("reader") as reader, reader.stream("GET", "/api/live") as live:
        lines = live.iter_lines()
        assert any('"running"' in line for line in lines)
        os.kill(served.process.pid, signal.SIGTERM)
        assert any('"stopping"' in line for line in lines)
        assert not any(line.startswith("event: reset") for line in lines)
    out, said = served.process.communicate(timeout=60)
    assert (served.process.returncode, out) == (130, "")
    assert "stopped after tick" in said
    assert "Traceback" not in said


def test_tokens_are_listed_without_their_secrets(served: Served) -> None:
    invoke("token", "create", served.file, "former", "--role", "reader")
    invoke("token", "revoke", served.file, "former")
    found = invoke("token", "list", served.file, "--json")
    rows = {row["name"]: row for row in json.loads(found.stdout)}
    assert rows["the-analyst"]["share"] == "1/2"
    assert rows["former"]["revoked_at"] is not None
    assert not any(secret in found.stdout for secret in served.tokens.values())
    assert "the-curator" in invoke("token", "list", served.file).stdout


def test_failed_run_is_reported_once_without_error_text() -> None:
    class Failed:
        failure = ValueError("patient 4711")

    said: list[str] = []
    watching = SimpleNamespace(print_failure=said.append)
    worry = FailureMonitor(Failed(), watching)  # type: ignore[arg-type]
    worry.check()
    worry.check()
    assert said == ["ValueError: this is a bug; streamgauge --debug shows where"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ana", "--role", "analyst"], "share must be given for an analyst"),
        (["ana", "--role", "analyst", "--share", "2"], "--share must be a part of the budget"),
        (["ana", "--role", "analyst", "--share", "half"], "--share must be a part of the budget"),
        (["ana", "--role", "queen"], "role must be one of sender, reader, analyst, curator"),
    ],
)
def test_invalid_token_arguments_are_one_line_error(served: Served, words: list[str], said: str) -> None:
    assert said in line_of(invoke("token", "create", served.file, *words))
