"""Laws of every pan-private estimator."""

import copy
import pickle
from typing import Any

import pytest

import streamgauge as sg
from streamgauge import panprivate
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.noise import SecureNoise
from streamgauge.panprivate import LimitExceededError
from streamgauge.privacy import XAdjacent
from streamgauge.testing.noise import InsecureNoise
from tests.support.panprivate_catalogue import claim_of, estimators_found, every_estimator
from tests.support.saved_states import live_state

BATCHES: tuple[list[Any], ...] = ([3, 1, 3], [], [39, -1, 40, None, "x", 2.5, 1])


def came(run: Any, users: list[Any]) -> Any:
    return run.step(users) if hasattr(run, "step") else run.add(users)


def answer(estimate: Any) -> str:
    return repr((estimate.value, estimate.stddev, estimate.interval(0.9)))


def test_every_estimator_is_exported() -> None:
    assert {cls.__name__ for cls in estimators_found()} <= set(panprivate.__all__)


@every_estimator
def test_saved_and_loaded_run_continues_identically(cls: type[Any]) -> None:
    claim, sources = claim_of(cls, intrusions=1), [InsecureNoise(4), InsecureNoise(4)]
    straight, moved = (claim.start(source) for source in sources)
    for batch in BATCHES:
        came(straight, batch)
        came(moved, batch)
        moved = claim.load(moved.save(), sources[1])
    straight.intrude()
    moved.intrude()
    moved = claim.load(moved.save(), sources[1])
    assert answer(straight.estimate()) == answer(moved.estimate())
    assert moved.record["intrusions"] == 1


@every_estimator
def test_save_of_another_claim_is_refused(cls: type[Any]) -> None:
    saved = claim_of(cls).start().save()
    with pytest.raises(InvalidSaveError):
        claim_of(cls, universe=41).load(saved)


@every_estimator
def test_items_that_are_no_users_are_dropped_silently(cls: type[Any]) -> None:
    run = claim_of(cls).start()
    for batch in BATCHES:
        came(run, batch)
    assert run.estimate() is not None


@every_estimator
def test_intrusions_are_limited_and_refusals_change_nothing(cls: type[Any]) -> None:
    run = claim_of(cls, intrusions=2).start()
    for _ in range(2):
        run.intrude()
    with pytest.raises(LimitExceededError, match=r"^intrusions must be at most the 2 that the claim reserves"):
        run.intrude()
    assert run.intrusions == 2
    assert run.estimate() is not None


@every_estimator
def test_intrusion_view_differs_from_the_continued_state(cls: type[Any]) -> None:
    claim = claim_of(cls, intrusions=1, universe=400)
    run = claim.start()
    release = run.intrude()
    assert repr(vars_of(release)) != repr(vars_of(live_state(run)))


def vars_of(state: Any) -> list[Any]:
    return [getattr(state, name).tolist() for name in state.__slots__ if hasattr(getattr(state, name), "tolist")]


@every_estimator
def test_a_run_is_never_copied_and_shows_nothing(cls: type[Any]) -> None:
    run = claim_of(cls).start()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(run)
    assert repr(run) == f"<run of {run.claim!r}>"


@every_estimator
def test_a_source_with_a_key_is_refused(cls: type[Any]) -> None:
    with pytest.raises(ValueError, match=r"^noise must keep no key"):
        claim_of(cls).start(SecureNoise())


@every_estimator
def test_the_unit_is_a_user_with_all_appearances(cls: type[Any]) -> None:
    assert claim_of(cls).unit == XAdjacent()
    assert claim_of(cls, replace=True).unit == XAdjacent(replace=True)


@every_estimator
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"universe": 0}, "universe must be a whole number of at least 1, got 0"),
        ({"intrusions": -1}, "intrusions must be a whole number of at least 0, got -1"),
        ({"law": "mine"}, "law must be one of symmetric, paper, got 'mine'"),
        ({"replace": 1}, "replace must be True or False, got 1"),
    ],
)
def test_invalid_estimator_settings_are_refused(cls: type[Any], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        claim_of(cls, **settings)


@every_estimator
def test_a_loss_must_be_pure(cls: type[Any]) -> None:
    with pytest.raises(ValueError, match=r"^loss must be Pure and positive"):
        claim_of(cls, loss=sg.Zcdp(1))


@pytest.mark.parametrize("cls", [cls for cls in estimators_found() if not hasattr(cls, "count_signs")])
def test_releases_are_limited(cls: type[Any]) -> None:
    run = claim_of(cls, releases=2).start()
    for _ in range(2):
        run.estimate()
    with pytest.raises(LimitExceededError, match=r"^releases must be at most the 2 that the claim pays for"):
        run.estimate()
