"""Discovered groups from events to releases: checked by hand under silent noise, and after restarts."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.plan.measure import Measure, Tally
from streamgauge.runtime.live.open_ticks import KeySums, OpenTicks
from streamgauge.runtime.published import read_releases
from streamgauge.statistics.keys.discovery import KeySelection
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.discovered import SINKS, TICKS, by_hand, chosen, rows, told, words
from tests.support.forked import Fault, forked, killed_at, raised_at
from tests.support.pipelines import Tables, as_they_happen, event, lines, pipeline, run, world, write


@pytest.mark.parametrize("window", ["running", "each", "sliding 30s"])
@pytest.mark.parametrize("most", [3, 100])
def test_releases_without_noise_are_counts_above_threshold(tmp_path: Path, window: str, most: int) -> None:
    events = chosen()
    write(tmp_path, events)
    made = pipeline(tmp_path, words(window=window, most=most))
    run(made)
    assert told(made) == by_hand(events, made, most)
    assert len(told(made)[-1]) >= 3


def test_live_stream_publishes_same_groups(tmp_path: Path) -> None:
    events = chosen()
    made = pipeline(tmp_path, words(live=True, end="2026-01-05T00:01:40Z"))
    assert made.file.releases[0].horizon is None
    run(made, clock=world(tmp_path, as_they_happen(events)))
    assert told(made) == by_hand(events, made)


def test_where_clause_drops_events_and_null_is_no_group(tmp_path: Path) -> None:
    events = [event(1, "tea", 1)] * 100 + [event(1, "milk", 9)] * 100 + [event(2, None, 1)] * 100  # type: ignore[arg-type]
    events += [{"ts": 1_767_571_200, "x": 1}] * 100
    write(tmp_path, events)
    made = pipeline(tmp_path, words(sql="SELECT g AS word, COUNT(*) AS n FROM v WHERE x < 5 GROUP BY g"))
    run(made)
    assert told(made)[0] == [("tea", 100.0)]
    assert made.releases("words").shape.columns == ("word",)
    assert made.releases("words").shape.measures == ("n",)


def test_long_key_is_truncated_before_it_is_counted(tmp_path: Path) -> None:
    write(tmp_path, [event(1, "ä" * 2000)] * 60 + [event(1, "ä" * 1024 + "b")] * 60)
    made = pipeline(tmp_path, words())
    run(made)
    assert told(made)[0] == [("ä" * 1024, 120.0)]


@pytest.mark.parametrize("at", [0, 3, 9])
def test_event_with_unique_key_changes_no_release(tmp_path: Path, at: int) -> None:
    series = []
    for name, more in (("without", []), ("with", [event(at * 10 + 1, "only once")])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, chosen() + more)
        made = pipeline(tmp_path / name, words())
        run(made)
        series.append([each.pack() for each in made.releases("words")])
    assert series[0] == series[1]


def test_twin_with_too_low_threshold_publishes_unique_key(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(KeySelection, "threshold", lambda self, tick: 0.5)
    write(tmp_path, [event(1, "only once")])
    made = pipeline(tmp_path, words())
    run(made)
    assert told(made)[0] == [("only once", 1.0)]


def test_every_sink_has_same_rows_and_none_for_empty_ticks(tmp_path: Path) -> None:
    """Ticks 1 and 2 have too few events of any word."""
    events = [event(1, "tea")] + [event(25, w) for w in ('q"uo,te', "x\ny") for _ in range(99)]
    write(tmp_path, events)
    made = pipeline(tmp_path, words(sinks=SINKS))
    run(made, max_batch_ticks=2)
    expected = [(tick, json.dumps({"g": word}), 99.0) for tick in range(3, 11) for word in ('q"uo,te', "x\ny")]
    for found in rows(tmp_path).values():
        assert found == expected
    released = made.releases("words")
    assert [len(each.shape.groups) for each in released] == [0, 0] + [2] * 8
    assert released.to_pandas()["g"].tolist() == [json.loads(group)["g"] for _, group, _ in expected]
    for empty in (released[:2].to_arrow(), released[:2].to_polars(), released[:2].to_pandas()):
        assert len(empty) == 0
        assert "g" in (empty.column_names if hasattr(empty, "column_names") else list(empty.columns))
    assert "q&quot;uo,te" in released._repr_html_()


def test_groups_of_earlier_ticks_have_same_places_later(tmp_path: Path) -> None:
    """Groups are in the order of their first publication, for any range that is read."""
    write(tmp_path, chosen())
    made = pipeline(tmp_path, words(most=100))
    run(made)
    whole = made.releases("words")
    for last in range(1, TICKS + 1):
        some = read_releases(made.file, "words", 1, last)
        assert whole.shape.groups[: len(some.shape.groups)] == some.shape.groups
    values = whole.values("count")
    assert values.shape == (TICKS, len(whole.shape.groups))
    assert np.isnan(values[0]).sum() == len(whole.shape.groups) - len(whole[0].shape.groups)


@pytest.mark.parametrize("window", ["running", "each"])
def test_stopped_run_continues_with_same_series(tmp_path: Path, window: str) -> None:
    """The run stops after some ticks, and each time loads its state from the store."""
    series = []
    for name, steps in (("whole", [99]), ("stopped", [1, 2, 4, 99])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, chosen())
        made = pipeline(tmp_path / name, words(window=window, sinks=SINKS))
        for count in steps:
            ticks = made.ticks(noise=SilentNoise(), max_batch_ticks=1 if name == "stopped" else 99)
            for _, _ in zip(range(count), ticks, strict=False):
                pass
            ticks.close()
        series.append([each.pack() for each in made.releases("words")])
    assert series[0] == series[1]
    assert rows(tmp_path / "whole") == rows(tmp_path / "stopped")


@pytest.mark.parametrize(
    "step",
    [
        "block_read",
        "noise_drawn",
        "releases_packed",
        "store_committed",
        "guard_written",
        "sink_written",
        "sink_position_saved",
    ],
)
def test_run_killed_at_any_step_publishes_each_tick_once(tmp_path: Path, step: str) -> None:
    events = chosen()
    write(tmp_path, events)
    made = pipeline(tmp_path, words(sinks=SINKS))
    observed: list[str] = []

    def third(name: str) -> None:
        observed.append(name)
        if observed.count(step) == (3 if step != "block_read" else 1):
            killed_at(step)(name)

    assert forked(lambda: run(made, max_batch_ticks=2, step=third)) == -signal.SIGKILL
    run(made, max_batch_ticks=2)
    assert told(made) == by_hand(events, made)
    for found in rows(tmp_path).values():
        assert found == [
            (tick, json.dumps({"g": g}), n) for tick, groups in enumerate(told(made), 1) for g, n in groups
        ]


def failing_twice(folder: Path, events: list[Tables]) -> Pipeline:
    """Run a live pipeline that fails twice with open ticks and continues from the last commit."""
    made = pipeline(folder, words(live=True, end="2026-01-05T00:01:40Z"))
    clock = world(folder, as_they_happen(events))
    armed: list[float] = []

    def step(name: str) -> None:
        if armed and name == "block_read":
            armed.clear()
            raised_at("block_read")(name)

    for second in (33.0, 58.0):
        clock.acts[second] = lambda second=second: armed.append(second)  # type: ignore[misc]
        with pytest.raises(Fault):
            run(made, clock=clock, step=step)
    run(made, clock=clock)
    return made


def test_live_run_restores_keys_of_open_ticks(tmp_path: Path) -> None:
    events = chosen()
    made = failing_twice(tmp_path, events)
    assert told(made) == by_hand(events, made)


def test_twin_that_forgets_open_keys_publishes_too_little(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(KeySums, "restore", lambda self, arrays: None)
    events = chosen()
    made = failing_twice(tmp_path, events)
    assert told(made) != by_hand(events, made)


def test_standard_input_has_its_groups_discovered_at_its_end(tmp_path: Path) -> None:
    events = chosen()
    write(tmp_path, events[::-1])
    made = pipeline(tmp_path, words(source="-", format="jsonl"))
    with (tmp_path / "v.jsonl").open("rb") as file:
        run(made, standard_input=file.fileno())
    assert told(made) == by_hand(events, made)


@pytest.mark.parametrize("mechanism", ["Kary", {"name": "SquareRoot"}])
def test_a_mechanism_can_be_named(tmp_path: Path, mechanism: Any) -> None:
    events = chosen()
    write(tmp_path, events)
    tables_of = words()
    tables_of["release"][0]["mechanism"] = mechanism
    made = pipeline(tmp_path, tables_of)
    run(made)
    assert [[g for g, _ in tick] for tick in told(made)] == [[g for g, _ in tick] for tick in by_hand(events, made)]


def test_open_keys_are_saved_whole_with_padded_length() -> None:
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
    again.restore(waiting(700).save(3))
    for last in (1, 3):
        one, two = again.close(last)[0], waiting(700).close(last)[0]
        by_key = dict(zip(one.keys, zip(one.ticks.tolist(), one.sums[0].tolist(), strict=True), strict=True))
        wanted = dict(zip(two.keys, zip(two.ticks.tolist(), two.sums[0].tolist(), strict=True), strict=True))
        assert by_key.items() <= wanted.items()
        assert by_key
    sizes = [len(waiting(count).save(3)) for count in (0, 1, 700, 1024, 1025, 2048)]
    assert sizes[0] == sizes[1] == sizes[2] == sizes[3] < sizes[4] == sizes[5]


def test_noisy_run_publishes_only_frequent_keys(tmp_path: Path) -> None:
    """Every published interval contains the truth."""
    events = chosen() + [event(s % 100, f"only {s}") for s in range(2000)]
    write(tmp_path, events)
    made = pipeline(tmp_path, words(most=100))
    made.run(noise=InsecureNoise(5))
    for each in made.releases("words"):
        truth = Counter(e["g"] for e in events if e["ts"] * 10**6 < each.end)
        for place, low, high in zip(each.shape.groups, each.low[0], each.high[0], strict=True):
            label = str(place.labels[0][1])
            assert not label.startswith("only")
            assert low <= truth[label] <= high
    assert lines(tmp_path / "out.jsonl")
