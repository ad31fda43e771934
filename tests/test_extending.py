"""docs/extending.md: its package, installed temporarily, works without an edit under src/."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import streamgauge as sg
from streamgauge.audit.catalogue import list_entries, list_names
from streamgauge.config.pipeline_file import PipelineFileError, read_pipeline
from streamgauge.sql.functions import load_functions
from streamgauge.testing.contracts import check_engine, check_engine_changes, check_sink, check_streaming_source
from tests.support.declared import ALL, TICKS, engine, json_line, stream
from tests.support.packages import write_package

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
MODULES = dict(re.findall(r"```python\n# (sg_\w+)\.py\n(.*?)```", PAGE.read_text(), re.DOTALL))
ENTRIES = {
    "streamgauge.sources": {"feed": "sg_feed:KIND"},
    "streamgauge.sinks": {"sqlite": "sg_sqlite:KIND"},
    "streamgauge.engines": {"timed": "sg_timed:KIND"},
    "streamgauge.mechanisms": {"Ternary": "sg_ternary:Ternary"},
    "streamgauge.aggregates": {"share_above": "sg_share:FUNCTION"},
}
STORE_MODULE = {"sg_files": (Path(__file__).parent / "support" / "file_store.py").read_text()}
STORE_ENTRY = {"streamgauge.stores": {"files": "sg_files:build_driver"}}
ENGINE_LINES = [json_line({"hours": number / 3, "region": "north"}).encode() for number in range(20)]
PIPELINE = """
[plugins]
allow = ["sg-outside"]
[stream]
name = "visits"
source = "feed://127.0.0.1:{port}/visits"
options = {{ timeout = 5 }}
time = "ts"
tick = "1h"
start = 2026-01-05T00:00:00Z
end = 2026-01-05T06:00:00Z
unit = "event"
budget = {{ epsilon = 1 }}
key = "file:key"
store = "files://here"
[stream.columns]
region = {{ values = ["north", "south"] }}
temperature = {{ type = "number" }}
[engine]
kind = "timed"
[[release]]
name = "visits"
sql = "SELECT region, COUNT(*) FROM visits GROUP BY region"
share = 0.5
mechanism = "Ternary"
horizon = "6h"
[[release]]
name = "fever"
sql = "SELECT SHARE_ABOVE(temperature, 38) FROM visits"
share = 0.5
window = "each"
horizon = "6h"
[[sink]]
to = "sqlite://releases.db"
"""


class Feed:
    """An HTTP feed on loopback: GET /visits?after=N."""

    def __init__(self) -> None:
        feed, self.data = self, b""

        class Replies(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                after = int(parse_qs(urlsplit(self.path).query)["after"][0])
                body = feed.data[after:]
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Replies)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/visits"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def append(self, data: bytes) -> None:
        self.data += data


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = write_package(tmp_path / "site", "sg-outside", MODULES | STORE_MODULE, ENTRIES | STORE_ENTRY)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    load_functions.cache_clear()
    for name in (*MODULES, *STORE_MODULE):
        sys.modules.pop(name, None)


def test_the_page_has_every_module_in_less_than_80_lines() -> None:
    assert set(MODULES) == {"sg_feed", "sg_sqlite", "sg_timed", "sg_ternary", "sg_share"}
    assert all(len(source.splitlines()) < 80 for source in MODULES.values())
    listed = re.findall(r'entry-points\."([\w.]+)"\]\n(\w+) = "([\w:]+)"', PAGE.read_text())
    assert {group: {name: value} for group, name, value in listed} == ENTRIES


@pytest.mark.usefixtures("package")
def test_feed_meets_the_source_contract(feed: Feed) -> None:
    source = import_module("sg_feed").FeedSource
    check_streaming_source(lambda: source(feed.url, 5), feed.append)


@pytest.mark.usefixtures("package")
def test_sqlite_sink_meets_the_sink_contract(tmp_path: Path) -> None:
    sink, path = import_module("sg_sqlite").SqliteSink, tmp_path / "releases.db"

    def read() -> list[tuple[str, int, float]]:
        return rows(path, "SELECT release, tick, value FROM releases")

    check_sink(lambda: sink("sqlite://releases.db", path, "ab" * 16), read)


@pytest.mark.usefixtures("package")
def test_timed_engine_meets_the_engine_contract() -> None:
    timed = import_module("sg_timed").TimedEngine
    check_engine(lambda: timed(engine(stream(), [ALL])), lambda: engine(stream(), [ALL]), ENGINE_LINES, TICKS)
    reference = partial(engine, stream())
    changed = {"lines": ENGINE_LINES, "ticks": TICKS}
    check_engine_changes(lambda some: timed(reference(some)), reference, [ALL], [ALL, ALL], **changed)


@pytest.mark.usefixtures("package")
def test_the_mechanism_is_found_by_compare_and_audit() -> None:
    found = sg.continual.compare(sg.Pure(1), horizon=100, plugins=("sg-outside",))
    assert "Ternary" in {each.name for each in found.candidates if not each.refusal}
    assert "Ternary" not in {each.name for each in sg.continual.compare(sg.Pure(1), horizon=100).candidates}
    assert "Ternary" in list_names()
    assert [entry for entry in list_entries("Ternary") if entry.kind == "counter"]


def test_a_pipeline_runs_with_an_outside_package(feed: Feed, package: Path, tmp_path: Path) -> None:
    records = [
        {"ts": f"2026-01-05T0{hour}:30:00Z", "region": "north", "temperature": 36 + n % 4}
        for hour in range(6)
        for n in range(50)
    ]
    feed.append(b"".join(json.dumps(each).encode() + b"\n" for each in records))
    path = tmp_path / "clinic.toml"
    path.write_text(PIPELINE.format(port=feed.port))
    environment = {**os.environ, "PYTHONPATH": str(package)}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "streamgauge", *arguments]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120
        )

    assert call("key", "create", "key").returncode == 0
    planned = call("plan", "clinic.toml")
    assert planned.returncode == 0, planned.stderr
    assert "sg-outside" in planned.stdout
    ended = call("run", "clinic.toml")
    assert ended.returncode == 0, ended.stderr
    published = rows(tmp_path / "releases.db", "SELECT tick, value FROM releases WHERE \"group\" = 'region=north'")
    assert [tick for tick, _ in published] == [1, 2, 3, 4, 5, 6]
    shares = rows(tmp_path / "releases.db", "SELECT tick, value FROM releases WHERE release = 'fever'")
    assert [tick for tick, _ in shares] == [1, 2, 3, 4, 5, 6]
    assert not (tmp_path / "clinic.streamgauge" / "store.db").exists()  # the outside store has all of it
    assert call("run", "clinic.toml").returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('allow = ["sg-outside"]', "allow = []", r'stream.source: source "feed" comes from the package sg-outside, '),
        ('"sg-outside"', '"sg-outsider"', 'plugins.allow must name installed packages, got "sg-outsider"'),
        ("feed://", "fed://", 'stream.source: source must be one of "file", "-", "http", "reports", "feed", got "fed"'),
        ("feed://", "http://", "stream.source must be a path, a built-in name or a URL of an allowed package"),
        ("timeout = 5", "timeout = 0", "stream.options.timeout must be a number of seconds above 0, got 0"),
        ("timeout = 5", "timout = 5", "unknown key stream.options.timout"),
        (
            'kind = "timed"',
            'kind = "spark"',
            'engine.kind: engine must be one of "embedded", "processes", "timed", got "spark"',
        ),
        (
            'unit = "event"',
            'unit = "event"\npan_private = true',
            'stream.source must be "http" or "-" with pan_private',
        ),
        ("sqlite://", "postgres://", "sink 1.to: sink must be one of "),
        ('mechanism = "Ternary"', 'mechanism = "Quaternary"', "mechanism must be"),
    ],
)
def test_refusals_name_file_key_and_rule(package: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "clinic.toml"
    path.write_text(PIPELINE.format(port=1).replace(old, new, 1))
    with pytest.raises(PipelineFileError) as refused:
        read_pipeline(path)
    assert str(refused.value).startswith("clinic.toml: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def rows(path: Path, sql: str) -> list[Any]:
    database = sqlite3.connect(path)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()
