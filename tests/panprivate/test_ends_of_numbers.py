"""Overflow: a charged estimate is released with any error, even an infinite one."""

from fractions import Fraction
from functools import partial
from math import isnan

import numpy as np
import pytest

from streamgauge.panprivate import (
    ContinualDensity,
    CroppedMean,
    Density,
    HeavyFraction,
    Incidence,
    ModularIncidence,
    MultiplicativeDensity,
    continual_density,
)
from streamgauge.panprivate.sign_bits import SignLaw
from streamgauge.privacy import Pure
from streamgauge.testing.noise import InsecureNoise

pytestmark = pytest.mark.filterwarnings("error")
BEFORE = {"universe": 1000, "hashed": "before"}
LONG = {
    "heavy": HeavyFraction(Pure(1), at_least=40, releases=30, **BEFORE),
    "heavy, intruded": HeavyFraction(Pure(4), at_least=40, intrusions=1, **BEFORE),
    "cropped": CroppedMean(Pure(1), limit=100, releases=30, **BEFORE),
    "incidence": Incidence(Pure(1), exactly=100, releases=30, **BEFORE),
}
TENTH, HUNDREDTH = Pure(Fraction(1, 10)), Pure(Fraction(1, 100))
WORN = {
    "heavy": partial(HeavyFraction, TENTH, universe=10, releases=100, intrusions=12, law="paper", at_least=200),
    "modular": partial(ModularIncidence, Pure(1), universe=1, intrusions=30, modulus=9),
    "continual, hashed": partial(ContinualDensity, HUNDREDTH, universe=10, hashed=True, intrusions=30),
    "density": partial(Density, Pure(1), universe=10, intrusions=32),
    "density, hashed": partial(Density, Pure(1), universe=10, intrusions=32, hashed=True),
}


def checked(estimate):
    assert not isnan(estimate.value)
    assert estimate.stddev >= 0
    for confidence in (0.5, 0.95):
        low, high = estimate.interval(confidence)
        assert low <= high


@pytest.mark.parametrize("name", LONG)
def test_estimate_of_long_cycles_is_released_despite_overflow(name):
    claim, users = LONG[name], np.random.default_rng(1).integers(0, 1000, 333)
    for seed in range(10):
        run = claim.start(InsecureNoise(seed))
        run.add(users)
        for _ in range(claim.intrusions):
            run.intrude()
        checked(run.estimate())


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", WORN)
def test_an_estimate_after_many_intrusions_has_an_interval(name):
    claim = WORN[name]()
    run = claim.start(InsecureNoise(1))
    for _ in range(claim.intrusions):
        run.intrude()
    found = run.estimate()
    checked(found.at_least(1) if name == "modular" else found)


def test_continual_density_after_too_many_intrusions_is_refused(monkeypatch):
    """The law is fixed, because a search with so many intrusions is slow."""
    forgetful = SignLaw(Fraction(1, 8), Fraction(1, 8), Fraction(1, 1000))
    monkeypatch.setattr(continual_density, "find_best_signs", lambda *_: forgetful)
    ContinualDensity(HUNDREDTH, universe=10, intrusions=20)
    with pytest.raises(ValueError, match="loss must be larger for ContinualDensity to tell anything after 60"):
        ContinualDensity(HUNDREDTH, universe=10, intrusions=60)


@pytest.mark.parametrize("kind", [Density, MultiplicativeDensity])
@pytest.mark.parametrize("intrusions", [30, 60])
def test_claims_too_weak_for_their_intrusions_are_refused(kind, intrusions):
    with pytest.raises(ValueError, match="loss must be larger"):
        kind(Pure(Fraction(1, 1000)), universe=1000, hashed=True, intrusions=intrusions)
