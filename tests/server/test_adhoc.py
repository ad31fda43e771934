"""Ad hoc releases over HTTP: planned without a charge, charged by the run, answered at publish times."""

from asyncio import gather, run
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from streamgauge.plan.planner import plan_release
from streamgauge.runtime.adhoc import planning as asked_module
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import CommandRefusedError, NotRunningError, RunStoppingError
from streamgauge.server.http.limits import Limits
from streamgauge.server.routes.adhoc import CLOCK_MARGIN_SECONDS, AdHocRoutes
from streamgauge.server.routes.ledger import PublicLedger
from streamgauge.server.tuning import Tuning
from streamgauge.store.store import LedgerEntry
from tests.support.people import House, code_of

ASKED = {
    "name": "norths",
    "sql": "SELECT COUNT(*) FROM visits WHERE region = 'north'",
    "window": "each",
    "epsilon": 0.1,
}
SECOND = 10**6


@pytest.fixture
def slept() -> list[float]:
    """Seconds by which replies were delayed; the tests do not wait for them."""
    return []


@pytest.fixture
def sleep(slept: list[float]) -> Any:
    async def note_seconds(seconds: float) -> None:
        slept.append(seconds)

    return note_seconds


@pytest.fixture
def house(tmp_path: Path, sleep: Any) -> House:
    return House(tmp_path, publish_delay="1s", sleep=sleep)


def charged(name: str, epsilon: str, time: int, **more: Any) -> LedgerEntry:
    body = {"release": name, "loss": {"epsilon": epsilon}, "first": 1, "last": None, "block": "", **more}
    return LedgerEntry("charge", body, time)


def test_plan_has_cost_and_error_and_spends_nothing(house: House) -> None:
    reply = house.client("analyst").post("/api/plan", json=ASKED)
    details = reply.json()
    assert reply.status_code == 200
    assert details["release"]["loss"] == {"epsilon": "1/10"}
    assert details["release"]["errors"][0]["stddev"] > 0
    assert details["refusals"] == []
    assert house.runner.requested_releases == []


