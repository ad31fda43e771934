"""The planner: least predicted error among valid mechanisms, independent of data."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import streamgauge as sg
from streamgauge.continual import choose, compare


def accuracy() -> ModuleType:
    """Load the benchmark with the published table of errors."""
    path = Path(__file__).parents[2] / "benchmarks" / "accuracy.py"
    spec = importlib.util.spec_from_file_location("accuracy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["accuracy"] = module
    spec.loader.exec_module(module)
    return module


BENCH = accuracy()


@pytest.mark.parametrize(
    "row", [*BENCH.PURE_ROWS, *BENCH.WINDOW_ROWS, *BENCH.RHO_ROWS], ids=lambda row: f"{row.name}, {row.table[0]}"
)
def test_predicted_errors_match_the_published_table_or_improve_it(row: object) -> None:
    for horizon, table in zip(BENCH.HORIZONS, row.table, strict=True):
        ratio = row.make(horizon).rmse(horizon) / table
        assert ratio < 1.02
        assert ratio > 0.98 or row.note


@pytest.mark.parametrize(("name", "make", "bar"), BENCH.CHOICES, ids=lambda value: str(value)[:24])
def test_chosen_mechanism_meets_its_target_at_a_million_ticks(name: str, make: object, bar: float) -> None:
    assert make().rmse(2**20) <= bar


def test_choice_is_the_first_candidate_without_refusal() -> None:
    table = compare(sg.Pure(1), horizon=500)
    assert table.best == choose(sg.Pure(1), horizon=500)
    rest = [c.rmse for c in table.candidates if not c.refusal]
    assert rest == sorted(rest)
    assert table.best.rmse() == rest[0]
    refused = [c for c in table.candidates if c.refusal]
    assert all("must be" in c.refusal for c in refused)
    assert "mean RMSE" in str(table)


def test_a_pan_private_choice_is_pan_private() -> None:
    for horizon in (None, 100, 2**20):
        for loss in (sg.Pure(1), sg.Zcdp(1)):
            assert choose(loss, horizon=horizon, pan_private=True).pan_private


def test_every_window_has_a_mechanism_under_every_loss() -> None:
    for loss in (sg.Pure(1), sg.Zcdp("1/2"), sg.Approx(1, 1e-6)):
        for window in ("running", "each", "sliding 24", "decayed 60"):
            for horizon in (None, 1000):
                claim = choose(loss, horizon=horizon, window=window)
                assert claim.start().step([3]).shape == (1,)


def test_pure_mechanism_serves_approximate_loss_if_better() -> None:
    short, long = (choose(sg.Approx(1, 1e-6), horizon=T) for T in (2**8, 2**20))
    assert short.loss == sg.Pure(1)
    assert long.loss == sg.Approx(1, 1e-6)


def test_candidates_above_the_memory_limit_are_refused() -> None:
    small = compare(sg.Zcdp("1/2"), horizon=2**12)
    assert any("memory must be at least 8192 numbers a group, got 256" in c.refusal for c in small.candidates)
    large = compare(sg.Zcdp("1/2"), horizon=2**12, memory=10**6)
    assert not any("memory" in c.refusal for c in large.candidates)


@pytest.mark.parametrize("window", ["", "sliding", "sliding 0", "sliding 1.5", "decayed x", "weekly"])
def test_invalid_window_is_refused(window: str) -> None:
    with pytest.raises(ValueError, match=r'^window must be "running", "each"'):
        choose(sg.Pure(1), window=window)


def test_an_impossible_promise_lists_every_refusal() -> None:
    with pytest.raises(ValueError, match="settings must be such that some mechanism keeps them, got refusals"):
        choose(sg.Pure(1), horizon=100, memory=0)


def test_ordinary_windows_and_far_horizons_have_a_mechanism() -> None:
    for window in (60, 240, 1440):
        assert choose(sg.Pure(1), window=f"sliding {window}").memory() > window
    for horizon in (2**36, 2**38, 2**45, 2**50):
        for loss in (sg.Pure(1), sg.Zcdp(1), sg.Approx(1, 1e-6)):
            assert choose(loss, horizon=horizon).horizon == horizon


def test_a_nearer_last_tick_makes_an_endless_mechanism_better() -> None:
    by_name = {c.name: c for c in compare(sg.Zcdp("1/2"), horizon=100).candidates}
    endless = {c.name: c for c in compare(sg.Zcdp("1/2"), ticks=100).candidates}
    assert by_name["UnboundedToeplitz"].rmse < endless["UnboundedToeplitz"].rmse


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"loss": 1.0}, "loss must be Pure, Zcdp, IntegerZcdp or Approx, got 1.0"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"bound": 0}, "bound must be a whole number of at least 1 or a Sensitivity above 0, got 0"),
        ({"window": None}, "window must be"),
    ],
)
def test_invalid_choice_arguments_are_refused(query: dict, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as refusal:
        choose(**{"loss": sg.Pure(1), **query})
    assert message in str(refusal.value)
