"""Past-private memory: a look costs nothing for the events before it; each broken twin shows them."""

from fractions import Fraction
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit.broken.noise_ahead import retain_draws
from streamgauge.audit.exact.costs import compute_cost
from streamgauge.audit.exact.probe import probe_view
from streamgauge.audit.subjects.pan_private import Intruder, observe_group
from streamgauge.continual import BridgeTree, EndlessBridge, PastBridge
from streamgauge.continual.trees.past_noise import NoiseAhead
from streamgauge.noise import EphemeralNoise, SecureNoise
from streamgauge.testing.noise import InsecureNoise
from tests.support.saved_states import live_state

TICKS = 8
ONE = sg.Pure(1)


def costs(claim: Any, peek: int) -> list[float]:
    """Return the least cost of each event's shift, for a look after a tick."""
    view = probe_view(partial(observe_group, claim, Intruder(peek)), TICKS)
    assert not view.nonlinear_streams
    return [compute_cost(view, move, "pure").upper_bound for move in np.eye(TICKS)]


@pytest.mark.parametrize("radices", [(), (2, 2), (3,), (4, 3)])
@pytest.mark.parametrize("peek", [0, 1, 3, 4, 5, 8])
def test_look_shows_no_more_of_the_past_than_releases(radices: tuple[int, ...], peek: int) -> None:
    found = costs(PastBridge(ONE, horizon=TICKS, radices=radices), peek)
    assert max(found[:peek], default=0) <= 1 + 1e-6


def test_events_after_a_look_have_known_noise() -> None:
    assert max(costs(PastBridge(ONE, horizon=TICKS, radices=(4,)), 2)[2:]) == inf


def test_endless_runs_keep_the_past_as_well() -> None:
    claim = PastBridge(ONE, unit=sg.Event())
    assert max(costs(claim, 5)[:5]) <= 1 + 1e-6


class CursorBridge(PastBridge):
    """A broken twin: draws of begun blocks stay behind a cursor."""

    @cached_property
    def noise_ahead(self) -> NoiseAhead:
        return retain_draws(super().noise_ahead)


def test_draws_behind_a_cursor_show_exact_events() -> None:
    claim = CursorBridge(ONE, horizon=TICKS, radices=(2, 2))
    assert max(max(costs(claim, peek)[:peek]) for peek in range(1, TICKS + 1)) == inf


def test_counts_have_the_error_of_bridges_with_exact_sums() -> None:
    for tick in (1, 7, 100, 1000):
        one, other = PastBridge(ONE, horizon=1000), BridgeTree(ONE, horizon=1000)
        assert one.stddev(tick) == pytest.approx(other.stddev(tick))
        assert PastBridge(ONE).stddev(tick) == pytest.approx(EndlessBridge(ONE).stddev(tick))


def test_no_exact_sum_and_no_key_is_in_memory() -> None:
    claim = PastBridge(ONE, horizon=TICKS)
    run = claim.start()
    run.step([10**9])
    assert type(run.source) is EphemeralNoise
    state = live_state(run)
    assert set(state.__dataclass_fields__) == {"tick", "sum", "ahead"}
    with pytest.raises(ValueError, match=r"^noise must keep no key in a past-private run, got SecureNoise$"):
        claim.start(1, SecureNoise())
    with pytest.raises(
        ValueError, match=r"^pan_private must be False for PastBridge \(its memory is the noise to come"
    ):
        PastBridge(ONE, horizon=TICKS, pan_private=True)


def test_epochs_end_without_rest_and_continue_with_other_radices() -> None:
    run = PastBridge(ONE).start(5, InsecureNoise(3))
    spans = set()
    for tick in range(300):
        run.step(np.ones(5, int))
        state = live_state(run)
        spans.add(state.sum.span)
        epoch = run.mechanism.noise_ahead.epoch(tick + 1)
        assert tick + 1 != epoch.end or not state.sum.rest.any()
    assert len(spans) == 3


def test_blocks_whose_noise_does_not_fit_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match=r"radices must have a product below 2\^61 noises, got \(32768, 32768\)$"):
        PastBridge(sg.Pure("1/1000000"), horizon=TICKS, radices=(2**15, 2**15))
    assert PastBridge(sg.Pure("1/1000000"), horizon=2**40).memory() < 1000
    for horizon in (9, None):
        with pytest.raises(ValueError, match="loss must leave noise that 64 bits hold 1024 times, got Pure"):
            PastBridge(sg.Pure(Fraction(1, 2**52)), horizon=horizon)
    assert PastBridge(sg.Pure(Fraction(1, 2**36))).stddev(10**6) > 2**36


def test_epochs_are_the_same_in_every_order_of_questions() -> None:
    """Threads share a claim. One that stores an older tuple of epochs changes no boundary."""
    ticks = (3_000, 70, 40_000, 1, 500)
    claims = [PastBridge(sg.Pure(1)).noise_ahead for _ in range(2)]
    first = claims[0].__dict__
    found = []
    for tick in ticks:
        epoch = claims[0].epoch(tick)
        first["_epochs"] = first["_epochs"][:1]  # another thread's
        found.append((epoch.begin, epoch.end, epoch.number))
    assert found == [(each.begin, each.end, each.number) for each in map(claims[1].epoch, ticks)]
