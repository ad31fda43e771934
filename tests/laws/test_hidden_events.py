"""An event that its draws hide changes no bit of a release, in steps and in feeds.

Laws on matrices compare with a tolerance, so a float that rounds an exact sum passes them. Here each pure counter runs
twice on commanded draws: with an event and the draws that hide it, and without both.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from streamgauge.audit.broken.bridges import FloatWindows
from streamgauge.continual import Hybrid, TwoPart, WindowBridge
from streamgauge.continual.trees.hybrid import list_inner_names
from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.privacy import Pure, Zcdp
from streamgauge.testing.noise import InsecureNoise
from tests.support.catalogue import CASES, Case
from tests.support.saved_states import live_state

TICKS, PAIRS = 64, 20


class ListedNoise:
    """Noise that hands out listed draws in order."""

    def __init__(self, draws: Ints) -> None:
        self.draws, self.used = draws, 0

    def laplace(self, scale: Any, size: int) -> Ints:
        self.used += size
        return self.draws[self.used - size : self.used].copy()


def list_pure_cases() -> Iterator[Case]:
    """Yield cases whose measurements are sums of items with whole weights, under Laplace noise."""
    for case in CASES:
        claim = case.claim(TICKS)
        if claim.pan_private or not all(
            isinstance(law, DiscreteLaplace) for law in claim.strategy(TICKS).distributions
        ):
            continue
        if build_rows(claim) is not None:
            yield case


def build_rows(claim: Any) -> Ints | None:
    """Return the measured sums in draws' order, or None if their weights are not whole."""
    strategy = claim.strategy(TICKS)
    rows = strategy.measure * np.array(strategy.grids)[:, None]
    return np.round(rows).astype(np.int64)[list(strategy.draws)] if np.allclose(rows, np.round(rows)) else None


def release(claim: Any, draws: Ints, values: Ints) -> list[float]:
    """Return all releases of a run that takes steps first, then feeds."""
    noise, half = ListedNoise(draws), TICKS // 2
    state = claim.initial(1, noise)
    found = [float(claim.step(state, values[tick : tick + 1], noise)[0]) for tick in range(half)]
    return found + [float(each) for each in claim.feed(state, values[half:, None], noise)[:, 0]]


def count_changes(claim: Any) -> int:
    """Return how many releases change if an event comes with the draws that hide it."""
    rows, changed = build_rows(claim), 0
    assert rows is not None
    for seed in range(PAIRS):
        rng = np.random.default_rng(seed)
        draws, values = rng.integers(-30, 30, len(rows)), rng.integers(0, 3, TICKS)
        event = np.zeros(TICKS, np.int64)
        event[rng.integers(0, TICKS)] = 1
        without, hidden = release(claim, draws, values), release(claim, draws - rows @ event, values + event)
        changed += sum(a != b for a, b in zip(without, hidden, strict=True))
    return changed


PURE_CASES = list(list_pure_cases())


@pytest.mark.parametrize("case", PURE_CASES, ids=str)
def test_hidden_event_changes_no_bit_of_a_release(case: Case) -> None:
    assert count_changes(case.claim(TICKS)) == 0


def test_hidden_event_changes_no_bit_of_any_window() -> None:
    claim = WindowBridge(Pure(1), horizon=TICKS, window=30, radices=(13,))
    rows = build_rows(claim)
    assert rows is not None
    for seed in range(PAIRS):
        rng = np.random.default_rng(seed)
        draws, values, event = rng.integers(-30, 30, len(rows)), rng.integers(0, 3, TICKS), np.zeros(TICKS, np.int64)
        event[rng.integers(0, TICKS)] = 1
        found = []
        for each, fed in ((draws, values), (draws - rows @ event, values + event)):
            state, noise = claim.initial(1, ListedNoise(each)), ListedNoise(each)
            parts = [claim.feed_windows(state, part[:, None], noise, (30, 7, 1)) for part in np.split(fed, [20, 27])]
            found.append(np.concatenate([*parts, claim.window_sum(state, 11)[None, :, None].repeat(3, 1)]))
        assert np.array_equal(*found)


def test_law_covers_windows_whose_noise_is_no_binary_fraction() -> None:
    claims = [case.claim(TICKS) for case in PURE_CASES]
    assert {6, 9} <= {claim.bridge.span for claim in claims if isinstance(claim, WindowBridge)}


def test_twin_that_adds_exact_sums_to_floats_is_caught() -> None:
    assert count_changes(FloatWindows(Pure(1), horizon=TICKS, window=30, radices=(13,))) > 0


def list_open_hybrids() -> Iterator[Hybrid]:
    """Yield hybrids of all inner counters whose ticks may be open."""
    for loss in (Pure(1), Zcdp("1/2")):
        for name in list_inner_names():
            try:
                claim = Hybrid(loss, pan_private=True, open_ticks=True, first=8, inner=name)
                claim.start()
            except (TypeError, ValueError):
                continue
            yield claim


OPEN_HYBRIDS = list(list_open_hybrids())


def test_open_hybrids_have_trees_inside_under_both_losses() -> None:
    assert {claim.loss for claim in OPEN_HYBRIDS} == {Pure(1), Zcdp("1/2")}


def list_register_types(claim: Hybrid) -> set[Any]:
    """Return the types of the open registers, after `rerandomize` too."""
    run, found = claim.start(3, InsecureNoise(1)), set[Any]()
    run.feed(np.ones((5, 3), np.int64))
    for act in (lambda: None, run.rerandomize):
        act()
        run.add_partial([1, 0, 2])
        state = live_state(run)
        found |= {state.open_sum.dtype, state.past_release.dtype, state.released_inner.dtype}
    return found


@pytest.mark.parametrize("claim", OPEN_HYBRIDS, ids=repr)
def test_open_registers_of_hybrids_stay_whole_numbers(claim: Hybrid) -> None:
    """Exact values are added to them, so they are never floats."""
    assert list_register_types(claim) == {np.dtype(np.int64)}


class FloatHybrid(Hybrid):
    """A broken twin: two parts inside, whose float releases become the register that exact values are added to."""

    def _build_counter(self, horizon: int) -> Any:
        return TwoPart(super()._build_counter(horizon).loss, horizon=horizon, open_ticks=True)


def test_twin_with_float_registers_is_caught() -> None:
    twin = FloatHybrid(Pure(1), pan_private=True, open_ticks=True, first=8)
    assert np.dtype(np.float64) in list_register_types(twin)


def test_hybrid_refuses_inner_counters_with_float_registers() -> None:
    for name in ("TwoPart", "PastBridge"):
        with pytest.raises(ValueError, match="inner must be one of"):
            Hybrid(Pure(1), inner=name)
