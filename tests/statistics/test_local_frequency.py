"""Predicted errors of repeated device reports match simulation, with hash collisions."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy.stats import chi2

from streamgauge.localdp import CountMeanSketch, HadamardCountMeanSketch, LocalHashing, RandomisedResponse
from streamgauge.privacy import Pure
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.testing.noise import InsecureNoise

FLUKE = 1e-9
ITEMS = tuple("abcd")
COPIES, DEVICES, TIMES = 5, 400, 300
FEW = {"hashes": 4, "width": 16}
CLAIMS = [CountMeanSketch(Pure(6), **FEW), HadamardCountMeanSketch(Pure(6), **FEW), LocalHashing(Pure(6), **FEW)]


def predicted(claim, copies):
    return LocalFrequency(claim, items=ITEMS, window="running", copies=copies).stddev(COPIES * DEVICES)


def estimates(claim):
    """Return estimates of an absent item, if each device repeats its report."""
    noise, found = InsecureNoise(1), []
    for seed in range(TIMES):
        each = replace(claim, seed=seed)
        collector = each.build_collector()
        drawn = each.privatise_many([ITEMS[place % 4] for place in range(DEVICES)], noise)
        collector.add(np.repeat(drawn, COPIES, axis=0))
        found.append(collector.estimate(["nobody's"]).count[0])
    return np.array(found)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
def test_predicted_error_of_repeated_reports_matches_simulation(claim):
    """Collisions are skewed, but cannot cause a factor of 1.3 in either direction."""
    found = estimates(claim)

    def fits(stddev):
        law, total = chi2(TIMES), float(((found / stddev) ** 2).sum())
        return min(law.cdf(total), law.sf(total)) > FLUKE

    assert fits(predicted(claim, COPIES))
    assert not fits(sqrt(COPIES) * predicted(claim, 1))
    assert not fits(predicted(claim, COPIES) / 1.4)


def test_error_without_collisions_grows_with_root_of_copies():
    claim = RandomisedResponse(Pure(2), items=ITEMS)
    assert predicted(claim, COPIES) == pytest.approx(sqrt(COPIES) * predicted(claim, 1))
