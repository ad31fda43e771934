"""POST /api/reports and GET /api/collection: senders, refusals and public results."""

import json
import re
import urllib.request
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from streamgauge.cli.runs.monitor import progress_text
from streamgauge.localdp import wire
from streamgauge.server.routes.intrusions import describe_memory
from streamgauge.store.keys import create_key
from tests.support.people import House, code_of
from tests.support.polls import KEY, PAGE, SERVER_PAGE, accepted_records, claim, house, message, poll
from tests.support.served import Stepped, close, leave, running, stepped


def test_report_without_token_is_accepted_from_any_page(tmp_path: Path) -> None:
    made = house(tmp_path)
    reply = made.client(**PAGE).post("/api/reports", content=message(made, 3, 5))
    assert (reply.status_code, reply.json()) == (200, {"accepted": 2, "durable": True})
    assert reply.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in reply.headers
    assert accepted_records(made) == [{"emoji": 3}, {"emoji": 5}]
    assert json.loads(made.runner.inbox.batches_read[0].splitlines()[0])["arrived"] == made.runner.now()
    assert made.access[-1].startswith("- POST /api/reports 200")


def test_preflight_is_allowed_on_device_routes_only(tmp_path: Path) -> None:
    made = house(tmp_path)
    for path in ("/api/reports", "/api/collection", "/client.js"):
        requested = made.client(**PAGE)("OPTIONS", path)
        assert (requested.status_code, requested.headers["access-control-allow-origin"]) == (204, "*")
        assert "Batch-Key" in requested.headers["access-control-allow-headers"]
    for path in ("/api/events", "/api/releases", "/api/session", "/api/reports/"):
        assert "access-control-allow-origin" not in made.client(**PAGE)("OPTIONS", path).headers
    assert code_of(made.client(**PAGE).post("/api/session", json={"token": "x"})) == (403, "cross_site")


def test_gateway_routes_need_a_curators_token_and_allow_no_cors(tmp_path: Path) -> None:
    made = house(tmp_path, "curator")
    content = message(made, 3)
    assert code_of(made.client("reader").post("/api/reports", content=content)) == (403, "wrong_role")
    assert made.client("curator").post("/api/reports", content=content).json()["accepted"] == 1
    assert "access-control-allow-origin" not in made.client("curator").post("/api/reports").headers
    assert "access-control-allow-origin" not in made.client()("OPTIONS", "/api/reports").headers


def test_collection_has_all_settings_of_a_device(tmp_path: Path) -> None:
    made = house(tmp_path, anonymous=False)
    details = made.client().get("/api/collection").json()
    assert (details["name"], details["allow_reports_from"], details["tick"]) == ("poll", "anyone", 10)
    (column,) = details["columns"].values()
    assert wire.parse_mechanism(column["settings"]) == claim(made)
    assert (column["on_repeat"], column["values"], column["per_user"]) == ("repeat", ["a", "b"], {"epsilon": "2"})


def test_records_keep_declared_columns_and_lose_all_others(tmp_path: Path) -> None:
    made = house(tmp_path)
    records = [{"emoji": 4, "age": "old", "name": "Ada", "arrived": 7}, {"age": "young"}]
    assert made.client().post("/api/reports", json=records).json()["accepted"] == 2
    lines = "\n".join(map(json.dumps, records)).encode()
    kind = {"Content-Type": "application/x-ndjson", "Batch-Key": KEY}
    assert made.client().post("/api/reports", content=lines, headers=kind).json()["accepted"] == 2
    assert accepted_records(made) == [{"emoji": 4, "age": "old"}, {"age": "young"}] * 2
    assert b'"arrived":7' not in b"".join(made.runner.inbox.batches_read)