def test_first_tick_of_plan_depends_on_clock_alone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store writes the open tick with a batch, so the open tick would reveal that an event arrived."""
    opened: list[int] = []
    monkeypatch.setattr(asked_module, "first_tick", lambda file: opened.pop())
    start, tick, ahead = house.file.stream.start, house.file.stream.tick, house.file.stream.allowed_earliness
    for ticks in (0, 1, 41):
        house.runner.time = start + ticks * tick + 5
        details = house.client("analyst").post("/api/plan", json=ASKED).json()
        assert details["release"]["first_tick"] == ticks + 2 + ahead // tick


def test_plan_lists_reasons_of_refusal(house: House) -> None:
    details = house.client("analyst").post("/api/plan", json={**ASKED, "epsilon": 0.7}).json()
    assert len(details["refusals"]) == 1
    details = house.client("analyst").post("/api/plan", json={**ASKED, "sql": "SELECT name FROM patients"}).json()
    assert details["release"] is None
    assert len(details["refusals"]) == 1


def test_release_is_charged_to_share_of_requesting_analyst(house: House) -> None:
    reply = house.client("analyst").post("/api/releases", json=ASKED)
    assert reply.status_code == 201
    assert reply.headers["Location"] == reply.json()["href"] == "/api/releases/norths"
    ((requested, share),) = house.runner.requested_releases
    assert (requested.release.name, requested.requested_by, share) == ("norths", "ana", Fraction(1, 2))


def test_release_above_analysts_share_never_reaches_the_run(house: House) -> None:
    reply = house.client("analyst").post("/api/releases", json={**ASKED, "epsilon": 0.7})
    assert code_of(reply) == (409, "release_rejected")
    assert reply.json()["error"]["reasons"]
    assert house.runner.requested_releases == []


def test_curator_has_no_share_limit(house: House) -> None:
    assert house.client("curator").post("/api/releases", json={**ASKED, "epsilon": 0.7}).status_code == 201


def test_request_accepts_mechanism_expected_events_and_alerts(house: House) -> None:
    more = {"mechanism": {"name": "Pegasus", "split": "2/3"}, "expected_events": "1/200"}
    requested = {**ASKED, **more, "alerts": {"kind": "jump", "size": 5}}
    details = house.client("analyst").post("/api/plan", json=requested).json()["release"]
    assert details["parts"][0]["mechanism"].startswith("Pegasus(")
    assert len(details["parts"][0]["hints"]) == 2
    assert details["alerts"][0].startswith("count_jump: 1 where count has risen by 5 or more")
    assert house.client("analyst").post("/api/releases", json=requested).status_code == 201
    ((stored, _),) = house.runner.requested_releases
    assert stored.release.settings == {"split": Fraction(2, 3)}
    assert (stored.release.expected_events, len(stored.release.alerts)) == (1 / 200, 1)


def test_request_accepts_an_array_of_windows(house: House) -> None:
    requested = {**ASKED, "window": ["sliding 24h", "sliding 12h"]}
    details = house.client("analyst").post("/api/plan", json=requested).json()["release"]
    assert details["parts"][0]["measures"] == ["count_12h", "count_1d"]
    assert details["loss"] == {"epsilon": "1/10"}
    assert [window.startswith("sliding ") for window in details["window"]] == [True, True]
    assert house.client("analyst").post("/api/releases", json=requested).status_code == 201
    ((stored, _),) = house.runner.requested_releases
    assert len(stored.release.shorter_windows) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"window": ["each", "sliding 24h"]}, "window must be an array of 2 to 8 different"),
        ({"expected_events": "a few"}, "expected_events must be a number above 0"),
        ({"mechanism": "Pegasos"}, "did you mean Pegasus?"),
        ({"alerts": {"kind": "jump"}}, "alerts.size must be a number"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"rho": 1}, "exactly one of epsilon, rho and share"),
        ({"windw": "each"}, "unknown key"),
        ({"window": "sometimes"}, "window must be"),
        ({"name": "../../etc/passwd"}, "name must be"),
        ({"sql": 7}, "sql must be"),
    ],
)
def test_invalid_value_is_refused_with_message_of_pipeline_file(house: House, change: Any, said: str) -> None:
    for path in ("/api/plan", "/api/releases"):
        reply = house.client("analyst").post(path, json={**ASKED, **change})
        assert code_of(reply) == (422, "bad_release")
        assert said in reply.json()["error"]["message"]


def test_reply_leaves_at_multiple_of_publish_delay(house: House, slept: list[float]) -> None:
    """The duration of a commit depends on data, so the reply time must not reveal it."""
    for took in (1, 333_333, 999_999):
        house.runner.time = 10**15
        house.runner.answers = takes(house, took)
        house.client("analyst").post("/api/releases", json=ASKED)
        assert took + round((slept.pop() - CLOCK_MARGIN_SECONDS) * SECOND) == SECOND


@pytest.mark.parametrize("phase", [0, 1, 200_000, 200_001, 999_999])
def test_reply_leaves_at_multiple_after_start_of_its_batch(house: House, slept: list[float], phase: int) -> None:
    """A batch starts a fifth of a delay after each multiple."""
    reply_time = 10**15 + SECOND * (1 if phase <= SECOND // 5 else 2)
    for took in (1, reply_time - 10**15 - phase):
        house.runner.time = 10**15 + phase
        house.runner.answers = takes(house, took)
        house.client("analyst").post("/api/releases", json=ASKED)
        assert house.runner.time + round((slept.pop() - CLOCK_MARGIN_SECONDS) * SECOND) == reply_time


def takes(house: House, microseconds: int) -> Any:
    def answers() -> None:
        house.runner.time += microseconds

    return answers


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (CommandRefusedError(("release norths: charge must be at most",)), (409, "release_rejected")),
        (NotRunningError("the run could not be opened: SinkAccessError"), (503, "not_running")),
        (KeyError("patient 4711"), (500, "internal_error")),
    ],
)
def test_refusal_leaves_at_publish_time_without_details_of_run(
    house: House, slept: list[float], failure: Exception, answer: tuple[int, str]
) -> None:
    def answers() -> None:
        house.runner.time += 1
        raise failure

    house.runner.answers = answers
    reply = house.client("analyst").post("/api/releases", json=ASKED)
    assert code_of(reply) == answer
    assert "4711" not in reply.text
    assert "SinkAccessError" not in reply.text
    assert slept == [0.999999 + CLOCK_MARGIN_SECONDS]


def test_stopping_server_replies_503_without_delay(house: House, slept: list[float]) -> None:
    def answers() -> None:
        raise RunStoppingError

    house.runner.answers = answers
    reply = house.client("analyst").post("/api/releases", json=ASKED)
    assert (code_of(reply), slept) == ((503, "not_running"), [])


def test_replies_leave_at_publish_times_of_releases(tmp_path: Path, slept: list[float], sleep: Any) -> None:
    """Publish times count from the stream's start. Otherwise a reply could precede its ledger entry."""
    house = House(tmp_path, stream={"start": "2026-01-05T00:00:03Z"}, publish_delay="10s", sleep=sleep)
    start = house.file.stream.start
    house.runner.time = start + 7 * SECOND
    house.client("analyst").post("/api/releases", json=ASKED)
    assert slept == [3 + 10 + CLOCK_MARGIN_SECONDS]  # the batch starts at 10 s and has a whole delay
    house.runner.acts_so_far = [LedgerEntry("budget", {"loss": {"epsilon": "1"}}, start + 7 * SECOND)]
    reader = house.client("reader")
    for seconds, acts in ((9, 0), (10, 1)):
        house.runner.time = start + seconds * SECOND
        assert len(reader.get("/api/ledger/entries").json()["entries"]) == acts


