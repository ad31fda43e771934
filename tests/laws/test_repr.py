"""Law of texts: the repr of every mechanism is code that makes an equal one."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge import adaptive, continual, noise, panprivate, postprocess, privacy
from streamgauge.continual import Hybrid, SubtractiveTree
from streamgauge.continual.trees.hybrid import list_inner_names
from tests.laws.test_privacy import check
from tests.support.adaptive_catalogue import Adapting, every_adapting
from tests.support.catalogue import Case, every_case, exported
from tests.support.panprivate_catalogue import claim_of, estimators_found

ROOMS = (sg, noise, privacy, postprocess, continual, adaptive, panprivate)
NAMES: dict[str, Any] = {name: getattr(room, name) for room in ROOMS for name in room.__all__}
UNITS = (sg.Event(replace=True), sg.WEvent(3), sg.User(2, 3))


def made_again(claim: Any) -> Any:
    return eval(repr(claim), NAMES | {"Fraction": Fraction})


@every_case
def test_mechanism_repr_evaluates_to_an_equal_mechanism(case: Case) -> None:
    reach = privacy.Sensitivity(5, 17, coordinates=3)
    given: list[dict[str, Any]] = [{}, {"bound": reach}]
    given += [{"unit": unit, "bound": 3} for unit in UNITS if not dict(case.settings).get("pan_private")]
    for more in given:
        claim = case.claim(20, **more)
        assert made_again(claim) == claim
        assert repr(made_again(claim)) == repr(claim)


@every_adapting
def test_adaptive_mechanism_repr_evaluates_to_an_equal_mechanism(case: Adapting) -> None:
    claim = case.claim(20)
    assert made_again(claim) == claim
    assert repr(made_again(claim)) == repr(claim)


@pytest.mark.parametrize("cls", estimators_found(), ids=lambda cls: cls.__name__)
def test_pan_private_estimator_repr_evaluates_to_equal_estimator(cls: type[Any]) -> None:
    claim = claim_of(cls)
    assert made_again(claim) == claim


@pytest.mark.parametrize("name", list_inner_names())
def test_hybrid_accepts_inner_counters_by_name(name: str) -> None:
    inner: Any = getattr(continual, name)
    loss = sg.Pure(1) if sg.Pure in inner.LOSSES else sg.Zcdp(1)
    claim = Hybrid(loss, inner=name, growth=3)
    assert claim.inner is inner
    assert claim == Hybrid(loss, inner=inner, growth=3)
    assert made_again(claim) == claim
    check(claim, 40, tight=False)
    assert claim.strategy(40).workload == pytest.approx(np.tri(40))


def test_inner_counter_names_exclude_windowed_and_unbounded_counters() -> None:
    windowed = {"ExponentialDecay", "PolynomialDecay", "UnboundedToeplitz", "WindowBridge", "WindowSum"}
    ahead = {"PastBridge", "TwoPart"}  # draw ahead, and release floats
    assert set(list_inner_names()) == {cls.__name__ for cls in exported()} - windowed - ahead


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("Bynary", "inner must be one of Binary, .*, got 'Bynary'"),
        ("WindowSum", "inner must be one of Binary, .*, got 'WindowSum'"),
        (continual.WindowSum, "inner must be a running counter with a horizon, got WindowSum"),
        (adaptive.SparseCounter, "inner must be a running counter with a horizon, got SparseCounter"),
        (SubtractiveTree(sg.Pure(1), horizon=8), "inner must be a running counter with a horizon, got Sub"),
    ],
)
def test_invalid_inner_counters_of_a_hybrid_are_refused(inner: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        Hybrid(sg.Pure(1), inner=inner)
