"""Adaptive mechanisms are acquitted by experiment, and if possible by computation."""

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest

from streamgauge import Pure, WEvent
from streamgauge.adaptive.pegasus.grouper import Grouper
from streamgauge.adaptive.pegasus.hierarchy import PegasusHierarchy
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.adaptive.sparse.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.sparse.sparse_counter import SparseCounter
from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.distribution import BudgetDistribution
from streamgauge.adaptive.w_event.sample import WEventSample
from streamgauge.audit import catalogue
from streamgauge.audit.attack.measure import measure
from streamgauge.audit.broken.adaptive import ExactDecisionDistribution, FixedThresholdGrouper, UnclosedGrouper
from streamgauge.audit.report import audit
from streamgauge.audit.subjects.adaptive import (
    AdaptiveMechanismSubject,
    ThresholdQueries,
    find_worst_window,
    log_cdf,
    log_pattern_probability,
    trace_queries,
    worst_grouping,
)
from streamgauge.audit.subjects.adversaries import AdversarySubject, Chase
from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.noise.coerce import Bools
from streamgauge.postprocess import Hierarchy
from streamgauge.testing.noise import InsecureNoise

SURE = 1 - 1e-9
TREE = Hierarchy([-1, 0, 0])
W = WEvent(3)


def grouper(kind: type[Grouper] = Grouper, epsilon: str = "1/10", theta: str = "1/10") -> Grouper:
    return kind(Fraction(epsilon), Fraction(theta), 256)


def answers(counts: tuple[int, ...]) -> dict[frozenset[int], float]:
    """Return the probability of every possible pattern of refused ticks."""
    found = {}
    for flags in product([False, True], repeat=len(counts) - 1):
        refused = frozenset(tick for tick, no in enumerate(flags, 2) if no)
        if all(tick - 1 not in refused for tick in refused):  # closed at once: the next opens
            found[refused] = exp(log_pattern_probability(grouper(epsilon="1"), counts, refused))
    return found


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (3, 0, 9, 1, 1)], ids=str)
def test_probabilities_of_all_patterns_sum_to_one(counts: tuple[int, ...]) -> None:
    assert sum(answers(counts).values()) == pytest.approx(1, abs=1e-9)


def test_patterns_come_as_often_as_was_computed() -> None:
    counts, width = (3, 0, 9, 1, 1), 40_000
    code, noise = grouper(epsilon="1"), InsecureNoise(5)
    state = code.initial(width)
    began: list[Bools] = [code.step(state, np.full(width, count), noise) for count in counts]
    shown = np.array(began).T
    for refused, chance in answers(counts).items():
        opens = [t == 1 or t in refused or t - 1 in refused for t in range(1, len(counts) + 1)]
        rate = (shown == opens).all(axis=1).mean()
        assert abs(rate - chance) < 6.5 * np.sqrt(chance * (1 - chance) / width)


def test_pattern_traces_one_threshold_and_query_margins() -> None:
    found = trace_queries(grouper(epsilon="1", theta="7"), (4, 0, 0, 5), frozenset([3]))
    assert [(asks.margins, asks.refusals) for asks in found] == [([7 - 4, 7 - 5], [False, True]), ([], [])]
    assert {asks.threshold_scale for asks in found} == {Fraction(4)}
    assert found[0].query_scales == [Fraction(8)] * 2


def test_log_cdf_matches_discrete_laplace_tail() -> None:
    law = DiscreteLaplace(Fraction(3, 2))
    for k in (-40, -1, 0, 5, 40):
        assert float(log_cdf(law.scale, np.array(k))) == pytest.approx(log(law.tail(-k)), rel=1e-9)
    assert ThresholdQueries(Fraction(2)).log_probability() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("epsilon", ["1/10", "2"])
def test_an_honest_grouper_keeps_its_epsilon_and_nearly_needs_it(epsilon: str) -> None:
    worst = float(worst_grouping(grouper(epsilon=epsilon)).amount) / float(Fraction(epsilon))
    assert 0.5 < worst <= 1


