"""A pipeline file is attacked end to end: honest code is acquitted, each broken part of it is condemned."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "pipeline"))

from pipelines import tables

from streamgauge import Pipeline
from streamgauge.audit import measuring, pipelines, run_by_run
from streamgauge.audit.candidate_records import Candidates
from streamgauge.audit.file_copies import Repeated, grouped_first, widened
from streamgauge.audit.input_records import Line, time_of
from streamgauge.audit.pipeline_claims import CannotBeAudited, charged
from streamgauge.audit.pipelines import Judge, audit_pipeline, default_runs, nobody
from streamgauge.audit.private_runs import private_folder
from streamgauge.audit.readings import readings
from streamgauge.audit.run_by_run import AsWritten, Comparison
from streamgauge.audit.trial_runs import Trial
from streamgauge.audit.unit_inputs import unit_of
from streamgauge.engines import aggregation
from streamgauge.engines.typed import Typed
from streamgauge.noise import Ints
from streamgauge.pipeline.part_run import PartRun
from streamgauge.query import planner
from streamgauge.query.settings import PipelineFile
from streamgauge.sinks.json_lines import JsonLines
from streamgauge.sources.whole import WholeFile
from streamgauge.testing import InsecureNoise

SURE = 1 - 1e-9
SUMS = {"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": 1}
COUNTS = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "epsilon": 1}
TWO = {"name": "two", "sql": "SELECT COUNT(*), COUNT(x) FROM v", "epsilon": 1}
SPLIT = ("1/4", "1/4", "1/2")
SLOW = ((True, 9), (False, 1), (False, 4), (False, 99))  # whether fast, and how many releases
USER = {"user": "u", "max_events_per_tick": 2, "max_ticks": 2}


def file_of(folder: Path, *releases: Any, **settings: Any) -> PipelineFile:
    return Pipeline.of(tables(*releases, **settings), folder / "v.toml").file


def verdicts(file: PipelineFile, runs: int = 3000, confidence: float = SURE) -> Any:
    return audit_pipeline(
        file, ticks=2, runs=runs, alone=False, confidence=confidence, noise=InsecureNoise(31)
    )


def silent(file: PipelineFile, *inputs: Any, ticks: int = 2) -> np.ndarray:
    """The values that readers of the first sink see without noise: (inputs, ticks, groups, measures)."""
    with private_folder() as folder:
        trial = Trial.of(file, ticks, folder)
        view = trial.view()
        return view.parts[0].numbers(trial.silent(view, inputs))[..., 0]


def test_an_honest_count_is_measured_close_to_its_claim_and_acquitted(tmp_path: Path) -> None:
    (verdict,) = audit_pipeline(
        file_of(tmp_path, COUNTS), ticks=1, runs=12_000, alone=False, noise=InsecureNoise(30)
    )
    assert not verdict.condemned
    assert verdict.exact == pytest.approx(1)
    assert verdict.measured.amount > 0.8
    assert verdict.measured.score == "likelihood ratio"
    assert verdict.measured.pair.startswith("an event of g a, ")


@pytest.mark.parametrize("unit", [{"w_event": 2}, USER], ids=str)
def test_other_units_are_attacked_by_all_that_they_may_do(tmp_path: Path, unit: Any) -> None:
    (verdict,) = verdicts(file_of(tmp_path, COUNTS, unit=unit), 6000)
    assert not verdict.condemned
    assert verdict.exact == pytest.approx(1)
    assert verdict.measured.amount > 0.4


def test_several_releases_are_held_against_their_own_loss_and_against_the_charge(tmp_path: Path) -> None:
    parts = [
        {**release, "epsilon": epsilon} for release, epsilon in zip((COUNTS, SUMS, TWO), SPLIT, strict=True)
    ]
    found = verdicts(file_of(tmp_path, *parts), 400)
    assert [verdict.subject for verdict in found] == [
        *map("v.toml: {}".format, ("counts", "sums", "two")),
        "v.toml",
    ]
    assert [verdict.claimed for verdict in found] == [0.25, 0.25, 0.5, 1]
    assert [verdict.exact for verdict in found] == pytest.approx([0.25, 0.25, 0.5, 1])
    assert not any(verdict.condemned for verdict in found)


def test_nothing_of_the_pipeline_is_touched_and_nothing_is_left(tmp_path: Path, monkeypatch: Any) -> None:
    made: list[Path] = []
    real = pipelines.private_folder

    class Watched:
        def __enter__(self) -> Path:
            self.own = real()
            made.append(self.own.__enter__())
            return made[-1]

        def __exit__(self, *failure: Any) -> None:
            assert list(made[-1].iterdir())
            self.own.__exit__(*failure)

    monkeypatch.setattr(pipelines, "private_folder", Watched)
    verdicts(file_of(tmp_path, COUNTS), 200)
    assert not list(tmp_path.iterdir())
    assert not made[0].exists()


class Unclamped:
    """A broken engine: numbers are as large as they come."""

    def patch(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(
            Typed, "_number", lambda typed, own: f"CASE WHEN abs({own}) < 1e12 THEN {own} END"
        )
        monkeypatch.setattr(
            aggregation, "whole", lambda number, first, last: f"CAST(floor({number}) AS BIGINT)"
        )


class Unsplit:
    """A broken planner: each aggregate gets the whole epsilon."""

    def patch(self, monkeypatch: Any) -> None:
        real = planner.parts_of

        def parts_of(release: Any, query: Any, stream: Any) -> Any:
            whole = type(release.loss).from_amount(release.loss.amount * len(real(release, query, stream)))
            return real(replace(release, loss=whole), query, stream)

        monkeypatch.setattr(planner, "parts_of", parts_of)


class Reused:
    """A broken run: the noise of its first tick serves for all others."""

    def patch(self, monkeypatch: Any) -> None:
        real = PartRun.start

        class Once:
            def __init__(self, noise: Any) -> None:
                self.noise, self.drawn = noise, {}

            def laplace(self, scale: Any, size: int) -> Ints:
                one = self.drawn.setdefault(scale, self.noise.laplace(scale, size // 2))
                return np.concatenate([one] * 2)

            gaussian = laplace

        monkeypatch.setattr(PartRun, "start", classmethod(lambda cls, part, noise: real(part, Once(noise))))


class Absent:
    """A broken sink, told which groups are empty: it has no rows for them."""

    def patch(self, monkeypatch: Any) -> None:
        real, lines = PartRun.take, JsonLines.lines

        def take(run: PartRun, tally: Any, first: int, count: int) -> Any:
            told = real(run, tally, first, count)
            empty = np.ones((count, run.part.width), np.bool_)
            empty[
                tally.ticks[tally.ticks < first + count] - first, tally.places[tally.ticks < first + count]
            ] = False
            value = np.where(empty, np.nan, told["value"].value)
            return {
                "value": type(
                    "Masked",
                    (),
                    {
                        "value": value,
                        **{n: getattr(told["value"], n) for n in ("stddev", "low", "high", "enough")},
                    },
                )
            }

        def some(form: JsonLines, released: Any, stamp: Any) -> bytes:
            kept = [
                line for line in lines(form, released, stamp).splitlines(True) if b'"value":null' not in line
            ]
            return b"".join(kept)

        monkeypatch.setattr(PartRun, "take", take)
        monkeypatch.setattr(JsonLines, "lines", some)


@pytest.mark.parametrize(
    ("broken", "release", "pair"),
    [
        (Unclamped, SUMS, "a unit whose numbers are out of bounds"),
        (Unsplit, TWO, "an event of x 10, alone"),
        (Reused, COUNTS, "an event of g a, alone"),
        (Absent, COUNTS, "an event of g a, alone"),
    ],
    ids=[
        "a number that is not clamped",
        "a loss that is not split",
        "noise that is reused",
        "rows only where data is",
    ],
)
def test_broken_code_is_condemned(
    tmp_path: Path, monkeypatch: Any, broken: Any, release: Any, pair: str
) -> None:
    file = file_of(tmp_path, release)
    broken().patch(monkeypatch)
    with private_folder() as folder:
        trial = Trial.of(file, 2, folder)
        pairs = [each for each in trial.pairs() if each.name == pair]
        judge = Judge(trial, charged(file, folder), 3000, SURE, nobody, InsecureNoise(31))
        (verdict,) = judge.releases(pairs)
    assert verdict.measured.amount > 1, verdict
    assert verdict.condemned


def test_a_run_that_fails_on_a_record_that_cannot_be_read_is_condemned(
    tmp_path: Path, monkeypatch: Any
) -> None:
    real = WholeFile.is_clean

    def is_clean(file: WholeFile, stop: object = None) -> bool:
        if b"torn" in file.path.read_bytes():
            raise ValueError("a record must be readable, got one that is not")
        return real(file)

    monkeypatch.setattr(WholeFile, "is_clean", is_clean)
    for module in (measuring, run_by_run):
        monkeypatch.setattr(module, "FEWEST", 60)
    found = verdicts(file_of(tmp_path, COUNTS), 400, 0.999)
    assert found[-1].subject == "v.toml, run by run"
    assert found[-1].condemned
    assert found[-1].measured.pair == "a record that is torn, before others"
    assert not found[0].condemned


def test_a_run_that_prints_something_of_the_data_is_condemned(tmp_path: Path, monkeypatch: Any) -> None:
    real = PartRun.take

    def take(run: PartRun, tally: Any, first: int, count: int) -> Any:
        print(f"{len(tally.ticks)} events")
        return real(run, tally, first, count)

    monkeypatch.setattr(PartRun, "take", take)
    file = file_of(tmp_path, COUNTS)
    with private_folder() as folder:
        trial = Trial.of(file, 1, folder)
        comparison = Comparison.of(trial, trial.pairs()[:1], broken=False)
        written = AsWritten.of(comparison, charged(file, folder), InsecureNoise(31))
        for side in (True, False):
            written.views((0, side), 20)
        assert list(written.reasons(1e-3))


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
def test_whatever_a_file_reads_and_writes_its_readers_see_the_records(tmp_path: Path, settings: Any) -> None:
    here, there = (("g", "a"), ("x", 3)), (("g", "b"), ("x", 4))
    seen = silent(file_of(tmp_path, COUNTS, **settings), (), (Line(1, here), Line(2, there), Line(2, there)))
    assert seen[0, ..., 0].tolist() == [[0, 0], [0, 0]]
    assert seen[1, ..., 0].tolist() == [[1, 0], [0, 2]]


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
    line = Line(2, cells)
    release, other = {"name": "r", "sql": sql, "epsilon": "1/2"}, {**COUNTS, "name": "o", "epsilon": "1/2"}
    seen = [
        silent(file_of(tmp_path, release, other, columns=columns, sinks=[{"to": to}]), (), (line, line))
        for to in ("o.jsonl", "o.csv")
    ]
    assert np.isfinite(seen[0]).any()
    assert np.nanmax(seen[0][1] - seen[0][0]) >= 2
    np.testing.assert_array_equal(*seen)


def test_groups_that_are_discovered_are_run_under_many_names(tmp_path: Path) -> None:
    release = {"name": "d", "sql": "SELECT k, COUNT(*) FROM v GROUP BY k", "delta": 1e-6, "epsilon": "1/10"}
    budget, columns = {"epsilon": 9, "delta": 1e-5}, {"k": {"max_groups": 5}}
    file = file_of(tmp_path, release, budget=budget, columns=columns)
    assert widened(file, 3) is None
    with private_folder() as folder:
        trial = Trial.of(file, 2, folder)
        many = tuple(Line(1, (("k", "a"),)) for _ in range(300))
        copies = trial.copies(120)
        assert isinstance(copies, Repeated)
        views = trial.runs(copies).shown(view := trial.view(), [many], InsecureNoise(32))
        counts = view.parts[0].numbers(views)[:, 0, 0, 0, 0]
        assert len(set(counts.tolist())) > 6
        assert counts.mean() == pytest.approx(300, abs=60)
        assert [pair.name for pair in trial.pairs()][2] == "an event of k a, in a crowd"


def test_a_widened_copy_has_the_plan_of_the_file_or_is_none(tmp_path: Path, monkeypatch: Any) -> None:
    rolled = {"name": "r", "sql": "SELECT g, COUNT(*), AVG(x) FROM v GROUP BY ROLLUP (g)"}
    placed = {"name": "p", "sql": "SELECT g, MEDIAN(x) FROM v WHERE x > 3 GROUP BY 1"}
    assert widened(file_of(tmp_path, rolled, placed), 4) is not None
    distinct = {"name": "d", "sql": "SELECT COUNT(DISTINCT u) FROM v"}
    users = file_of(tmp_path, distinct, unit=USER, columns={"u": {"hashed": 99}})
    assert widened(users, 4) is None, "its noise would grow with the number of groups"
    assert grouped_first("SELECT COUNT(*) FROM v", "w") == 'SELECT COUNT(*) FROM v GROUP BY "w"'


def test_groups_that_are_decided_on_together_are_no_worlds(tmp_path: Path) -> None:
    """Side by side, one event in each of them would move one decision by as many."""
    joint = {**COUNTS, "window": "each", "mechanism": {"name": "BudgetDistribution"}}
    alone = {**COUNTS, "window": "each", "mechanism": {"name": "Pegasus"}}
    assert widened(file_of(tmp_path, joint), 4) is None
    assert widened(file_of(tmp_path, alone), 4) is not None


def test_the_more_releases_a_slow_file_has_the_fewer_runs_it_is_given() -> None:
    runs = [default_runs(cast(Any, SimpleNamespace(fast=fast, plans=[0] * n))) for fast, n in SLOW]
    assert runs == [pipelines.RUNS, pipelines.SLOW_RUNS, pipelines.SLOW_RUNS // 4, pipelines.FEWEST_SLOW]


def test_worlds_of_a_widened_copy_have_records_and_users_of_their_own(tmp_path: Path) -> None:
    file = file_of(tmp_path, COUNTS, unit=USER)
    two = (Line(1, (("g", "a"),)),) * 3
    seen = silent(file, two, (), (*two, Line(1, (("g", "b"),), user=1)))
    assert seen[:, 0, :, 0].tolist() == [[2, 0], [0, 0], [2, 1]]


def test_a_count_and_a_mean_are_read_back_as_what_their_counter_released(tmp_path: Path) -> None:
    both = {"name": "m", "sql": "SELECT COUNT(*), AVG(x) FROM v WHERE x >= 0", "epsilon": 1}
    file = file_of(tmp_path, both)
    with private_folder() as folder:
        trial = Trial.of(file, 2, folder)
        view = trial.view()
        views = trial.silent(view, [tuple(Line(1, (("g", "a"), ("x", x))) for x in (10, 10, 4))])
        (reading,) = readings(view.parts[0]) or ()
        channels = reading.channels(views)[0, :, 0]
    (part,) = trial.plans[0].parts
    np.testing.assert_allclose(channels, part.statistic.of_power_sums(3, 24), atol=1e-6)


@pytest.mark.parametrize("window", ["each", "running"])
def test_distinct_values_of_a_hashed_column_are_acquitted(tmp_path: Path, window: str) -> None:
    release = {"name": "d", "sql": "SELECT COUNT(DISTINCT u) FROM v", "epsilon": 1, "window": window}
    file = file_of(tmp_path, release, columns={"u": {"hashed": 3}})
    for verdict in verdicts(file):
        assert not verdict.condemned, verdict.reasons
        assert verdict.exact is None or verdict.exact <= verdict.claimed + 1e-9


def test_distinct_values_of_a_hashed_column_are_read_back_as_cells(tmp_path: Path) -> None:
    release = {"name": "d", "sql": "SELECT COUNT(DISTINCT u) FROM v", "epsilon": 1}
    file = file_of(tmp_path, release, columns={"u": {"hashed": 3}})
    with private_folder() as folder:
        trial = Trial.of(file, 2, folder)
        view = trial.view()
        views = trial.silent(view, [tuple(Line(1, (("u", name),)) for name in "aab")])
        (reading,) = readings(view.parts[0]) or ()
        (cells,) = reading.channels(views)[0]
    assert cells.tolist() in ([1, 0], [2, 0])


def test_candidates_reach_what_the_sql_asks_for(tmp_path: Path) -> None:
    picky = {"name": "p", "sql": "SELECT COUNT(*) FROM v WHERE note LIKE '%flu%' AND x BETWEEN 6 AND 6.5"}
    columns = {"note": {"type": "text"}, "x": {"bounds": [0, 10], "grid": 0.5}}
    file = file_of(tmp_path, picky, columns=columns)
    with private_folder() as folder:
        first = Trial.of(file, 2, folder).pairs()[0]
    assert dict(first.one[0].columns)["note"] == "flu"
    assert dict(first.one[0].columns)["x"] in (6, 6.5)


def test_a_unit_does_no_more_than_its_bounds_allow(tmp_path: Path) -> None:
    for unit, events in (("event", [1]), ({"w_event": 3}, [1, 2, 3]), (USER, [1, 1, 2, 2])):
        file = file_of(tmp_path, COUNTS, unit=unit)
        line = Candidates(file, [planner.planned(file, file.releases[0])], 3).lines(5)[0]
        assert [each.tick for each in unit_of(file.stream, line, 3)] == events
    assert [each.tick for each in unit_of(file.stream, line, 3, beyond=True)] == [1] * 4 + [2] * 4 + [3] * 4
    assert time_of(file.stream, Line(1)) == 1_767_571_205


def test_a_file_that_would_not_run_is_refused(tmp_path: Path) -> None:
    dear = file_of(tmp_path, {**COUNTS, "epsilon": 2})
    with pytest.raises((CannotBeAudited, ValueError), match="must be at most"):
        verdicts(dear)
