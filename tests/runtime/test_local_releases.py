"""Releases of report columns: all reports are estimated despite crashes, and a column is charged once."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge import Approx, Pipeline, Pure
from streamgauge.cli.views.ledger import entry_text
from streamgauge.localdp.collector import Frequencies
from streamgauge.localdp.report_bytes import unpack_codes
from streamgauge.records.reports import encode_reports
from streamgauge.runtime import part_runs as local_part_run
from streamgauge.runtime.adhoc.planning import find_same_request, plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.ledger.render import ledger_log_as_json
from streamgauge.runtime.live import open_reports
from streamgauge.runtime.live.open_reports import CountedReports
from streamgauge.runtime.part_runs import LocalPartRun
from streamgauge.sources import Inbox, InboxFullError, build_inbox
from streamgauge.statistics.local_frequency import stack_frequencies
from streamgauge.store.keys import load_pipeline_key
from streamgauge.store.store import Store
from streamgauge.testing.noise import InsecureNoise
from tests.support.forked import Fault
from tests.support.pipelines import Tables, pipeline, published, run, world
from tests.support.reported_polls import (
    COUNT,
    POLL,
    PROTOCOLS,
    WINDOWS,
    claim,
    drawn,
    expected,
    poll,
    protocols,
    said,
    sending,
)

AGES = "SELECT age, COUNT(*) FROM poll GROUP BY age"


def state_of(made: Pipeline) -> dict[str, int]:
    """Return the lengths of the state parts of reports."""
    store = Store.open_writer(made.file.folder, load_pipeline_key(made.file), create=False)
    try:
        return {name: len(part) for name, part in store.state().items() if name.startswith("run/all")}
    finally:
        store.close()


@pytest.mark.one_of_each
@protocols
@pytest.mark.parametrize("forgets", [False, True])
def test_every_window_equals_collector_of_its_ticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: bool, column: Tables
) -> None:
    """The broken twin remembers the distinct reports of open ticks, but not their numbers."""
    if forgets:
        counted = CountedReports.from_rows
        monkeypatch.setattr(CountedReports, "from_rows", lambda rows, times: counted(rows, np.ones_like(times)))
    made = poll(tmp_path, *POLL["release"][:3], **column)
    ticks = [drawn(made, "a" * 40 + "b" * 20, seed) for seed in range(3)] + [[]]
    ticks[1] += ticks[1][:5] * 3
    sent = {2: ticks[0][:30], 4: ticks[0][30:], 12: ticks[1], 29: ticks[2]}
    run(made, **sending(tmp_path, made, sent, 45))
    same = [published(made, name) == expected(made, ticks, reach) for name, reach in WINDOWS.items()]
    assert same == [not forgets] * 3


@pytest.fixture(params=[2**26, 100])
def _cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the maximum number of bytes of a part in which ticks are written."""
    for module in (local_part_run, open_reports):
        monkeypatch.setattr(module, "MAX_PART_BYTES", request.param)


@pytest.mark.one_of_each("step")
@protocols
@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize(("step", "at"), [("transaction_committed", 3), ("slot_written", 13), ("noise_drawn", 13)])
def test_failed_poll_continues_without_loss(tmp_path: Path, step: str, at: int, column: Tables) -> None:
    made = poll(tmp_path, **column)
    ticks = [drawn(made, "abca" * 10, seed) for seed in range(3)]
    sent = {2: ticks[0][:9], 4: ticks[0][9:], 12: ticks[1], 22: ticks[2]}
    how = sending(tmp_path, made, sent, 35)

    def fail(name: str) -> None:
        if name == step and how["clock"].second >= at:
            raise Fault(step)

    with pytest.raises(Fault):
        run(made, **how, step=fail)
    run(made, **how)
    for name, reach in WINDOWS.items():
        assert published(made, name) == expected(made, ticks, reach)
    assert published(made, "ages") == [[0, len(codes)] for codes in ticks]


