"""The main privacy law of statistics: the worst move of a tick's vector, enumerated, equals the sensitivity.

Each possible event is added to others, in every group, with every value that it can carry. The worst move must
equal the sensitivity to which the counter's noise is calibrated. The counter itself has its own
laws.
"""

import re
from dataclasses import fields
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.noise import DiscreteLaplace
from streamgauge.privacy import Sensitivity
from tests.support.saved_states import live_state
from tests.support.statistics_catalogue import WIDTH, Case, every_running_case, given, stream

UNITS = [sg.Event(), sg.Event(replace=True), sg.WEvent(2), sg.User(2, 1), sg.Tick(2)]
HORIZON = 6


def totals(case: Case, claim: Any, rows: list[Any], groups: list[int]) -> np.ndarray:
    return claim.compute_totals(case.kind.columns(rows), groups, WIDTH).astype(object)


def moves(case: Case, claim: Any, unit: Any) -> list[np.ndarray]:
    """Return all moves by one unit of a tick that also has other events."""
    before = stream(case, 1, events=0 if isinstance(unit, sg.Tick) else 5)
    base = totals(case, claim, before.rows, before.groups.tolist())

    def with_events(events: list[tuple[Any, int]]) -> np.ndarray:
        rows, groups = [e[0] for e in events], [e[1] for e in events]
        return totals(case, claim, before.rows + rows, before.groups.tolist() + groups)

    one = list(product(case.kind.carried, range(WIDTH)))
    if unit.replace and getattr(claim, "public_counts", False):
        pairs = [((a, g), (b, g)) for (a, g), (b, h) in product(one, one) if g == h]
        return [with_events([a]) - with_events([b]) for a, b in pairs]
    if unit.replace:
        return [with_events([a]) - with_events([b]) for a, b in product(one, one)]
    return [with_events([event] * unit.events) - base for event in one]


def farthest(found: list[np.ndarray]) -> tuple[Any, Any, int]:
    return (
        max(abs(move).sum() for move in found),
        max((move * move).sum() for move in found),
        max(int((move != 0).sum()) for move in found),
    )


def public(case: Case) -> list[dict[str, Any]]:
    return [{}, {"public_counts": True}] if "public_counts" in case.cls.__dataclass_fields__ else [{}]


def claimed(case: Case, unit: Any, more: dict[str, Any]) -> Any:
    """Return the claim, or None if it cannot have this unit. A refusal must give a reason."""
    try:
        return case.claim(HORIZON, unit=unit, **more)
    except ValueError as refusal:
        if str(refusal).startswith("max_groups must be 1 unless units are Users"):
            return None
        raise


@pytest.mark.one_of_each("case")
@every_running_case
@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_the_worst_move_of_one_unit_is_the_reach(case: Case, unit: Any) -> None:
    for more in public(case) if unit.replace else [{}]:
        claim = claimed(case, unit, more)
        if claim is None or claim.counter_unit != unit:
            continue  # units of several ticks have their own laws
        l1, l2_squared, coordinates = farthest(moves(case, claim, unit))
        reach: Sensitivity = claim.tick_sensitivity
        assert (l1, l2_squared) == (reach.l1, reach.l2_squared)
        assert coordinates <= reach.coordinates


@every_running_case
def test_worst_loss_of_a_short_stream_equals_the_claim(case: Case) -> None:
    claim = case.claim(HORIZON)
    strategy = claim.counter.strategy(HORIZON)
    if claim.counter_unit != claim.unit:
        return
    worst = Fraction(0)
    for move, tick in product(moves(case, claim, claim.unit), range(1, HORIZON + 1)):
        column = strategy.column(tick)
        worst = max(
            worst, sum((cost(row, d, move) for row, d in zip(column, strategy.distributions, strict=True)), Fraction(0))
        )
    declared = claim.counter.loss.additive_loss.amount
    assert declared * Fraction(99, 100) <= worst <= declared
    assert claim.counter.loss.additive_loss == claim.loss.additive_loss or claim.counter.loss.currency == "pure"


def cost(row: Fraction, distribution: Any, move: np.ndarray) -> Fraction:
    """Return the cost of a move under one row's noise, summed for all numbers of the vector."""
    if isinstance(distribution, DiscreteLaplace):
        return abs(row) * int(abs(move).sum()) / distribution.scale
    return row**2 * int((move * move).sum()) / (2 * distribution.parameter)


@every_running_case
def test_understated_sensitivity_is_caught(case: Case) -> None:
    """The broken twin: a claim with half its sensitivity."""
    claim = case.claim(HORIZON)
    if claim.counter_unit != claim.unit:
        return
    l1, l2_squared, _ = farthest(moves(case, claim, claim.unit))
    assert l1 > claim.tick_sensitivity.l1 / 2
    assert l2_squared > claim.tick_sensitivity.l2_squared / 2


@every_running_case
def test_pan_private_run_stores_only_registers_and_published_values(case: Case) -> None:
    """It stores no user, no key and no exact number."""
    windows = ["running", "each"] if "each" in case.kind.windows else ["running"]
    for window in windows:
        claim = private(case, window)
        if claim is None:
            continue
        assert claim.counter.pan_private
        run = claim.start(WIDTH)
        release = run.step(**given(case, claim, stream(case, 1, events=50)))
        state = live_state(run)
        assert state.users is None
        assert state.public is None
        view = {array.tobytes() for array in arrays(state.memory) if array.size}
        known = [*published(claim, release), *arrays(claim.initial_memory(WIDTH))]
        assert view <= {array.tobytes() for array in known}


def private(case: Case, window: str) -> Any:
    """Return the pan-private claim, or None. A refusal must give a reason."""
    try:
        return case.claim(HORIZON, window=window, pan_private=True)
    except ValueError as refusal:
        if re.match(r"(pan_private must be False|settings must be such that some mechanism keeps)", str(refusal)):
            return None
        raise


def arrays(memory: Any) -> list[np.ndarray]:
    return [value for f in fields(memory) if isinstance(value := getattr(memory, f.name), np.ndarray)]


def published(claim: Any, release: Any) -> list[np.ndarray]:
    """Return a release as cells. Only Extremes stores its releases."""
    if not hasattr(release, "minimum"):
        return []
    cells = [np.searchsorted(claim.axis.edges, edge) for edge in (release.minimum, release.maximum)]
    unseen = [
        np.where(release.reliable[i], cell, last)
        for i, (cell, last) in enumerate(zip(cells, (claim.axis.cells, -1), strict=True))
    ]
    return [cell.astype(np.int64) for cell in unseen]
