"""The search of a hostile reader: for every look into memory, the cheapest shift of draws that hides an event.

A linear program over each joint view of releases and memory: looks in and after any tick, alone, with an announced
intrusion, or in a run that crashes in its open tick and goes on from its last save. Mechanisms are found by looking.
The counterexamples that such a search has found are broken twins: each must cost more than its claim.
"""

from collections.abc import Iterator
from itertools import product
from math import inf
from typing import Any

import pytest

import streamgauge as sg
from streamgauge.audit.broken.noise_ahead import CursorTree, LateLeaf, LiveHandOver, SavedRest, SummedTree
from streamgauge.audit.subjects.pan_private import Intruder, compute_worst_to
from streamgauge.continual import TwoPart
from tests.support.catalogue import CASES, Case

TICKS, MORE_TICKS = 3, 8
OPEN_CASES = [case for case in CASES if case.claim(TICKS).open_ticks]
every_open_case = pytest.mark.parametrize("case", OPEN_CASES, ids=str)
TWO_BY_TWO: dict[str, Any] = {"horizon": 8, "radices": (2, 2), "open_ticks": True}


def list_intruders(ticks: int) -> Iterator[Intruder]:
    """Yield every look, alone and with every announced intrusion or crash."""
    for peek, is_open in product(range(1, ticks + 1), (False, True)):
        yield Intruder(peek, has_open_ticks=is_open)
        for other in range(1, ticks + 1):
            yield Intruder(peek, announced_tick=other, has_open_ticks=is_open)
            if is_open:
                yield Intruder(peek, lost_tick=other, has_open_ticks=True)


def check_looks(case: Case, ticks: int, every: int) -> None:
    claim = case.claim(ticks)
    declared = float(claim.charged_loss.amount) * (1 + 1e-6)
    for intruder in [*list_intruders(ticks)][::every]:
        assert compute_worst_to(claim, ticks, intruder).amount <= declared, intruder


def test_law_finds_every_mechanism_with_open_ticks() -> None:
    found = {case.cls.__name__ for case in OPEN_CASES}
    named = {case.cls.__name__ for case in CASES if hasattr(case.cls, "open_ticks") and case.claim(4).pan_private}
    assert {"Hybrid", "Kary", "TwoPart", "WindowSum"} <= found <= named


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@every_open_case
def test_no_look_costs_more_than_the_claim(case: Case, every: int) -> None:
    check_looks(case, TICKS, every)


@pytest.mark.slow
def test_crashes_and_looks_of_eight_ticks_cost_the_claim() -> None:
    claim = TwoPart(sg.Pure(1), **TWO_BY_TWO)
    for peek, lost in product(range(1, MORE_TICKS + 1), range(1, 7)):
        intruder = Intruder(peek, lost_tick=lost, has_open_ticks=True)
        assert compute_worst_to(claim, MORE_TICKS, intruder).amount <= 1 + 1e-6


TWINS: dict[str, tuple[Any, Intruder, float]] = {
    "leaf added at the end, look in tick 3": (LateLeaf, Intruder(3, has_open_ticks=True), inf),
    "crash in tick 2, rest goes on": (SavedRest, Intruder(2, lost_tick=2, has_open_ticks=True), 2),
    "draws behind a cursor": (CursorTree, Intruder(1), inf),
    "sums of the draws of a block": (SummedTree, Intruder(1), inf),
    "live state handed over": (LiveHandOver, Intruder(2, announced_tick=4), inf),
}


@pytest.mark.parametrize("name", TWINS)
def test_counterexamples_cost_what_was_found(name: str) -> None:
    cls, intruder, loss = TWINS[name]
    assert compute_worst_to(cls(sg.Pure(1), **TWO_BY_TWO), 4, intruder).floor == pytest.approx(loss)
    assert compute_worst_to(TwoPart(sg.Pure(1), **TWO_BY_TWO), 4, intruder).amount <= 1 + 1e-6