@pytest.mark.parametrize(("kind", "least"), [(UnclosedGrouper, 1.05), (FixedThresholdGrouper, 2)])
def test_grouper_without_close_or_with_fixed_threshold_exceeds_epsilon(kind: type[Grouper], least: float) -> None:
    assert float(worst_grouping(grouper(kind)).amount) > least * 0.1


def test_grouper_that_ignores_its_noise_is_refused() -> None:
    class Deaf(Grouper):
        def _find_uneven(self, state: object, requested: Ints, noise: object) -> Bools:
            super()._find_uneven(state, requested, noise)  # type: ignore[arg-type]
            return np.zeros(len(state.length), np.bool_)  # type: ignore[attr-defined]

    with pytest.raises(ValueError, match=r"^grouper must answer by its noise, got one answer for all$"):
        log_pattern_probability(grouper(Deaf), (0, 0), frozenset())


@pytest.mark.parametrize("kind", [BudgetDistribution, BudgetAbsorption, WEventSample])
def test_no_window_exceeds_claim_for_any_decisions(kind: type) -> None:
    for w in (1, 2, 4):
        claim = kind(Pure(1), unit=WEvent(w), bound=2)
        assert Fraction(1, 2) < find_worst_window(claim, 7).amount <= 1


EXPERIMENTS = [
    Pegasus(Pure(1)),
    PegasusHierarchy(Pure(1), hierarchy=TREE),
    CascadingBuffers(Pure(1), horizon=3, levels=1, kappa=1),
    SparseCounter(Pure(1), threshold=3, signed=False),
    BudgetAbsorption(Pure(1), unit=W),
]


@pytest.mark.parametrize("claim", EXPERIMENTS, ids=lambda claim: type(claim).__name__)
def test_an_attack_does_not_condemn(claim: object) -> None:
    peek = 2 if isinstance(claim, CascadingBuffers) else None
    how = {"peek": peek, "noise": InsecureNoise(16), "max_pairs": 2}
    subject = AdaptiveMechanismSubject(claim, 3, **how)  # type: ignore[arg-type]
    verdict = audit(subject, 400 if isinstance(claim, BudgetAbsorption) else 1500, SURE)
    assert not verdict.is_condemned, verdict.reasons


def test_views_have_all_that_is_released() -> None:
    subject = AdaptiveMechanismSubject(Pegasus(Pure(1)), 3, noise=InsecureNoise(1))
    pair, arrays = subject.pairs()[0], 4  # value, centre, noisy, started
    assert subject.views(pair.one, 5).shape == (5, 3 * arrays + 3)
    assert (pair.one - pair.other).sum() == 1
    shown = AdaptiveMechanismSubject(CascadingBuffers(Pure(1), horizon=3, levels=1, kappa=1), 3, 2)
    assert shown.views(shown.pairs()[0].one, 5).shape[1] > shown.views(shown.pairs()[0].one, 5).shape[0]


def test_views_of_parallel_trees_are_separate_runs() -> None:
    subject = AdaptiveMechanismSubject(PegasusHierarchy(Pure(1), hierarchy=TREE), 2, noise=InsecureNoise(1))
    views = subject.views(subject.pairs()[0].other, 50)
    assert len(views) == 50
    assert len(np.unique(views[:, :6], axis=0)) > 10


def test_too_wide_noise_is_reported_as_not_computed() -> None:
    worst = worst_grouping(grouper(epsilon="1/1000000"))
    assert (worst.floor, worst.is_decided) == (0, False)
    assert worst.computed_from.startswith("not computed: noise of scale 4e+06")


def test_pegasus_is_computed_for_all_steps_of_its_unit() -> None:
    claims = Pegasus(Pure("1/3")), Pegasus(Pure(1), unit=WEvent(3))
    one, three = (AdaptiveMechanismSubject(claim, 3).worst() for claim in claims)
    assert three.floor == pytest.approx(3 * one.floor)
    assert 0.9 < three.floor <= 1


