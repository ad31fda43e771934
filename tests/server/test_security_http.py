"""At the door: who may what, what other sites may make a browser send, and what replies give away."""

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
def test_no_one_gets_in_without_a_token(house: House, route: str) -> None:
    assert status(house.client(), route) == 401


@pytest.mark.parametrize("route", [*ANALYSTS, *CURATORS])
def test_a_reader_may_only_read(house: House, route: str) -> None:
    assert status(house.client("reader"), route) == 403


@pytest.mark.parametrize("route", CURATORS)
def test_an_analyst_sees_nothing_that_counts_events(house: House, route: str) -> None:
    assert status(house.client("analyst"), route) == 403


@pytest.mark.parametrize("route", [*READERS, *ANALYSTS, *CURATORS])
def test_a_curator_may_do_all_of_it(house: House, route: str) -> None:
    assert status(house.client("curator"), route) not in (401, 403, 405, 500)


def test_anonymous_readers_read_where_the_file_says_so_and_do_nothing_else(tmp_path: Path) -> None:
    house = House(tmp_path, anonymous=True)
    assert status(house.client(), "GET /api/ledger") == 200
    assert {status(house.client(), route) for route in [*ANALYSTS, *CURATORS]} == {403}
    details = house.client().get("/api/session").json()
    assert details == {"role": "reader", "name": None, "share": None, "remaining": None}


def test_every_route_under_api_is_closed_unless_it_is_declared_open(tmp_path: Path) -> None:
    """Also one that a module adds and forgets to guard."""
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
def test_a_token_that_is_not_known_is_refused_even_where_no_one_needs_one(tmp_path: Path, details: str) -> None:
    house = House(tmp_path, anonymous=True)
    reply = house.client().get("/api/ledger", headers={"Authorization": details.encode("latin-1")})
    assert code_of(reply) == (401, "bad_token")
    assert "WWW-Authenticate" in reply.headers


def test_a_revoked_token_opens_nothing(house: House) -> None:
    client = house.client("reader")
    house.tokens.revoke("rita")
    assert client.get("/api/ledger").status_code == 401


def signed_in(house: House, role: str = "analyst", **headers: str) -> Client:
    client = house.client(**headers)
    reply = client.post("/api/session", json={"token": house.secrets[role]})
    assert (reply.status_code, reply.json()["role"]) == (200, role)
    return client


def test_a_page_swaps_its_token_for_a_cookie_that_no_script_and_no_other_site_can_use(house: House) -> None:
    client = house.client()
    reply = client.post("/api/session", json={"token": house.secrets["analyst"]})
    cookie = reply.headers["Set-Cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/", "max-age=43200"))
    assert "secure" not in cookie
    assert house.secrets["analyst"] not in reply.headers["Set-Cookie"]
    assert client.get("/api/ledger").status_code == 200


def test_behind_tls_the_cookie_never_travels_in_the_clear(tmp_path: Path) -> None:
    house = House(tmp_path, https=True)
    reply = house.client().post("/api/session", json={"token": house.secrets["reader"]})
    assert "secure" in reply.headers["Set-Cookie"].lower()


def test_a_session_ends_when_it_is_closed_and_when_its_token_is_revoked(house: House) -> None:
    ours = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    for end in (lambda client: client.delete("/api/session", headers=ours), lambda client: house.tokens.revoke("ana")):
        client = signed_in(house)
        stored = httpx.Cookies(client.cookies)
        end(client)
        client.cookies = stored
        assert client.get("/api/ledger").status_code == 401