@protocols
def test_twin_that_forgets_reports_since_table_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: Tables
) -> None:
    """The broken twin of the promise of `local_part_run`."""
    monkeypatch.setattr(LocalPartRun, "is_table_due", False)
    made = poll(tmp_path, {"name": "all", "sql": COUNT}, **column)
    ticks = [drawn(made, "abc" * 10, seed) for seed in range(2)]
    how = sending(tmp_path, made, {2: ticks[0], 12: ticks[1]}, 11)
    run(made, **how)
    monkeypatch.setattr(local_part_run, "decode_part", lambda data: {})
    how["stop"].clear()
    how["clock"].acts[25] = how["stop"].set
    run(made, **how)
    assert published(made, "all") != expected(made, ticks, 99)


@pytest.mark.parametrize(
    ("column", "often"), [({}, (8, 30, 4)), (PROTOCOLS["vectors"], (8, 60, 4))], ids=["codes", "vectors"]
)
def test_table_is_written_once_reports_need_as_many_bytes(
    tmp_path: Path, column: Tables, often: tuple[int, int, int]
) -> None:
    made = poll(tmp_path, {"name": "all", "sql": COUNT}, **column)
    table = claim(made).build_table().nbytes
    ticks = [drawn(made, "abc" * often[seed], seed) for seed in range(3)]
    how = sending(tmp_path, made, {10 * tick + 2: codes for tick, codes in enumerate(ticks)}, 999)
    lengths = []
    for tick in range(1, 4):
        how["stop"].clear()
        how["clock"].acts[10 * tick + 1.5] = how["stop"].set
        run(made, **how)
        lengths.append(state_of(made))
    assert published(made, "all") == expected(made, ticks, 99)
    assert all(sum(each.values()) < 4 * table + 4096 for each in lengths)
    assert {"run/all/0/table" in each for each in lengths} == {False, True}
    assert not any(name.startswith("run/all/0/open") for name in lengths[-1])


def test_code_and_vector_columns_of_one_record_are_counted_separately(tmp_path: Path) -> None:
    made = deepcopy(POLL)
    column = POLL["stream"]["columns"]["emoji"]
    made["stream"]["columns"] |= {
        "flag": {**column, **PROTOCOLS["vectors"], "epsilon": "1/2"},
        "pet": {
            **{key: column[key] for key in ("values", "on_repeat", "reports_per_user")},
            "report": "UnaryEncoding",
            "epsilon": "1/2",
        },
    }
    names = ("emoji", "flag", "pet")
    made["release"] = [{"name": each, "sql": COUNT.replace("emoji", each)} for each in names]
    mixed = pipeline(tmp_path, made)
    claims = {name: report.mechanism for name, report in mixed.file.stream.reports.items()}
    rows = {name: own.privatise_many([*"aabc"], InsecureNoise(1)) for name, own in claims.items()}
    texts = {name: encode_reports(rows[name]) for name in names[1:]} | {"emoji": unpack_codes(rows["emoji"]).tolist()}
    records = [{name: texts[name][at] for name in names} for at in range(4)]
    how = sending(tmp_path, mixed, {}, 15)
    clock = how["clock"]
    lines = "".join(f"{json.dumps({'arrived': clock.now() + 1, **each})}\n" for each in [*records, {}])
    clock.acts[2] = lambda: how["source"].put("k", lines.encode())
    run(mixed, **how)
    for name, own in claims.items():
        collector = own.build_collector()
        collector.add(rows[name])
        assert published(mixed, name) == [collector.estimate([*"abc"]).count.tolist()]


@protocols
def test_report_column_is_charged_once_and_never_refunded(tmp_path: Path, column: Tables) -> None:
    made = poll(tmp_path, **column)
    plan = made.plan()
    assert (plan.refusals, plan.spent[1], plan.remaining[1]) == ((), Pure(3), Pure.zero())
    run(made, **sending(tmp_path, made, {2: drawn(made, "ab", 1)}, 15))
    texts = ledger_log_as_json(made.ledger(), made.file)
    assert [charge["release"] for charge in texts["charges"]] == ["column emoji", "ages"]
    (charged,) = texts["columns"]
    assert (charged["loss"], charged["per_user"]) == ({"epsilon": "2"}, {"epsilon": "60"})
    fewer = poll(tmp_path, {"name": "late", "sql": COUNT, "window": "sliding 30s"}, **column)
    changes = str(fewer.plan())
    assert "all ends: what its reports have lost stays lost" in changes
    assert "ages ends: its budget returns" in changes
    clock, stop = world(tmp_path, at=16), Flag()
    clock.acts[25] = stop.set
    run(fewer, clock=clock, source=build_inbox(fewer.file, clock.now), stop=stop)
    ledger = fewer.ledger().ledger
    assert ledger is not None
    assert [charge.name for charge in ledger.entries] == ["column emoji", "ages"]
    assert (ledger.spent_loss(first=9), ledger.remaining_loss(first=9)) == (Pure(2), Pure(1))


