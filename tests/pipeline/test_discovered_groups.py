"""Groups that are discovered, from events to releases: by hand under silent noise, and over restarts."""

import csv
import json
import signal
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from forked import Fault, forked, killed_at, raised_at
from pipelines import Tables, as_they_happen, event, lines, pipeline, run, tables, world, write

from streamgauge import Approx, Event, Pipeline, Pure, WEvent, Zcdp
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.open_keys import KeySums
from streamgauge.pipeline.open_ticks import OpenTicks
from streamgauge.pipeline.reading import read_releases
from streamgauge.privacy import BudgetExceeded, Ledger
from streamgauge.query.measure import Measure, Tally
from streamgauge.query.planner import planned
from streamgauge.query.query import Refused
from streamgauge.statistics.discovery import Selection
from streamgauge.testing import InsecureNoise, SilentNoise

WORDS = "SELECT g, COUNT(*) FROM v GROUP BY g"
BUDGET = {"epsilon": 2, "delta": "1/1000000"}
DELTA = "1/10000000"
SINKS = [{"to": "out.jsonl"}, {"to": "out.csv"}, {"to": "out.parquet"}]
TICKS = 10

Told = list[list[tuple[str, float]]]


def words(*, most: int = 3, sql: str = WORDS, window: str = "running", **stream: Any) -> Tables:
    """A pipeline that discovers the groups of g."""
    release = {"name": "words", "sql": sql, "rho": "1/50", "delta": DELTA, "window": window}
    columns = {"g": {"max_groups": most}, "x": {"bounds": [0, 10], "grid": 1}}
    made = tables(release, **{"budget": BUDGET, "columns": columns, "sinks": SINKS, **stream})
    del made["release"][0]["epsilon"]
    return made


def chosen(seed: int = 1, events: int = 4000) -> list[Tables]:
    """Events of some twenty words, a few of which are frequent, over ten ticks."""
    rng = np.random.default_rng(seed)
    names = [
        "tea",
        "Tee",
        "thé",
        "чай",
        "茶",
        'a,"b"',
        "",
        " ",
        "x\ny",
        "\x1b[2J",
        *(f"w{i}" for i in range(12)),
    ]
    ranks = np.minimum(rng.zipf(1.6, events) - 1, len(names) - 1)
    seconds = np.sort(rng.random(events) * 100)
    return [event(float(s), names[r], float(r % 11)) for s, r in zip(seconds, ranks, strict=True)]


def told(made: Pipeline) -> Told:
    """Groups and values of each tick."""
    return [
        [
            (str(place.labels[0][1]), float(value))
            for place, value in zip(each.shape.places, each.value[0], strict=True)
        ]
        for each in made.releases("words")
    ]


