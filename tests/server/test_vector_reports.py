"""Reports that are vectors of bits, at POST /api/reports: as messages and as records, to the estimates."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.localdp import wire
from streamgauge.localdp.report_bytes import Reports
from streamgauge.records.reports import decode_reports, encode_reports
from streamgauge.server.http import tokens
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import InsecureNoise
from tests.support.people import House, Still, code_of
from tests.support.polls import AGES, COUNT, NOW, accepted_records
from tests.support.served import close, leave, running, stepped

VALUES = [*"ab", *map(str, range(90))]
PROTOCOLS: dict[str, dict[str, Any]] = {"CountMeanSketch": {"hashes": 5, "width": 75, "seed": 3}, "UnaryEncoding": {}}
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def poll(folder: Path, protocol: str, **settings: Any) -> PipelineFile:
    column = {"report": protocol, "epsilon": 2, "values": VALUES, "on_repeat": "repeat", "reports_per_user": 1}
    tables = {
        "stream": {
            "name": "poll",
            "source": "reports",
            "allow_reports_from": "anyone",
            "tick": "10s",
            "start": "2026-01-05T00:00:00Z",
            "unit": "report",
            "budget": {"epsilon": 3},
            "key": "file:poll.key",
            "columns": {"emoji": {**column, **PROTOCOLS[protocol], **settings}, "age": {"values": ["young", "old"]}},
        },
        "release": [
            {"name": "all", "sql": COUNT},
            {"name": "now", "sql": COUNT, "window": "each"},
            {"name": "lately", "sql": COUNT, "window": "sliding 20s"},
            {"name": "ages", "sql": AGES, "epsilon": 1, "window": "each"},
        ],
        "server": {"rate": 1000, "publish_delay": "4s", "anonymous": True},
    }
    return parse_pipeline(tables, folder / "poll.toml")


def house(folder: Path, protocol: str, **settings: Any) -> House:
    return House(folder, Still(poll(folder, protocol, **settings), now=NOW))


def claim(of: House) -> Any:
    return of.file.stream.reports["emoji"].mechanism


def drawn(of: House, items: str, seed: int = 1) -> Reports:
    found: Reports = claim(of).privatise_many(list(items), InsecureNoise(seed))
    return found


@protocols
def test_message_and_records_of_same_vectors_are_equal(tmp_path: Path, protocol: str) -> None:
    made = house(tmp_path, protocol)
    rows = drawn(made, "abba")
    reply = made.client().post("/api/reports", content=wire.pack_message(claim(made), rows))
    assert reply.json() == {"accepted": 4, "durable": True}
    details = [{"emoji": text, "age": "old"} for text in encode_reports(rows)]
    assert made.client().post("/api/reports", json=details).json()["accepted"] == 4
    first, second = accepted_records(made)[:4], accepted_records(made)[4:]
    assert second == [{**each, "age": "old"} for each in first] == details
    again, good = decode_reports([each["emoji"] for each in first], claim(made).report_size)
    assert (np.array_equal(again, rows), good.all()) == (True, True)


@protocols
def test_collection_has_all_settings_of_vector_columns(tmp_path: Path, protocol: str) -> None:
    made = house(tmp_path, protocol)
    column = made.client().get("/api/collection").json()["columns"]["emoji"]
    assert wire.parse_mechanism(column["settings"]) == claim(made)
    assert (column["protocol"], column["values"]) == (protocol, VALUES)


@protocols
def test_impossible_vectors_are_dropped_one_by_one_and_counted(tmp_path: Path, protocol: str) -> None:
    made = house(tmp_path, protocol)
    size, sketch = claim(made).report_size, protocol == "CountMeanSketch"
    behind, row = np.zeros((2, 1, size), np.uint8)
    behind[0, -1], row[0, 0] = 128, 5 if sketch else 0
    rows = np.concatenate([drawn(made, "a"), behind, drawn(made, "b"), *([row] if sketch else [])])
    reply = made.client().post("/api/reports", content=wire.pack_message(claim(made), rows))
    assert reply.json() == {"accepted": 2, "durable": True}
    good = encode_reports(drawn(made, "a"))[0]
    letters = [good[:-1], good + "A", good[:-4], "*" + good[1:], "é" * (len(good) // 2), "_" * len(good)]
    kinds = [
        7,
        3.5,
        True,
        [good],
        {"text": good},
        "",
        encode_reports(behind)[0],
        *(encode_reports(row) if sketch else []),
    ]
    spelt = [good[:-2] + "/=", good[:-1] + "="] if good.endswith("=") else [good[:-1] + "="]
    bad = [{"emoji": each, "age": "old"} for each in [*letters, *kinds, *(s for s in spelt if s != good)]]
    reply = made.client().post("/api/reports", json=[*bad, {"emoji": good}, {"emoji": None, "age": "old"}])
    assert reply.json()["accepted"] == 2
    assert [*accepted_records(made)[2:]] == [{"emoji": good}, {"age": "old"}]
    assert made.runner.dropped == {"no report": len(rows) - 2 + len(bad)}


def test_cut_message_of_vectors_is_refused(tmp_path: Path) -> None:
    made = house(tmp_path, "UnaryEncoding")
    cut = wire.pack_message(claim(made), drawn(made, "ab"))[:-1]
    assert code_of(made.client().post("/api/reports", content=cut)) == (400, "malformed_request")


def test_message_fits_64_vectors_of_1024_bits(tmp_path: Path) -> None:
    made = house(tmp_path, "CountMeanSketch", width=1024, hashes=1024)
    rows = drawn(made, "a" * 64)
    records = [{"emoji": text, "age": "young"} for text in encode_reports(rows)]
    assert made.client().post("/api/reports", json=records).json()["accepted"] == 64
    content = wire.pack_message(claim(made), rows)
    assert made.client().post("/api/reports", content=content).json()["accepted"] == 64


@protocols
def test_estimates_equal_a_collectors_in_windows_and_after_restarts(tmp_path: Path, protocol: str) -> None:
    create_key(tmp_path / "poll.key")
    file, clock = poll(tmp_path, protocol), stepped(1)
    sent: list[Reports] = []
    for tick, departure in {1: 16, 2: 28, 3: 36}.items():  # a run of its own for each
        (file.folder / tokens.FILE_NAME).unlink(missing_ok=True)
        with running(file, clock) as runner:
            made = House(tmp_path, runner)
            sent.append(drawn(made, "aab" * 9, tick))
            post_both(made, sent[-1])
            clock.to(10 * tick)
            close(runner, clock, tick)
            leave(runner, clock, departure)
            details = {name: values(made, name) for name in ("all", "now", "lately")}
    for name, reach in {"all": 9, "now": 1, "lately": 2}.items():
        collector = file.stream.reports["emoji"].mechanism.build_collector()
        collector.add(np.concatenate(sent[-reach:]))
        assert details[name] == collector.estimate(VALUES).count.tolist()


def post_both(made: House, rows: Reports) -> None:
    """Post some vectors in a message and the others as records."""
    message = wire.pack_message(claim(made), rows[:10])
    lines = "\n".join(json.dumps({"emoji": text}) for text in encode_reports(rows[10:])).encode()
    replies = [
        made.client().post("/api/reports", content=message),
        made.client().post("/api/reports", content=lines, headers={"Content-Type": "application/x-ndjson"}),
    ]
    assert [reply.json()["accepted"] for reply in replies] == [10, len(rows) - 10]


def values(made: House, release: str) -> list[float]:
    """Return the counts of the last tick."""
    rows = made.client().get(f"/api/releases/{release}").json()["rows"]
    return [row["count"]["value"] for row in rows[-len(VALUES) :]]


@pytest.mark.parametrize("most", [1, 64])
def test_message_fits_max_reports_of_the_longest_vectors(tmp_path, most):
    file = poll(tmp_path, "CountMeanSketch", width=2**16, hashes=4)
    made = House(tmp_path, Still(replace(file, server=replace(file.server, max_reports=most)), now=NOW))
    rows = drawn(made, "a" * most)
    records = [{"emoji": text, "age": "young"} for text in encode_reports(rows)]
    for sent in ({"content": wire.pack_message(claim(made), rows)}, {"json": records}):
        assert made.client().post("/api/reports", **sent).status_code == 200
    message = wire.pack_message(claim(made), drawn(made, "a" * (most + 1)))
    assert made.client().post("/api/reports", content=message).status_code == 413
