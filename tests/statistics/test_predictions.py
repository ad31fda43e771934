"""Errors that claims predict before any data match simulation."""

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.statistics import Mean, Variance
from streamgauge.testing.noise import InsecureNoise

RUNS, COUNT = 4000, 3000


@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/20")], ids=str)
@pytest.mark.parametrize("statistic", [Mean, Variance])
def test_predicted_standard_error_matches_simulation(statistic: type, loss: sg.privacy.Loss) -> None:
    claim = statistic(loss, lower=0, upper=10, step=0.1, horizon=100)
    values = np.clip(np.random.default_rng(1).normal(6, 2, COUNT), 0, 10)
    run = claim.start(RUNS, InsecureNoise(5))
    estimate = run.step_totals(np.repeat(claim.compute_totals(values)[:, None], RUNS, axis=1))
    known = {"mean": values.mean()} if statistic is Mean else {"mean": values.mean(), "variance": values.var()}
    predicted = claim.stddev(1, COUNT, **known)
    truth = values.mean() if statistic is Mean else values.var(ddof=1)
    shown = float(np.sqrt(((estimate.value - truth) ** 2).mean()))
    assert 0.9 < predicted / shown < 1.1
    assert estimate.stddev.mean() == pytest.approx(predicted, rel=0.1)
    assert not 0.9 < 1.3 * predicted / shown < 1.1
    assert claim.stddev(1) > 10 * predicted


def test_a_standard_deviation_has_the_error_of_a_root() -> None:
    one = Variance(sg.Pure(1), lower=0, upper=10, horizon=9).stddev(1, 10**5, mean=5, variance=4)
    root = Variance(sg.Pure(1), lower=0, upper=10, horizon=9, root=True).stddev(1, 10**5, mean=5, variance=4)
    assert root == pytest.approx(one / (2 * 2))