def test_more_groups_than_the_file_allows_are_refused(tmp_path: Path) -> None:
    house = House(tmp_path, adhoc={"max_groups": 1})
    grouped = {**ASKED, "sql": "SELECT region, COUNT(*) FROM visits GROUP BY region"}
    for body, answer in (({"max_groups": 2}, (422, "bad_release")), ({}, (409, "release_rejected"))):
        reply = house.client("analyst").post("/api/releases", json={**grouped, **body})
        assert code_of(reply) == answer
        assert "must be at most" in reply.json()["error"]["message"]
    assert house.runner.requested_releases == []


def accept_release(house: House) -> None:
    """Charge the request, as a run does."""
    house.runner.requested_releases.clear()
    ledger_log = house.runner.load_ledger()
    acts = [ledger_log.declare_budget(house.file.stream.budget)]
    requested = AdHocRelease(parse_adhoc_release(ASKED, house.file.stream, house.file.server.adhoc_max_groups), "ana")
    plan = plan_release(house.file, requested.attributed_release)
    acts += [ledger_log.charge("norths", plan, 7), *ledger_log.pin({"release.norths": plan.block})]
    house.runner.acts_so_far = acts


def test_repeated_request_gets_reply_of_first_one(house: House) -> None:
    accept_release(house)
    analyst = house.client("analyst")
    reply = analyst.post("/api/releases", json=ASKED)
    assert (reply.status_code, reply.json()["release"]["first_tick"]) == (201, 7)
    assert house.runner.requested_releases == []
    for change in ({"epsilon": 0.2}, {"sql": "SELECT COUNT(*) FROM visits"}, {"title": "Another"}):
        assert code_of(analyst.post("/api/releases", json={**ASKED, **change})) == (409, "release_rejected")
    assert code_of(house.client("curator").post("/api/releases", json=ASKED)) == (409, "release_rejected")


def test_request_repeated_during_first_one_gets_its_reply(house: House) -> None:
    def answers() -> None:
        accept_release(house)
        raise CommandRefusedError(("release norths must have a name of its own, got one that is taken",))

    house.runner.answers = answers
    assert house.client("analyst").post("/api/releases", json=ASKED).status_code == 201


def own(house: House) -> None:
    """Fill the ledger with the release of the file and two ad hoc releases, one of them Ana's."""
    house.runner.acts_so_far = [
        LedgerEntry("budget", {"loss": {"epsilon": "1"}}, 1),
        charged("visits", "1/2", 2),
        charged("norths", "1/10", 3, requested_by="ana"),
        charged("souths", "1/10", 4, requested_by="bea"),
    ]