def test_impossible_reports_are_dropped_and_counted_for_curator(tmp_path: Path) -> None:
    made = house(tmp_path)
    codes = claim(made).codes
    some = message(made, codes, 1, codes + 9)
    assert made.client().post("/api/reports", content=some).json()["accepted"] == 1
    bad = [{"emoji": codes}, {"emoji": -1}, {"emoji": 1.0}, {"emoji": True}, {"emoji": "1"}, {}, 7, {"x": 1}]
    assert made.client().post("/api/reports", json=[*bad, {"emoji": 2}]).json()["accepted"] == 1
    lines, kind = b'{"emoji": 3}\n{"emoji"\n' + b"[" * 4000, {"Content-Type": "application/x-ndjson"}
    torn = made.client().post("/api/reports", content=lines, headers=kind)
    assert torn.json() == {"accepted": 1, "durable": True}
    assert accepted_records(made) == [{"emoji": 1}, {"emoji": 2}, {"emoji": 3}]
    assert made.client("curator").get("/api/quarantine").json()["drops"]["no report"] == 2 + 8 + 2
    assert code_of(made.client().get("/api/quarantine")) == (403, "wrong_role")
    metrics = made.client("curator").get("/metrics").text
    assert 'streamgauge_dropped_records_total{rule="no report"} 12' in metrics
    assert 'streamgauge_dropped_records_total{rule="late"} 13' in metrics


REFUSED: list[tuple[bytes, str, tuple[int, str]]] = [
    (b"", "", (400, "malformed_request")),
    (b"SGR2abcd" + bytes(4), "", (400, "malformed_request")),
    (b"SGR1abcd" + bytes(4), "application/octet-stream", (400, "malformed_request")),
    (b"[1, 2", "application/json", (400, "malformed_request")),
    (b"7", "application/json", (400, "malformed_request")),
    (b"<x/>", "text/xml", (415, "media_type")),
    (b"[" + b"{}," * 64 + b"{}]", "application/json", (413, "too_many")),
    (b" " * 70_000, "application/json", (413, "too_large")),
]


def test_refusal_depends_on_the_message_alone(tmp_path: Path) -> None:
    made = house(tmp_path)

    def replies() -> list[Any]:
        kinds = [(content, {"Content-Type": kind}) for content, kind, _ in REFUSED]
        return [made.client().post("/api/reports", content=content, headers=kind) for content, kind in kinds]

    before = replies()
    made.client().post("/api/reports", content=message(made, 1))
    assert [code_of(reply) for reply in before] == [details for _, _, details in REFUSED]
    assert [reply.content for reply in before] == [reply.content for reply in replies()]
    assert {reply.headers["access-control-allow-origin"] for reply in before} == {"*"}


@pytest.mark.parametrize(("kind", "form"), [("x-ndjson", b"%s"), ("json", b"[%s]")])
def test_unreadable_record_is_not_accepted(tmp_path: Path, kind: str, form: bytes) -> None:
    """NaN is not JSON and half of a surrogate pair is not text, so the engine would drop the record. A number of
    thousands of digits cannot be read either."""
    made, long = house(tmp_path), b"9" * 5000
    bad = [b'{"emoji": 1, "age": NaN}', b'{"age": -Infinity}', b'{"age": "\\ud800"}', b'{"age": ["\\udfff"]}']
    bad += [b'{"emoji": %s}' % long, b'{"emoji": 1, "age": -%s}' % long, b'{"age": [%s]}' % long]
    good = b'{"age": "\\ud83d\\ude00", "other": %s}' % long
    records = (b"\n" if kind == "x-ndjson" else b",").join([*bad, good])
    headers = {"Content-Type": f"application/{kind}"}
    reply = made.client().post("/api/reports", content=form % records, headers=headers)
    assert reply.json()["accepted"] == 1
    assert accepted_records(made) == [{"age": "😀"}]
    assert made.runner.dropped == {"no report": len(bad)}


def test_memory_description_separates_reports_from_other_columns(tmp_path: Path) -> None:
    stream = poll(tmp_path).stream
    assert describe_memory(stream) == {"this_stream": "mixed", "reports": ["emoji"], "like": "counter"}
    alone = replace(stream, columns={"emoji": stream.columns["emoji"]})
    assert describe_memory(alone)["this_stream"] == "reports"


def test_access_log_of_collection_has_no_client(tmp_path: Path) -> None:
    made = house(tmp_path)
    for path in ("/api/collection", "/client.js", "/api/collection/"):
        made.client().get(path)
        assert made.access[-1].startswith(f"- GET {path} ")


@pytest.mark.parametrize("senders", ["anyone", "curator"])
def test_browser_client_is_served_with_cors_for_anyone_only(tmp_path: Path, senders: str) -> None:
    reply = house(tmp_path, senders, anonymous=False).client(**PAGE).get("/client.js")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert "export class Device" in reply.text
    assert ("access-control-allow-origin" in reply.headers) is (senders == "anyone")


