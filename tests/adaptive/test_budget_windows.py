"""For all data, no window of w ticks spends more than epsilon, by requested noise.

An adversary decides every comparison, by noise that is far above or far below all thresholds. Budgets are
exact fractions, so that "no more than epsilon" needs no tolerance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from streamgauge import Pure, WEvent
from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.distribution import BUDGET_PARTS, BudgetDistribution
from streamgauge.adaptive.w_event.republish import RepublishingMechanism
from streamgauge.adaptive.w_event.sample import WEventSample
from streamgauge.adaptive.w_event.uniform import WEventUniform
from tests.support.budget_twins import Forgetful, Greedy, Loud, Rounding
from tests.support.commanded import FAR, CommandedNoise, charged

EPSILON = Fraction(7, 10)
NOTHING = np.zeros(2, np.int64)
both = pytest.mark.parametrize("kind", [BudgetDistribution, BudgetAbsorption])


def claim_of(kind: type[Any], w: int) -> Any:
    return kind(Pure(EPSILON), unit=WEvent(w), bound=3)


def charges(claim: Any, decisions: Sequence[bool]) -> list[Fraction]:
    """Return the spending of each tick for these comparisons; `spent` must agree."""
    state, spent = claim.initial(2, CommandedNoise()), []
    for decided in decisions:
        noise = CommandedNoise(FAR if decided else -FAR)
        claim.step(state, NOTHING, noise)
        spent.append(charged(claim, noise))
        assert claim.spent_budget(state) == sum(spent[-claim.w :])
    return spent


def worst_cost(spent: list[Fraction], w: int) -> Fraction:
    return max(sum(spent[t : t + w], Fraction(0)) for t in range(max(1, len(spent) - w + 1)))


@both
@given(w=st.integers(1, 12), decisions=st.lists(st.booleans(), min_size=100, max_size=300))
@examples(max_examples=20)
def test_no_comparisons_make_a_window_spend_above_epsilon(kind: type[Any], w: int, decisions: list[bool]) -> None:
    assert worst_cost(charges(claim_of(kind, w), decisions), w) <= EPSILON


@both
@given(w=st.integers(1, 12), lengths=st.lists(st.integers(0, 25), min_size=8, max_size=14))
@examples(max_examples=20)
def test_alternating_rest_and_publication_spends_at_most_epsilon(kind: type[Any], w: int, lengths: list[int]) -> None:
    runs = (np.full(length, number % 2 == 1) for number, length in enumerate(lengths))
    assert worst_cost(charges(claim_of(kind, w), np.concatenate(list(runs)).tolist()), w) <= EPSILON


@both
@pytest.mark.parametrize("w", [17, 40])
def test_long_windows_spend_at_most_epsilon(kind: type[Any], w: int) -> None:
    """Publish always, late, at irregular ticks, or in bursts almost a window apart."""
    ticks = np.arange(5 * w)
    for decisions in (ticks >= 0, ticks >= 2 * w, ticks * 7 % 11 < 2, ticks % (w - 1) < 3):
        assert worst_cost(charges(claim_of(kind, w), decisions.tolist()), w) <= EPSILON


def histories(claim: RepublishingMechanism, ticks: int) -> Iterator[list[Fraction]]:
    """Yield the spending of all sequences of comparisons."""
    stack: list[tuple[Any, list[Fraction]]] = [(claim.initial(2, CommandedNoise()), [])]
    while stack:
        state, spent = stack.pop()
        if len(spent) == ticks:
            yield spent
            continue
        for decided in (FAR, -FAR):
            after, noise = replace(state), CommandedNoise(decided)
            claim.step(after, NOTHING, noise)
            stack.append((after, [*spent, charged(claim, noise)]))


@both
@pytest.mark.parametrize("w", [1, 2, 3, 4])
def test_all_short_sequences_of_comparisons_keep_epsilon(kind: type[Any], w: int) -> None:
    worst = max(worst_cost(spent, w) for spent in histories(claim_of(kind, w), 8))
    whole = Fraction(1) if kind is BudgetAbsorption else 1 - Fraction(1, 2**w)
    assert worst == EPSILON / 2 + EPSILON / 2 * whole


@pytest.mark.parametrize("w", range(1, 13))
def test_absorption_reaches_epsilon_exactly(w: int) -> None:
    always = charges(claim_of(BudgetAbsorption, w), [True] * 3 * w)
    rested = charges(claim_of(BudgetAbsorption, w), [False] * 2 * w + [True] * 3 * w)
    assert worst_cost(always, w) == worst_cost(rested, w) == EPSILON


def test_distribution_spends_all_but_half_a_part() -> None:
    spent = worst_cost(charges(claim_of(BudgetDistribution, 60), [True] * 60), 60)
    assert spent == EPSILON - EPSILON / (2 * BUDGET_PARTS)


def test_budgets_are_those_of_the_paper() -> None:
    fresh = [c - EPSILON / 6 for c in charges(claim_of(BudgetDistribution, 3), [True] * 4)]
    assert fresh == [EPSILON / 2 * Fraction(part) for part in ("1/2", "1/4", "1/8", "5/16")]
    decisions = [True, False, False, True, True, True, False, True]
    parts = [(c * 8 / EPSILON) - 1 for c in charges(claim_of(BudgetAbsorption, 4), decisions)]
    assert parts == [1, 0, 0, 3, 0, 0, 0, 2]


@pytest.mark.parametrize(("kind", "w"), [(WEventUniform, 1), (WEventUniform, 5), (WEventSample, 5)])
def test_every_full_window_of_uniform_and_sample_spends_epsilon(kind: type[Any], w: int) -> None:
    claim, spent = claim_of(kind, w), []
    state = claim.initial(2, CommandedNoise())
    for _ in range(3 * w):
        noise = CommandedNoise()
        claim.step(state, NOTHING, noise)
        spent.append(charged(claim, noise))
    assert {sum(spent[t : t + w]) for t in range(2 * w + 1)} == {EPSILON}


@pytest.mark.parametrize(("twin", "w"), [(Forgetful, 3), (Greedy, 4), (Rounding, 12), (Loud, 2)])
def test_a_broken_twin_spends_too_much(twin: type[Any], w: int) -> None:
    claim = claim_of(twin, w)
    sequences = ([True] * 40, [False] * 2 * w + [True] * 40)
    assert max(worst_cost(charges(claim, decisions), w) for decisions in sequences) > EPSILON
