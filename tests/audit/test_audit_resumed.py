"""Attacks on interrupted and resumed runs. One view holds the releases of both parts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.audit.pipeline.audit import PipelineAuditor, compute_charge
from streamgauge.audit.pipeline.compare import PipelineTrial, TrialComparison
from streamgauge.audit.pipeline.runs import create_private_folder
from streamgauge.interfaces import ignore
from streamgauge.releases.release import TickRelease
from streamgauge.runtime import publisher as publishing
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import tables

SURE = 1 - 1e-9
EACH = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": 1}


@pytest.fixture
def trial_of(tmp_path: Path) -> Iterator[Callable[..., PipelineTrial]]:
    with create_private_folder() as folder:
        yield lambda **settings: PipelineTrial.from_file(
            Pipeline.from_tables(tables(EACH, **settings), tmp_path / "v.toml").file, 3, folder
        )


def read_otherwise(monkeypatch: Any, transform: Callable[[TickRelease], TickRelease]) -> None:
    """Install a broken publisher: it changes releases after they were committed."""
    honest = TickRelease.unpack
    monkeypatch.setattr(publishing.TickRelease, "unpack", lambda *payload: transform(honest(*payload)))


def draw_again(monkeypatch: Any) -> None:
    """A broken publisher: it draws committed but unpublished ticks again."""
    take, noise, drawn = ReleaseRun.release_ticks, InsecureNoise(7), {}

    def twice(run: ReleaseRun, answers: Any, count: int) -> Any:
        if run.runs[0].run.tick:
            twin = ReleaseRun.load(run.plan, run.name, run.first, run.save_state(), noise)
        else:
            twin = ReleaseRun.start(run.plan, run.name, run.first, noise)
        drawn.update({released.tick: released for released in take(twin, answers, count)})
        return take(run, answers, count)

    monkeypatch.setattr(ReleaseRun, "release_ticks", twice)
    read_otherwise(monkeypatch, lambda released: drawn[released.tick])


def rewrite(monkeypatch: Any) -> None:
    """A broken publisher: it adds noise to what was committed."""
    noise = InsecureNoise(8)

    def louder(released: TickRelease) -> TickRelease:
        more = noise.laplace(Fraction(9), released.value.size)
        return replace(released, value=released.value + more.reshape(released.value.shape))

    read_otherwise(monkeypatch, louder)


def compared(trial: PipelineTrial) -> TrialComparison:
    return TrialComparison.from_trial(trial, trial.list_pairs()[:1], with_interruptions=True)


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sinks": [{"to": "o.parquet"}]},
        {"source": "-", "format": "jsonl", "sinks": [{"to": "-"}]},
        {"live": True, "source": "-", "format": "jsonl"},
    ],
    ids=str,
)
def test_honest_resumed_run_repeats_no_draw_and_has_no_suspects(trial_of: Any, settings: Any) -> None:
    found = compared(trial_of(**settings))
    assert not found.redrawn_interruptions
    assert not found.suspects
    assert not any(each.has_error for each in found.comparisons)
    assert len(found.comparisons) == 8


@pytest.mark.parametrize("broken", [draw_again, rewrite])
def test_tick_drawn_again_is_detected(trial_of: Any, monkeypatch: Any, broken: Any) -> None:
    broken(monkeypatch)
    assert compared(trial_of()).redrawn_interruptions


def judged(trial: PipelineTrial, folder: Path) -> Any:
    judge = PipelineAuditor(trial, compute_charge(trial.file, folder), 7_500, SURE, ignore, InsecureNoise(43))
    return judge.audit_interruptions(trial.list_pairs()[:1])


@pytest.mark.slow
def test_tick_drawn_twice_after_crash_measures_above_claim(trial_of: Any, monkeypatch: Any, tmp_path: Path) -> None:
    honest = judged(trial_of(), tmp_path)
    assert not honest.is_condemned
    assert 0.2 < honest.measurement.amount < 1
    draw_again(monkeypatch)
    broken = judged(trial_of(), tmp_path)
    assert broken.measurement.amount > 1
    assert "a tick was published from two draws" in broken.reasons[-1]
