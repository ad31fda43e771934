"""End-to-end attacks on a pipeline file: each broken part is condemned, honest code is not."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.audit.pipeline.audit import (
    FAST_RUNS,
    MIN_SLOW_RUNS,
    SLOW_RUNS,
    PipelineAuditor,
    audit_pipeline,
    build_readings,
    compute_charge,
    default_runs,
)
from streamgauge.audit.pipeline.compare import PipelineTrial, RunByRunSubject, TrialComparison
from streamgauge.audit.pipeline.copies import RepeatedReleases, prepend_group, widen
from streamgauge.audit.pipeline.inputs import CandidateRecords, InputRecord, format_record_time
from streamgauge.audit.pipeline.neighbours import build_unit
from streamgauge.audit.pipeline.runs import create_private_folder
from streamgauge.audit.subject import Pair
from streamgauge.audit.verdict import Verdict
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.mapper import MapperSettings
from streamgauge.config.settings import PipelineFile
from streamgauge.continual import WindowBridge
from streamgauge.engines.duckdb import aggregation
from streamgauge.engines.duckdb.rows import TypedColumn
from streamgauge.interfaces import ignore
from streamgauge.mapreduce.parser import parse_mapper
from streamgauge.mapreduce.program import MapperProgram
from streamgauge.noise import Ints
from streamgauge.plan import planner
from streamgauge.privacy import Pure
from streamgauge.sinks.formats import JsonLines
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import tables

SURE = 1 - 1e-9
SUMS = {"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": 1}
COUNTS = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "epsilon": 1}
TWO = {"name": "two", "sql": "SELECT COUNT(*), COUNT(x) FROM v", "epsilon": 1}
SPLIT = ("1/4", "1/4", "1/2")
SLOW = ((True, 9), (False, 1), (False, 4), (False, 99))  # (fast, number of releases)
WINDOWS = {"name": "windows", "sql": COUNTS["sql"], "epsilon": 1, "window": ["sliding 10s", "sliding 20s"]}
USER = {"user": "u", "max_events_per_tick": 2, "max_ticks": 2}


def file_of(folder: Path, *releases: Any, **settings: Any) -> PipelineFile:
    return Pipeline.from_tables(tables(*releases, **settings), folder / "v.toml").file


def verdicts(file: PipelineFile, runs: int = 3000, confidence: float = SURE) -> Any:
    return audit_pipeline(
        file, ticks=2, runs=runs, check_interruptions=False, confidence=confidence, noise=InsecureNoise(31)
    )


def silent(file: PipelineFile, *inputs: Any, ticks: int = 2) -> np.ndarray:
    """The values that readers of the first sink see without noise: (inputs, ticks, groups, measures)."""
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, ticks, folder)
        view = trial.build_view()
        return view.parts[0].numbers(trial.run_without_noise(view, inputs))[..., 0]


def test_honest_count_measures_near_its_claim_and_is_acquitted(tmp_path: Path) -> None:
    (verdict,) = audit_pipeline(
        file_of(tmp_path, COUNTS), ticks=1, runs=12_000, check_interruptions=False, noise=InsecureNoise(30)
    )
    assert not verdict.is_condemned
    assert verdict.exact == pytest.approx(1)
    assert verdict.measurement.amount > 0.8
    assert verdict.measurement.score == "likelihood ratio"
    assert verdict.measurement.pair.startswith("an event of g a, ")


@pytest.mark.slow
@pytest.mark.parametrize("unit", [{"w_event": 2}, USER], ids=str)
def test_other_units_are_attacked_with_all_their_events(tmp_path: Path, unit: Any) -> None:
    (verdict,) = verdicts(file_of(tmp_path, COUNTS, unit=unit), 6000)
    assert not verdict.is_condemned
    assert verdict.exact == pytest.approx(1)
    assert verdict.measurement.amount > 0.4


@pytest.mark.slow
def test_releases_are_compared_with_their_loss_and_the_charge(tmp_path: Path) -> None:
    parts = [{**release, "epsilon": epsilon} for release, epsilon in zip((COUNTS, SUMS, TWO), SPLIT, strict=True)]
    found = verdicts(file_of(tmp_path, *parts), 400)
    assert [verdict.subject for verdict in found] == [*map("v.toml: {}".format, ("counts", "sums", "two")), "v.toml"]
    assert [verdict.claimed for verdict in found] == [0.25, 0.25, 0.5, 1]
    assert [verdict.exact for verdict in found] == pytest.approx([0.25, 0.25, 0.5, 1])
    assert not any(verdict.is_condemned for verdict in found)


def test_attack_can_be_limited_to_uncomputed_releases(tmp_path: Path) -> None:
    words = {"name": "words", "sql": "SELECT k, COUNT(*) FROM v GROUP BY k", "delta": 1e-6, "epsilon": "1/10"}
    budget, columns = {"epsilon": 9, "delta": 1e-5}, {"g": {"values": ["a", "b"]}, "k": {"max_groups": 5}}
    file = file_of(tmp_path, COUNTS, words, budget=budget, columns=columns)
    progress: list[object] = []
    counts, *attacked = audit_pipeline(
        file,
        ticks=1,
        runs=100,
        check_interruptions=False,
        attack_computed=False,
        noise=InsecureNoise(33),
        watch=lambda *run: progress.append(run),
        on_computed=progress.append,
    )
    assert progress[0] == counts  # before any run
    assert [each for each in progress if isinstance(each, Verdict)] == [counts]
    assert len(progress) > 1
    assert (counts.exact, counts.measurement) == (pytest.approx(1), None)
    assert not counts.is_condemned
    assert len(attacked) == 2
    assert all(verdict.exact is None and verdict.measurement.runs for verdict in attacked)


def test_audit_touches_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    made: list[Path] = []

    @contextmanager
    def create_folder() -> Iterator[Path]:
        with create_private_folder() as folder:
            made.append(folder)
            yield folder
            assert list(folder.iterdir())

    file = file_of(tmp_path, COUNTS)
    audit_pipeline(file, ticks=2, runs=100, check_interruptions=False, create_folder=create_folder)
    assert not list(tmp_path.iterdir())
    assert not made[0].exists()


class RepeatedHalves:
    """Broken noise: the second tick repeats the draws of the first."""

    def __init__(self, noise: Any) -> None:
        self.noise = noise

    def laplace(self, scale: Any, size: int) -> Ints:
        return np.tile(self.noise.laplace(scale, size // 2), 2)

    gaussian = laplace


def leave_numbers_unclamped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a broken engine: it does not clamp numbers."""
    monkeypatch.setattr(TypedColumn, "_number", lambda typed, own: f"CASE WHEN abs({own}) < 1e12 THEN {own} END")
    monkeypatch.setattr(aggregation, "floor_sql", lambda number, first, last: f"CAST(floor({number}) AS BIGINT)")