def test_reports_are_ranked_by_their_estimates(tmp_path: Path) -> None:
    made = poll(tmp_path, {"name": "all", "sql": COUNT}, {"name": "top", "sql": f"{COUNT} ORDER BY 2 DESC LIMIT 2"})
    run(made, **sending(tmp_path, made, {2: drawn(made, "ab" * 9 + "b" * 9, 1)}, 15))
    ((every,), (top,)) = (made.releases("all"), made.releases("top"))
    places = np.argsort(-every.value[0], kind="stable")[:2]
    assert top.shape.groups == tuple(every.shape.groups[place] for place in places)
    assert top.value[0].tolist() == every.value[0, places].tolist()
    assert (top.high > every.high[:, places]).all()
    assert made.plan().spent[1] == Pure(2)


def test_report_before_end_is_counted_or_never_acknowledged(tmp_path: Path) -> None:
    made = deepcopy(POLL)
    made["release"], made["stream"]["end"] = [POLL["release"][1]], "2026-01-05T00:00:20Z"
    ending = pipeline(tmp_path, made)
    how = sending(tmp_path, ending, {2: [1]}, 99)
    tickets = []
    how["clock"].acts[19] = lambda: tickets.append(how["source"].put("last", said(how["clock"], [5, 5])))
    late: list[bytes] = []
    how["clock"].acts[19.5] = lambda: late.append(said(how["clock"], [7]))  # stamped, and put too late
    run(ending, **how)
    assert published(ending, "now") == expected(ending, [[1], [5, 5]], 1)
    assert tickets[0].done.result(0) is None
    ticket = how["source"].put("late", late[0])
    assert not ticket.done.done()
    how["source"].close()
    with pytest.raises(InboxFullError, match="got some after its end"):
        ticket.done.result(0)


def test_repeated_report_is_read_as_substitute_and_committed(tmp_path: Path) -> None:
    """The substitute lies before the start of the stream, as in the server."""
    made = poll(tmp_path, *POLL["release"][1::2])
    how = sending(tmp_path, made, {2: [1]}, 15)
    clock, inbox, tickets = how["clock"], how["source"], []

    def again() -> None:
        lines = said(clock, [1])
        nothing = lines.replace(str(clock.now()).encode(), str(made.file.stream.start - 1).encode())
        tickets.append(inbox.put("2", lines, substitute=nothing))

    clock.acts[5] = again
    run(made, **how)
    assert tickets[0].done.result(0) is None
    assert published(made, "now") == expected(made, [[1]], 1)
    assert published(made, "ages") == [[0, 1]]


@protocols
def test_ad_hoc_release_of_reports_costs_nothing_and_continues(tmp_path: Path, column: Tables) -> None:
    made = poll(tmp_path, *POLL["release"][::3], **column)  # all of its budget is spent
    body = {"name": "mine", "sql": COUNT, "window": "each"}
    mine = AdHocRelease(parse_adhoc_release(body, made.file.stream), "ana", Fraction(1, 9))
    assert plan_adhoc(made.file, mine).refusals == ()
    texts = drawn(made, "ab", 1)
    run(made, **sending(tmp_path, made, {2: [], 22: texts}, 35), adhoc_releases=(mine,))
    assert published(made, "mine") == expected(made, [texts], 1)
    ledger_log = made.ledger()
    assert find_same_request(made.file, mine, ledger_log) is not None
    dear = replace(mine, release=parse_adhoc_release({**body, "epsilon": 2}, made.file.stream))
    assert find_same_request(made.file, dear, ledger_log) is None
    clock, stop = world(tmp_path, at=36), Flag()
    clock.acts[45] = stop.set
    run(made, clock=clock, source=build_inbox(made.file, clock.now), stop=stop)
    assert made.ledger().open_releases()["mine"].column == "emoji"
    (act,) = [act for act in ledger_log.ledger_entries if act.kind == "charge" and act.body["release"] == "mine"]
    assert entry_text(act).startswith("mine, reads column emoji, ticks ")


