"""Host names: a foreign name is refused even if it resolves to this address."""

from pathlib import Path

import pytest

from streamgauge.config.settings import ServerSettings
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.middleware import AllowedHosts, build_allowed_hosts, parse_host_name
from tests.support.people import House, code_of

LOOPBACK = build_allowed_hosts(ServerSettings(), "127.0.0.1", proxied=False)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8765", "clinic.localhost", "127.0.0.1:8765", "[::1]:8765", "10.0.0.7", ""]
)
def test_loopback_server_accepts_its_own_names(host: str) -> None:
    assert LOOPBACK.is_allowed(host)


@pytest.mark.parametrize("host", ["evil.test", "evil.test:8765", "localhost.evil.test", "[", "1.2.3.4.evil.test"])
def test_loopback_server_refuses_other_names(host: str) -> None:
    assert not LOOPBACK.is_allowed(host)


STRICT = [
    ("localhost", "localhost"),
    ("LocalHost:8765", "localhost"),
    ("a_b-c.example.:65535", "a_b-c.example"),
    ("xn--bcher-kva.example:0", "xn--bcher-kva.example"),
    ("127.0.0.1:80", "127.0.0.1"),
    ("127.0.0.1.", "127.0.0.1"),
    ("[::1]", "::1"),
    ("[0:0:0:0:0:0:0:1]:443", "::1"),
    ("[::FFFF:10.0.0.7]", "::ffff:a00:7"),
]
MALFORMED = [
    *("", " ", ":", ":80", ".", "a..b", "-a.example", "a-.example", "a" * 64, ".".join(["a" * 49] * 6)),
    *("evil@localhost", "evil:pass@localhost", "localhost@evil.test", "@localhost", "evil%40localhost"),
    *("localhost:", "localhost:80:80", "localhost:65536", "localhost:999999", "localhost:-1", "localhost:8o"),
    *("localhost/evil", "localhost?evil", "localhost#evil", "localhost\\evil", "http://localhost"),
    *(" localhost", "localhost ", "local host", "localhost\t", "localhost\n", "localhost,evil.test"),
    *("localhost;evil", "l\u00f6calhost", "loc\u0430lhost", "\u212aa.example", "*", "*.localhost", "(localhost)"),
    *("127.1", "127.0.0.256", "127.0.0.01", "2130706433", "0x7f000001", "127.0.0.0x1", "1.2.3.4.5"),
    *("\u0661.example", "a.\u0661", "localhost:\u0661"),
    *("::1", "[::1", "::1]", "[::1]x", "[::1]:", "[]", "[localhost]", "[127.0.0.1]", "[::1%lo]", "[::1%25lo]"),
    *("[v1.a]", "[[::1]]", "[12345::]"),
]


@pytest.mark.parametrize(("host", "name"), STRICT)
def test_host_is_a_name_or_an_address(host: str, name: str) -> None:
    assert parse_host_name(host) == name
    AllowedHosts().check(host)


@pytest.mark.parametrize("host", MALFORMED)
@pytest.mark.parametrize("hosts", [LOOPBACK, AllowedHosts()])
def test_malformed_host_is_refused_at_every_address(hosts: AllowedHosts, host: str) -> None:
    with pytest.raises(HttpError, match=r"^host must be a name or an address, with a port or without") as found:
        hosts.check(host)
    assert (found.value.status, found.value.code) == (400, "malformed_request")


def test_missing_host_is_accepted() -> None:
    """HTTP/1.0 has none, and no browser leaves it out."""
    LOOPBACK.check(None)
    assert parse_host_name("clinic.example") == "clinic.example"


@pytest.mark.parametrize("origin", ["http://evil@clinic.example", "http://clinic.example:x", "null", ""])
def test_malformed_origin_is_a_different_host(origin: str) -> None:
    assert AllowedHosts().is_same_host("http://clinic.example:443", "clinic.example")
    assert not AllowedHosts().is_same_host(origin, "clinic.example")


def test_exposed_server_accepts_any_host_unless_file_lists_hosts() -> None:
    for hosts in (
        build_allowed_hosts(ServerSettings(), "127.0.0.1", proxied=True),
        build_allowed_hosts(ServerSettings(https=True), "127.0.0.1", proxied=False),
        build_allowed_hosts(ServerSettings(), "0.0.0.0", proxied=False),
    ):
        assert hosts.is_allowed("clinic.example")
    named = build_allowed_hosts(ServerSettings(hosts=("clinic.example",)), "127.0.0.1", proxied=True)
    assert [named.is_allowed(host) for host in ("Clinic.example.", "127.0.0.1:8765", "evil.test")] == [
        True,
        True,
        False,
    ]


def house_of(folder: Path, hosts: AllowedHosts) -> House:
    house = House(folder, anonymous=True, rate=1).at_one_moment()
    house.app = house.build(hosts=hosts)
    return house


def test_page_of_rebound_host_reads_nothing_and_is_counted(tmp_path: Path) -> None:
    house = house_of(tmp_path, LOOPBACK)
    client = house.client(Host="evil.test")
    assert code_of(client.get("/api/ledger")) == (403, "unknown_host")
    headers = {"Origin": "http://evil.test"}
    assert code_of(client.post("/api/session", json={"token": "x"}, headers=headers)) == (403, "unknown_host")
    assert client.get("/healthz").status_code == 429
    assert house.client(address="10.0.0.9", Host="localhost").get("/api/ledger").status_code == 200


def test_twin_that_accepts_any_host_serves_foreign_page(tmp_path: Path) -> None:
    """A broken twin."""
    house = house_of(tmp_path, AllowedHosts())
    assert house.client(Host="evil.test").get("/api/ledger").status_code == 200
