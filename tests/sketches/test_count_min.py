"""Count-Min: its definition, its bias, its losses, and why a plain one cannot be pan-private."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import CallableSubject, Pair, audit
from streamgauge.continual.run import LimitExceededError
from streamgauge.noise import DiscreteLaplace
from streamgauge.sketches import CountMin, CountSketch
from streamgauge.sketches.count_min import expect_minimum
from streamgauge.sketches.misra_gries import count_all
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.sketch_streams import KEY, key, zipf_items


def test_estimates_without_noise_are_never_low_and_rarely_high() -> None:
    items = zipf_items(1, 5000)
    truth = count_all(items)
    claim, over = CountMin.from_error(sg.Pure(1), alpha=0.02, beta=0.05), []
    for seed in range(20):
        run = claim.start(key(seed), SilentNoise())
        run.update(items)
        errors = run.release().estimate(list(truth)) - np.array(list(truth.values()))
        assert errors.min() >= 0
        over.append((errors > 0.02 * 5000).mean())
    assert np.mean(over) <= 0.05


def test_one_event_moves_one_cell_of_each_row() -> None:
    claim = CountMin(sg.Pure(1), rows=3, columns=4, bound=2)
    assert claim.sensitivity == sg.privacy.Sensitivity(6, 12, 3)
    for seed in range(20):
        run, empty = (claim.start(key(seed), SilentNoise()) for _ in range(2))
        run.update(["tea"], [-9])
        move = run.release().cells - empty.release().cells
        assert sorted(move.ravel().tolist()) == [-2] * 3 + [0] * 9
        assert (np.count_nonzero(move, axis=1) == 1).all()


def test_noise_costs_exactly_the_loss() -> None:
    assert CountMin(sg.Pure("1/2"), rows=3).distribution == DiscreteLaplace(Fraction(6))
    assert CountMin(sg.Pure("1/2"), rows=3, unit=sg.Event(replace=True)).distribution == DiscreteLaplace(Fraction(12))


def test_bias_of_the_minimum_is_computed_and_grows_with_rows() -> None:
    found = {}
    for rows in (1, 5, 17):
        claim, errors = CountMin(sg.Pure(1), rows=rows, columns=2**12), []
        for seed in range(20):
            release = claim.start(key(seed), InsecureNoise(seed)).release()
            errors += (release.estimate(range(100))).tolist()
        found[rows] = release.noise_bias
        assert np.mean(errors) == pytest.approx(release.noise_bias, abs=0.15 * rows)
    assert abs(found[1]) < 1e-9
    assert found[17] < 4 * found[5] < -20  # more rows make it worse


def test_count_sketch_is_closer_at_equal_size() -> None:
    items = zipf_items(2, 20_000, 10**5)
    truth = count_all(items)
    asked = sorted(truth, key=lambda item: -truth[item])[:100]
    exact = np.array([truth[item] for item in asked])
    least, middle = [], []
    for seed in range(5):
        run = CountMin(sg.Pure(1), columns=4096).start(key(seed), InsecureNoise(seed))
        run.update(items)
        least.append(run.release().estimate(asked) - exact)
        claim = CountSketch(sg.Pure(1), horizon=1, rows=5, columns=4096)
        middle.append(claim.start(key(seed), InsecureNoise(seed)).step(items).estimate(asked).value - exact)
    assert abs(np.mean(middle)) < 1.5
    assert abs(np.mean(least)) > 3


def seized(claim: CountMin, plain: bool) -> Any:
    """A look at the memory in the middle, and the release; a plain Count-Min has bare cells."""

    def run(items: Any) -> Any:
        made = claim.start(KEY, SilentNoise() if plain else None)
        made.update(items)
        look = np.frombuffer(made.save()[-32 - 8 * claim.rows * claim.columns : -32], np.int64).tolist()
        if plain:
            made.source = InsecureNoise(sum(items))
        return [*look, *made.release().cells.ravel().tolist()]

    return CallableSubject("seized", run, sg.Pure(1), [Pair("one item", [1, 2], [1])])


@pytest.mark.statistical
def test_a_look_at_a_plain_sketch_shows_who_was_there() -> None:
    claim = CountMin(sg.Pure(1), rows=2, columns=2, pan_private=True)
    assert audit(seized(claim, plain=True), runs=150).is_condemned
    assert not audit(seized(claim, plain=False), runs=150).is_condemned


def test_a_run_is_released_once_and_can_be_moved() -> None:
    claim = CountMin(sg.Pure(1), rows=3, columns=8, pan_private=True)
    noise = InsecureNoise(1)
    run = claim.start(None, noise)
    run.update(["tea", None, float("nan")])
    twin = claim.load(run.save(), noise.clone())
    assert (run.release().cells == twin.release().cells).all()
    with pytest.raises(LimitExceededError, match="releases must be at most 1, got 1 more"):
        run.release()
    with pytest.raises(ValueError, match="noise must keep no key in a pan-private run, got SecureNoise"):
        claim.start(noise=sg.noise.SecureNoise())


@pytest.mark.parametrize("pan_private", [True, False])
def test_a_released_run_takes_no_further_items(pan_private: bool) -> None:
    """The released cells are zeros without noise: a look would show who came afterwards."""
    claim = CountMin(sg.Pure(1), rows=2, columns=8, pan_private=pan_private)
    run = claim.start(KEY)
    run.release()
    for made in (run, claim.load(run.save())):
        with pytest.raises(LimitExceededError, match="releases must be at most 1, got 1 more"):
            made.update(["tea"])
        assert not np.frombuffer(made.save()[-32 - 128 : -32], np.int64).any()


def test_an_older_save_shares_its_draws_with_the_lost_run() -> None:
    """Limit of the claim: with its release, a look at the lost run pays for an event twice."""
    claim = CountMin(sg.Pure(1), rows=2, columns=8, pan_private=True)
    lost = claim.start(KEY)
    loaded = claim.load(lost.save(), SilentNoise())
    lost.update(["tea"])
    look = np.frombuffer(lost.save()[-32 - 128 : -32], np.int64).reshape(2, 8)
    assert sorted((look - loaded.release().cells).ravel().tolist()) == [0] * 14 + [1] * 2


def test_expected_minimum_of_one_cell_is_zero() -> None:
    assert expect_minimum(DiscreteLaplace(3), 1) == pytest.approx(0, abs=1e-12)
    assert expect_minimum(DiscreteLaplace(3), 5, 2) < expect_minimum(DiscreteLaplace(3), 5) < 0


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"loss": sg.Zcdp(1)}, "loss must be Pure and above 0"),
        ({"rows": 65}, "rows must be at most 64, got 65"),
        ({"unit": sg.Tick(2)}, "unit must be an Event that does not move"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        CountMin(**{"loss": sg.Pure(1), **settings})
    with pytest.raises(ValueError, match="alpha and beta must be between 0 and 1"):
        CountMin.from_error(sg.Pure(1), alpha=2, beta=0.1)