def leave_loss_unsplit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a broken planner: each aggregate gets the whole epsilon."""
    honest = planner.build_parts

    def build_parts(release: Any, query: Any, stream: Any) -> Any:
        whole = type(release.loss).from_amount(release.loss.amount * len(honest(release, query, stream)))
        return honest(replace(release, loss=whole), query, stream)

    monkeypatch.setattr(planner, "build_parts", build_parts)


def mask_empty_groups(run: Any, tally: Any, first: int, count: int, estimates: Any) -> Any:
    """Return estimates that are NaN in groups without an event."""
    inside = tally.ticks < first + count
    empty = np.ones((count, run.part.width), np.bool_)
    empty[tally.ticks[inside] - first, tally.groups[inside]] = False
    honest = estimates["value"]
    others = {name: getattr(honest, name) for name in ("stddev", "low", "high", "reliable")}
    return {"value": SimpleNamespace(value=np.where(empty, np.nan, honest.value), **others)}


def drop_null_lines(written: bytes) -> bytes:
    return b"".join(line for line in written.splitlines(True) if b'"value":null' not in line)


def audit_one_pair(file: PipelineFile, pair: str, noise: Any, ticks: int = 2) -> Any:
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, ticks, folder)
        pairs = [each for each in trial.list_pairs() if each.name == pair]
        judge = PipelineAuditor(trial, compute_charge(file, folder), 3000, SURE, ignore, noise)
        (verdict,) = judge.audit_releases(pairs)
    return verdict


@pytest.mark.parametrize(
    ("install", "release", "pair"),
    [
        (leave_numbers_unclamped, SUMS, "a unit whose numbers are out of bounds"),
        (leave_loss_unsplit, TWO, "an event of x 10, alone"),
    ],
    ids=["a number that is not clamped", "a loss that is not split"],
)
def test_broken_code_is_condemned(tmp_path: Path, monkeypatch: Any, install: Any, release: Any, pair: str) -> None:
    file = file_of(tmp_path, release)
    install(monkeypatch)
    verdict = audit_one_pair(file, pair, InsecureNoise(31))
    assert verdict.measurement.amount > 1, verdict
    assert verdict.is_condemned


def test_reused_noise_is_condemned(tmp_path: Path) -> None:
    verdict = audit_one_pair(file_of(tmp_path, COUNTS), "an event of g a, alone", RepeatedHalves(InsecureNoise(31)))
    assert verdict.measurement.amount > 1, verdict
    assert verdict.is_condemned


def halve_noise_of_shorter_window(run: Any, tally: Any, first: int, count: int, estimates: Any) -> Any:
    """Return estimates in which the window of one tick has half of its noise."""
    honest = estimates["sliding 1"]
    exact = run.build_vectors(tally, tally.ticks - first, count)[:, 0]
    others = {name: getattr(honest, name) for name in ("stddev", "low", "high", "reliable")}
    return {**estimates, "sliding 1": SimpleNamespace(value=(honest.value + exact) / 2, **others)}


def test_windows_of_one_run_are_acquitted_and_read_together(tmp_path: Path) -> None:
    verdict = audit_one_pair(file_of(tmp_path, WINDOWS), "an event of g a, alone", InsecureNoise(31))
    assert verdict.exact == pytest.approx(1)
    assert 0.5 < verdict.measurement.amount <= 1, verdict


def test_a_window_with_less_noise_is_condemned(tmp_path: Path, leaky_run: Any) -> None:
    leaky_run(halve_noise_of_shorter_window)
    verdict = audit_one_pair(file_of(tmp_path, WINDOWS), "an event of g a, alone", InsecureNoise(31))
    assert verdict.measurement.amount > 1, verdict
    assert verdict.is_condemned


def test_all_windows_are_read_as_their_mechanism_decodes_them(tmp_path: Path) -> None:
    mechanism = {"name": "WindowBridge", "radices": [2, 2]}
    file = file_of(tmp_path, {**WINDOWS, "window": ["sliding 40s", "sliding 70s"], "mechanism": mechanism})
    with create_private_folder() as folder:
        (reading,) = build_readings(PipelineTrial.from_file(file, 10, folder).build_view().parts[0]) or ()
    alone = [WindowBridge(Pure(1), window=window, radices=(2, 2)).strategy(10).decode for window in (4, 7)]
    both = np.concatenate(alone)
    assert reading.view.by_noise.tolist() == both[:, both.any(axis=0)].tolist()


def test_rows_only_for_groups_with_data_are_condemned(tmp_path: Path, leaky_run: Any, rewriting_sink: Any) -> None:
    leaky_run(mask_empty_groups)
    rewriting_sink(JsonLines, drop_null_lines)
    verdict = audit_one_pair(file_of(tmp_path, COUNTS), "an event of g a, alone", InsecureNoise(31))
    assert verdict.measurement.amount > 1, verdict
    assert verdict.is_condemned


def test_run_that_fails_on_a_torn_record_is_condemned(tmp_path: Path, failing_source: Any) -> None:
    def fail(path: Path) -> None:
        raise ValueError("a record must be readable, got one that is not")

    failing_source(b"torn", fail)
    found = verdicts(file_of(tmp_path, COUNTS), 400, 0.999)
    assert found[-1].subject == "v.toml, run by run"
    assert found[-1].is_condemned
    assert found[-1].measurement.pair == "a record that is torn, before others"
    assert not found[0].is_condemned


def test_run_that_prints_its_data_is_condemned(tmp_path: Path, leaky_run: Any) -> None:
    def leak(run: Any, tally: Any, first: int, count: int, estimates: Any) -> Any:
        print(f"{len(tally.ticks)} events")
        return estimates

    leaky_run(leak)
    file = file_of(tmp_path, COUNTS)
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, 1, folder)
        comparison = TrialComparison.from_trial(trial, trial.list_pairs()[:1], with_interruptions=False)
        written = RunByRunSubject.from_comparison(comparison, compute_charge(file, folder), InsecureNoise(31))
        for side in (True, False):
            written.views((0, side), 20)
        assert list(written.list_reasons(1e-3))


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    "settings",
    [
        {"source": "v.csv"},
        {"source": "v.csv.gz"},
        {"source": "v.jsonl.zst"},
        {"source": "v.parquet"},
        {"source": "folder", "format": "jsonl"},
        {"source": "-", "format": "jsonl"},
        {"live": True},
        {"live": True, "source": "-", "format": "csv"},
        {"live": True, "source": "folder", "format": "parquet"},
        {"time_format": "iso"},
        {"time_format": "epoch ns"},
        {"sinks": [{"to": "o.csv"}]},
        {"sinks": [{"to": "o.csv", "shape": "long"}]},
        {"sinks": [{"to": "-"}]},
        {"sinks": [{"to": "-", "format": "csv"}]},
        {"sinks": [{"to": "o.parquet"}]},
        {"sinks": []},
    ],
    ids=str,
)
def test_readers_of_every_source_and_sink_see_the_records(tmp_path: Path, settings: Any) -> None:
    here, there = (("g", "a"), ("x", 3)), (("g", "b"), ("x", 4))
    shown = silent(
        file_of(tmp_path, COUNTS, **settings), (), (InputRecord(1, here), InputRecord(2, there), InputRecord(2, there))
    )
    assert shown[0, ..., 0].tolist() == [[0, 0], [0, 0]]
    assert shown[1, ..., 0].tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT level, COUNT(*), SUM(x) FROM v GROUP BY level",
        "SELECT g, n, COUNT(*), AVG(x) FROM v GROUP BY ROLLUP(g, n)",
        "SELECT g, COUNT(*) FROM v GROUP BY g",
        "SELECT b, COUNT(*) FROM v GROUP BY b",
    ],
)
def test_wide_csv_shows_the_same_numbers_as_json_lines(tmp_path: Path, sql: str) -> None:
    columns = {
        **{"g": {"values": ["a", 'q"', ""]}, "n": {"values": [1, 2.5]}, "x": {"bounds": [0, 10], "grid": 1}},
        **{"level": {"values": ["low", "high"]}, "b": {"values": [True, False]}},
    }
    cells = (("g", 'q"'), ("n", 2.5), ("x", 3), ("level", "high"), ("b", True))
    line = InputRecord(2, cells)
    release, other = {"name": "r", "sql": sql, "epsilon": "1/2"}, {**COUNTS, "name": "o", "epsilon": "1/2"}
    shown = [
        silent(file_of(tmp_path, release, other, columns=columns, sinks=[{"to": to}]), (), (line, line))
        for to in ("o.jsonl", "o.csv")
    ]
    assert np.isfinite(shown[0]).any()
    assert np.nanmax(shown[0][1] - shown[0][0]) >= 2
    np.testing.assert_array_equal(*shown)


def test_groups_that_are_discovered_are_run_under_many_names(tmp_path: Path) -> None:
    release = {"name": "d", "sql": "SELECT k, COUNT(*) FROM v GROUP BY k", "delta": 1e-6, "epsilon": "1/10"}
    budget, columns = {"epsilon": 9, "delta": 1e-5}, {"k": {"max_groups": 5}}
    file = file_of(tmp_path, release, budget=budget, columns=columns)
    assert widen(file, 3) is None
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, 2, folder)
        many = tuple(InputRecord(1, (("k", "a"),)) for _ in range(300))
        copies = trial.build_copies(120)
        assert isinstance(copies, RepeatedReleases)
        views = trial.create_runs(copies).run_views(view := trial.build_view(), [many], InsecureNoise(32))
        counts = view.parts[0].numbers(views)[:, 0, 0, 0, 0]
        assert len(set(counts.tolist())) > 6
        assert counts.mean() == pytest.approx(300, abs=60)
        assert [pair.name for pair in trial.list_pairs()][2] == "an event of k a, in a crowd"


def test_widened_copy_requires_the_same_plan(tmp_path: Path, monkeypatch: Any) -> None:
    rolled = {"name": "r", "sql": "SELECT g, COUNT(*), AVG(x) FROM v GROUP BY ROLLUP (g)"}
    placed = {"name": "p", "sql": "SELECT g, MEDIAN(x) FROM v WHERE x > 3 GROUP BY 1"}
    assert widen(file_of(tmp_path, rolled, placed), 4) is not None
    distinct = {"name": "d", "sql": "SELECT COUNT(DISTINCT u) FROM v"}
    users = file_of(tmp_path, distinct, unit=USER, columns={"u": {"hash_cells": 99}})
    assert widen(users, 4) is None, "its noise would grow with the number of groups"
    assert prepend_group("SELECT COUNT(*) FROM v", "w") == 'SELECT COUNT(*) FROM v GROUP BY "w"'


def test_file_with_joint_group_decisions_is_not_widened(tmp_path: Path) -> None:
    """One event in each of them would move the shared decision by their number."""
    joint = {**COUNTS, "window": "each", "mechanism": {"name": "BudgetDistribution"}}
    alone = {**COUNTS, "window": "each", "mechanism": {"name": "Pegasus"}}
    assert widen(file_of(tmp_path, joint), 4) is None
    assert widen(file_of(tmp_path, alone), 4) is not None


def test_slow_file_with_more_releases_has_fewer_default_runs() -> None:
    runs = [default_runs(cast(Any, SimpleNamespace(can_widen=fast, plans=[0] * n))) for fast, n in SLOW]
    assert runs == [FAST_RUNS, SLOW_RUNS, SLOW_RUNS // 4, MIN_SLOW_RUNS]


def test_inputs_of_widened_copy_have_separate_records_and_users(tmp_path: Path) -> None:
    file = file_of(tmp_path, COUNTS, unit=USER)
    two = (InputRecord(1, (("g", "a"),)),) * 3
    shown = silent(file, two, (), (*two, InputRecord(1, (("g", "b"),), user=1)))
    assert shown[:, 0, :, 0].tolist() == [[2, 0], [0, 0], [2, 1]]


def test_count_and_mean_are_read_back_as_counter_vectors(tmp_path: Path) -> None:
    both = {"name": "m", "sql": "SELECT COUNT(*), AVG(x) FROM v WHERE x >= 0", "epsilon": 1}
    file = file_of(tmp_path, both)
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, 2, folder)
        view = trial.build_view()
        views = trial.run_without_noise(view, [tuple(InputRecord(1, (("g", "a"), ("x", x))) for x in (10, 10, 4))])
        (reading,) = build_readings(view.parts[0]) or ()
        channels = reading.channels(views)[0, :, 0]
    (part,) = trial.plans[0].parts
    np.testing.assert_allclose(channels, part.statistic.vectors_from_power_sums(3, 24), atol=1e-6)


@pytest.mark.one_of_each
@pytest.mark.parametrize("window", ["each", "running"])
def test_distinct_values_of_a_hashed_column_are_acquitted(tmp_path: Path, window: str) -> None:
    release = {"name": "d", "sql": "SELECT COUNT(DISTINCT u) FROM v", "epsilon": 1, "window": window}
    file = file_of(tmp_path, release, columns={"u": {"hash_cells": 3}})
    for verdict in verdicts(file):
        assert not verdict.is_condemned, verdict.reasons
        assert verdict.exact is None or verdict.exact <= verdict.claimed + 1e-9


def test_distinct_of_hashed_column_is_read_back_as_cells(tmp_path: Path) -> None:
    release = {"name": "d", "sql": "SELECT COUNT(DISTINCT u) FROM v", "epsilon": 1}
    file = file_of(tmp_path, release, columns={"u": {"hash_cells": 3}})
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, 2, folder)
        view = trial.build_view()
        views = trial.run_without_noise(view, [tuple(InputRecord(1, (("u", name),)) for name in "aab")])
        (reading,) = build_readings(view.parts[0]) or ()
        (cells,) = reading.channels(views)[0]
    assert cells.tolist() in ([1, 0], [2, 0])


def mapped_file(folder: Path) -> PipelineFile:
    source = "def mapper(note):\n    for word in note.split(';'):\n        emit(word, 1)\n"
    mapper = {"source": source, "columns": ["note"], "keys": [*"abcdefgh"], "max_pairs": 1}
    settings: Any = {"columns": {"note": {"type": "text"}}, "budget": {"epsilon": 1}}
    made = tables({"name": "words", "map": "m", "window": "each", "epsilon": 1}, **settings)
    return Pipeline.from_tables(made | {"mapper": {"m": mapper}}, folder / "v.toml").file


def leave_pairs_unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install broken mappers: all keys of a record count."""
    monkeypatch.setattr(MapperSettings, "program", property(lambda mapper: replace(parse_program(mapper), max_pairs=8)))


