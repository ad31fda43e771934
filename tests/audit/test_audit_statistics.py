"""Statistics are acquitted in counters and published values. Broken twins are condemned."""

from fractions import Fraction
from typing import Any

import pytest

import streamgauge as sg
from streamgauge.audit import PublishedSubject, StatisticSubject, audit, measure
from streamgauge.audit.subjects.statistics import SyntheticEvent, record_vectors, to_user_columns, to_value_columns
from streamgauge.statistics import Axis, Count, Distinct, Histogram, Mean, RangeCount, Sum, TopK
from streamgauge.testing.noise import InsecureNoise
from tests.support.statistics_catalogue import CASES, RUNNING, Case

SURE = 1 - 1e-9
WEAK = (sg.Pure(1), sg.Zcdp(Fraction(1, 8)))
WINDOWED = [
    case for case in CASES if dict(case.settings)["window"] != "running" and case.loss.currency != "approximate"
]
STATED = ("Count", "TopK")  # also tried in (epsilon, delta), which is stored as a rho
ATTACKED = [case for case in RUNNING if case.loss.currency != "approximate" or case.cls.__name__ in STATED]
UNITS = [sg.Event(replace=True), sg.WEvent(2), sg.User(2, 2), sg.Tick(2)]


def given(case: Case) -> Any:
    return lambda rows: {case.kind.column: case.kind.columns(rows)}


def claimed(case: Case) -> Any:
    """Build the claim with a loss large enough to measure."""
    loss = next((weak for weak in WEAK if isinstance(weak, type(case.loss))), case.loss)
    return Case(case.cls, loss, case.settings).claim(3)


@pytest.mark.one_of_each("case")
@pytest.mark.parametrize("case", ATTACKED, ids=str)
def test_released_vectors_of_counters_are_acquitted(case: Case) -> None:
    claim = claimed(case)
    subject = StatisticSubject(claim, 3, case.kind.carried, 2, given(case), noise=InsecureNoise(21))
    verdict = audit(subject, 2000, SURE)
    assert not verdict.is_condemned, verdict.reasons
    assert verdict.exact is not None
    assert verdict.exact > 0.3 * verdict.claimed


@pytest.mark.one_of_each("case")
@pytest.mark.parametrize("case", WINDOWED, ids=str)
def test_worst_window_loses_the_claim(case: Case) -> None:
    """Windows `each`, sliding and decayed, with all neighbours of the carried values."""
    verdict = audit(StatisticSubject(claimed(case), 3, case.kind.carried, 2, given(case)), runs=0)
    assert not verdict.is_condemned, verdict.reasons
    assert verdict.exact == pytest.approx(verdict.claimed) or isinstance(case.claim(3).unit, sg.User)


@pytest.mark.parametrize("window", ["each", "sliding 2", "decayed 4", "decayed polynomial 1.5"])
def test_windows_are_acquitted_by_experiment_and_nearly_reached(window: str) -> None:
    claim = Sum(sg.Pure(1), lower=0, upper=2, step=1, window=window, horizon=3)
    for kind in (StatisticSubject, PublishedSubject):
        found = measure(kind(claim, 3, (2, 9), noise=InsecureNoise(26)), 10_000)
        assert 0.6 < found.amount <= 1


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_other_units_are_acquitted_by_computation(unit: Any) -> None:
    for claim, carried, read in (
        (Sum(sg.Pure(1), lower=-3, upper=2, step=1, horizon=4, unit=unit), (-9, 1, None), to_value_columns),
        (Histogram(sg.Zcdp(1), domain=("a", "b"), horizon=4, unit=unit), ("a", "b", "c"), to_value_columns),
        (Distinct(sg.Pure(1), universe=9, horizon=4, unit=unit), (0, 1, 20), to_user_columns),
    ):
        verdict = audit(StatisticSubject(claim, 4, carried, 2, read), runs=0)
        assert not verdict.is_condemned, verdict.reasons


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("unit", [sg.Event(), sg.Event(replace=True), sg.WEvent(2), sg.Tick(2)], ids=repr)
@pytest.mark.parametrize("window", ["running", "each"])
def test_distinct_loses_its_full_claim_to_returning_users(unit: Any, window: str, hashed: bool) -> None:
    claim = Distinct(sg.Pure(1), universe=9, horizon=3, unit=unit, window=window, hashed=hashed)
    subject = StatisticSubject(claim, 3, (0, 1, 20), 2, to_user_columns)
    verdict = audit(subject, runs=0)
    assert verdict.exact == pytest.approx(1)
    assert ("which comes again" in str(verdict.worst)) == (window == "running")