def test_searched_lower_bound_leaves_verdict_undecided() -> None:
    verdict = audit(AdaptiveMechanismSubject(Pegasus(Pure(1)), 2, noise=InsecureNoise(2), max_pairs=1), 400, SURE)
    assert verdict.is_undecided
    assert not verdict.is_proved
    assert verdict.computed_text == "0.9397-infinite"


def test_adaptive_mechanisms_are_listed_by_name() -> None:
    titles = [entry.title for entry in catalogue.list_entries("BudgetDistribution")]
    assert titles == [
        "BudgetDistribution",
        "BudgetDistribution, pan-private",
        "BudgetDistribution, adaptively",
        "BudgetDistribution, windows of 3",
    ]
    requested = catalogue.AuditRequest(3, (Pure("1/3"),), WEvent(2))
    (entry,) = catalogue.list_entries("WEventSample", requested)
    assert (entry.subject.loss, entry.subject.ticks) == (Pure("1/3"), 3)  # type: ignore[attr-defined]


CHOSEN = (0, 1, 5)  # counts that the adversary can choose


def pattern_losses(kind: type[Grouper], ticks: int) -> list[float]:
    """Return the losses of all patterns, streams of chosen counts and moves of one count."""
    code, found = grouper(kind, epsilon="1", theta="2"), []
    for counts in product(CHOSEN, repeat=ticks):
        for refused in [pattern for pattern in answers(counts) if len(pattern) < 2]:
            still = log_pattern_probability(code, counts, refused)
            for tick in range(ticks):
                moved = (*counts[:tick], counts[tick] + 1, *counts[tick + 1 :])
                found.append(abs(still - log_pattern_probability(code, moved, refused)))
    return found


def test_adversary_that_chooses_counts_from_groups_loses_at_most_epsilon() -> None:
    """Exact: each pattern fixes one chosen stream, so enumerating streams is complete."""
    losses = pattern_losses(Grouper, 3)
    assert 0.1 < max(losses) <= 1


def test_pattern_probabilities_under_adaptive_counts_sum_to_one() -> None:
    """Each count depends on the earlier answers."""
    code, total = grouper(epsilon="1"), 0.0
    for refused in (frozenset[int](), frozenset([2]), frozenset([3])):
        counts = (3, 9, 0 if 2 in refused else 7)
        total += exp(log_pattern_probability(code, counts, refused))
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", [BudgetDistribution, BudgetAbsorption, Pegasus, SparseCounter])
def test_adversary_with_view_of_releases_condemns_no_mechanism(kind: type) -> None:
    subject = AdversarySubject(kind(Pure(1)), 2, noise=InsecureNoise(17))
    verdict = audit(subject, 200 if kind.HAS_JOINT_GROUPS else 1000, SURE)  # type: ignore[attr-defined]
    assert not verdict.is_condemned, verdict.reasons


def test_exact_decision_is_detected_by_an_adversary_alone() -> None:
    claim, runs = ExactDecisionDistribution(Pure(1)), 400
    fixed = measure(AdaptiveMechanismSubject(claim, 2, noise=InsecureNoise(18), max_pairs=3), runs, SURE)
    chosen = audit(AdversarySubject(claim, 2, noise=InsecureNoise(18), max_pairs=3), runs, SURE)
    assert fixed.amount <= 1
    assert chosen.is_condemned
    assert chosen.measurement is not None
    assert chosen.measurement.pair == "counts 4 above the last release"


def test_an_adversary_that_moves_more_than_a_unit_is_refused() -> None:
    subject = AdversarySubject(Pegasus(Pure(1)), 3, adversaries=[Chase(0, (1, 2))])
    with pytest.raises(ValueError, match=r"^adversary must move no more ticks than one unit does, got more$"):
        subject.views(subject.pairs()[0].one, 5)


def test_computed_loss_of_blocks_equals_that_of_ticks() -> None:
    plain, blocks = (AdaptiveMechanismSubject(Pegasus(Pure(1), **how), 2).worst() for how in ({}, {"block": 2}))
    assert blocks.floor == pytest.approx(plain.floor)
