"""Every pan-private estimator is enumerated, memory and releases together, and its claim holds exactly."""

from fractions import Fraction
from functools import partial
from itertools import permutations, product
from math import inf, log
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import catalogue
from streamgauge.audit.attack.measure import measure
from streamgauge.audit.broken import ExperimentNoise
from streamgauge.audit.broken.memory import build_user_table_twins
from streamgauge.audit.catalogue import AuditRequest, list_entries
from streamgauge.audit.exact.kernels import (
    ESTIMATE_ACT,
    INTRUDE_ACT,
    LOOK_ACT,
    ActSchedule,
    ActStreams,
    ForkedChance,
    find_worst_seizure,
    list_branches,
)
from streamgauge.audit.report import audit
from streamgauge.audit.subjects import user_tables as seized_claims
from streamgauge.audit.subjects.user_tables import (
    UserTableKernel,
    UserTableSubject,
    build_one_slot_counter,
    build_schedule,
    clip_laplace,
    compute_row_law,
)
from streamgauge.noise import DiscreteLaplace
from streamgauge.panprivate import ContinualDensity, Density, ModularIncidence
from streamgauge.panprivate.sign_bits import worst_ratio
from streamgauge.testing.noise import InsecureKeystream
from tests.support.panprivate_catalogue import estimators_found

ONE = sg.Pure(1)
SURE = 1 - 1e-9
SUBJECTS = {
    entry.title: entry.subject
    for name in seized_claims.find_estimators()
    for entry in list_entries(name)
    if entry.kind == "seized"
}
TIGHT = {  # estimators with a claim that an intruder can use in full
    "Density",
    "Density(releases=2)",
    "Density(hashed=True)",
    "Density(hashed=before)",
    "ContinualDensity(counter=items cut)",
    "ContinualDensity(counter=items cut, intrusions=1)",
    "Incidence(exactly=1)",
    "Incidence(exactly=1, intrusions=1)",
    "ModularIncidence(modulus=3)",
    "ModularIncidence(modulus=2, releases=2)",
    "ContinualDensity",
    "ContinualDensity(law=paper)",
    "ContinualDensity(intrusions=1)",
    "ContinualDensity(hashed=True, universe=2)",
    "HeavyFraction(at_least=2, hashed=True)",
}


def test_every_estimator_of_the_package_is_in_the_catalogue() -> None:
    assert set(seized_claims.find_estimators().values()) == set(estimators_found())
    assert {title.partition("(")[0] for title in SUBJECTS} == set(seized_claims.find_estimators())
    assert set(seized_claims.find_estimators()) <= set(catalogue.list_names())


def test_estimator_without_settings_in_the_catalogue_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setitem(seized_claims.CLASS_SETTINGS, "CroppedMean", ({},))
    with pytest.raises(TypeError, match=r"^settings of CroppedMean must be in the catalogue, got none of"):
        list(list_entries("CroppedMean"))


def test_estimators_are_attacked_in_their_own_unit_alone() -> None:
    assert not list(list_entries("Density", AuditRequest(unit=sg.WEvent(3))))
    assert not list(list_entries("Density", AuditRequest(losses=(sg.Zcdp(1),))))


@pytest.mark.one_of_each("title")
@pytest.mark.parametrize("title", [title for title in SUBJECTS if "Multiplicative" not in title])
def test_no_state_and_releases_together_are_likelier_than_claimed(title: str) -> None:
    verdict = audit(SUBJECTS[title], 0)
    assert verdict.is_proved
    assert not verdict.is_condemned
    assert verdict.exact is not None
    assert verdict.exact > (0.9999 if title in TIGHT else 0.5)


@pytest.mark.parametrize("twins", list(build_user_table_twins(ExperimentNoise())), ids=lambda twins: twins.name)
def test_broken_tables_are_condemned_by_computation(twins: Any) -> None:
    """The tests of mutants measure them as well."""
    broken, honest = audit(twins.broken, 0), audit(twins.honest, 0)
    assert broken.is_condemned
    assert broken.exact is not None
    assert broken.exact <= twins.truth
    assert honest.is_proved


