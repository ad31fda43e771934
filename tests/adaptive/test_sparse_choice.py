"""Sparse counters are offered where the declared density says that they win, and there they do."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from streamgauge import Approx, Pure, User
from streamgauge.adaptive.sparse.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.sparse.choice import (
    SparseOffers,
    choose,
    compare,
    predict_cascade_error,
    predict_sparse_error,
)
from streamgauge.adaptive.sparse.sparse_counter import SparseCounter
from streamgauge.continual import choose as usual
from streamgauge.testing.noise import InsecureNoise

TICKS = 512


@cache
def simulated(made: Any, events: int, width: int = 400, ticks: int = TICKS) -> float:
    """The root of the mean squared error over ticks and groups, for events that come at any tick."""
    places = InsecureNoise(11).laplace(10**9, events * width) % ticks
    values = np.zeros((ticks, width), np.int64)
    np.add.at(values, (places, np.arange(events * width) % width), 1)
    run, total, squares = made.start(width, InsecureNoise(12)), np.zeros(width), 0.0
    for row in values:
        total += row
        squares += float(np.square(run.step(row).value - total).mean())
    return float(np.sqrt(squares / ticks))


@pytest.mark.parametrize(
    "query",
    [
        {"horizon": TICKS},
        {"horizon": None},
        {"horizon": TICKS, "pan_private": True},
        {"horizon": 99, "unit": User(1, 3)},
        {"horizon": TICKS, "window": "sliding 9"},
        {"horizon": TICKS, "window": "each", "expected": "1/100"},
    ],
)
def test_nothing_changes_for_who_declares_no_density_or_asks_for_another_window(query: dict[str, Any]) -> None:
    rest = {name: value for name, value in query.items() if name != "expected"}
    for loss in (Pure(1), Approx(1, 1e-9)):
        assert choose(loss, **query) == usual(loss, **rest)
    assert all(offer.refusal for offer in compare(Pure(1), **query).offers)


@pytest.mark.parametrize(("epsilon", "events"), [(1, 10), (1, 100), (1, 1000), ("1/10", 300)])
def test_predicted_errors_are_those_of_simulation_to_a_fifth(epsilon: Any, events: int) -> None:
    made = SparseCounter(Pure(epsilon), horizon=TICKS, signed=False)
    assert predict_sparse_error(made, TICKS, events).rmse == pytest.approx(simulated(made, events), rel=0.2)


@pytest.mark.parametrize("epsilon", ["7/10", "3/2"])
def test_the_prediction_for_another_epsilon_is_not_mistaken_for_it(epsilon: str) -> None:
    made, other = (SparseCounter(Pure(each), horizon=TICKS, signed=False) for each in (1, epsilon))
    assert predict_sparse_error(other, TICKS, 100).rmse != pytest.approx(simulated(made, 100), rel=0.2)


def test_far_below_the_break_even_a_sparse_counter_is_chosen_and_wins_in_simulation() -> None:
    offers = compare(Pure(1), horizon=TICKS, expected="1/20")
    chosen = choose(Pure(1), horizon=TICKS, expected="1/20")
    assert isinstance(chosen, SparseCounter)
    assert chosen == offers.best
    assert chosen.loss == Pure(1)
    error = simulated(chosen, TICKS // 20)
    assert error < 0.75 * offers.rmse
    assert offers.offers[0].rmse == pytest.approx(error, rel=0.2)


def test_above_the_break_even_none_is_offered_and_none_would_win() -> None:
    offers = compare(Pure(1), horizon=TICKS, expected=1)
    assert offers.best == usual(Pure(1), horizon=TICKS)
    dense = offers.offers[0]
    assert dense.refusal == f"predicted error must be below {offers.rmse:.4g}, got {dense.rmse:.4g}"
    assert simulated(dense.mechanism, TICKS) > offers.rmse


def test_the_more_is_expected_the_larger_is_the_predicted_error() -> None:
    errors = [compare(Pure(1), horizon=2**16, expected=n / 2**16).offers[0].rmse for n in (1, 30, 999)]
    assert errors == sorted(errors)
    assert choose(Pure(1), horizon=None, expected="1/100000") != usual(Pure(1), horizon=None)


def test_pan_private_counts_are_offered_cascading_buffers_and_never_take_them() -> None:
    for density in ("1/1000", 1000, 10**6):
        offers = compare(Pure(1), horizon=2**14, expected=density, pan_private=True)
        assert offers.best == usual(Pure(1), horizon=2**14, pan_private=True)
        reasons = [offer.refusal.split(" must be")[0] for offer in offers.offers]
        assert reasons == ["pan_private", "predicted error"]


def test_cascading_buffers_must_win_by_more_than_their_prediction_may_be_off_by() -> None:
    offers = compare(Pure(1), horizon=2**14, expected=10 / 2**14, pan_private=True)
    assert 0.85 * offers.rmse < offers.offers[1].rmse < 0.95 * offers.rmse
    assert f"must be below {0.8 * offers.rmse:.4g}" in offers.offers[1].refusal


@pytest.mark.parametrize("events", [0, 10, 50])
def test_the_error_of_small_buffers_is_predicted_to_a_fifth(events: int) -> None:
    made = CascadingBuffers(Pure(1), horizon=TICKS)
    expected = simulated(made, events, width=200)
    assert predict_cascade_error(made, TICKS, events) == pytest.approx(expected, rel=0.2)


def test_the_error_of_cascading_buffers_is_predicted_to_a_fifth() -> None:
    made = CascadingBuffers(Pure(20), horizon=256, kappa=4, pan_private=True)
    for events in (2000, 20_000):
        expected = simulated(made, events, width=20, ticks=256)
        assert predict_cascade_error(made, 256, events) == pytest.approx(expected, rel=0.2)


def test_lines_say_what_is_offered_and_why_not() -> None:
    lines = str(compare(Pure(1), horizon=TICKS, expected="1/20")).splitlines()
    assert [line.split()[0] for line in lines] == ["BridgeTree", "SparseCounter", "CascadingBuffers"]
    assert lines[0].endswith("whatever the data")
    assert lines[1].endswith("if there are as many events as expected")
    assert "not offered: pan_private must be True" in lines[2]
    undeclared = compare(Pure(1), horizon=TICKS)
    assert isinstance(undeclared, SparseOffers)
    assert str(undeclared.offers[0]).endswith("not offered: expected must be declared, got None")


@pytest.mark.parametrize("expected", [0, -1, "few", float("nan")])
def test_densities_that_are_none_are_refused(expected: Any) -> None:
    with pytest.raises(ValueError, match=r"^expected must be"):
        choose(Pure(1), horizon=TICKS, expected=expected)


def test_memory_that_is_too_little_for_a_sparse_counter_is_a_reason() -> None:
    offer = compare(Pure(1), horizon=TICKS, expected="1/50", memory=5).offers[0]
    assert offer.refusal.startswith("memory must be at least")


def test_next_to_no_events_are_predicted_as_one():
    least = predict_sparse_error(SparseCounter(Pure(1), horizon=2**10, signed=False), 2**10, 1e-9)
    assert least == predict_sparse_error(SparseCounter(Pure(1), horizon=2**10, signed=False), 2**10, 1.0)
