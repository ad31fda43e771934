"""Tests of the audit: it condemns every broken twin and acquits its honest twin."""

from fractions import Fraction
from math import exp, inf, log

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.audit.attack.measure import measure
from streamgauge.audit.broken import ExperimentNoise, TwinPair, every_twin, values
from streamgauge.audit.report import audit
from streamgauge.audit.subject import CallableSubject
from streamgauge.noise import DiscreteLaplace

SURE = 1 - 1e-9
NAMES = [twins.name for twins in every_twin(ExperimentNoise.from_label("names"))]
every_name = pytest.mark.parametrize("name", NAMES)
ASKED = [  # twins that the library must have
    "Binary, levels counted as log2 T",
    "Binary, log2 T levels rounded up",
    "Simple I, scale 1/epsilon",
    "Simple I, noise reused between ticks",
    "Density, noise added after scaling",
    "Pan-private tree, registers without noise",
    "Pan-private tree, a total beside it",
    "Pan-private tree, its items beside it",
    "Laplace noise in floats",
    "Histogram, one draw for all groups",
    "Two releases, one seed",
    "Simple II, the same noise after loading",
    "Simple II, a tick drawn again after a crash",
    "Sparse vector, threshold not redrawn",
    "Variance, budget not split",
    "Pegasus, a refused count opens the next group",
    "Budget distribution, a window of w - 1",
    "Cascading buffers, accumulators from 0",
    "Hadamard count mean sketch, the flips of a survey",
    "Device, a memo for each item",
    "CountSketch, a hash key drawn after the data",
    "CountSketch, one row without noise",
    "Misra-Gries, no noise that keys share",
    "FlipMerge, merged without new coins",
]


def twins_named(name: str) -> TwinPair:
    """The same experiment every time."""
    return next(twins for twins in every_twin(ExperimentNoise.from_label(name)) if twins.name == name)


def claim(twins: TwinPair) -> float:
    return float(twins.broken.loss.amount)


@every_name
def test_attack_condemns_broken_twin_and_acquits_honest_twin(name: str) -> None:
    twins = twins_named(name)
    broken, honest = (audit(subject, twins.runs, SURE) for subject in (twins.broken, twins.honest))
    assert broken.is_condemned
    assert broken.measurement is not None
    if twins.has_wrong_estimates:
        assert broken.worst is not None
        assert broken.worst.faults
        assert broken.is_proved
    elif twins.is_counted:
        assert claim(twins) < broken.measurement.amount <= twins.truth
    else:
        assert broken.loss_bounds is not None
        assert claim(twins) < broken.loss_bounds[0] <= twins.truth
    assert not honest.is_condemned, honest.reasons


@every_name
def test_both_twins_have_the_same_claim_and_neighbours(name: str) -> None:
    twins = twins_named(name)
    broken, honest = twins.broken.pairs()[0], twins.honest.pairs()[0]
    assert twins.broken.loss == twins.honest.loss
    assert twins.has_wrong_estimates or twins.truth > claim(twins)
    for one, other in ((broken.one, honest.one), (broken.other, honest.other)):
        assert repr(one) == repr(other)
        streams = getattr(one, "streams", one), getattr(other, "streams", other)
        assert streams[0] == streams[1] if isinstance(one, tuple) else np.array_equal(*streams)
    assert twins.reason


def test_twin_library_is_complete_and_names_are_unique() -> None:
    assert set(ASKED) <= set(NAMES)
    assert len(set(NAMES)) == len(NAMES) >= 30


def test_honest_twins_measure_close_to_their_claim() -> None:
    """Twins with a known likelihood ratio only."""
    for name in ("Binary, levels counted as log2 T", "Simple II, a tick drawn again after a crash"):
        twins = twins_named(name)
        assert measure(twins.honest, twins.runs, SURE).amount > 0.7 * claim(twins)


def test_seeded_experiments_repeat_and_others_do_not() -> None:
    def views(chance: ExperimentNoise | None) -> np.ndarray:
        subject = next(every_twin(chance)).broken
        return subject.views(subject.pairs()[0].one, 100)

    assert np.array_equal(views(ExperimentNoise.from_label("a")), views(ExperimentNoise.from_label("a")))
    assert not np.array_equal(views(ExperimentNoise.from_label("a")), views(ExperimentNoise.from_label("b")))
    assert not np.array_equal(views(None), views(None))


def test_float_noise_is_detected_by_its_bits_alone() -> None:
    """Without its lowest bits, the same noise satisfies its claim."""
    chance = ExperimentNoise.from_label("bits")

    def cut(value: float, runs: int) -> np.ndarray:
        return np.rint(values.sample_textbook_laplace(chance, True, value, runs) * 2**10) / 2**10

    result = measure(twins_named("Laplace noise in floats").broken, 60_000, SURE)
    assert result.score.startswith("lowest bit")
    chosen = CallableSubject("cut", cut, Pure(1), [(1.0, 0.0)], is_vectorised=True)
    assert measure(chosen, 60_000, SURE).amount <= 1


def test_loss_of_noise_after_scaling_matches_enumeration() -> None:
    """Worst case: the coin showed 0, and the published number is far above it."""
    law = DiscreteLaplace("1/4")
    one = float(values.ONE_PROBABILITY)
    far = [one * law.pmf(k - 1) + (1 - one) * law.pmf(k) for k in range(1, 10)]
    loss = max(log(shown / law.pmf(k)) for k, shown in enumerate(far, 1))
    assert loss == pytest.approx(twins_named("Density, noise added after scaling").truth)
    assert loss == pytest.approx(3.54, abs=0.005)


def test_sign_with_half_of_epsilon_stays_below_half_claim() -> None:
    """The Hadamard sketch, as often printed, uses half of its loss."""
    chance = ExperimentNoise.from_label("sign")

    def sign(value: int, runs: int) -> np.ndarray:
        return np.where(chance.coins(Fraction(1 / (1 + exp(0.5))), runs), -value, value)

    measured = measure(CallableSubject("sign", sign, Pure(1), [(1, -1)], is_vectorised=True), 60_000, SURE)
    assert 0.4 < measured.amount <= 0.5 < inf
