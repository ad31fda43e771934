"""The role `sender`: it posts events or reports, reads the status of its own batches, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.server.http.auth import OPEN_PATHS, Role, find_person
from streamgauge.server.http.errors import HttpError
from tests.support import polls
from tests.support.people import VISIT, House, code_of

BATCH = {"Batch-Key": "ward-7", "Content-Type": "application/x-ndjson"}
ALLOWED = {("POST", "/api/events"), ("GET", "/api/events/{key:path}"), ("HEAD", "/api/events/{key:path}")}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def post(house: House, role: str, key: str = "ward-7") -> Any:
    return house.client(role).post("/api/events", content=VISIT, headers={**BATCH, "Batch-Key": key})


def list_guarded(house: House) -> list[tuple[str, str]]:
    """Methods and paths of all routes that need a token."""
    routes = [route for route in house.app.routes if isinstance(route, Route)]
    guarded = [each for each in routes if each.path == "/metrics" or each.path.startswith("/api/")]
    return [(method, each.path) for each in guarded if each.path not in OPEN_PATHS for method in each.methods or ()]


def test_a_sender_gets_403_on_every_other_route(house: House) -> None:
    routes = list_guarded(house)
    assert set(routes) > ALLOWED
    assert len(routes) > 20
    for method, path in set(routes) - ALLOWED:
        for body in ({}, {"json": {"name": "n", "sql": "SELECT COUNT(*) FROM visits", "epsilon": "1/8"}}):
            reply = house.client("sender")(method, path.replace("{", "").replace("}", ""), **body)
            assert reply.status_code == 403, (method, path)
    assert house.runner.requested_releases == house.runner.ended == []


def test_unknown_routes_are_closed_to_a_sender(house: House) -> None:
    for path in ("/api/eventsx", "/api/event", "/api/", "/api/unknown", "/api/events-status"):
        assert code_of(house.client("sender").post(path)) == (403, "wrong_role"), path


def test_anonymous_reading_does_not_widen_a_sender(tmp_path: Path) -> None:
    house = House(tmp_path, anonymous=True)
    assert house.client().get("/api/ledger").status_code == 200
    assert house.client("sender").get("/api/ledger").status_code == 403


def test_a_sender_posts_and_sees_own_batches_only(house: House) -> None:
    assert post(house, "sender").json() == {"batch": "ward-7", "durable": True, "duplicate": False}
    assert post(house, "sender").json()["duplicate"] is True
    statuses = [house.client(role).get("/api/events/ward-7").json()["status"] for role in ("sender", "curator")]
    assert statuses == ["committed", "unknown"]
    assert post(house, "curator").json()["duplicate"] is False


@pytest.mark.parametrize("role", ["reader", "analyst"])
def test_readers_and_analysts_cannot_post(house: House, role: str) -> None:
    reply = post(house, role)
    assert code_of(reply) == (403, "wrong_role")
    assert reply.json()["error"]["message"] == f"role must be sender or curator, got {role}"
    assert house.client(role).get("/api/events/ward-7").status_code == 403
    assert house.runner.inbox.totals[0] == 0


def test_sign_in_with_a_sender_token_says_why_not(house: House) -> None:
    client = house.client()
    reply = client.post("/api/session", json={"token": house.secrets["sender"]})
    assert code_of(reply) == (403, "wrong_role")
    assert reply.json()["error"]["message"].startswith("role must be reader or more to sign in, got sender")
    assert not client.cookies
    assert len(house.sessions) == 0


@pytest.mark.parametrize(("senders", "status"), [("sender", 200), ("curator", 403)])
def test_reports_of_a_sender_are_accepted_by_the_file_only(tmp_path: Path, senders: str, status: int) -> None:
    made = polls.house(tmp_path, senders)
    content = polls.message(made, 1)
    headers = {"Batch-Key": "k"}
    assert made.client("sender").post("/api/reports", content=content, headers=headers).status_code == status
    assert len(polls.accepted_records(made)) == (status == 200)
    assert made.client("sender").get("/api/collection").status_code == 403
    assert made.client("analyst").post("/api/reports", content=content).status_code == 403
    assert made.client().post("/api/reports", content=content).status_code == 403  # readers may be anonymous here


def test_each_sender_has_its_own_rate(tmp_path: Path) -> None:
    house = House(tmp_path, rate=2)
    house.secrets["other"] = house.tokens.create("otto", "sender")
    house.at_one_moment()
    statuses = [post(house, "sender", f"k{i}").status_code for i in range(6)]
    assert statuses == [200] * 4 + [429] * 2
    assert post(house, "other").status_code == 200


def test_twin_that_orders_all_roles_lets_an_analyst_post(tmp_path: Path) -> None:
    """A broken twin: it takes the roles for an order in which each has the rights below."""

    async def post_batch(request: Request) -> Response:
        if find_person(request).role < Role.SENDER:
            raise HttpError(403, "wrong_role", "role must be another")
        return JSONResponse({})

    extra = [Route("/api/events", post_batch, methods=["POST"])]
    house = House(tmp_path, extra=lambda runner, limits: extra)
    assert [post(house, role).status_code for role in ("reader", "analyst")] == [200, 200]
