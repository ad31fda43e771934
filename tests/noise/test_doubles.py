"""The test doubles of streamgauge.testing.noise: determinism, silence and counts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.testing.noise import CHUNK_DRAWS, CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise

LAWS = [("laplace", Fraction(3)), ("laplace", Fraction(1000)), ("gaussian", Fraction(9)), ("gaussian", Fraction(3))]


@given(st.lists(st.tuples(st.sampled_from(LAWS), st.integers(0, 3000)), max_size=12))
@settings(max_examples=30, deadline=None)
def test_insecure_draws_do_not_depend_on_request_sizes(requests):
    noise, parts = InsecureNoise(7), {law: [] for law in LAWS}
    for law, size in requests:
        kind, scale = law
        parts[law].append(getattr(noise, kind)(scale, size))
    for (kind, scale), drawn in parts.items():
        joined = np.concatenate([np.empty(0, np.int64), *drawn])
        assert (joined == getattr(InsecureNoise(7), kind)(scale, len(joined))).all()


def test_insecure_draws_cross_chunks_and_differ_by_seed_and_law():
    one = InsecureNoise(1).laplace(Fraction(50), 2 * CHUNK_DRAWS + 5)
    assert not (one[:CHUNK_DRAWS] == one[CHUNK_DRAWS : 2 * CHUNK_DRAWS]).all()
    assert not (one == InsecureNoise(2).laplace(Fraction(50), len(one))).all()
    assert not (one == InsecureNoise(1).laplace(Fraction(51), len(one))).all()


def test_clone_continues_identically_and_independently():
    noise = InsecureNoise(3)
    noise.laplace(Fraction(5), 10)
    twin = noise.clone()
    ours = noise.laplace(Fraction(5), 20).tolist()
    noise.laplace(Fraction(5), 20)
    assert twin.laplace(Fraction(5), 20).tolist() == ours
    assert twin.gaussian(Fraction(5), 20).tolist() == noise.gaussian(Fraction(5), 20).tolist()


def test_silence_counts_and_impulses():
    noise = CountedNoise(ImpulseNoise(4, -9))
    assert noise.laplace(Fraction(1), 3).tolist() == [0, 0, 0]
    assert noise.gaussian(Fraction(2), 3).tolist() == [0, -9, 0]
    assert noise.requests == [("laplace", 1, 3), ("gaussian", 2, 3)]
    assert noise.total == 6
    assert not SilentNoise().gaussian(Fraction(1), 9).any()


@pytest.mark.parametrize("noise", [SilentNoise(), ImpulseNoise(0, 0), InsecureNoise(0), CountedNoise(SilentNoise())])
def test_every_double_gives_int64(noise):
    assert noise.laplace(Fraction(1), 2).dtype == noise.gaussian(Fraction(1), 2).dtype == np.int64


def test_a_bad_request_leaves_deterministic_noise_as_it_was():
    noise, twin = InsecureNoise(4), InsecureNoise(4)
    for size in (1.5, -1, "3"):
        with pytest.raises(ValueError, match="size must be a whole number of at least 0, got"):
            noise.laplace(Fraction(3), size)
    assert (noise.laplace(np.int64(3), np.int64(9)) == twin.laplace(Fraction(3), 9)).all()
    assert (noise.gaussian(0.5, 9) == twin.gaussian(Fraction(1, 2), 9)).all()
