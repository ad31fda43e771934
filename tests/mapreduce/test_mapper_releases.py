"""Releases over pairs: silent runs equal the interpreter, for batch and live streams, units and windows."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.config.errors import InvalidReleaseError, PipelineFileError
from streamgauge.mapreduce.columns import build_column, read_record
from streamgauge.mapreduce.interpreter import run_record
from streamgauge.mapreduce.parser import parse_mapper
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Sensitivity
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from tests.support.edited import refusal
from tests.support.pipelines import (
    Tables,
    as_they_happen,
    event,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
    write,
)

pytest.importorskip("wasmtime")

SOURCE = """
def half(n):
    return n // 2

def mapper(text, x, flag, ts):
    if flag:
        return
    for word in text.lower().split():
        emit(word, half(x))
    if ts.second >= 50 and x < 9:
        emit("late", 1)
"""
COLUMNS: Any = {"text": "text", "x": "number", "flag": "bool", "ts": "time"}
KEYS = ["é", "dog", "late"]
MAPPER: Tables = {"source": SOURCE, "columns": [*COLUMNS], "keys": KEYS, "max_pairs": 2, "bounds": [0, 3], "grid": 1}
STREAM_COLUMNS = {
    "g": {"values": ["a", "b"]},
    "x": {"bounds": [0, 10], "grid": 1},
    "text": {"type": "text"},
    "flag": {"type": "boolean"},
}
TEXTS = ["", "a dog", "É é dog", "Dog DOG", "cat \t é", None, "dog " * 300, "x" * 3000]


def events(seconds: int = 100) -> list[Tables]:
    return [
        event(s, "ab"[s % 2], s % 11 if s % 7 else "?", text=TEXTS[s % 8], flag=s % 5 == 0, u=f"u{s % 4}")
        for s in range(seconds)
    ]


def file_tables(*releases: Tables, mapper: Tables | None = None, **settings: Any) -> Tables:
    made = tables(*(releases or [{"name": "words", "map": "m"}]), **{"columns": STREAM_COLUMNS, **settings})
    return made | {"mapper": {"m": MAPPER | (mapper or {})}}


def expected(records: list[Tables]) -> np.ndarray:
    """Return count and clamped sum by tick and key, of the interpreter."""
    program = parse_mapper(SOURCE, COLUMNS, KEYS, max_pairs=2, max_steps=10_000)
    found = np.zeros((2, 10, len(KEYS)))
    for record in records:
        number = record["x"] if record["x"] != "?" else None
        items: dict[str, Any] = {"text": record["text"], "x": number, "flag": record["flag"], "ts": record["ts"] * 1e6}
        if items["text"] is not None:
            items["text"] = items["text"][:1024]
        columns = {name: build_column(kind, np.array([items[name]], object)) for name, kind in COLUMNS.items()}
        tick = int(record["ts"] - 1_767_571_200) // 10
        for key, value in run_record(program, read_record(columns, 0)).pairs:
            found[:, tick, key] += 1, min(max(value, 0), 3)
    return found


@pytest.mark.parametrize("reducer", ["count", "sum"])
def test_batch_releases_equal_the_interpreter(tmp_path: Path, reducer: str) -> None:
    write(tmp_path, events())
    made = pipeline(tmp_path, file_tables({"name": "words", "map": "m", "reduce": reducer}))
    run(made)
    exact = expected(events())[0 if reducer == "count" else 1]
    assert exact.sum() > 20
    assert published(made, "words") == exact.tolist()


@pytest.mark.parametrize("unit", ["event", {"tick": 20}, {"w_event": 3}], ids=str)
def test_live_releases_equal_the_interpreter(tmp_path: Path, unit: Any) -> None:
    releases: list[Tables] = [{"name": "words", "map": "m"}, {"name": "all", "sql": "SELECT COUNT(*) FROM v"}]
    made = pipeline(tmp_path, file_tables(*releases, live=True, unit=unit, budget={"epsilon": 2}))
    clock, stop = world(tmp_path, as_they_happen(events())), Flag()
    clock.acts[130] = stop.set
    run(made, clock=clock, stop=stop)
    assert len(ticks_of(made, "words")) >= 10
    assert published(made, "words")[:10] == expected(events())[0].tolist()
    assert published(made, "all")[:10] == [[10.0]] * 10


def test_all_reducers_share_windows_and_alerts(tmp_path: Path) -> None:
    write(tmp_path, events())
    reducers = ["mean", "variance", "stddev", "median", "min", "max"]
    releases = [
        {"name": name, "map": "m", "reduce": name, "window": "sliding 30s", "epsilon": "1/8"} for name in reducers
    ]
    alert = {"name": "words", "map": "m", "alerts": {"kind": "threshold", "size": 3}, "epsilon": "1/8"}
    made = pipeline(tmp_path, file_tables(*releases, alert))
    run(made)
    count, total = expected(events())
    window = slice(7, 10)
    counts = np.maximum(count[window].sum(axis=0), 1)
    means, few = total[window].sum(axis=0) / counts, counts < 10
    assert np.allclose(np.array(published(made, "mean")[-1])[~few], means[~few], atol=0.5)
    assert next(iter(made.releases("words"))).value.shape[0] == 2


def test_bounds_of_users_come_before_the_program(tmp_path: Path) -> None:
    write(tmp_path, events())
    unit = {"user": "u", "max_events_per_tick": 1, "max_ticks": 10}
    made = pipeline(tmp_path, file_tables(unit=unit))
    run(made)
    assert sum(map(sum, published(made, "words"))) <= 4 * 10 * 2
    (part,) = plan_release(made.file, made.file.releases[0]).parts
    assert part.statistic.tick_sensitivity == Sensitivity(2, 2, 2)


def test_a_pair_moves_one_group_each(tmp_path: Path) -> None:
    file = pipeline(tmp_path, file_tables({"name": "words", "map": "m", "reduce": "sum"})).file
    (part,) = plan_release(file, file.releases[0]).parts
    assert part.statistic.tick_sensitivity == Sensitivity(6, 18, 2)
    assert part.measure.mapper == file.mappers["m"]


def test_other_code_is_another_release(tmp_path: Path) -> None:
    write(tmp_path, events())
    run(pipeline(tmp_path, file_tables()))
    same = file_tables()
    assert pipeline(tmp_path, same).plan().refusals == ()
    changed = file_tables(mapper={"source": SOURCE.replace("n // 2", "n // 3")})
    assert "words" in refusal(tmp_path, changed)
    assert "mapper" in refusal(tmp_path, changed)


def test_analysts_send_mappers_with_requests(tmp_path: Path) -> None:
    write(tmp_path, events())
    made = pipeline(tmp_path, tables(columns=STREAM_COLUMNS, budget={"epsilon": 2}))
    body = {"name": "mine", "map": MAPPER, "reduce": "count", "window": "each", "epsilon": 0.5}
    requested = AdHocRelease(parse_adhoc_release(body, made.file.stream, 100, made.file.mappers), "ana")
    run(made, [requested])
    assert published(made, "mine") == expected(events())[0].tolist()
    again = Pipeline.from_tables(tables(columns=STREAM_COLUMNS, budget={"epsilon": 2}), tmp_path / "v.toml")
    assert "mine" in {release.name for release in again.plan().releases}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source": "def mapper(x):\n    import os\n"}, "mapper.m.source: line 2: statements must be"),
        ({"source": "missing.py"}, "mapper.m.source must be a file of UTF-8"),
        ({"columns": ["text", "y"]}, "mapper.m.columns must be columns of the stream"),
        ({"columns": []}, "mapper.m.columns must be one or more"),
        ({"keys": []}, "mapper.m.keys must be an array"),
        ({"keys": ["a", 1]}, "mapper.m.keys must be an array"),
        ({"keys": ["dog", "dog"]}, "different labels"),
        ({"max_pairs": 0}, "mapper.m.max_pairs must be"),
        ({"bounds": [3, 1]}, "mapper.m.bounds must be two numbers"),
        ({"grid": "2/7"}, "mapper.m.grid must be one that has both bounds"),
        ({"max_steps": 10**9}, "mapper.m.max_steps must be"),
        ({"steps": 5}, "unknown key mapper.m.steps"),
    ],
)
def test_wrong_mappers_are_refused(tmp_path: Path, changes: Tables, words: str) -> None:
    with pytest.raises(PipelineFileError) as found:
        pipeline(tmp_path, file_tables(mapper=changes))
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ({"map": "n"}, "release.r.map must be the name of a [mapper.NAME]"),
        ({"map": 3}, "release.r.map must be"),
        ({"map": {"source": SOURCE}}, "release.r.map.columns must be"),
        ({"map": "m", "reduce": "total"}, "release.r.reduce must be one of"),
        ({"map": "m", "reduce": "threshold"}, 'alerts = { kind = "threshold"'),
        ({"map": "m", "sql": "SELECT COUNT(*) FROM v"}, "release.r.sql must be left out"),
        ({"sql": "SELECT COUNT(*) FROM v", "reduce": "sum"}, "release.r.reduce must be left out"),
    ],
)
def test_wrong_releases_are_refused(tmp_path: Path, release: Tables, words: str) -> None:
    with pytest.raises(PipelineFileError) as found:
        pipeline(tmp_path, file_tables({"name": "r", **release}))
    assert words in str(found.value)


def test_values_need_bounds(tmp_path: Path) -> None:
    made = file_tables({"name": "r", "map": "m", "reduce": "sum"})
    del made["mapper"]["m"]["bounds"], made["mapper"]["m"]["grid"]
    with pytest.raises(PipelineFileError, match="reduce must be count, unless"):
        pipeline(tmp_path, made)


def test_sources_are_files_too(tmp_path: Path) -> None:
    write(tmp_path, events())
    (tmp_path / "words.py").write_text(SOURCE)
    made = pipeline(tmp_path, file_tables(mapper={"source": "words.py"}))
    assert made.file.mappers["m"].source == SOURCE


def test_live_plans_that_do_not_fit_their_tick_are_refused(tmp_path: Path) -> None:
    for unit, steps, fits in (({"tick": 1000}, 10_000, True), ({"tick": 10**6}, 10_000, False), ("event", 10**8, True)):
        made = pipeline(tmp_path, file_tables(mapper={"max_steps": steps}, live=True, unit=unit))
        release = made.file.releases[0]
        if fits:
            plan_release(made.file, release)
            continue
        with pytest.raises(InvalidReleaseError, match="max_steps must be few enough for 1,000,000 records"):
            plan_release(made.file, release)


def test_adaptive_mechanisms_are_refused_with_several_pairs(tmp_path: Path) -> None:
    made = pipeline(tmp_path, file_tables({"name": "r", "map": "m", "mechanism": "Pegasus"}))
    with pytest.raises(InvalidReleaseError, match="adapts to its data"):
        plan_release(made.file, made.file.releases[0])
