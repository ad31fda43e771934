"""Cross-origin reads: public replies only, none that depends on a token or a cookie."""

from pathlib import Path

import pytest

from tests.support.people import House

READ = ["/api/releases", "/api/releases/visits", "/api/ledger", "/api/ledger/entries"]
CLOSED = ["/api/session", "/api/openapi.json", "/healthz", "/", "/api/quarantine", "/metrics", "/api/events/k"]
ALLOWED = "access-control-allow-origin"


@pytest.mark.parametrize("anonymous", [False, True])
def test_public_replies_are_readable_from_other_sites(tmp_path: Path, anonymous: bool) -> None:
    house = House(tmp_path, anonymous=anonymous)
    found = [house.client().get(path).headers.get(ALLOWED) for path in READ]
    assert found == ["*" if anonymous else None] * len(READ)
    for path in CLOSED:
        assert ALLOWED not in house.client().get(path).headers


def test_reply_to_token_or_cookie_is_not_shared(tmp_path: Path) -> None:
    house = House(tmp_path, anonymous=True)
    for headers in ({"Cookie": "a=b"}, {"Authorization": "Bearer x"}):
        assert ALLOWED not in house.client().get("/api/releases", headers=headers).headers
    reply = house.client("reader").get("/api/releases")
    assert ALLOWED not in reply.headers
    assert {"Authorization", "Cookie"} <= set(reply.headers["vary"].replace(",", " ").split())


@pytest.mark.parametrize(("method", "shared"), [("GET", True), ("POST", False), ("DELETE", False)])
def test_preflight_allows_reads_only(tmp_path: Path, method: str, shared: bool) -> None:
    client = House(tmp_path, anonymous=True).client(Origin="https://elsewhere.example")
    reply = client("OPTIONS", "/api/releases/visits", headers={"Access-Control-Request-Method": method})
    assert (reply.status_code == 204, ALLOWED in reply.headers) == (shared, shared)
    assert "Authorization" not in reply.headers.get("access-control-allow-headers", "")
    assert "access-control-allow-credentials" not in reply.headers
    posted = client.post("/api/releases", json={})
    assert ALLOWED not in posted.headers