def parse_program(mapper: MapperSettings) -> MapperProgram:
    return parse_mapper(mapper.source, dict(mapper.columns), mapper.keys, max_pairs=mapper.max_pairs, max_steps=10_000)


@pytest.mark.parametrize("broken", [pytest.param(False, marks=pytest.mark.slow), True])
def test_mappers_that_count_more_pairs_are_condemned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    pytest.importorskip("wasmtime")
    file = mapped_file(tmp_path)
    if broken:
        leave_pairs_unlimited(monkeypatch)
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, 1, folder)
        pair = trial.list_pairs()[0]
        assert dict(pair.one[0].columns)["note"].count(";") >= 3
        judge = PipelineAuditor(trial, compute_charge(file, folder), 800, 0.99, ignore, InsecureNoise(31))
        (verdict,) = judge.audit_releases([pair])
    assert (verdict.measurement.amount > 1) == broken, verdict
    assert verdict.is_condemned == broken


def test_candidate_values_satisfy_the_sql_conditions(tmp_path: Path) -> None:
    picky = {"name": "p", "sql": "SELECT COUNT(*) FROM v WHERE note LIKE '%flu%' AND x BETWEEN 6 AND 6.5"}
    columns = {"note": {"type": "text"}, "x": {"bounds": [0, 10], "grid": 0.5}}
    file = file_of(tmp_path, picky, columns=columns)
    with create_private_folder() as folder:
        first = PipelineTrial.from_file(file, 2, folder).list_pairs()[0]
    assert dict(first.one[0].columns)["note"] == "flu"
    assert dict(first.one[0].columns)["x"] in (6, 6.5)