def test_documented_device_resends_its_report_and_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = house(tmp_path)

    def urlopen(requested: Any, timeout: float | None = None) -> Any:
        details = urllib.request.Request(requested) if isinstance(requested, str) else requested
        path = details.full_url.removeprefix("http://poll.example")
        headers = {name: str(value) for name, value in details.header_items()}
        reply = made.client()(details.get_method(), path, content=details.data or b"", headers=headers)
        return BytesIO(reply.raise_for_status().content)

    (block,) = re.findall(r"```\n(import json, urllib.request\n.*?)```", SERVER_PAGE.read_text(), re.DOTALL)
    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        exec(block, {"SERVER": "http://poll.example"})
    assert len(accepted_records(made)) == 1


def test_message_with_cut_last_report_is_refused(tmp_path: Path) -> None:
    made = house(tmp_path)
    assert code_of(made.client().post("/api/reports", content=message(made, 1, 2)[:-1])) == (400, "malformed_request")
    assert not hasattr(made.runner.inbox, "batches_read")


def test_flood_from_one_address_is_limited_and_others_pass(tmp_path: Path) -> None:
    made = house(tmp_path, rate=2).at_one_moment()
    flood = [made.client().post("/api/reports", content=message(made, 1)) for _ in range(6)]
    assert code_of(flood[-1]) == (429, "rate_limited")
    assert flood[-1].headers["access-control-allow-origin"] == "*"
    assert made.client(address="10.9.9.9").post("/api/reports", content=message(made, 1)).status_code == 200


def test_token_and_cookie_are_ignored_if_anyone_may_send(tmp_path: Path) -> None:
    made = house(tmp_path)
    reply = made.client(Authorization="Bearer wrong", Cookie="streamgauge=x", **PAGE).post(
        "/api/reports", content=message(made, 1)
    )
    assert reply.status_code == 200


def test_events_and_reports_are_refused_by_each_others_streams(tmp_path: Path) -> None:
    events = House(tmp_path)
    assert code_of(events.client("curator").post("/api/reports", content=b"x")) == (409, "no_inbox")
    assert code_of(events.client("curator").get("/api/collection")) == (409, "no_inbox")
    assert events.client("curator").get("/client.js").status_code == 404
    made = house(tmp_path)
    key = {"Batch-Key": "k"}
    assert code_of(made.client("curator").post("/api/events", json={}, headers=key)) == (409, "no_inbox")


def test_api_and_ledger_have_local_and_central_releases(tmp_path: Path) -> None:
    """The page draws releases, ticks and ledger from these replies."""
    create_key(tmp_path / "poll.key")
    clock: Stepped = stepped(1)
    with running(poll(tmp_path), clock) as runner:
        made = House(tmp_path, runner)
        sent = [{"emoji": 3, "age": "old"}, {"emoji": 5, "age": "old"}]
        assert made.client().post("/api/reports", json=[*sent, {}]).json()["durable"] is True
        close_at(runner, clock)
        assert runner.progress is not None
        assert "dropped: no report 1" in progress_text(runner.progress)
        reader = made.client()
        listed = {each["name"]: each for each in reader.get("/api/releases").json()["releases"]}
        assert [listed[name]["column"] for name in ("emoji", "ages")] == ["emoji", None]
        assert listed["emoji"]["loss_text"] == "epsilon 2 of a report"
        rows = {name: reader.get(f"/api/releases/{name}").json()["rows"] for name in listed}
        assert [row["count"]["value"] for row in rows["ages"]] == [0, 2]
        assert [row["group"] for row in rows["emoji"]] == [{"emoji": "a"}, {"emoji": "b"}]
        assert all(row["count"]["stddev"] > 0 and row["count"]["reliable"] for row in rows["emoji"])
        ledger = reader.get("/api/ledger").json()
    assert [charge["release"] for charge in ledger["charges"]] == ["column emoji", "ages"]
    assert (ledger["spent"], ledger["remaining"]) == ({"epsilon": "3"}, {"epsilon": "0"})
    (column,) = ledger["columns"]
    assert (column["column"], column["per_user"], column["on_repeat"]) == ("emoji", {"epsilon": "2"}, "repeat")


def close_at(runner: Any, clock: Stepped) -> None:
    """Commit and publish the first tick, which has no lateness."""
    clock.to(10)
    close(runner, clock, 1)
    leave(runner, clock, 16)