def by_hand(events: list[Tables], made: Pipeline, most: int = 3) -> Told:
    """The same from plain counts: published once above the threshold of a tick, then the largest of them."""
    (part,) = planned(made.file, made.file.releases[0]).parts
    statistic: Any = part.statistic
    span = {"running": TICKS, "each": 1}.get(made.file.releases[0].window, 3)
    ticks = [(int(each["ts"] - 1_767_571_200) // 10 + 1, each["g"]) for each in events]
    published: set[str] = set()
    found = []
    for tick in range(1, TICKS + 1):
        counts = Counter(g for t, g in ticks if tick - span < t <= tick)
        published |= {g for g, n in counts.items() if n > statistic.selection.threshold(tick)}
        largest = sorted(published, key=lambda g: (-counts[g], g))[:most]
        found.append([(g, float(counts[g])) for g in largest])
    return found


@pytest.mark.parametrize("window", ["running", "each", "sliding 30s"])
@pytest.mark.parametrize("most", [3, 100])
def test_without_noise_releases_are_the_counts_of_what_is_above_the_threshold(
    tmp_path: Path, window: str, most: int
) -> None:
    events = chosen()
    write(tmp_path, events)
    made = pipeline(tmp_path, words(window=window, most=most))
    run(made)
    assert told(made) == by_hand(events, made, most)
    assert len(told(made)[-1]) >= 3


def test_a_live_stream_publishes_the_same(tmp_path: Path) -> None:
    events = chosen()
    made = pipeline(tmp_path, words(live=True, end="2026-01-05T00:01:40Z"))
    assert made.file.releases[0].horizon is None
    run(made, clock=world(tmp_path, as_they_happen(events)))
    assert told(made) == by_hand(events, made)


def test_where_drops_events_and_what_is_null_is_no_group(tmp_path: Path) -> None:
    events = [event(1, "tea", 1)] * 100 + [event(1, "milk", 9)] * 100 + [event(2, None, 1)] * 100  # type: ignore[arg-type]
    events += [{"ts": 1_767_571_200, "x": 1}] * 100
    write(tmp_path, events)
    made = pipeline(tmp_path, words(sql="SELECT g AS word, COUNT(*) AS n FROM v WHERE x < 5 GROUP BY g"))
    run(made)
    assert told(made)[0] == [("tea", 100.0)]
    assert made.releases("words").shape.columns == ("word",)
    assert made.releases("words").shape.measures == ("n",)


def test_a_long_text_is_cut_and_counted_under_what_is_left(tmp_path: Path) -> None:
    write(tmp_path, [event(1, "ä" * 2000)] * 60 + [event(1, "ä" * 1024 + "b")] * 60)
    made = pipeline(tmp_path, words())
    run(made)
    assert told(made)[0] == [("ä" * 1024, 120.0)]


@pytest.mark.parametrize("at", [0, 3, 9])
def test_one_event_with_a_key_of_its_own_changes_nothing_that_is_published(tmp_path: Path, at: int) -> None:
    series = []
    for name, more in (("without", []), ("with", [event(at * 10 + 1, "only once")])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, chosen() + more)
        made = pipeline(tmp_path / name, words())
        run(made)
        series.append([each.pack() for each in made.releases("words")])
    assert series[0] == series[1]


def test_a_twin_whose_threshold_is_too_low_publishes_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Selection, "threshold", lambda self, tick: 0.5)
    write(tmp_path, [event(1, "only once")])
    made = pipeline(tmp_path, words())
    run(made)
    assert told(made)[0] == [("only once", 1.0)]


@pytest.mark.parametrize("epsilon", ["1/8", "1/4"])
@pytest.mark.parametrize("window", ["running", "each"])
def test_a_key_of_one_event_is_published_with_a_chance_of_at_most_the_delta_that_was_charged(
    epsilon: str, window: str
) -> None:
    """The union over all ticks at which the event may be eligible, by the exact tail of each tick's noise."""
    made = words(window=window)
    made["release"][0] = {**made["release"][0], "epsilon": epsilon}
    del made["release"][0]["rho"]
    file = Pipeline.of(made, Path("v.toml")).file
    plan = planned(file, file.releases[0])
    statistic: Any = plan.parts[0].statistic
    assert statistic.charged == (Pure(epsilon), Fraction(DELTA)) == (plan.release.loss, plan.release.delta)

    def chance(lower: float = 0) -> float:
        noises = [statistic.noise_at(tick) for tick in range(1, TICKS + 1)]
        tails = [
            noise.upper_tail(np.nextafter(statistic.selection.threshold(tick) - lower - 1, np.inf))
            for tick, noise in enumerate(noises, 1)
        ]
        return sum(tails) if window == "running" else max(tails)

    assert chance() <= float(Fraction(DELTA)) < chance(lower=1 if window == "each" else 6)


def rows(path: Path) -> dict[str, Any]:
    """What each sink has: (tick, group, value)."""
    found: dict[str, Any] = {}
    found["jsonl"] = [
        (row["tick"], json.dumps(row["group"], sort_keys=True), row["count"]["value"])
        for row in map(json.loads, (path / "out.jsonl").read_text().split("\n")[:-1])
    ]
    with (path / "out.csv").open(newline="") as file:
        long = list(csv.DictReader(file))
    found["csv"] = [
        (int(row["tick"]), json.dumps(json.loads(row["group"])), float(row["value"])) for row in long
    ]
    with duckdb.connect() as engine:
        parts = engine.execute(
            f"SELECT tick, \"group\", value FROM '{path}/out.parquet/*.parquet'"
        ).fetchall()
    found["parquet"] = [(tick, json.dumps(json.loads(group)), value) for tick, group, value in parts]
    return found


def test_every_sink_has_the_same_rows_and_empty_ticks_have_none(tmp_path: Path) -> None:
    """Ticks 1 and 2 have too few events of any word."""
    events = [event(1, "tea")] + [event(25, w) for w in ('q"uo,te', "x\ny") for _ in range(99)]
    write(tmp_path, events)
    made = pipeline(tmp_path, words())
    run(made, ticks=2)
    expected = [
        (tick, json.dumps({"g": word}), 99.0) for tick in range(3, 11) for word in ('q"uo,te', "x\ny")
    ]
    for found in rows(tmp_path).values():
        assert found == expected
    released = made.releases("words")
    assert [len(each.shape.places) for each in released] == [0, 0] + [2] * 8
    assert released.to_pandas()["g"].tolist() == [json.loads(group)["g"] for _, group, _ in expected]
    for empty in (released[:2].to_arrow(), released[:2].to_polars(), released[:2].to_pandas()):
        assert len(empty) == 0
        assert "g" in (empty.column_names if hasattr(empty, "column_names") else list(empty.columns))
    assert "q&quot;uo,te" in released._repr_html_()


def test_places_of_earlier_ticks_stay_where_they_were(tmp_path: Path) -> None:
    """However much is read: groups are in the order in which they were first published."""
    write(tmp_path, chosen())
    made = pipeline(tmp_path, words(most=100))
    run(made)
    whole = made.releases("words")
    for last in range(1, TICKS + 1):
        some = read_releases(made.file.folder, "words", 1, last)
        assert whole.shape.places[: len(some.shape.places)] == some.shape.places
    values = whole.values("count")
    assert values.shape == (TICKS, len(whole.shape.places))
    assert np.isnan(values[0]).sum() == len(whole.shape.places) - len(whole[0].shape.places)


@pytest.mark.parametrize("window", ["running", "each"])
def test_a_run_that_was_stopped_midway_goes_on_with_the_same_series(tmp_path: Path, window: str) -> None:
    """Stopped after every tick, and each time with state from the store."""
    series = []
    for name, steps in (("whole", [99]), ("stopped", [1] * 11)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, chosen())
        made = pipeline(tmp_path / name, words(window=window))
        for count in steps:
            ticks = made.ticks(noise=SilentNoise(), ticks=1 if name == "stopped" else 99)
            for _, _ in zip(range(count), ticks, strict=False):
                pass
            ticks.close()
        series.append([each.pack() for each in made.releases("words")])
    assert series[0] == series[1]
    assert rows(tmp_path / "whole") == rows(tmp_path / "stopped")


@pytest.mark.parametrize("step", ["read", "drawn", "packed", "stored", "witnessed", "written", "marked"])
def test_a_run_that_was_killed_between_ticks_publishes_each_of_them_once(tmp_path: Path, step: str) -> None:
    events = chosen()
    write(tmp_path, events)
    made = pipeline(tmp_path, words())
    seen: list[str] = []

    def third(name: str) -> None:
        seen.append(name)
        if seen.count(step) == (3 if step != "read" else 1):
            killed_at(step)(name)

    assert forked(lambda: run(made, ticks=2, step=third)) == -signal.SIGKILL
    run(made, ticks=2)
    assert told(made) == by_hand(events, made)
    for found in rows(tmp_path).values():
        assert found == [
            (tick, json.dumps({"g": g}), n) for tick, groups in enumerate(told(made), 1) for g, n in groups
        ]


def test_a_live_run_remembers_the_keys_of_open_ticks(tmp_path: Path) -> None:
    """It is stopped with ticks open, and has read what is not there a second time."""
    events = chosen()
    made = pipeline(tmp_path, words(live=True, end="2026-01-05T00:01:40Z"))
    happens = as_they_happen(events)
    clock = world(tmp_path, happens)
    for at in (33.0, 58.0):
        fault = {"armed": False}
        clock.acts[at] = lambda fault=fault: fault.update(armed=True)  # type: ignore[misc]

        def step(name: str, fault: dict[str, bool] = fault) -> None:
            if fault["armed"]:
                raised_at("read")(name)

        with pytest.raises(Fault):
            run(made, clock=clock, step=step)
    run(made, clock=clock)
    assert told(made) == by_hand(events, made)


def test_open_keys_are_saved_whole_and_told_in_powers_of_two() -> None:
    measure = Measure(None, (), key='"g"')

    def waiting(count: int, ticks: int = 3) -> OpenTicks:
        made = OpenTicks({"words/0": measure})
        keys = tuple(f"k{i}" for i in range(count))
        at = np.arange(count)
        none = np.zeros(count, np.int64)
        made.add([Tally(at % ticks + 1, at, none, at[None] + 1, keys)])
        made.add([Tally(at % ticks + 1, at, none, at[None], keys)])
        return made

    again = OpenTicks({"words/0": measure})
    again.restore(waiting(700).saved(3))
    for last in (1, 3):
        one, two = again.close(last)[0], waiting(700).close(last)[0]
        by_key = dict(zip(one.keys, zip(one.ticks.tolist(), one.sums[0].tolist(), strict=True), strict=True))
        wanted = dict(zip(two.keys, zip(two.ticks.tolist(), two.sums[0].tolist(), strict=True), strict=True))
        assert by_key.items() <= wanted.items()
        assert by_key
    sizes = [len(waiting(count).saved(3)) for count in (0, 1, 700, 1024, 1025, 2048)]
    assert sizes[0] == sizes[1] == sizes[2] == sizes[3] < sizes[4] == sizes[5]
    assert isinstance(KeySums().close(9), Tally)


@pytest.mark.parametrize("unit", ["event", {"w_event": 3}])
def test_the_ledger_is_charged_the_loss_and_the_delta(tmp_path: Path, unit: Any) -> None:
    write(tmp_path, chosen())
    made = pipeline(tmp_path, words(unit=unit))
    run(made)
    book = made.ledger()
    assert book.ledger is not None
    (charge,) = book.ledger.entries
    assert (charge.timeline.steps[0].loss, charge.delta) == (Zcdp("1/50"), Fraction(DELTA))
    (act,) = [act for act in book.acts if act.kind == "charge"]
    assert (act.body["delta"], act.body["layout"]["discovered"]) == (DELTA, "g")
    by_itself = Ledger(Approx(2, "1/1000000"), Event() if unit == "event" else WEvent(3))
    by_itself.charge("words", Zcdp("1/50"), 1, 10, native=unit != "event", delta=Fraction(DELTA))
    assert book.ledger.spent() == by_itself.spent()
    assert book.ledger.left() == by_itself.left()
    assert book.ledger.delta_spent() == Fraction(DELTA)
    assert Book.read(book.acts, book.unit).ledger.delta_spent() == Fraction(DELTA)  # type: ignore[union-attr]


def test_what_is_charged_again_takes_its_delta_again(tmp_path: Path) -> None:
    plan = planned(file := Pipeline.of(words(), tmp_path / "v.toml").file, file.releases[0])
    book = Book(Event())
    book.budget(Approx(2, "1/1000000"))
    book.charge("words", plan, 1)
    book.again("words", 4)
    assert book.ledger is not None
    assert book.ledger.delta_spent() == 2 * Fraction(DELTA)
    assert book.ledger.delta_spent(first=5) == Fraction(DELTA)
    assert book.acts[-1].body["delta"] == DELTA


def test_deltas_beyond_the_budgets_are_refused_with_their_numbers(tmp_path: Path) -> None:
    made = words()
    made["release"] = [{**made["release"][0], "name": f"w{i}", "delta": "1/1900000"} for i in range(2)]
    write(tmp_path, chosen())
    with pytest.raises(BudgetExceeded, match="and delta 1/1900000 on top of"):
        run(pipeline(tmp_path, made))
    (refused,) = pipeline(tmp_path, made).plan().refused
    assert "beside delta 5.263e-07 on top of epsilon" in refused


def test_shares_are_of_what_deltas_leave(tmp_path: Path) -> None:
    made = words()
    made["release"] = [
        {"name": "words", "sql": WORDS, "share": "1/2", "delta": DELTA},
        {"name": "all", "sql": "SELECT COUNT(*) FROM v", "share": "1/2"},
    ]
    write(tmp_path, chosen())
    p = pipeline(tmp_path, made)
    left = Approx(2, "1/1000000").kept_beside(Fraction(DELTA))
    assert [release.loss for release in p.file.releases] == [left.part("1/2")] * 2
    run(p)
    assert p.ledger().ledger.left().amount == 0  # type: ignore[union-attr]


def test_the_plan_tells_the_threshold_at_each_tick_that_it_shows(tmp_path: Path) -> None:
    made = pipeline(tmp_path, words(most=1000))
    plan = made.plan()
    statistic: Any = planned(made.file, made.file.releases[0]).parts[0].statistic
    for error in plan.releases[0].errors:
        assert error.threshold == statistic.selection.threshold(error.tick)
        assert f"a group appears above {error.threshold:,.0f} events" in str(plan)
        assert error.half_width > statistic.noise_at(error.tick).half_width(0.95)
    assert [error.tick for error in plan.releases[0].errors] == [1, 5, 10]
    assert "at most 1,000 groups, discovered" in str(plan)
    assert "rho 0.02 beside delta 1e-07" in str(plan)
    release = plan.as_json()["releases"][0]
    assert (release["delta"], release["discovered"], release["columns"]) == (DELTA, True, ["g"])


REFUSED = {
    "a budget without a delta": ({"budget": {"epsilon": 2}}, {}, "left out unless the budget has a delta"),
    "a zCDP budget": ({"budget": {"rho": 1}}, {}, "left out unless the budget has a delta"),
    "no delta": ({}, {"delta": None}, "delta must be given, the groups of g are discovered"),
    "a delta for nothing": ({}, {"sql": "SELECT COUNT(*) FROM v"}, "left out unless groups are discovered"),
    "users": (
        {"unit": {"user": "x", "max_events_per_tick": 1, "max_ticks": 3}},
        {},
        "unit must be an event, or w_event, where groups are discovered",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused_with_the_rule(case: str) -> None:
    stream, release, rule = REFUSED[case]
    made = words(**stream)
    made["release"][0] = {k: v for k, v in (made["release"][0] | release).items() if v is not None}
    with pytest.raises(ValueError, match=rule):
        planned(file := Pipeline.of(made, Path("v.toml")).file, file.releases[0])


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g", "takes one COUNT"),
        ("SELECT g, COUNT(x) FROM v GROUP BY g", "takes one COUNT"),
        ("SELECT g, COUNT(*), COUNT(*) AS n FROM v GROUP BY g", "takes one COUNT"),
        ("SELECT g, x, COUNT(*) FROM v GROUP BY g, x", "must stand alone"),
        ("SELECT g, COUNT(*) FROM v GROUP BY ROLLUP (g)", "must stand alone"),
        ("SELECT UPPER(g), COUNT(*) FROM v GROUP BY 1", "must be the column g itself"),
    ],
)
def test_nothing_else_is_asked_of_groups_that_are_discovered(sql: str, rule: str) -> None:
    file = Pipeline.of(words(sql=sql), Path("v.toml")).file
    with pytest.raises(Refused, match=rule):
        planned(file, file.releases[0])


def test_with_noise_only_keys_of_many_are_published(tmp_path: Path) -> None:
    """And every published number is within its bounds of the truth."""
    events = chosen() + [event(s % 100, f"only {s}") for s in range(2000)]
    write(tmp_path, events)
    made = pipeline(tmp_path, words(most=100))
    made.run(noise=InsecureNoise(5))
    for each in made.releases("words"):
        truth = Counter(e["g"] for e in events if e["ts"] * 10**6 < each.end)
        for place, low, high in zip(each.shape.places, each.low[0], each.high[0], strict=True):
            label = str(place.labels[0][1])
            assert not label.startswith("only")
            assert low <= truth[label] <= high
    assert lines(tmp_path / "out.jsonl")
