"""The ledger a page at a time, and read once: as much of it as anybody ever asked for."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from people import House, code_of
from served import close, file_of, leave, running, stepped, write
from test_asking_api import ASKED, charged

from streamgauge.pipeline.asked import AskedRelease, plan_asked, release_of_json
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.reader import Act
from streamgauge.query.settings import ServerSettings
from streamgauge.server import ledger_pages
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.known_acts import KnownActs, books
from streamgauge.server.limits import Limits
from streamgauge.server.shapes import FEW, Shapes

BUDGET = Act("budget", {"loss": {"epsilon": "1"}}, 1)


def ended(name: str, last: int) -> Act:
    return Act("end", {"release": name, "ingested": last, "runs_on": True}, 3)


ACTS = (
    BUDGET,
    *(charged(f"z{number}", "1/100", 2, asked="ana", layout={}) for number in range(9)),
    ended("z1", 3),
    Act("cut", {"release": "z1"}, 3),
    Act("budget", {"loss": {"epsilon": "2"}}, 4),
    ended("z2", 4),
)


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(tmp_path)
    made.runner.acts_so_far = list(ACTS)
    return made


def followed(house: House, road: str) -> list[dict[str, Any]]:
    """All pages from one on."""
    pages, client = [], house.client("reader")
    while road:
        pages.append(client.get(road).json())
        road = pages[-1]["next"]
    return pages


def test_pages_add_up_to_the_whole(house: House) -> None:
    (whole,) = followed(house, "/api/ledger")
    assert len(whole["charges"]) == len(whole["asked"]) == 9
    pages = followed(house, "/api/ledger?limit=4")
    assert [len(page["charges"]) for page in pages] == [4, 4, 1]
    assert [charge for page in pages for charge in page["charges"]] == whole["charges"]
    assert {name for page in pages for name in page["asked"]} == set(whole["asked"])
    assert {str(page["timeline"]) for page in pages} == {str(whole["timeline"])}
    (acts,) = followed(house, "/api/ledger/acts")
    assert [act["kind"] for act in acts["acts"]] == [act.kind for act in ACTS]
    pages = followed(house, "/api/ledger/acts?limit=5")
    assert [act for page in pages for act in page["acts"]] == acts["acts"]


def test_a_page_of_acts_is_bounded_in_bytes_but_has_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_pages, "BYTES", 1)
    assert [len(page["acts"]) for page in followed(house, "/api/ledger/acts")] == [1] * len(ACTS)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "after=-1", "after=" + "9" * 30])
def test_a_page_that_is_none_is_told_so(house: House, query: str) -> None:
    assert code_of(house.client("reader").get(f"/api/ledger?{query}")) == (422, "bad_parameter")


def test_a_book_that_has_grown_is_the_book_that_was_read(house: House) -> None:
    unit = house.file.stream.unit
    made = books(unit)
    for count in (0, 1, 2, 7, 11, 12, 13, 14, 3):
        book, read = made(ACTS[:count]), Book.read(ACTS[:count], unit)
        assert (book.entries, book.pins, book.acts) == (read.entries, read.pins, read.acts)
        assert str(book.ledger) == str(read.ledger)


def charges_after_a_plan(house: House) -> int:
    book, file = Book.read([BUDGET, charged("visits", "1/2", 2)], house.file.stream.unit), house.file
    plan_asked(file, AskedRelease(release_of_json(ASKED, file.stream), "ana"), book=book, first=1)
    assert book.ledger is not None
    return len(book.ledger.entries)


def test_a_plan_charges_nothing_in_the_book_that_all_share(house: House) -> None:
    assert charges_after_a_plan(house) == 1


def test_a_twin_that_plans_in_that_book_charges_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Book, "copy", lambda self: self)
    assert charges_after_a_plan(house) == 2


def test_acts_are_read_once_whoever_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 30)
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        acts, book = runner.acts(), runner.book()
        monkeypatch.setattr(Act, "of", None)
        assert runner.acts() == acts
        assert runner.book() is book
        close(runner, clock, 2)
        leave(runner, clock, 32)
        assert runner.board.shown.acts == len(acts)


def test_labels_that_many_releases_have_are_kept_once() -> None:
    known, labels = KnownActs(), {"measures": ["count"], "groups": [["g", ["a", "b"]]], "levels": [1]}
    acts = tuple(charged(name, "1/9", 1, layout=deepcopy(labels)) for name in "xy")
    one, two = known.first(2, lambda count: acts[count:])
    assert (one, two) == acts
    assert one.body["layout"]["groups"][0][1] is two.body["layout"]["groups"][0][1]


def test_few_shapes_are_kept_and_none_of_what_has_not_left() -> None:
    layout = {"measures": ["count"], "groups": [], "levels": [0]}
    acts = tuple(charged(f"z{number}", "1/999", 1, layout=layout) for number in range(2 * FEW))
    shapes = Shapes()
    assert [shapes.of(f"z{number}", acts).release for number in (0, 1, 0)] == ["z0", "z1", "z0"]
    with pytest.raises(KeyError):
        shapes.of("z1", acts[:1])
    for act in acts:
        shapes.of(act.body["release"], acts)
    assert len(shapes._kept) == FEW


def test_who_asks_too_fast_is_told_to_wait(house: House) -> None:
    limits = Limits(ServerSettings(max_asks_per_minute=2), now=lambda: 0.0)
    for _ in range(2):
        limits.ask("ana")
    limits.ask("bea")
    with pytest.raises(HttpRefusal, match="must be at most 2 a minute, got more") as refusal:
        limits.ask("ana")
    assert (refusal.value.status, (refusal.value.headers or {})["Retry-After"]) == (429, "30")


def test_asks_and_ends_are_counted_and_plans_are_not(tmp_path: Path) -> None:
    house = House(tmp_path, max_asks_per_minute=1)
    analyst = house.client("analyst")
    assert [analyst.post("/api/plan", json=ASKED).status_code for _ in range(3)] == [200] * 3
    assert analyst.post("/api/releases", json=ASKED).status_code == 201
    assert code_of(analyst.post("/api/releases", json={**ASKED, "name": "more"})) == (429, "rate")
    house.runner.acts_so_far = [BUDGET, charged("norths", "1/10", 2, asked="ana")]
    assert code_of(analyst.delete("/api/releases/norths")) == (429, "rate")
    assert (len(house.runner.asked), house.runner.ended) == (1, [])


@pytest.mark.parametrize(("word", "most"), [("title", 100), ("description", 1000), ("sql", 10_000)])
def test_words_that_the_book_keeps_for_ever_are_short(house: House, word: str, most: int) -> None:
    for path in ("/api/plan", "/api/releases"):
        reply = house.client("analyst").post(path, json={**ASKED, word: "x" * (most + 1)})
        assert code_of(reply) == (422, "bad_release")
        assert f"{word} must be at most {most} characters" in reply.json()["error"]["message"]
