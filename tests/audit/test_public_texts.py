"""Public text of a run is the same for neighbours. A difference is condemned."""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.audit.pipeline.audit import compute_charge
from streamgauge.audit.pipeline.compare import PipelineTrial, RunByRunSubject, TrialComparison
from streamgauge.audit.pipeline.runs import create_private_folder
from streamgauge.config.settings import PipelineFile
from streamgauge.sinks.formats import CsvLines, JsonLines
from streamgauge.sinks.parquet import ParquetParts
from streamgauge.sinks.wide_csv import WideCsv
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import tables

COUNTS = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g"}
SINKS = ("o.jsonl", "o.csv", "o.csv long", "o.parquet")
DOUBT = 1e-9


def file_of(folder: Path, sink: str = "o.jsonl", **settings: Any) -> PipelineFile:
    release = {**COUNTS, "epsilon": 1, **settings.pop("loss", {})}
    to, _, shape = sink.partition(" ")
    sinks = [{"to": to, "shape": shape} if shape else {"to": to}]
    return Pipeline.from_tables(tables(release, sinks=sinks, **settings), folder / "v.toml").file


@pytest.fixture
def trial_of() -> Iterator[Callable[[PipelineFile], PipelineTrial]]:
    with create_private_folder() as folder:
        yield lambda file: PipelineTrial.from_file(file, 2, folder)


def suspects(trial: PipelineTrial) -> list[str]:
    """Return the suspects of the pair with one event and no others."""
    return [
        each.name
        for each in TrialComparison.from_trial(trial, trial.list_pairs()[:1], with_interruptions=False).suspects
    ]


@dataclass
class EventFlag:
    """True if the current run has read an event; a broken run calls `leak` then."""

    leak: Callable[[], object] = lambda: None
    is_set: bool = False

    def __call__(self, run: Any, tally: Any, first: int, count: int, estimates: Any) -> Any:
        self.is_set = bool(len(tally.ticks))
        if self.is_set:
            self.leak()
        return estimates


@pytest.mark.parametrize("sink", [*SINKS, "-"])
def test_honest_sinks_differ_in_numbers_only(tmp_path: Path, trial_of: Any, sink: str) -> None:
    assert not suspects(trial_of(file_of(tmp_path, sink)))


@pytest.mark.parametrize(
    ("form", "how"),
    [
        (JsonLines, lambda text: text.replace(b'"group":', b'"group": ')),
        (JsonLines, lambda text: text.replace(b',"trace"', b',"more":1,"trace"')),
        (JsonLines, lambda text: b"".join(reversed(text.splitlines(True)))),
        (JsonLines, lambda text: text.replace(b".0,", b".00,")),
        (JsonLines, lambda text: text.replace(b'"end":"2026', b'"end":"2027')),
        (JsonLines, lambda text: text + b"\n"),
        (JsonLines, lambda text: text.replace(b'"trace":"', b'"trace":"0')),
        (CsvLines, lambda text: text.replace(b",count,", b',"count",')),
        (CsvLines, lambda text: text.replace(b"true,", b"true, ")),
        (CsvLines, lambda text: text.replace(b"\n", b"\r\n")),
        (WideCsv, lambda text: text.replace(b"counts,", b'"counts",')),
        (WideCsv, lambda text: text.replace(b"true,", b"true, ")),
        (WideCsv, lambda text: text.replace(b".0,", b".00,")),
        (WideCsv, lambda text: b"".join(reversed(text.splitlines(True)))),
        (WideCsv, lambda text: text.replace(b"\n", b",\n")),
        (WideCsv, lambda text: text.replace(b"\n", b"\n\n", 1)),
    ],
    ids=[
        *("space", "field", "order", "format", "time", "line", "trace", "quotes", "space in CSV", "line ends"),
        *("wide quotes", "wide space", "wide format", "wide order", "wide field", "wide line"),
    ],
)
def test_a_text_that_depends_on_the_data_is_suspected(  # noqa: PLR0917 - fixtures
    tmp_path: Path, leaky_run: Any, rewriting_sink: Any, trial_of: Any, form: Any, how: Any
) -> None:
    flag = EventFlag()
    leaky_run(flag)
    rewriting_sink(form, lambda written: how(written) if flag.is_set else written)
    sink = {JsonLines: "o.jsonl", CsvLines: "o.csv long", WideCsv: "o.csv"}[form]
    assert suspects(trial_of(file_of(tmp_path, sink)))


def test_metadata_of_parquet_parts_is_compared(tmp_path: Path, monkeypatch: Any, leaky_run: Any, trial_of: Any) -> None:
    flag, real = EventFlag(), ParquetParts._copy
    leaky_run(flag)

    def copy(sink: ParquetParts, path: Path, columns: Any, notes: dict[str, str]) -> None:
        real(sink, path, columns, {**notes, "more": "an event"} if flag.is_set else notes)

    monkeypatch.setattr(ParquetParts, "_copy", copy)
    assert suspects(trial_of(file_of(tmp_path, "o.parquet")))


@pytest.mark.parametrize(
    "leak",
    [
        lambda: print("an event"),
        lambda: print("an event", file=sys.stderr),
        lambda: warnings.warn("an event", RuntimeWarning, stacklevel=1),
    ],
    ids=["output", "errors", "warnings"],
)
def test_printed_output_is_compared(tmp_path: Path, leaky_run: Any, trial_of: Any, leak: Any) -> None:
    leaky_run(EventFlag(leak))
    assert suspects(trial_of(file_of(tmp_path)))


@pytest.mark.one_of_each
@pytest.mark.parametrize("loss", [{"epsilon": 4}, {"rho": 0.5}], ids=str)
def test_constant_difference_is_condemned_under_a_large_claim(
    tmp_path: Path, leaky_run: Any, trial_of: Any, loss: Any
) -> None:
    """About a hundred runs with more noise suffice to measure it."""
    leaky_run(EventFlag(lambda: print("an event", file=sys.stderr)))
    result = tables(COUNTS, budget=loss)
    result["release"] = [{**COUNTS, **loss}]
    file = Pipeline.from_tables(result, tmp_path / "v.toml").file
    trial = trial_of(file)
    comparison = TrialComparison.from_trial(trial, trial.list_pairs()[:1], with_interruptions=False)
    written = RunByRunSubject.from_comparison(comparison, compute_charge(file, tmp_path), InsecureNoise(41))
    assert written.compute_runs(DOUBT) < 150
    assert float(written.loss.amount) <= 0.5
    views = [written.views((0, side), 20) for side in (True, False)]
    assert (views[0][:, :2] != views[1][:, :2]).all()
    assert not list(written.list_reasons(DOUBT)), "twenty runs show less than that"
    (reason,) = written.list_reasons(1e-3)
    result = f"what is public besides numbers differs in every run for {comparison.comparisons[0].name}: epsilon "
    assert reason.startswith(result)


def test_an_honest_file_has_no_reason(tmp_path: Path, trial_of: Any) -> None:
    trial = trial_of(file := file_of(tmp_path))
    comparison = TrialComparison.from_trial(trial, trial.list_pairs()[:1], with_interruptions=False)
    written = RunByRunSubject.from_comparison(comparison, compute_charge(file, tmp_path), InsecureNoise(42))
    assert not written.attacked_pairs
    assert not list(written.list_reasons(DOUBT))


def test_sigterm_leaves_nothing_behind() -> None:
    folders: list[Path] = []

    def ended() -> None:
        with create_private_folder() as folder:
            folders.append(folder)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        ended()
    assert not folders[0].exists()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
