"""Pages of the ledger, and the cache that reads each entry once."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.settings import ServerSettings
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.limits import Limits
from streamgauge.server.publishing.reader import (
    MAX_CACHED_SCHEMAS,
    LedgerEntryCache,
    ReleaseSchemaCache,
    build_ledger_cache,
)
from streamgauge.server.tuning import Tuning
from streamgauge.store.reader import LedgerEntry
from tests.server.test_adhoc import ASKED, charged
from tests.support.people import House, code_of
from tests.support.served import close, file_of, leave, running, stepped, write

BUDGET = LedgerEntry("budget", {"loss": {"epsilon": "1"}}, 1)


def ended(name: str, last: int) -> LedgerEntry:
    return LedgerEntry("end", {"release": name, "last_tick": last, "is_draining": True}, 3)


ACTS = (
    BUDGET,
    *(charged(f"z{number}", "1/100", 2, requested_by="ana", layout={}) for number in range(9)),
    ended("z1", 3),
    LedgerEntry("force_end", {"release": "z1"}, 3),
    LedgerEntry("budget", {"loss": {"epsilon": "2"}}, 4),
    ended("z2", 4),
)


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(tmp_path)
    made.runner.acts_so_far = list(ACTS)
    return made


def followed(house: House, route: str) -> list[dict[str, Any]]:
    """Return all pages from a route on."""
    pages, client = [], house.client("reader")
    while route:
        pages.append(client.get(route).json())
        route = pages[-1]["next"]
    return pages


def test_pages_add_up_to_the_whole(house: House) -> None:
    (whole,) = followed(house, "/api/ledger")
    assert len(whole["charges"]) == len(whole["requested_by"]) == 9
    pages = followed(house, "/api/ledger?limit=4")
    assert [len(page["charges"]) for page in pages] == [4, 4, 1]
    assert [charge for page in pages for charge in page["charges"]] == whole["charges"]
    assert {name for page in pages for name in page["requested_by"]} == set(whole["requested_by"])
    assert {str(page["timeline"]) for page in pages} == {str(whole["timeline"])}
    (acts,) = followed(house, "/api/ledger/entries")
    assert [act["kind"] for act in acts["entries"]] == [act.kind for act in ACTS]
    pages = followed(house, "/api/ledger/entries?limit=5")
    assert [act for page in pages for act in page["entries"]] == acts["entries"]


def test_page_of_entries_is_bounded_but_has_one_entry(house: House) -> None:
    house.runner.tuning = Tuning(max_ledger_page_bytes=1)
    assert [len(page["entries"]) for page in followed(house, "/api/ledger/entries")] == [1] * len(ACTS)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "offset=-1", "offset=" + "9" * 30])
def test_invalid_page_parameter_is_refused(house: House, query: str) -> None:
    assert code_of(house.client("reader").get(f"/api/ledger?{query}")) == (422, "bad_parameter")


def test_cached_ledger_that_grew_equals_one_read_afresh(house: House) -> None:
    unit = house.file.stream.unit
    made = build_ledger_cache(unit)
    for count in (0, 1, 2, 7, 11, 12, 13, 14, 3):
        ledger_log, read = made(ACTS[:count]), LedgerLog.read(ACTS[:count], unit)
        assert (ledger_log.releases, ledger_log.pins, ledger_log.ledger_entries) == (
            read.releases,
            read.pins,
            read.ledger_entries,
        )
        assert str(ledger_log.ledger) == str(read.ledger)


def charges_after_a_plan(house: House, kind: type[LedgerLog] = LedgerLog) -> int:
    ledger_log, file = kind.read([BUDGET, charged("visits", "1/2", 2)], house.file.stream.unit), house.file
    plan_adhoc(file, AdHocRelease(parse_adhoc_release(ASKED, file.stream), "ana"), ledger_log=ledger_log, first=1)
    assert ledger_log.ledger is not None
    return len(ledger_log.ledger.entries)


def test_plan_charges_nothing_in_the_shared_ledger(house: House) -> None:
    assert charges_after_a_plan(house) == 1


class UncopiedLog(LedgerLog):
    """A twin in which plans charge."""

    def copy(self) -> LedgerLog:
        return self


def test_twin_that_plans_in_the_shared_ledger_charges_it(house: House) -> None:
    assert charges_after_a_plan(house, UncopiedLog) == 2


def test_entries_are_read_once_for_all_readers(tmp_path: Path) -> None:
    """An entry that is read again is another object."""
    write(tmp_path, 30)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        acts, ledger_log = runner.load_entries(), runner.load_ledger()
        assert list(map(id, runner.load_entries())) == list(map(id, acts))
        assert runner.load_ledger() is ledger_log
        close(runner, clock, 2)
        leave(runner, clock, 32)
        assert runner.event_buffer.published.entry_count == len(acts)
        assert list(map(id, runner.load_entries())) == list(map(id, acts))


def test_labels_shared_by_releases_are_stored_once() -> None:
    known, labels = LedgerEntryCache(), {"measures": ["count"], "groups": [["g", ["a", "b"]]], "levels": [1]}
    acts = tuple(charged(name, "1/9", 1, layout=deepcopy(labels)) for name in "xy")
    one, two = known.read_first(2, lambda count: acts[count:])
    assert (one, two) == acts
    assert one.body["layout"]["groups"][0][1] is two.body["layout"]["groups"][0][1]


def test_schema_cache_is_bounded_and_has_no_unpublished_release() -> None:
    layout = {"measures": ["count"], "groups": [], "levels": [0]}
    acts = tuple(charged(f"z{number}", "1/999", 1, layout=layout) for number in range(2 * MAX_CACHED_SCHEMAS))
    shapes = ReleaseSchemaCache()
    assert [shapes.find_schema(f"z{number}", acts).release for number in (0, 1, 0)] == ["z0", "z1", "z0"]
    with pytest.raises(KeyError):
        shapes.find_schema("z1", acts[:1])
    for act in acts:
        shapes.find_schema(act.body["release"], acts)
    assert len(shapes._cached) == MAX_CACHED_SCHEMAS


def test_commands_above_rate_are_refused_with_retry_after(house: House) -> None:
    limits = Limits(ServerSettings(adhoc_max_requests_per_minute=2), now=lambda: 0.0)
    for _ in range(2):
        limits.count_command("ana")
    limits.count_command("bea")
    with pytest.raises(HttpError, match="must be at most 2 a minute, got more") as refusal:
        limits.count_command("ana")
    assert (refusal.value.status, (refusal.value.headers or {})["Retry-After"]) == (429, "30")


def test_commands_count_towards_rate_and_plans_do_not(tmp_path: Path) -> None:
    house = House(tmp_path, adhoc={"max_requests_per_minute": 1})
    analyst = house.client("analyst")
    assert [analyst.post("/api/plan", json=ASKED).status_code for _ in range(3)] == [200] * 3
    assert analyst.post("/api/releases", json=ASKED).status_code == 201
    assert code_of(analyst.post("/api/releases", json={**ASKED, "name": "more"})) == (429, "rate_limited")
    house.runner.acts_so_far = [BUDGET, charged("norths", "1/10", 2, requested_by="ana")]
    assert code_of(analyst.delete("/api/releases/norths")) == (429, "rate_limited")
    assert (len(house.runner.requested_releases), house.runner.ended) == (1, [])


@pytest.mark.parametrize(("word", "most"), [("title", 100), ("description", 1000), ("sql", 10_000)])
def test_texts_stored_in_ledger_have_length_limits(house: House, word: str, most: int) -> None:
    for path in ("/api/plan", "/api/releases"):
        reply = house.client("analyst").post(path, json={**ASKED, word: "x" * (most + 1)})
        assert code_of(reply) == (422, "bad_release")
        assert f"{word} must be at most {most} characters" in reply.json()["error"]["message"]
