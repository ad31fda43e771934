"""Independent component analysis: finds the draws of a view without a likelihood ratio."""

from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.audit import MechanismSubject, Pair, measure
from streamgauge.audit.attack.attack import find_rotation, fit_ica_score, fit_scores
from streamgauge.continual import Binary
from streamgauge.testing.noise import InsecureNoise


class Blind(MechanismSubject):
    """A subject that does not offer its likelihood ratio."""

    def pairs(self) -> Any:
        return [Pair(pair.name, pair.one, pair.other) for pair in super().pairs()[:1]]


def test_unmixed_score_of_a_tree_is_nearly_best() -> None:
    found = measure(Blind(Binary(sg.Pure(1), horizon=15), 15, noise=InsecureNoise(41)), 100_000)
    assert found.score == "unmixed"
    assert 0.75 < found.amount <= 1


def test_other_scores_hardly_separate_a_tree() -> None:
    """The broken twin of the score: sums and places alone."""

    def fit_others(*views: Any) -> list[Any]:
        return [found for found in fit_scores(*views) if found[0] != "unmixed"]

    subject = Blind(Binary(sg.Pure(1), horizon=15), 15, noise=InsecureNoise(41))
    assert measure(subject, 100_000, fit=fit_others).amount < 0.6


def test_independent_draws_are_found_in_their_sums() -> None:
    draws = np.random.default_rng(1).laplace(size=(20_000, 4))
    mixed = draws @ np.array([[1, 1, 1, 1], [0, 2, 1, 1], [0, 0, 3, -1], [0, 0, 0, 1]])
    found = mixed @ find_rotation(mixed)
    result = np.abs(np.corrcoef(draws.T, found.T)[:4, 4:])
    assert (np.sort(result, axis=0)[-1] > 0.99).all()
    assert (np.sort(result, axis=0)[-2] < 0.1).all()


def test_equal_or_constant_columns_give_finite_scores() -> None:
    one = np.repeat(np.random.default_rng(2).laplace(size=(500, 1)), 3, axis=1)
    one[:, 1] = 7.0
    score = fit_ica_score(one, one + np.array([1.0, 0.0, 1.0]), [0, 1, 2])
    assert np.isfinite(score(one)).all()
    still = np.zeros((500, 2))
    assert np.isfinite(fit_ica_score(still, still, [0, 1])(still)).all()