class Forgetful(Distinct):
    """A broken twin: calibrated as if the user of a removed first event had no other events."""

    @property
    def counter_unit(self) -> Any:
        return sg.Event()


def test_distinct_twin_that_ignores_returning_users_is_condemned() -> None:
    claim = Forgetful(sg.Pure(1), universe=9, horizon=3)
    subject = StatisticSubject(claim, 3, (0, 1), 1, to_user_columns, noise=InsecureNoise(27))
    verdict = audit(subject, 10_000, SURE)
    assert verdict.exact == pytest.approx(2)
    assert len(verdict.reasons) == 2


@pytest.mark.parametrize(
    ("claim", "carried"),
    [
        (Count(sg.Pure(1), horizon=3), (1, None)),
        (Mean(sg.Zcdp(Fraction(1, 8)), lower=0, upper=4, step=1, horizon=3), (0, 4, 99)),
        (Histogram(sg.Pure(1), domain=("a", "b"), horizon=3), ("a", "b", "c")),
        (TopK(sg.Pure(1), k=1, domain=("a", "b"), horizon=3), ("a", "b")),
        (TopK(sg.Approx(1, 0.01), k=1, horizon=3), ("a", "b")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_published_statistics_are_acquitted(claim: Any, carried: Any) -> None:
    verdict = audit(PublishedSubject(claim, 3, carried, noise=InsecureNoise(22)), 4000, SURE)
    assert not verdict.is_condemned, verdict.reasons


def test_published_range_count_is_measured_below_its_claim() -> None:
    claim = RangeCount(sg.Pure(1), axes={"x": Axis(0, 4, 1)}, branching=2, horizon=3)
    subject = PublishedSubject(claim, 3, (0, 1.5, 99), lambda rows: {"values": {"x": rows}}, noise=InsecureNoise(28))
    found = measure(subject, 10_000)
    assert 0.5 < found.amount <= 1


class Unclamped(Sum):
    """A broken twin: values are not clamped."""

    def build_increments(self, rows: Any, groups: Any, width: int, memory: Any) -> Any:
        marks = super().build_increments(rows, groups, width, memory)
        return type(marks)(marks.events, marks.places, marks.amounts * 3)


def test_a_sum_that_is_not_clamped_is_condemned_twice() -> None:
    claim = Unclamped(sg.Pure(1), lower=0, upper=2, step=1, horizon=3)
    for kind in (StatisticSubject, PublishedSubject):
        verdict = audit(kind(claim, 3, (2, 9), noise=InsecureNoise(23)), 4000, SURE)
        assert verdict.is_condemned
        assert verdict.measurement is not None
        assert verdict.measurement.amount > 1


class Eager(TopK):
    """A broken twin: every key with an event is published."""

    def release(self, sums: Any) -> Any:
        table = sums.memory
        table.publish(table.find_eligible(self.at_least, self.window_ticks))
        return super().release(sums)


def test_top_k_twin_without_threshold_is_condemned() -> None:
    honest, broken = (kind(sg.Approx(1, 0.01), k=1, horizon=3) for kind in (TopK, Eager))
    for claim, guilty in ((honest, False), (broken, True)):
        found = measure(PublishedSubject(claim, 3, ("a", "b"), noise=InsecureNoise(24)), 2000, SURE)
        assert (found.amount > 1) == guilty


def test_tiny_noise_is_measured_below_its_claim() -> None:
    for loss in (sg.Pure(2000), sg.Zcdp(10**9)):
        subject = StatisticSubject(Count(loss, horizon=3), 3, (1,), noise=InsecureNoise(25))
        verdict = audit(subject, 1000, SURE)
        assert verdict.measurement is not None
        assert 0 < verdict.measurement.amount < verdict.claimed


def test_recorded_vectors_are_the_counts_of_each_tick() -> None:
    claim = Histogram(sg.Pure(1), domain=("a", "b"), horizon=2)
    stream = ((SyntheticEvent("a"), SyntheticEvent("b", 1), SyntheticEvent("z")), (SyntheticEvent("b"),))
    assert record_vectors(claim, stream, 2, to_value_columns).tolist() == [[1, 0], [0, 0], [0, 1], [1, 0]]
