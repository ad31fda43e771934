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
def test_the_repr_of_a_mechanism_makes_an_equal_one(case: Case) -> None:
    reach = privacy.Sensitivity(5, 17, coordinates=3)
    given: list[dict[str, Any]] = [{}, {"bound": reach}]
    given += [{"unit": unit, "bound": 3} for unit in UNITS if not dict(case.settings).get("pan_private")]
    for more in given:
        claim = case.claim(20, **more)
        assert made_again(claim) == claim
        assert repr(made_again(claim)) == repr(claim)


@every_adapting
def test_the_repr_of_a_mechanism_that_adapts_makes_an_equal_one(case: Adapting) -> None:
    claim = case.claim(20)
    assert made_again(claim) == claim
    assert repr(made_again(claim)) == repr(claim)


@pytest.mark.parametrize("cls", estimators_found(), ids=lambda cls: cls.__name__)
def test_the_repr_of_a_pan_private_estimator_makes_an_equal_one(cls: type[Any]) -> None:
    claim = claim_of(cls)
    assert made_again(claim) == claim


@pytest.mark.parametrize("name", list_inner_names())
def test_a_hybrid_takes_every_counter_with_a_horizon_by_its_name(name: str) -> None:
    inner: Any = getattr(continual, name)
    loss = sg.Pure(1) if sg.Pure in inner.LOSSES else sg.Zcdp(1)
    claim = Hybrid(loss, inner=name, growth=3)
    assert claim.inner is inner
    assert claim == Hybrid(loss, inner=inner, growth=3)
    assert made_again(claim) == claim
    check(claim, 40, tight=False)
    assert claim.strategy(40).workload == pytest.approx(np.tri(40))


def test_the_names_of_inner_counters_are_those_that_count_all_ticks_to_a_horizon() -> None:
    windowed = {"ExponentialDecay", "PolynomialDecay", "UnboundedToeplitz", "WindowBridge", "WindowSum"}
    assert set(list_inner_names()) == {cls.__name__ for cls in exported()} - windowed


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
def test_what_cannot_be_inside_a_hybrid_is_refused(inner: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        Hybrid(sg.Pure(1), inner=inner)