@pytest.mark.parametrize("body", [{}, {"token": 7}, {"token": None}, {"token": "x", "role": "curator"}])
def test_a_session_takes_a_token_and_nothing_else(house: House, body: object) -> None:
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
def test_our_page_may_ask_with_its_cookie(house: House, headers: dict[str, str]) -> None:
    assert signed_in(house).post("/api/plan", json=ASKED, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", THEIRS)
def test_no_other_site_may_use_the_cookie(house: House, headers: dict[str, str]) -> None:
    client = signed_in(house)
    assert code_of(client.post("/api/releases", json=ASKED, headers=headers)) == (403, "cross_site")
    assert code_of(client.delete("/api/session", headers=headers)) == (403, "cross_site")
    assert house.runner.requested_releases == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; a=b"])
def test_a_form_cannot_ask_with_a_cookie(house: House, kind: str) -> None:
    headers = {**OURS[0], "Content-Type": kind}
    reply = signed_in(house).post("/api/releases", content=b"{}", headers=headers)
    assert code_of(reply) == (415, "media_type")


def test_no_other_site_may_sign_a_browser_in(house: House) -> None:
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
def test_no_path_leads_to_a_file_that_is_not_the_pages(house: House, path: str) -> None:
    reply = house.client("curator").get(path)
    assert reply.status_code == 404
    assert "root:" not in reply.text


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%00", "a" * 5000, "%0d%0aSet-Cookie:%20x=y", "'; DROP"])
def test_names_of_releases_are_only_ever_looked_up(house: House, name: str) -> None:
    reply = house.client("curator").get(f"/api/releases/{name}")
    assert reply.status_code == 404
    assert "Set-Cookie" not in reply.headers
    assert house.client("curator").delete(f"/api/releases/{name}").status_code == 404


def test_nothing_that_is_requested_comes_back_in_a_header(house: House) -> None:
    """A name that could begin a header of its own is refused before it is in one."""
    reply = house.client("analyst").post("/api/releases", json={**ASKED, "name": "a\r\nSet-Cookie: x=y"})
    assert reply.status_code == 422
    key = "a%0d%0aSet-Cookie:%20x=y"
    assert house.client("curator").get(f"/api/events/{key}").status_code == 404


def test_an_oversized_body_is_refused_before_it_is_blocked(tmp_path: Path) -> None:
    house = House(tmp_path, max_body="1KB")
    headers = {"Batch-Key": "k", "Content-Type": "application/x-ndjson"}
    client = house.client("curator")
    assert code_of(client.post("/api/events", content=b"x" * 1001, headers=headers)) == (413, "too_large")

    async def drops():  # type: ignore[no-untyped-def]
        for _ in range(100):
            yield b"x" * 100

    assert code_of(client.post("/api/events", content=drops(), headers=headers)) == (413, "too_large")
    assert code_of(house.client("analyst").post("/api/plan", json={**ASKED, "title": "x" * 70_000}))[0] == 413


def test_a_client_that_asks_too_often_is_shown_to_wait_and_no_one_else(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1, anonymous=True).at_one_moment()
    found = [house.client(address="10.0.0.1").get("/healthz") for _ in range(4)]
    assert [reply.status_code for reply in found] == [200, 200, 429, 429]
    assert int(found[-1].headers["Retry-After"]) >= 1
    assert house.client(address="10.0.0.2").get("/healthz").status_code == 200
    assert house.client("reader", address="10.0.0.1").get("/api/ledger").status_code == 200


def test_guesses_are_counted_too(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1).at_one_moment()
    guess = {"Authorization": "Bearer guess"}
    found = [house.client().get("/api/ledger", headers=guess).status_code for _ in range(4)]
    assert found == [401, 401, 429, 429]


def test_what_other_sites_send_is_counted_too(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1, anonymous=True).at_one_moment()
    theirs = {"Sec-Fetch-Site": "cross-site"}
    found = [house.client().post("/api/plan", json=ASKED, headers=theirs).status_code for _ in range(4)]
    assert found == [403, 403, 429, 429]


def test_a_head_that_is_too_long_is_refused_and_counted(tmp_path: Path) -> None:
    house = House(tmp_path, rate=1, anonymous=True).at_one_moment()
    assert house.client().get("/api/ledger?" + "a" * 15_000).status_code == 200
    reply = house.client().get("/api/ledger?" + "a" * 20_000)
    assert (code_of(reply), reply.headers["Connection"]) == ((431, "header_too_large"), "close")
    assert house.client().get("/api/ledger", headers={"X-Long": "a" * 20_000}).status_code == 429


def test_how_busy_the_curator_is_changes_no_answer_to_others(tmp_path: Path) -> None:
    """With no room for one more byte of events, analysts and readers are answered as ever."""
    house = House(tmp_path, max_body="1KB", max_buffer="1KB")
    events = {"Batch-Key": "k", "Content-Type": "application/x-ndjson"}
    admission = house.app.user_middleware[-1].kwargs["limits"]
    with admission.reserve_body() as hold:
        hold(1000)
        assert house.client("curator").post("/api/events", content=VISIT, headers=events).status_code == 503
        assert house.client("analyst").post("/api/plan", json=ASKED).status_code == 200
        assert house.client("reader").get("/api/ledger").status_code == 200


def test_every_reply_has_the_headers_of_a_careful_server(house: House) -> None:
    for path in ("/", "/healthz", "/api/ledger", "/nowhere", "/api/openapi.json"):
        reply = house.client("reader").get(path)
        assert {name: reply.headers[name] for name, _ in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
        assert "Cache-Control" in reply.headers
        assert not {"server", "x-powered-by"} & set(reply.headers)
    assert house.client("reader").get("/api/session").headers["Cache-Control"] == "no-store"


def test_an_error_is_always_the_same_form(house: House) -> None:
    curator = house.client("curator")
    assert code_of(curator.get("/nowhere")) == (404, "not_found")
    assert code_of(curator("PUT", "/api/events")) == (405, "method_not_allowed")
    assert code_of(curator("TRACE", "/healthz")) == (405, "method_not_allowed")


def test_a_bug_is_shown_without_a_word_of_what_it_met(house: House) -> None:
    def broken() -> None:
        raise ValueError("patient 4711 has a fever")

    house.runner.load_entries = broken
    reply = house.client("reader").get("/api/ledger")
    assert code_of(reply) == (500, "internal_error")
    assert "4711" not in reply.text + "".join(house.log + house.access)
    assert house.log == ["a request failed: ValueError"]


def test_the_access_log_has_no_query_no_token_and_one_line_for_each_request(house: House) -> None:
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
def test_health_is_shown_to_everybody(house: House, state: str, answer: tuple[int, str]) -> None:
    house.runner.event_buffer.state = state
    reply = house.client().get("/healthz")
    assert (reply.status_code, reply.json()) == (answer[0], {"status": answer[1]})
