"""k-wise independence of the polynomial hashes: exact on a small field, measured on the large one."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chi2

from streamgauge.prime_field import P, multiply_add
from streamgauge.sketches import PolynomialHash


@pytest.mark.parametrize(("independence", "prime"), [(2, 7), (3, 5), (4, 5)])
def test_values_of_any_k_words_are_jointly_uniform(independence: int, prime: int) -> None:
    every = tuple(product(range(prime), repeat=independence))
    values = PolynomialHash(every, prime, prime).columns(np.arange(prime))
    for words in combinations(range(prime), independence):
        joint = Counter(map(tuple, values[:, words].tolist()))
        assert len(joint) == prime**independence
        assert set(joint.values()) == {1}


def test_one_word_more_than_k_is_not_uniform() -> None:
    """Broken twin: pairwise hashes are determined by two words."""
    values = PolynomialHash(tuple(product(range(5), repeat=2)), 5, 5).columns(np.arange(5))
    assert len(Counter(map(tuple, values[:, [0, 1, 2]].tolist()))) == 25


@pytest.mark.parametrize("independence", [2, 3, 4])
def test_pairs_of_buckets_are_uniform_over_keys(independence: int) -> None:
    words = np.array([1, 2**60 + 5], np.uint64)
    made = [
        PolynomialHash.derive(bytes([i % 256, i // 256] * 16), independence=independence, rows=2, buckets=4)
        for i in range(2000)
    ]
    cells = Counter(tuple(row) for each in made for row in each.columns(words).tolist())
    score = sum((cells[pair] - 250) ** 2 / 250 for pair in product(range(4), repeat=2))
    assert score < chi2.isf(1e-9, 15)


def test_polynomials_match_plain_arithmetic_at_extreme_words() -> None:
    extreme = [0, 1, 2**30, 2**31 - 1, 2**31, 2**60, P - 2, P - 1]
    rows = tuple(product([0, 1, 2**31, P - 1], repeat=4))
    found = PolynomialHash(rows, 2).values(extreme)
    for row, values in zip(rows, found.tolist(), strict=True):
        assert values == [sum(c * x ** (3 - i) for i, c in enumerate(row)) % P for x in extreme]
    all_of = np.array(extreme, np.uint64)
    assert multiply_add(all_of[:, None], all_of, all_of).tolist() == [
        [(a * x + x) % P for x in extreme] for a in extreme
    ]


def test_signs_are_fair_and_follow_the_key() -> None:
    one, two = (PolynomialHash.derive(bytes([i] * 32), independence=4, rows=1, buckets=2) for i in (1, 2))
    words = np.arange(100_000, dtype=np.uint64)
    assert abs(int(one.signs(words).sum())) < 6.2 * 100_000**0.5
    assert abs(int((one.signs(words) * two.signs(words)).sum())) < 6.2 * 100_000**0.5


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"independence": 5, "rows": 1, "buckets": 2}, "independence must be between 2 and 4, got 5"),
        ({"independence": 2, "rows": 0, "buckets": 2}, "rows must be at least 1, got 0"),
        ({"independence": 2, "rows": 1, "buckets": 0}, "buckets must be between 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        PolynomialHash.derive(bytes(32), **settings)


def test_coefficients_outside_of_the_field_are_refused() -> None:
    with pytest.raises(ValueError, match="coefficients must be at least 0 and below the prime"):
        PolynomialHash(((P, 1),), 2)
    with pytest.raises(ValueError, match="coefficients must be rows of 2 to 4 numbers"):
        PolynomialHash(((1,),), 2)
