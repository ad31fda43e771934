"""Laws of pan-privacy: memory and all releases together lose no more than the claim.

The view of an intruder is linear in data and draws. The tests find both maps by probing and compute the least cost
of hiding an event (see `audit.exact.linear`). They do not use the mechanism's own matrices, so they find
any register without noise.
"""

import gc
from dataclasses import fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from streamgauge import Pure, User
from streamgauge.audit.subjects.pan_private import Intruder, compute_worst_to, worst_intrusion
from streamgauge.continual import Kary, LinearMechanism
from streamgauge.noise import EphemeralNoise, Ints, Keystream, Noise, SecureNoise
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.catalogue import CASES, Case
from tests.support.saved_states import live_state

TICKS = 9
PRIVATE = [case for case in CASES if case.claim(TICKS).pan_private and case.loss.currency != "approximate"]
every_private_case = pytest.mark.parametrize("case", PRIVATE, ids=str)


def declared(claim: LinearMechanism[Any]) -> float:
    return float(claim.charged_loss.amount) * (1 + 1e-6)


@pytest.mark.one_of_each("case")
@every_private_case
def test_unannounced_intrusion_loses_at_most_the_claim(case: Case) -> None:
    for ticks in (1, 3, 4, TICKS):
        claim = case.claim(ticks)
        assert worst_intrusion(claim, ticks).amount <= declared(claim)


@pytest.mark.one_of_each("case")
@every_private_case
def test_additional_announced_intrusions_satisfy_claim_or_are_refused(case: Case) -> None:
    claim = case.claim(TICKS)
    if claim.intrusion_refusal():
        run = claim.start(1, SilentNoise())
        with pytest.raises(TypeError, match="must be"):
            run.intrude()
        assert run.step([1]).shape == (1,)
        return
    for peek, request in ((3, 6), (6, 3), (4, 4), (1, 8)):
        assert compute_worst_to(claim, TICKS, Intruder(peek, request)).amount <= declared(claim)


def test_all_but_segments_survive_announced_intrusions() -> None:
    refusing = {case.cls.__name__ for case in PRIVATE if case.claim(TICKS).intrusion_refusal()}
    assert refusing == {"Segments"}


@every_private_case
def test_intrusions_widen_the_error_as_predicted(case: Case) -> None:
    claim, width = case.claim(TICKS), 4000
    run = claim.start(width, InsecureNoise(21))
    run.feed(np.ones((4, width), int))
    if claim.intrusion_refusal():
        return
    run.intrude()
    assert run.intrusions == 1
    truth = claim.strategy(TICKS).workload @ np.ones(TICKS)
    for tick in range(4, TICKS):
        errors = run.step(np.ones(width, int)) - truth[tick]
        ratio = (errors**2).mean() / run.stddev() ** 2
        assert abs(ratio - 1) < 6.5 * np.sqrt(8 / width)
        assert run.stddev() >= claim.stddev(tick + 1) * (1 - 1e-12)
    assert claim.load(run.save()).intrusions == 1


@every_private_case
def test_a_pan_private_run_keeps_no_keystream_and_no_noise(case: Case) -> None:
    run = case.claim(TICKS).start(2)
    run.step([1, 2])
    known = {id(array) for array in arrays(live_state(run))}
    queue: list[Any] = [value for name, value in vars(run).items() if name != "mechanism"]
    while queue:
        thing = queue.pop()
        if id(thing) in known or isinstance(thing, type | ModuleType | FunctionType):
            continue
        known.add(id(thing))
        assert not isinstance(thing, Keystream | SecureNoise | bytearray)
        assert not isinstance(thing, np.ndarray) or thing.dtype != np.int64, "noise in stock?"
        queue += gc.get_referents(thing)
    assert type(run.source) is EphemeralNoise
    with pytest.raises(ValueError, match=r"^noise must keep no key in a pan-private run, got SecureNoise$"):
        case.claim(TICKS).start(1, SecureNoise())


def arrays(state: Any) -> list[np.ndarray]:
    if isinstance(state, np.ndarray):
        return [state]
    parts = (getattr(state, f.name) for f in fields(state)) if is_dataclass(state) else ()
    return [array for part in parts for array in arrays(part)]


def test_user_units_are_refused_under_pan_privacy() -> None:
    for case in PRIVATE:
        with pytest.raises(ValueError, match=r"^pan_private must be False for users"):
            case.claim(TICKS, unit=User(1, 3))


def test_run_without_pan_privacy_refuses_announced_intrusion() -> None:
    for case in CASES:
        claim = case.claim(TICKS)
        if not claim.pan_private:
            with pytest.raises(TypeError, match="must be"):
                claim.start(1, SilentNoise()).intrude()


class BareRegisters(Kary):
    """A broken twin: registers that begin without noise, as the source papers have them."""

    def initial(self, width: int, noise: Noise) -> Any:
        return super().initial(width, SilentNoise())


class StaleRelease(Kary):
    """A broken twin: the release adds no noise to that of the register."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Ints:
        level = self.level(state.tick + 1)
        keep = state.total + state.entries[level]
        release = super().step(state, values, noise)
        return keep + values if level else release


@pytest.mark.parametrize("twin", [BareRegisters, StaleRelease])
def test_a_broken_twin_is_caught(twin: type[Kary]) -> None:
    claim = twin(Pure(1), horizon=TICKS, branching=3, pan_private=True)
    worst = worst_intrusion(claim, TICKS)
    assert worst.floor > declared(claim)