def one_by_one(claim: Any, order: tuple[str, ...]) -> float:
    """Return the worst loss of one order of acts, from the full law of each stream."""
    kernel, places = UserTableKernel(claim), range(len(order))
    laws = []
    for comes in product(((), (0,)), repeat=len(order)):
        acts = [act for place in places for act in (comes[place], order[place])]
        laws.append(compute_row_law(kernel, acts))
    assert all(one.keys() == other.keys() for one, other in product(laws, repeat=2))
    return max(log(max(one[row] / other[row] for row in one)) for one, other in product(laws, repeat=2))


@pytest.mark.parametrize(
    "claim",
    [
        Density(ONE, universe=1, intrusions=1),
        Density(ONE, universe=1, law="paper", intrusions=1, split="1/2"),
        ModularIncidence(ONE, universe=1, modulus=2, intrusions=1, split="1/2"),
    ],
    ids=["density", "paper", "residues"],
)
def test_worst_seizure_equals_enumeration_of_all_orders(claim: Any) -> None:
    orders = {order: one_by_one(claim, order) for order in permutations((LOOK_ACT, INTRUDE_ACT, ESTIMATE_ACT))}
    assert UserTableSubject(claim).worst().amount == max(orders.values())
    assert max(orders.values()) <= 1


def test_estimate_before_announced_intrusion_loses_more_than_after_it() -> None:
    """Users after an intrusion have a less informative law, so a late estimate loses less."""
    claim = Density(ONE, universe=1, intrusions=1)
    before, after = (
        one_by_one(claim, order)
        for order in ((LOOK_ACT, ESTIMATE_ACT, INTRUDE_ACT), (LOOK_ACT, INTRUDE_ACT, ESTIMATE_ACT))
    )
    assert before == pytest.approx(0.8637, abs=1e-4)
    assert after == pytest.approx(0.6452, abs=1e-4)


def test_half_noise_is_found_by_estimates_before_an_intrusion() -> None:
    twins = next(each for each in build_user_table_twins(ExperimentNoise()) if "half the noise" in each.name)
    assert isinstance(twins.broken, UserTableSubject)
    assert audit(twins.broken, 0).exact == pytest.approx(1.7504, abs=1e-4)
    last = (ESTIMATE_ACT, LOOK_ACT, INTRUDE_ACT, ESTIMATE_ACT)
    assert one_by_one(twins.broken.claim, last) < 1


def test_noise_after_scaling_loses_nearly_four_times_its_claim() -> None:
    verdict = audit(next(build_user_table_twins(ExperimentNoise())).broken, 0)
    assert verdict.exact == pytest.approx(3.8286, abs=1e-4)


def test_counter_with_cut_items_loses_its_claim_exactly() -> None:
    """The loss is tight: the counter reveals a sign as much as its loss permits."""
    counter = build_one_slot_counter()
    chances = [
        sum(way.weight for way in list_branches(partial(counted, counter, sign)) if way.result) for sign in (0, 1)
    ]
    assert 0.999999 < log(chances[1] / chances[0]) <= counter.loss.amount
    assert chances[0] + chances[1] == 1


def counted(counter: Any, sign: int, chance: Any) -> int:
    return int(counter.step(counter.initial(1, chance), np.array([sign]), chance)[0])


@pytest.mark.parametrize("title", ["ContinualDensity", "ContinualDensity(intrusions=1)"])
def test_continual_density_code_loses_as_much_as_its_signs(title: str) -> None:
    subject = SUBJECTS[title]
    assert isinstance(subject, UserTableSubject)
    claim = subject.claim
    assert subject.worst().amount == log(worst_ratio(claim.signs, claim.intrusions))


@pytest.mark.parametrize(
    ("claim", "free"),
    [
        (Density(ONE, universe=1), ((), (0,))),
        (ModularIncidence(ONE, universe=1, modulus=3), ((), (0,))),
        (ContinualDensity(ONE, universe=1), ((-1,), (0,))),
    ],
    ids=["density", "residues", "continual"],
)
def test_two_unannounced_intrusions_break_every_claim(claim: Any, free: tuple[Any, ...]) -> None:
    """A changed entry shows an event between two views, so no claim allows two intrusions."""
    kernel = UserTableKernel(claim)
    once, twice = (
        find_worst_seizure(kernel, ActSchedule({LOOK_ACT: looks}), list(product(free, repeat=2)))[0] for looks in (1, 2)
    )
    assert log(once) <= 1
    assert twice == inf


