"""Attacks on the whole view of an intruder in a pan-private run.

Computation and experiment both condemn the broken twins."""

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import PanPrivateSubject, audit, worst_announced, worst_intrusion
from streamgauge.audit.exact.probe import draw_evenly
from streamgauge.audit.subjects.pan_private import ExposedStreams, Intruder, compute_worst_to, find_state_layout
from streamgauge.continual import Kary, Segments
from streamgauge.noise import Noise
from streamgauge.testing.noise import InsecureKeystream, InsecureNoise, SilentNoise

SURE = 1 - 1e-9
TICKS = 6


def claim(loss: Any = sg.Pure(1), kind: type[Kary] = Kary, **more: Any) -> Kary:  # noqa: B008 - frozen
    return kind(loss, horizon=TICKS, branching=2, pan_private=True, **more)


def subject(claim: Kary, **settings: Any) -> PanPrivateSubject:
    """The same experiment every time."""
    noise, entropy = InsecureNoise(31), InsecureKeystream("lots")
    return PanPrivateSubject(claim, TICKS, noise=noise, entropy=entropy, **settings)


class BareRegisters(Kary):
    """A broken twin: registers that begin without noise, as the source papers have them."""

    def initial(self, width: int, noise: Noise) -> Any:
        return super().initial(width, SilentNoise())


class StirredOnce(Kary):
    """A broken twin: an announced intrusion is answered with noise after the hand-over only."""

    def intrude(self, state: Any, noise: Noise) -> Any:
        shown = Kary.intrude(self, state, SilentNoise())
        self._add_register_noise(state, noise)
        return shown


@pytest.mark.slow
def test_intrusion_at_any_tick_loses_at_most_the_claim() -> None:
    for loss in (sg.Pure(1), sg.Zcdp(Fraction(1, 8))):
        assert float(worst_intrusion(claim(loss), TICKS).amount) == pytest.approx(float(loss.amount))
        assert float(worst_announced(claim(loss), 4).amount) <= float(loss.amount) * (1 + 1e-6)


def test_windows_of_ticks_are_hidden_from_an_intruder_too() -> None:
    for unit in (sg.WEvent(2), sg.Event(replace=True, moves=True)):
        assert 0.5 < float(worst_intrusion(claim(unit=unit), TICKS).amount) <= 1 + 1e-6


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    "settings",
    [{}, *({"intruder": each} for each in (Intruder(None, 4), Intruder(2, 4))), {"has_random_peek": True}],
    ids=str,
)
def test_an_honest_run_is_acquitted_by_experiment(settings: dict[str, Any]) -> None:
    verdict = audit(subject(claim(), **settings), 20_000, SURE)
    assert not verdict.is_condemned, verdict.reasons
    assert verdict.exact == pytest.approx(1)


@pytest.mark.parametrize("by_lot", [False, True])
def test_register_without_noise_is_condemned_by_computation_and_experiment(by_lot: bool) -> None:
    broken = claim(kind=BareRegisters)
    verdict = audit(subject(broken, has_random_peek=by_lot), 20_000, SURE)
    assert verdict.exact == inf
    assert len(verdict.reasons) == 2


def test_noise_added_only_after_announced_intrusion_is_detected() -> None:
    """An intruder that saw the earlier memory learns the counts between the two views."""
    broken = claim(kind=StirredOnce)
    assert compute_worst_to(broken, TICKS, Intruder(1, 3)).floor == inf
    assert compute_worst_to(claim(), TICKS, Intruder(1, 3)).amount <= 1 + 1e-6


def test_views_hold_releases_and_memory_in_order() -> None:
    silent = PanPrivateSubject(claim(), TICKS, Intruder(2), noise=SilentNoise())
    shown = silent.views(ExposedStreams(np.array([[1, 0, 0, 1, 0, 0]]), 2), 3)
    releases = [1, 1, 1, 2, 2, 2]
    assert shown[0, :2].tolist() == releases[:2]
    assert shown[0, -4:].tolist() == releases[2:]
    assert shown.shape[1] == 6 + len(find_state_layout(claim()).read_groups(claim().initial(3, SilentNoise()), 3))
    assert (shown == shown[0]).all()
    assert not silent.has_varying_shared_state


def test_verdict_reports_number_of_computed_ticks() -> None:
    verdict = audit(subject(claim(), max_computed_ticks=3), runs=0)
    assert verdict.computed_text.endswith("(3 of 6 ticks)")
    assert verdict.to_json()["computed_part"] == "3 of 6 ticks"
    assert verdict.to_json()["computed_from"] == "the code of 3 ticks was tried"
    assert "memory seen after tick" in verdict.to_json()["exact_pair"]
    assert "only" not in str(audit(subject(claim()), runs=0).worst)


def test_refused_announced_intrusions_raise() -> None:
    refusing = PanPrivateSubject(Segments(sg.Pure(1), horizon=4), 4, Intruder(None, 2))
    with pytest.raises(TypeError, match="must be"):
        refusing.views(ExposedStreams(np.zeros((1, 4), np.int64), 1), 5)


def test_drawn_ticks_are_uniform() -> None:
    counts = np.bincount(draw_evenly(InsecureKeystream("lots"), 70_000, 7), minlength=7)
    assert abs(counts - 10_000).max() < 700
