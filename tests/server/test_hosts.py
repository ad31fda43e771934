"""Hosts: a name that is not ours leads nowhere, whoever made it lead here."""

from pathlib import Path

import pytest
from people import House, code_of

from streamgauge.query.settings import ServerSettings
from streamgauge.server.app import app_of
from streamgauge.server.hosts import Hosts, hosts_of

LOOPBACK = hosts_of(ServerSettings(), "127.0.0.1", proxied=False)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8765", "clinic.localhost", "127.0.0.1:8765", "[::1]:8765", "10.0.0.7", ""],
)
def test_loopback_goes_by_its_own_names(host: str) -> None:
    assert LOOPBACK.knows(host)


@pytest.mark.parametrize(
    "host", ["evil.test", "evil.test:8765", "localhost.evil.test", "[", "1.2.3.4.evil.test"]
)
def test_no_other_name_leads_to_loopback(host: str) -> None:
    assert not LOOPBACK.knows(host)


def test_where_others_stand_in_front_any_name_is_good_until_the_file_names_them() -> None:
    for hosts in (
        hosts_of(ServerSettings(), "127.0.0.1", proxied=True),
        hosts_of(ServerSettings(https=True), "127.0.0.1", proxied=False),
        hosts_of(ServerSettings(), "0.0.0.0", proxied=False),
    ):
        assert hosts.knows("clinic.example")
    named = hosts_of(ServerSettings(hosts=("clinic.example",)), "127.0.0.1", proxied=True)
    assert [named.knows(host) for host in ("Clinic.example.", "127.0.0.1:8765", "evil.test")] == [
        True,
        True,
        False,
    ]


def house_of(folder: Path, hosts: Hosts) -> House:
    house = House(folder, anonymous=True, rate=1)
    house.app = app_of(house.runner, house.tokens, house.file.server, hosts=hosts)
    return house.at_one_moment()


def test_a_page_whose_name_was_made_to_lead_here_reads_nothing_and_is_counted(tmp_path: Path) -> None:
    house = house_of(tmp_path, LOOPBACK)
    client = house.client(Host="evil.test")
    assert code_of(client.get("/api/ledger")) == (403, "host")
    headers = {"Origin": "http://evil.test"}
    assert code_of(client.post("/api/session", json={"token": "x"}, headers=headers)) == (403, "host")
    assert client.get("/healthz").status_code == 429
    assert house.client(address="10.0.0.9", Host="localhost").get("/api/ledger").status_code == 200


def test_a_server_that_goes_by_any_name_is_caught(tmp_path: Path) -> None:
    """A broken twin."""
    house = house_of(tmp_path, Hosts())
    assert house.client(Host="evil.test").get("/api/ledger").status_code == 200
