"""Access control: roles and routes, cross-site requests, and information in replies."""

from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from streamgauge.server.app import build_app
from streamgauge.server.http.auth import COOKIE_NAME, OPEN_PATHS
from streamgauge.server.http.middleware import SECURITY_HEADERS
from tests.support.people import VISIT, Client, House, code_of

CURATORS = [
    "POST /api/events",
    "GET /api/events/k",
    "POST /api/intrusions",
    "GET /api/quarantine",
    "GET /api/metrics",
    "GET /metrics",
]
ANALYSTS = ["POST /api/plan", "POST /api/releases", "DELETE /api/releases/x"]
READERS = ["GET /api/ledger", "GET /api/releases", "GET /api/releases/visits", "GET /api/live?release=none"]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def status(client: Client, route: str) -> int:
    method, path = route.split()
    return client(method, path).status_code


@pytest.mark.parametrize("route", [*READERS, *ANALYSTS, *CURATORS])
def test_request_without_token_gets_401(house: House, route: str) -> None:
    assert status(house.client(), route) == 401


@pytest.mark.parametrize("route", [*ANALYSTS, *CURATORS])
def test_a_reader_may_only_read(house: House, route: str) -> None:
    assert status(house.client("reader"), route) == 403


@pytest.mark.parametrize("route", CURATORS)
def test_analyst_has_no_access_to_event_counts(house: House, route: str) -> None:
    assert status(house.client("analyst"), route) == 403


@pytest.mark.parametrize("route", [*READERS, *ANALYSTS, *CURATORS])
def test_curator_may_use_every_route(house: House, route: str) -> None:
    assert status(house.client("curator"), route) not in (401, 403, 405, 500)


def test_anonymous_readers_may_read_and_do_nothing_else(tmp_path: Path) -> None:
    house = House(tmp_path, anonymous=True)
    assert status(house.client(), "GET /api/ledger") == 200
    assert {status(house.client(), route) for route in [*ANALYSTS, *CURATORS]} == {403}
    details = house.client().get("/api/session").json()
    assert details == {"role": "reader", "name": None, "share": None, "remaining": None}


def test_api_route_needs_a_token_unless_declared_open(tmp_path: Path) -> None:
    """This includes a route that a module adds without a guard."""
    house = House(tmp_path)
    paths = {route.path for route in house.app.routes if isinstance(route, Route)}
    for path in {path for path in paths if path.startswith("/api/")} - OPEN_PATHS:
        assert house.client().get(path.replace("{", "").replace("}", "")).status_code == 401, path

    async def forgotten(request: object) -> None:
        raise AssertionError

    extra = [Route("/api/forgotten", forgotten)]
    house.app = build_app(house.runner, house.tokens, house.file.server, extra_routes=extra)
    assert code_of(house.client().get("/api/forgotten")) == (401, "no_token")


@pytest.mark.parametrize(
    "details",
    [
        "Bearer",
        "Bearer ",
        "Bearer sg_curator_" + "A" * 43,
        "Bearer " + "A" * 10_000,
        "Basic Y29yYTo=",
        "sg_curator",
        "Bearer \u00ff",
    ],
)
def test_unknown_token_is_refused_even_if_none_is_needed(tmp_path: Path, details: str) -> None:
    house = House(tmp_path, anonymous=True)
    reply = house.client().get("/api/ledger", headers={"Authorization": details.encode("latin-1")})
    assert code_of(reply) == (401, "bad_token")
    assert "WWW-Authenticate" in reply.headers


def test_revoked_token_gets_401(house: House) -> None:
    client = house.client("reader")
    house.tokens.revoke("rita")
    assert client.get("/api/ledger").status_code == 401


def signed_in(house: House, role: str = "analyst", **headers: str) -> Client:
    client = house.client(**headers)
    reply = client.post("/api/session", json={"token": house.secrets[role]})
    assert (reply.status_code, reply.json()["role"]) == (200, role)
    return client


def test_session_cookie_is_http_only_and_same_site_strict(house: House) -> None:
    client = house.client()
    reply = client.post("/api/session", json={"token": house.secrets["analyst"]})
    cookie = reply.headers["Set-Cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/", "max-age=43200"))
    assert "secure" not in cookie
    assert house.secrets["analyst"] not in reply.headers["Set-Cookie"]
    assert client.get("/api/ledger").status_code == 200


def test_cookie_is_secure_when_https_is_set(tmp_path: Path) -> None:
    house = House(tmp_path, https=True)
    reply = house.client().post("/api/session", json={"token": house.secrets["reader"]})
    assert "secure" in reply.headers["Set-Cookie"].lower()