def test_a_unit_does_no_more_than_its_bounds_allow(tmp_path: Path) -> None:
    for unit, events in (("event", [1]), ({"w_event": 3}, [1, 2, 3]), (USER, [1, 1, 2, 2])):
        file = file_of(tmp_path, COUNTS, unit=unit)
        line = CandidateRecords(file, [planner.plan_release(file, file.releases[0])], 3).list_records(5)[0]
        assert [each.tick for each in build_unit(file.stream, line, 3)] == events
    assert [each.tick for each in build_unit(file.stream, line, 3, exceed_bounds=True)] == [1] * 4 + [2] * 4 + [3] * 4
    assert format_record_time(file.stream, InputRecord(1)) == 1_767_571_205


def test_a_file_that_would_not_run_is_refused(tmp_path: Path) -> None:
    dear = file_of(tmp_path, {**COUNTS, "epsilon": 2})
    with pytest.raises((PipelineFileError, ValueError), match="must be at most"):
        verdicts(dear)


LARGEST = {"name": "top", "sql": f"{COUNTS['sql']} ORDER BY 2 DESC LIMIT 1", "epsilon": 1, "window": "each"}


@pytest.mark.parametrize("is_broken", [pytest.param(False, marks=pytest.mark.slow), True])
def test_ranking_by_exact_counts_is_condemned(
    tmp_path: Path, leaky_run: Any, rewriting_sink: Any, is_broken: bool
) -> None:
    """Under one loss: an honest release that lists the largest noisy count, and a twin that lists the largest."""
    largest = [b"a"]

    def find_largest(run: Any, tally: Any, first: int, count: int, estimates: Any) -> Any:
        exact = run.build_vectors(tally, tally.ticks - first, count)[0, 0]
        largest[0] = (b"a", b"b")[int(np.argmax(exact))]
        return estimates

    file = file_of(tmp_path, LARGEST)
    assert widen(file, 3) is None
    if is_broken:
        leaky_run(find_largest)
        rewriting_sink(JsonLines, lambda lines: re.sub(rb'{"g":"."}', b'{"g":"%s"}' % largest[0], lines))
    with create_private_folder() as folder:
        trial = PipelineTrial.from_file(file, 1, folder)
        pair = Pair("an event of g b", (InputRecord(1, (("g", "b"),)),), ())
        judge = PipelineAuditor(trial, compute_charge(file, folder), 300, SURE, ignore, InsecureNoise(31))
        (verdict,) = judge.audit_releases([pair])
    assert verdict.is_condemned == is_broken
    assert verdict.exact == pytest.approx(1)


