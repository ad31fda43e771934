"""APPROX_FREQUENCY in pipeline files: from events to plans, releases, ledger, resumed and pan-private runs."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import duckdb
import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import audit_pipeline
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.aggregates.approx_frequency import name_sql
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Sensitivity
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.live.state import ExactMemory, NoisyMemory
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.statistics.keys.approx_frequency import name_text
from tests.runtime.test_pan_private_memory import TEXT, looked_at
from tests.runtime.test_pan_private_runs import PRIVATE, lines
from tests.support.memory_searched import found, frames_of, reached
from tests.support.pipelines import TICKS, Tables, as_they_happen, event, pipeline, published, run, tables, world, write

COLUMNS: Tables = {"g": {"values": ["a", "b"]}, "page": {"type": "text"}, "change": {"values": [-1, 1]}}
PAIR = "SELECT g, APPROX_FREQUENCY(page, 'tea') AS tea, APPROX_FREQUENCY(page, 'salt') FROM v GROUP BY g"
RELEASE: Tables = {"name": "pages", "sql": PAIR, "window": "running"}


def declared(*releases: Tables, **stream: Any) -> Tables:
    return tables(*(releases or (RELEASE,)), **{"columns": COLUMNS, "budget": {"epsilon": 9}, **stream})


def visits(seed: int = 1) -> list[Tables]:
    chance = np.random.default_rng(seed)
    pages = ["tea", "salt", *(f"page {i}" for i in range(4)), "", None, 7, "ü" * 2000]
    return [
        event(
            second,
            "ab"[second % 2],
            page=pages[int(chance.integers(0, len(pages)))],
            change=int(chance.choice([-1, 1])),
        )
        for second in range(100)
        for _ in range(3)
    ]


def count(page: str, weighed: bool = False) -> list[list[float]]:
    """Return running totals of both groups, tick by tick."""
    totals = np.zeros((TICKS, 2))
    for each in visits():
        if each["page"] == page:
            second = int(each["ts"]) % 100
            totals[second // 10, second % 2] += each["change"] if weighed else 1
    return totals.cumsum(axis=0).tolist()


def check(made: Any, weighed: bool = False) -> None:
    """Compare without noise; five of nine rows are wrong with probability below 1e-10."""
    assert published(made, "pages", 0) == count("tea", weighed)
    assert published(made, "pages", 1) == count("salt", weighed)


def test_names_of_texts_in_sql_are_those_in_python() -> None:
    texts = ["tea", "", "ü" * 50, "a'b", "\t", "日本", "0" * 1024]
    found = [duckdb.execute(f"SELECT {name_sql('t')} FROM (SELECT ? AS t)", [text]).fetchall()[0][0] for text in texts]
    assert found == [name_text(text) for text in texts]
    assert duckdb.execute(f"SELECT {name_sql('t')} FROM (SELECT NULL::VARCHAR AS t)").fetchall() == [(None,)]


@pytest.mark.parametrize("live", [False, True])
def test_items_are_counted_in_every_group(tmp_path: Path, live: bool) -> None:
    if live:
        made = pipeline(tmp_path, declared(live=True, end="2026-01-05T00:01:40Z"))
        run(made, clock=world(tmp_path, as_they_happen(visits())))
    else:
        write(tmp_path, visits())
        made = pipeline(tmp_path, declared())
        run(made)
    check(made)


def test_an_event_that_is_taken_back_counts_less(tmp_path: Path) -> None:
    write(tmp_path, visits())
    made = pipeline(tmp_path, declared(weight="change"))
    run(made)
    check(made, weighed=True)


def test_commits_of_single_ticks_share_the_key(tmp_path: Path) -> None:
    write(tmp_path, visits())
    made = pipeline(tmp_path, declared())
    run(made, max_batch_ticks=1)
    check(made)


def test_a_filter_counts_some_events(tmp_path: Path) -> None:
    write(tmp_path, visits())
    sql = "SELECT APPROX_FREQUENCY(page, 'tea') FILTER (WHERE g = 'a'), APPROX_FREQUENCY(UPPER(page), 'TEA') FROM v"
    made = pipeline(tmp_path, declared({**RELEASE, "sql": sql}))
    run(made)
    assert published(made, "pages", 0) == [[a] for a, _ in count("tea")]
    assert published(made, "pages", 1) == [[a + b] for a, b in count("tea")]


@pytest.mark.parametrize(
    ("release", "stream", "last"),
    [
        ({"sql": PAIR.replace("BY g", "BY ROLLUP (g)")}, {}, lambda a, b: [a, b, a + b]),
        ({"sql": "SELECT COUNT(*) AS n, APPROX_FREQUENCY(page, 'tea') FROM v"}, {}, lambda a, b: [300]),
        ({"sql": PAIR}, {"adjacency": "replace"}, lambda a, b: [a, b]),
        ({"sql": PAIR}, {"unit": {"w_event": "30s"}}, lambda a, b: [a, b]),
        ({"sql": PAIR, "mechanism": "Kary"}, {}, lambda a, b: [a, b]),
    ],
    ids=["rollup", "beside a count", "replace", "w_event", "named mechanism"],
)
def test_other_shapes_and_units_count_alike(tmp_path: Path, release: Any, stream: Any, last: Any) -> None:
    write(tmp_path, visits())
    made = pipeline(tmp_path, declared({**RELEASE, **release}, **stream))
    run(made)
    assert published(made, "pages", 0)[-1] == last(*count("tea")[-1])


def test_a_user_counts_as_often_as_declared(tmp_path: Path) -> None:
    write(tmp_path, [event(second, page="tea", u=f"u{second % 2}") for second in range(100)])
    unit = {"user": "u", "max_events_per_tick": 2, "max_ticks": 3}
    made = pipeline(tmp_path, declared({**RELEASE, "sql": "SELECT APPROX_FREQUENCY(page, 'tea') FROM v"}, unit=unit))
    run(made)
    assert published(made, "pages") == [[4.0], [8.0]] + [[12.0]] * 8
    file = made.file
    (part,) = plan_release(file, file.releases[0]).parts
    assert part.statistic.tick_sensitivity == Sensitivity(18, 36, 18)


def test_all_items_of_a_text_share_one_run(tmp_path: Path) -> None:
    file = pipeline(tmp_path, declared()).file
    (part,) = plan_release(file, file.releases[0]).parts
    statistic: Any = part.statistic
    assert statistic.items == ("tea", "salt")
    assert statistic.loss == sg.Pure("1/2")
    assert statistic.tick_sensitivity == Sensitivity(9, 9, 9)
    other = {**RELEASE, "sql": "SELECT APPROX_FREQUENCY(page, 'tea', 64), APPROX_FREQUENCY(page, 'tea') FROM v"}
    file = pipeline(tmp_path, declared(other)).file
    assert [each.statistic.hash_columns for each in plan_release(file, file.releases[0]).parts] == [64, 2048]  # type: ignore[attr-defined]


def test_the_plan_states_noise_cells_and_memory(tmp_path: Path) -> None:
    plan = pipeline(tmp_path, declared()).plan()
    error = plan.releases[0].errors[0]
    assert "texts that share cells add up to 0.42 sqrt(sum of squared counts/2,048)" in error.note
    assert 0 < error.stddev < error.half_width < float("inf")
    assert plan.memory_bytes < 50e6
    assert not plan.refusals


def test_the_ledger_charges_a_release_once(tmp_path: Path) -> None:
    write(tmp_path, visits())
    made = pipeline(tmp_path, declared())
    run(made, max_batch_ticks=3)
    assert made.plan().remaining[0] == sg.Pure("17/2")


def test_pan_private_runs_count_at_once_and_resume(tmp_path: Path) -> None:
    made = pipeline(tmp_path, declared({**RELEASE, "horizon": "100s"}, **PRIVATE))
    for begin, until in ((0, 24), (24, 44)):
        clock, stop = world(tmp_path, at=begin), Flag()
        clock.acts[until] = stop.set
        inbox = EphemeralInbox(max_waiting_bytes=10**6)
        for second in (begin + 1, begin + 7, begin + 13):
            sent = lines(*(event(second, page=page) for page in ("tea", "tea", "salt", "x", None)))
            clock.acts[second] = lambda data=sent, box=inbox: box.put("key", data)
        run(made, clock=clock, source=inbox, stop=stop)
    tea = [row[0] for row in published(made, "pages", 0)]
    assert tea[:2] == [4, 6]
    assert tea[-1] == 12


def look_for_item(tmp_path: Path, **settings: Any) -> list[bool]:
    """Return whether text and name of an item are in memory, and the text on disk, in the middle of its tick."""
    text = TEXT + " at noon"
    sent = lines(*(event(13, page=page) for page in (text, "tea", None)))

    def look(run: Any) -> list[bool]:
        frames = [frame.f_locals for frame in frames_of()]
        numbers, texts = found(reached([run, *frames]), {float(name_text(text))}, {text})
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        return [bool(texts), bool(numbers), any(text.encode() in data for data in files)]

    made = pipeline(tmp_path, declared({**RELEASE, "horizon": "100s"}, **PRIVATE))
    seen, _ = looked_at(tmp_path, look, made, sent, **settings)
    return list(seen)


def test_pan_private_memory_and_disk_have_no_item(tmp_path: Path) -> None:
    assert look_for_item(tmp_path) == [False, False, False]


def test_open_ticks_that_are_exact_are_found(tmp_path: Path) -> None:
    """Broken twin: open ticks as they are without pan_private."""
    assert look_for_item(tmp_path, components={NoisyMemory: ExactMemory})[1]


def test_an_ad_hoc_release_reads_other_items(tmp_path: Path) -> None:
    write(tmp_path, visits())
    made = pipeline(tmp_path, declared())
    sql = "SELECT APPROX_FREQUENCY(page, 'page 3') FROM v"
    more = {"name": "more", "sql": sql, "window": "running", "epsilon": 1}
    run(made, adhoc_releases=[AdHocRelease(parse_adhoc_release(more, made.file.stream), "ana")])
    assert published(made, "more") == [[a + b] for a, b in count("page 3")]


@pytest.mark.statistical
@pytest.mark.parametrize("weight", [None, "change"])
def test_the_audit_finds_the_loss_of_the_file(tmp_path: Path, weight: str | None) -> None:
    sql = "SELECT APPROX_FREQUENCY(page, 'tea', 2) FROM v"
    made = pipeline(tmp_path, declared({**RELEASE, "sql": sql}, weight=weight))
    verdicts = audit_pipeline(made.file, runs=100, check_interruptions=False, attack_computed=weight is None)
    assert verdicts
    assert not any(verdict.is_condemned for verdict in verdicts)
    assert [verdict.exact for verdict in verdicts if verdict.exact is not None] == pytest.approx([0.5] * 1)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ("APPROX_FREQUENCY(page)", "must be APPROX_FREQUENCY\\(x, 'item'\\) .* got 1 arguments"),
        ("APPROX_FREQUENCY(page, g)", "got no text as the item"),
        ("APPROX_FREQUENCY(page, 7)", "got no text as the item"),
        ("APPROX_FREQUENCY(x, 'tea')", "APPROX_FREQUENCY needs a text, got a number"),
        ("APPROX_FREQUENCY(page, 'tea', 100)", "columns of APPROX_FREQUENCY must be a power of 2"),
        ("APPROX_FREQUENCY(page, 'tea', g)", "columns of APPROX_FREQUENCY must be a power of 2"),
    ],
)
def test_other_calls_are_refused(tmp_path: Path, call: str, rule: str) -> None:
    columns = {**COLUMNS, "x": {"bounds": [0, 1]}}
    made = pipeline(tmp_path, declared({**RELEASE, "sql": f"SELECT {call} FROM v"}, columns=columns))
    with pytest.raises(InvalidReleaseError, match=rule):
        plan_release(made.file, made.file.releases[0])