def test_analyst_ends_own_releases_and_curator_any_ad_hoc_one(house: House) -> None:
    own(house)
    analyst, curator = house.client("analyst"), house.client("curator")
    assert code_of(analyst.delete("/api/releases/souths")) == (403, "wrong_role")
    assert code_of(analyst.delete("/api/releases/visits")) == (409, "release_rejected")
    assert code_of(curator.delete("/api/releases/visits")) == (409, "release_rejected")
    assert code_of(curator.delete("/api/releases/wests")) == (404, "not_found")
    assert house.runner.ended == []
    assert analyst.delete("/api/releases/norths").json() == {"release": "norths", "is_ended": True}
    assert curator.delete("/api/releases/souths").status_code == 200
    assert house.runner.ended == ["norths", "souths"]


def test_repeated_end_gets_reply_of_first_one(house: House) -> None:
    own(house)
    end = {"release": "norths", "last_tick": 5, "is_draining": True}
    house.runner.acts_so_far.append(LedgerEntry("end", end, 5))
    reply = house.client("analyst").delete("/api/releases/norths")
    assert (reply.status_code, reply.json()) == (200, {"release": "norths", "is_ended": True})
    assert house.runner.ended == []


def test_requests_count_towards_limit_of_plans(tmp_path: Path) -> None:
    house = House(tmp_path, adhoc={"max_plans_per_minute": 2})
    analyst, curator = house.client("analyst"), house.client("curator")
    assert analyst.post("/api/plan", json=ASKED).status_code == 200
    assert analyst.post("/api/releases", json=ASKED).status_code == 201
    for path in ("/api/plan", "/api/releases"):
        reply = analyst.post(path, json=ASKED)
        assert code_of(reply) == (429, "rate_limited")
        assert "planned must be at most 2 a minute" in reply.json()["error"]["message"]
    assert curator.post("/api/plan", json=ASKED).status_code == 200


def test_plans_run_one_at_a_time_and_few_wait(tmp_path: Path) -> None:
    """Otherwise plans could prolong a round until its duration reveals the number of events."""
    at_once, most = [0], [0]

    class CountedRoutes(AdHocRoutes):
        @staticmethod
        def plan(*arguments: Any, **settings: Any) -> Any:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
            try:
                return AdHocRoutes.plan(*arguments, **settings)
            finally:
                at_once[0] -= 1

    def routes(runner: Any, limits: Limits) -> list[Route]:
        return CountedRoutes(runner, PublicLedger(runner), limits).routes()

    house = House(tmp_path, tuning=Tuning(max_waiting_plans=2), extra=routes, publish_delay="1s")

    async def many(count: int) -> list[int]:
        client = house.client("analyst")
        plans = [client.send("POST", "/api/plan", json=ASKED) for _ in range(count)]
        return [reply.status_code for reply in await gather(*plans)]

    found = run(many(8))
    assert most == [1]
    assert set(found) == {200, 503}


def test_session_has_remaining_part_of_share(house: House) -> None:
    own(house)
    assert house.client("analyst").get("/api/session").json() == {
        "role": "analyst",
        "name": "ana",
        "share": "1/2",
        "remaining": {"epsilon": "2/5"},
    }


def test_ledger_is_that_of_last_publish_time(house: House) -> None:
    """The commit time of a charge depends on data, so readers get its publish time."""
    late = 10**15 + 250_000
    house.runner.acts_so_far = [
        LedgerEntry("budget", {"loss": {"epsilon": "1"}}, 10**15 - 1),
        charged("norths", "1/10", late, requested_by="ana"),
    ]
    reader = house.client("reader")
    house.runner.time = 10**15 + 999_999
    assert [act["kind"] for act in reader.get("/api/ledger/entries").json()["entries"]] == ["budget"]
    house.runner.time = 10**15 + SECOND
    assert reader.get("/api/ledger").json()["spent"] == {"epsilon": "1/10"}
    acts = reader.get("/api/ledger/entries").json()["entries"]
    assert [act["time"] for act in acts] == ["2001-09-09T01:46:40Z", "2001-09-09T01:46:41Z"]