PERIODS = {**COUNTS, "name": "periods", "window": "tumbling 20s"}


def audit_periods(file: PipelineFile, runs: int = 4000) -> Any:
    return audit_pipeline(file, runs=runs, check_interruptions=False, confidence=SURE, noise=InsecureNoise(32))


@pytest.mark.parametrize("partial", [False, True])
def test_honest_periods_are_computed_measured_and_acquitted(tmp_path: Path, partial: bool) -> None:
    (verdict,) = audit_periods(file_of(tmp_path, {**PERIODS, "partial": partial}))
    assert not verdict.is_condemned
    assert verdict.exact == pytest.approx(1)
    assert verdict.measurement.amount > (0 if partial else 0.6)


def count_in_two_periods(exact: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return values in which each period also has the events of the one before."""
    return value + np.concatenate([np.zeros_like(exact[:1]), exact[:-1]])


def share_noise(exact: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return values in which all periods have the noise of the first."""
    return exact + (value - exact)[:1]


@pytest.mark.parametrize("change", [count_in_two_periods, share_noise])
def test_broken_periods_are_condemned(tmp_path: Path, leaky_run: Any, change: Any) -> None:
    def leak(run: Any, tally: Any, first: int, count: int, estimates: Any) -> Any:
        honest = estimates["value"]
        value = change(run.build_vectors(tally, tally.ticks - first, count)[:, 0], honest.value)
        others = {name: getattr(honest, name) for name in ("stddev", "low", "high", "reliable")}
        return {"value": SimpleNamespace(value=value, **others)}

    leaky_run(leak)
    file = file_of(tmp_path, {**PERIODS, "window": "tumbling 20s"})
    verdict = audit_one_pair(file, "an event of g a, alone", InsecureNoise(31), ticks=4)
    assert verdict.measurement.amount > 1, verdict
    assert verdict.is_condemned


RISING = {**COUNTS, "name": "rising", "window": "running", "consistent": True}


def raise_to_exact(exact: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return values that never fall below the true counts, as an adjustment to true numbers would."""
    return np.maximum(value, np.cumsum(exact, axis=0))


@pytest.mark.parametrize("is_broken", [False, True])
def test_adjustment_to_true_counts_is_condemned(tmp_path: Path, leaky_run: Any, is_broken: bool) -> None:
    """An adjustment sees released numbers alone."""

    def leak(run: Any, tally: Any, first: int, count: int, estimates: Any) -> Any:
        honest = estimates["value"]
        value = raise_to_exact(run.build_vectors(tally, tally.ticks - first, count)[:, 0], honest.value)
        others = {name: getattr(honest, name) for name in ("stddev", "low", "high", "reliable")}
        return {"value": SimpleNamespace(value=value, **others)}

    if is_broken:
        leaky_run(leak)
    verdict = audit_one_pair(file_of(tmp_path, RISING), "an event of g a, alone", InsecureNoise(31), ticks=4)
    assert verdict.is_condemned == is_broken, verdict
    assert verdict.exact == pytest.approx(1)
