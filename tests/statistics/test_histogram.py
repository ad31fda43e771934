"""Laws of histograms: exact without noise, joint reach, one column for every bin of every group."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.privacy import Sensitivity, Tick
from streamgauge.statistics.keys.histogram import Histogram
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.exact_loss import declared, worst

LABELS = ["yes", "no", 7]
UNITS: dict[Any, Sensitivity] = {
    sg.Event(): Sensitivity(1, 1),
    sg.Event(replace=True): Sensitivity(2, 2, 2),
    sg.Event(replace=True, moves=True): Sensitivity(2, 2, 2),
    sg.WEvent(2): Sensitivity(1, 1),
    Tick(3): Sensitivity(3, 9, 3),
    sg.User(2, 4): Sensitivity(2, 4, 2),
}


def test_without_noise_every_bin_has_the_events_of_its_label_and_group() -> None:
    run = Histogram(sg.Pure(1), domain=LABELS, horizon=9).start(groups=["a", "b"], noise=SilentNoise())
    first = run.step(["no", "yes", 7, "x", None, 7.0], groups=["a", "b", "b", "a", "a", "c"])
    assert first.value.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert run.step([7], groups=["b"]).value.tolist() == [[0, 1, 0], [1, 0, 2]]


def test_releases_of_several_ticks_have_ticks_in_front() -> None:
    claim = Histogram(sg.Zcdp(1), domain=LABELS, horizon=9)
    steps, fed = claim.start(2, InsecureNoise(1)), claim.start(2, InsecureNoise(1))
    events = [("yes", 0, 1), ("no", 1, 1), (7, 1, 3)]
    one = [
        steps.step([v for v, _, t in events if t == tick], groups=[g for _, g, t in events if t == tick])
        for tick in (1, 2, 3)
    ]
    many = fed.feed([e[0] for e in events], groups=[e[1] for e in events], ticks=[e[2] for e in events], until=3)
    assert many.value.shape == (3, 2, 3)
    assert (many.value == np.stack([estimate.value for estimate in one])).all()
    assert (many.interval()[1] == np.stack([estimate.interval()[1] for estimate in one])).all()


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_the_reach_of_a_unit_is_that_of_all_bins_together(unit: Any) -> None:
    assert Histogram(sg.Pure(1), domain=LABELS, horizon=9, unit=unit).tick_sensitivity == UNITS[unit]


@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp(1)], ids=repr)
@pytest.mark.parametrize("replace", [False, True])
def test_the_worst_loss_over_all_pairs_of_events_is_the_declared_one(loss: Any, replace: bool) -> None:
    claim = Histogram(loss, domain=["yes", "no"], horizon=3, unit=sg.Event(replace=replace))
    worlds = [(v, g) for v in ("yes", "no", "x") for g in (0, 1)]
    vectors = {w: claim.compute_totals([w[0]], [w[1]], 2) for w in worlds}
    pairs = product(worlds, worlds) if replace else ((w, None) for w in worlds)
    none = np.zeros(4, np.int64)
    moves = [vectors[a] - (none if b is None else vectors[b]) for a, b in pairs]
    moved = [np.eye(3, dtype=int)[tick][:, None] * move for move in moves for tick in range(3)]
    assert declared(claim) * 0.999 <= worst(claim, moved) <= declared(claim) * (1 + 1e-12)


def test_a_twin_that_takes_a_replaced_event_for_one_move_is_caught() -> None:
    twin = Histogram(sg.Pure(1), domain=["yes", "no"], horizon=3, unit=sg.Event())
    moved = twin.compute_totals(["yes"]) - twin.compute_totals(["no"])
    assert worst(twin, [np.eye(3, dtype=int)[0][:, None] * moved]) > 1.9 * declared(twin)


def test_intervals_of_a_bin_hold_with_their_confidence() -> None:
    claim = Histogram(sg.Pure(1), domain=range(5), horizon=1000)
    estimate = claim.start(2000, InsecureNoise(3)).step([0, 1], groups=[0, 0])
    low, high = estimate.interval(0.9)
    truth = np.zeros((2000, 5))
    truth[0, :2] = 1
    state = ((low <= truth) & (truth <= high)).mean()
    assert 0.88 <= state <= 0.95
    assert abs(estimate.value.std() / estimate.stddev[0, 0] - 1) < 0.05


@pytest.mark.parametrize("pan_private", [False, True])
def test_a_saved_histogram_goes_on_bit_for_bit(pan_private: bool) -> None:
    claim = Histogram(sg.Pure(1), domain=LABELS, horizon=9, pan_private=pan_private)
    noise = InsecureNoise(5)
    run = claim.start(2, noise)
    run.step(["yes"], groups=[1])
    loaded = claim.load(run.save(), noise.clone())
    assert (run.step([7], groups=[0]).value == loaded.step([7], groups=[0]).value).all()


def test_what_is_missing_or_makes_no_claim_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^domain must be declared \(the labels that are counted\), got None"):
        Histogram(sg.Pure(1), horizon=9)
    with pytest.raises(ValueError, match=r"^domain must be distinct, got 'a' twice"):
        Histogram(sg.Pure(1), domain=["a", "a"], horizon=9)
    assert Histogram(sg.Pure(1), domain=["a"], horizon=9) == Histogram(sg.Pure(1), domain=("a",), horizon=9)