def test_estimates_lie_inside_their_intervals_for_any_count() -> None:
    count, stddev = np.array([-30.0, -1.0, 5.0, 99.0, 130.0]), np.full(5, 4.0)
    found = stack_frequencies((Frequencies(tuple("abcde"), count, stddev, 100),))
    (low,), (high,) = found.interval(0.95)
    assert (low < count).all()
    assert (count < high).all()
    assert low[2] == pytest.approx(5 - 1.96 * 4, abs=0.01)


def test_budget_with_delta_charges_reports_at_their_epsilon(tmp_path: Path) -> None:
    made = deepcopy(POLL)
    made["stream"]["budget"], made["release"] = {"epsilon": 3, "delta": 1e-6}, POLL["release"][:1]
    plan = pipeline(tmp_path, made).plan()
    assert plan.refusals == ()
    assert plan.spent[1] == Approx(2, 1e-6)


def test_report_column_under_rho_budget_is_refused_with_remedy(tmp_path: Path) -> None:
    made = deepcopy(POLL)
    made["stream"]["budget"], made["release"] = {"rho": 1}, POLL["release"][:1]
    texts = str(pipeline(tmp_path, made).plan())
    assert "stream.columns (use a pure budget, { epsilon = ... }): charge must be at most" in texts


def test_column_above_budget_is_refused_before_source_is_read(tmp_path: Path) -> None:
    made = poll(tmp_path, epsilon=4)
    assert "stream.columns: charge must be at most what is left of epsilon 3, got epsilon 4" in str(made.plan())
    with pytest.raises(ValueError, match="epsilon"):
        run(made, **sending(tmp_path, made, {}, 5))
    assert made.ledger().ledger is None


def test_rollback_charges_noisy_releases_but_not_reports(tmp_path: Path) -> None:
    made = poll(tmp_path, *POLL["release"][:2], {**POLL["release"][3], "epsilon": "1/4"})
    run(made, **sending(tmp_path, made, {2: [1]}, 15))
    files = {path: path.read_bytes() for path in made.file.folder.iterdir() if path.name.startswith("store")}
    later = world(tmp_path, at=16)
    later.acts[35] = (stop := Flag()).set
    run(made, clock=later, source=build_inbox(made.file, later.now), stop=stop)
    for path, data in files.items():
        path.write_bytes(data)
    stop.clear()
    later.acts[38] = stop.set
    run(made, clock=later, source=build_inbox(made.file, later.now), stop=stop, accept_rollback=True)
    acts = [
        (act.kind, act.body.get("release"))
        for act in made.ledger().ledger_entries
        if act.kind in ("recharge", "lost_charge")
    ]
    assert acts == [("recharge", "ages")]


def test_plan_states_loss_per_user_and_error_of_rare_value(tmp_path: Path) -> None:
    plan = poll(tmp_path, {"name": "all", "sql": COUNT, "expected_events": 50}, hashes=1024, width=1024).plan()
    text = str(plan)
    assert "epsilon 2 a report, 60 a user who reports at most 30 times" in text
    assert "all: running, nothing beside the reports of emoji" in text
    assert "its table of sums takes" in text
    assert plan.to_json()["columns"][0]["per_user"] == {"epsilon": "60"}
    first = plan.releases[0].errors[0]
    reports = 3 * 50
    assert first.stddev == pytest.approx(claim_of(plan).stddev(0, reports, reports**2 / 3))


def claim_of(plan: Any) -> Any:
    return plan.file.stream.reports["emoji"].mechanism


def test_only_newest_report_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender of many keys cannot block others, because each new key replaces the oldest one."""
    inbox = Inbox(key_ttl=10**12, max_waiting_bytes=10**6, now=lambda: 5, max_keys=3)
    for number in range(6):
        inbox.put(str(number), b"{}\n")
        inbox.read()
        inbox.commit()
    fates: list[str] = [inbox.find_status(str(number)) for number in range(6)]
    assert fates == ["unknown"] * 3 + ["committed"] * 3


def test_partial_reports_are_not_absorbed() -> None:
    absorb: Callable[..., None] = LocalPartRun.add_partial
    with pytest.raises(NotImplementedError):
        absorb(object.__new__(LocalPartRun), None)
