"""Runs that are broken off and gone on with are attacked too: what was seen in both lives is one view."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "pipeline"))

from pipelines import tables

from streamgauge import Pipeline
from streamgauge.audit.pipeline_claims import charged
from streamgauge.audit.pipelines import Judge, nobody
from streamgauge.audit.private_runs import private_folder
from streamgauge.audit.run_by_run import Comparison
from streamgauge.audit.trial_runs import Trial
from streamgauge.pipeline import publishing
from streamgauge.pipeline.release_run import ReleaseRun
from streamgauge.query.released import Released
from streamgauge.testing import InsecureNoise

SURE = 1 - 1e-9
EACH = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": 1}


@pytest.fixture
def trial_of(tmp_path: Path) -> Iterator[Callable[..., Trial]]:
    with private_folder() as folder:
        yield lambda **settings: Trial.of(
            Pipeline.of(tables(EACH, **settings), tmp_path / "v.toml").file, 3, folder
        )


def draw_again(monkeypatch: Any) -> None:
    """A broken publisher: what was committed, and not known to be published, is drawn again."""
    take, unpack, noise, drawn = ReleaseRun.take, Released.unpack, InsecureNoise(7), {}

    def twice(run: ReleaseRun, answers: Any, count: int) -> Any:
        if run.runs[0].run.tick:
            twin = ReleaseRun.load(run.planned, run.name, run.first, run.saved(), noise)
        else:
            twin = ReleaseRun.start(run.planned, run.name, run.first, noise)
        drawn.update({released.tick: released for released in take(twin, answers, count)})
        return take(run, answers, count)

    monkeypatch.setattr(ReleaseRun, "take", twice)
    monkeypatch.setattr(
        publishing.Released, "unpack", lambda shape, payload: drawn[unpack(shape, payload).tick]
    )


def rewrite(monkeypatch: Any) -> None:
    """A broken publisher: it adds noise to what was committed."""
    unpack, noise = Released.unpack, InsecureNoise(8)

    def louder(shape: Any, payload: bytes) -> Released:
        released = unpack(shape, payload)
        more = noise.laplace(Fraction(9), released.value.size)
        return replace(released, value=released.value + more.reshape(released.value.shape))

    monkeypatch.setattr(publishing.Released, "unpack", louder)


def compared(trial: Trial) -> Comparison:
    return Comparison.of(trial, trial.pairs()[:1], broken=True)


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
def test_an_honest_run_goes_on_as_if_nothing_had_happened(trial_of: Any, settings: Any) -> None:
    found = compared(trial_of(**settings))
    assert not found.redrawn
    assert not found.suspects
    assert not any(each.failing for each in found.found)
    assert len(found.found) == 8


@pytest.mark.parametrize("broken", [draw_again, rewrite])
def test_a_tick_that_is_drawn_again_is_seen(trial_of: Any, monkeypatch: Any, broken: Any) -> None:
    broken(monkeypatch)
    assert compared(trial_of()).redrawn


def judged(trial: Trial, folder: Path) -> Any:
    judge = Judge(trial, charged(trial.file, folder), 7_500, SURE, nobody, InsecureNoise(43))
    return judge.broken(trial.pairs()[:1])


def test_a_doubled_draw_after_a_crash_is_measured_above_its_claim(
    trial_of: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    honest = judged(trial_of(), tmp_path)
    assert not honest.condemned
    assert 0.2 < honest.measured.amount < 1
    draw_again(monkeypatch)
    broken = judged(trial_of(), tmp_path)
    assert broken.measured.amount > 1
    assert "a tick was published from two draws" in broken.reasons[-1]