class Buffered:
    """A table that stores the users of one tick in every few exactly until the next tick."""

    def __init__(self, every: int, tick: int) -> None:
        self.every, self.tick = every, tick

    def initial(self) -> dict[Any, Any]:
        return {(0, None): Fraction(1)}

    def step(self, state: Any, value: Any) -> dict[Any, Any]:
        ticks = state[0] + 1
        return {((ticks, value if ticks % self.every == self.tick else None), None): Fraction(1)}


@pytest.mark.parametrize(("every", "tick"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_memory_that_is_exact_after_any_tick_is_caught(every: int, tick: int) -> None:
    acts = build_schedule(ContinualDensity(ONE, universe=1))
    assert find_worst_seizure(Buffered(every, tick), acts, list(product([(-1,), (0,)], repeat=2)))[0] == inf


def test_branches_of_chance_are_distinct_and_sum_to_one() -> None:
    def act(chance: ForkedChance) -> tuple[int, ...]:
        first = chance.coins(Fraction(1, 3), 1)
        return (*first.tolist(), *chance.uniform(3, 1 + int(first[0])).tolist(), *chance.coins(Fraction(1), 1).tolist())

    ways = list(list_branches(act))
    assert sum(way.weight for way in ways) == 1
    assert len({way.result for way in ways}) == len(ways) == 3 + 9


def test_cut_noise_has_the_law_of_the_noise() -> None:
    law = DiscreteLaplace(Fraction(3, 2))
    found = clip_laplace(1, law.scale, (-2, 4))
    assert sum(found.values()) == 1
    assert float(found[3]) == pytest.approx(law.pmf(2))
    assert float(found[4]) == pytest.approx(sum(law.pmf(k) for k in range(3, 60)))


class Scaled(Density):
    """Noise that is not added draw by draw."""

    def release(self, state: Any, noise: Any) -> Any:
        return np.count_nonzero(state.entries) + 3 * self.noise.draw(noise, 1)


def test_release_other_than_noisy_sums_is_refused() -> None:
    kernel = UserTableKernel(Scaled(ONE, universe=1))
    with pytest.raises(TypeError, match=r"^release must be sums under noise"):
        find_worst_seizure(kernel, ActSchedule({ESTIMATE_ACT: 1}), [((), ())])


def test_real_runs_have_the_law_that_was_enumerated() -> None:
    """Runs of another claim fail, so the statistic has power."""
    claim, louder = (ModularIncidence(sg.Pure(e), universe=1, modulus=3, split="1/2") for e in (2, 1))
    streams = ActStreams(((0,), (0,), ESTIMATE_ACT), ((), (), ESTIMATE_ACT), 1)
    source = ExperimentNoise(InsecureKeystream("rows"))
    subject = UserTableSubject(claim, streams=streams, noise=source)
    pair = subject.pairs()[0]
    law = compute_row_law(UserTableKernel(claim), pair.one)
    ends = UserTableKernel(claim).sum_bounds

    def distance(of: Any) -> float:
        rows = UserTableSubject(of, streams=streams, noise=source).views(pair.one, 800)
        rows[:, 1:] = np.clip(rows[:, 1:], *ends)
        observed, counts = np.unique(rows, axis=0, return_counts=True)
        expected = {row: float(weight) * 800 for row, weight in law.items()}
        missing = sum(expected.values()) - sum(expected[tuple(row)] for row in observed.tolist())
        known = zip(observed.tolist(), counts.tolist(), strict=True)
        return missing + sum((count - expected[tuple(row)]) ** 2 / expected[tuple(row)] for row, count in known)

    assert distance(claim) < len(law) + 7 * np.sqrt(2 * len(law)) + 30
    assert distance(louder) > 4 * len(law)


def test_the_attack_shows_much_of_a_claim_and_no_more() -> None:
    claim = ModularIncidence(sg.Pure(3), universe=1, modulus=2, split="9/10")
    subject = UserTableSubject(claim, noise=ExperimentNoise(InsecureKeystream("attack")))
    shown = measure(subject, 800, SURE)
    assert 0.4 * 3 < shown.amount <= 3