def test_session_ends_when_closed_or_its_token_is_revoked(house: House) -> None:
    ours = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    for end in (lambda client: client.delete("/api/session", headers=ours), lambda client: house.tokens.revoke("ana")):
        client = signed_in(house)
        stored = httpx.Cookies(client.cookies)
        end(client)
        client.cookies = stored
        assert client.get("/api/ledger").status_code == 401


@pytest.mark.parametrize("body", [{}, {"token": 7}, {"token": None}, {"token": "x", "role": "curator"}])
def test_session_request_accepts_a_token_only(house: House, body: object) -> None:
    assert code_of(house.client().post("/api/session", json=body)) == (422, "bad_request")


def test_a_wrong_token_makes_no_session(house: House) -> None:
    reply = house.client().post("/api/session", json={"token": "sg_curator_" + "A" * 43})
    assert code_of(reply) == (401, "bad_token")
    assert "Set-Cookie" not in reply.headers


ASKED = {"name": "n", "sql": "SELECT COUNT(*) FROM visits", "epsilon": 0.1}
OURS: list[dict[str, str]] = [
    {"Sec-Fetch-Site": "same-origin"},
    {"Origin": "http://clinic.test"},
    {"Origin": "https://clinic.test"},  # TLS ends in front
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://clinic.test"},
]
THEIRS: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://clinic.test"},
    {"Origin": "http://evil.test"},
    {"Origin": "http://clinic.test.evil.test"},
    {"Origin": "http://clinic.test:8080"},
    {"Origin": "null"},
    {"Origin": "http://["},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.test"},
]


@pytest.mark.parametrize("headers", OURS)
def test_same_origin_request_may_use_the_cookie(house: House, headers: dict[str, str]) -> None:
    assert signed_in(house).post("/api/plan", json=ASKED, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", THEIRS)
def test_cross_site_request_may_not_use_the_cookie(house: House, headers: dict[str, str]) -> None:
    client = signed_in(house)
    assert code_of(client.post("/api/releases", json=ASKED, headers=headers)) == (403, "cross_site")
    assert code_of(client.delete("/api/session", headers=headers)) == (403, "cross_site")
    assert house.runner.requested_releases == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; a=b"])
def test_form_cannot_request_a_release_with_a_cookie(house: House, kind: str) -> None:
    headers = {**OURS[0], "Content-Type": kind}
    reply = signed_in(house).post("/api/releases", content=b"{}", headers=headers)
    assert code_of(reply) == (415, "media_type")


def test_cross_site_sign_in_is_refused(house: House) -> None:
    body = {"token": house.secrets["reader"]}
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.test"}):
        assert code_of(house.client().post("/api/session", json=body, headers=headers)) == (403, "cross_site")


def test_a_bearer_token_needs_no_origin(house: House) -> None:
    headers = {"Origin": "http://tool.test"}
    assert house.client("analyst").post("/api/plan", json=ASKED, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/../../../../etc/passwd",
        "/page/..%2f..%2fapp.py",
        "/page/%2e%2e/app.py",
        "/page//etc/passwd",
        "/api/../tokens.db",
        "/page/app.js%00.css",
        "//etc/passwd",
        "/clinic.streamgauge/tokens.db",
    ],
)
def test_path_outside_the_page_files_gets_404(house: House, path: str) -> None:
    reply = house.client("curator").get(path)
    assert reply.status_code == 404
    assert "root:" not in reply.text


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%00", "a" * 5000, "%0d%0aSet-Cookie:%20x=y", "'; DROP"])
def test_hostile_release_name_gets_404(house: House, name: str) -> None:
    reply = house.client("curator").get(f"/api/releases/{name}")
    assert reply.status_code == 404
    assert "Set-Cookie" not in reply.headers
    assert house.client("curator").delete(f"/api/releases/{name}").status_code == 404


def test_header_injection_in_names_is_refused(house: House) -> None:
    """A name with a line break is refused before it can enter a header."""
    reply = house.client("analyst").post("/api/releases", json={**ASKED, "name": "a\r\nSet-Cookie: x=y"})
    assert reply.status_code == 422
    key = "a%0d%0aSet-Cookie:%20x=y"
    assert house.client("curator").get(f"/api/events/{key}").status_code == 404


def test_oversized_body_is_refused_before_it_is_buffered(tmp_path: Path) -> None:
    house = House(tmp_path, max_body="1KB")
    headers = {"Batch-Key": "k", "Content-Type": "application/x-ndjson"}
    client = house.client("curator")
    assert code_of(client.post("/api/events", content=b"x" * 1001, headers=headers)) == (413, "too_large")

    async def drops():  # type: ignore[no-untyped-def]
        for _ in range(100):
            yield b"x" * 100

    assert code_of(client.post("/api/events", content=drops(), headers=headers)) == (413, "too_large")
    assert code_of(house.client("analyst").post("/api/plan", json={**ASKED, "title": "x" * 70_000}))[0] == 413


def test_client_above_its_rate_gets_429_and_others_do_not(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1, anonymous=True).at_one_moment()
    found = [house.client(address="10.0.0.1").get("/healthz") for _ in range(4)]
    assert [reply.status_code for reply in found] == [200, 200, 429, 429]
    assert int(found[-1].headers["Retry-After"]) >= 1
    assert house.client(address="10.0.0.2").get("/healthz").status_code == 200
    assert house.client("reader", address="10.0.0.1").get("/api/ledger").status_code == 200


def test_wrong_tokens_count_towards_the_rate(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1).at_one_moment()
    guess = {"Authorization": "Bearer guess"}
    found = [house.client().get("/api/ledger", headers=guess).status_code for _ in range(4)]
    assert found == [401, 401, 429, 429]


def test_cross_site_requests_count_towards_the_rate(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1, anonymous=True).at_one_moment()
    theirs = {"Sec-Fetch-Site": "cross-site"}
    found = [house.client().post("/api/plan", json=ASKED, headers=theirs).status_code for _ in range(4)]
    assert found == [403, 403, 429, 429]


def test_too_long_head_is_refused_and_counted(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1, anonymous=True).at_one_moment()
    assert house.client().get("/api/ledger?" + "a" * 15_000).status_code == 200
    reply = house.client().get("/api/ledger?" + "a" * 20_000)
    assert (code_of(reply), reply.headers["Connection"]) == ((431, "header_too_large"), "close")
    assert house.client().get("/api/ledger", headers={"X-Long": "a" * 20_000}).status_code == 429


def test_full_event_buffer_does_not_affect_other_clients(tmp_path: Path) -> None:
    """Analysts and readers still get replies when no further byte of events fits."""
    house = House(tmp_path, max_body="1KB", max_buffer="1KB")
    events = {"Batch-Key": "k", "Content-Type": "application/x-ndjson"}
    admission = house.app.user_middleware[-1].kwargs["limits"]
    with admission.reserve_body() as hold:
        hold(1000)
        assert house.client("curator").post("/api/events", content=VISIT, headers=events).status_code == 503
        assert house.client("analyst").post("/api/plan", json=ASKED).status_code == 200
        assert house.client("reader").get("/api/ledger").status_code == 200


def test_every_reply_has_the_security_headers(house: House) -> None:
    for path in ("/", "/healthz", "/api/ledger", "/nowhere", "/api/openapi.json"):
        reply = house.client("reader").get(path)
        assert {name: reply.headers[name] for name, _ in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
        assert "Cache-Control" in reply.headers
        assert not {"server", "x-powered-by"} & set(reply.headers)
    assert house.client("reader").get("/api/session").headers["Cache-Control"] == "no-store"


def test_errors_have_one_form(house: House) -> None:
    curator = house.client("curator")
    assert code_of(curator.get("/nowhere")) == (404, "not_found")
    assert code_of(curator("PUT", "/api/events")) == (405, "method_not_allowed")
    assert code_of(curator("TRACE", "/healthz")) == (405, "method_not_allowed")


def test_internal_error_hides_the_exception_text(house: House) -> None:
    def broken() -> None:
        raise ValueError("patient 4711 has a fever")

    house.runner.load_entries = broken
    reply = house.client("reader").get("/api/ledger")
    assert code_of(reply) == (500, "internal_error")
    assert "4711" not in reply.text + "".join(house.log + house.access)
    assert house.log == ["a request failed: ValueError"]


def test_access_log_has_one_line_per_request_without_query(house: House) -> None:
    client = house.client("reader")
    client.get("/api/ledger?token=secret")
    client.get("/a%0aforged%20line")
    assert [line.rsplit(" ", 2)[0] for line in house.access] == [
        "rita GET /api/ledger 200",
        "rita GET /a\\u000aforged line 404",
    ]
    assert COOKIE_NAME == "streamgauge"


@pytest.mark.parametrize(
    ("state", "answer"),
    [("starting", (200, "ok")), ("running", (200, "ok")), ("ended", (200, "ended")), ("failed", (503, "failed"))],
)
def test_health_is_public(house: House, state: str, answer: tuple[int, str]) -> None:
    house.runner.event_buffer.state = state
    reply = house.client().get("/healthz")
    assert (reply.status_code, reply.json()) == (answer[0], {"status": answer[1]})
