"""Counts and sums by adaptive counters: values and bounds in units of the data."""

from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from math import inf, isnan
from typing import Any, ClassVar

import numpy as np
import pytest

from streamgauge import Event, Pure, Tick, User, WEvent, Zcdp
from streamgauge.adaptive import (
    AdaptiveMechanism,
    AdaptiveRelease,
    BudgetAbsorption,
    BudgetDistribution,
    CascadingBuffers,
    Pegasus,
    PegasusHierarchy,
    SparseCounter,
    UnknownErrorBound,
    WEventSample,
    WEventUniform,
)
from streamgauge.continual import Kary, LinearMechanism
from streamgauge.continual.validation import Bound, check_settings
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Loss, Unit
from streamgauge.statistics import (
    Axis,
    Count,
    Distinct,
    Extremes,
    Histogram,
    Mean,
    MechanismConfig,
    Quantile,
    RangeCount,
    Statistic,
    Sum,
    Summary,
    TopK,
    Variance,
)
from streamgauge.statistics import estimate as adapted
from streamgauge.statistics.mechanism_config import require_linear
from streamgauge.testing.noise import InsecureNoise, SilentNoise

BOUNDS: dict[str, Any] = {"lower": 0, "upper": 10, "step": Fraction(1, 2)}
TREE = Hierarchy([2, 2, None])
EACH = {Pegasus: {}, PegasusHierarchy: {"hierarchy": TREE}}
OF_WINDOWS = {kind: {} for kind in (WEventUniform, WEventSample, BudgetDistribution, BudgetAbsorption)}
RUNNING = {SparseCounter: {}, CascadingBuffers: {}}
BLOCK = np.array([[[3, 0]], [[4, 1]], [[0, 0]], [[40, 2]], [[41, 0]], [[40, 1]]])


@dataclass(slots=True)
class Ticks:
    tick: int


@dataclass(frozen=True)
class Stubborn(AdaptiveMechanism[Ticks]):
    """Release 7 always. The centre is within 2 of the truth, except at every third tick."""

    ERROR_DEPENDS_ON: ClassVar[str] = "how far all is from 7"
    WINDOWS: ClassVar[tuple[str, ...]] = ("each",)
    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = field(default_factory=Event)

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)

    @property
    def distribution(self) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(1))

    def initial(self, width: int, noise: Noise) -> Ticks:
        return Ticks(0)

    def step(self, state: Ticks, values: Ints, noise: Noise) -> AdaptiveRelease:
        state.tick += 1
        centre = values.astype(np.float64)
        return AdaptiveRelease(np.full(len(values), 7.0), centre, (self.error_bound(state.tick),))

    def error_bound(self, tick: int) -> Any:
        return UnknownErrorBound() if tick % 3 == 0 else CoverageCase()


@dataclass(frozen=True)
class CoverageCase:
    stddev: float = 1.0

    def half_width(self, confidence: float) -> float:
        return 2.0


def claims() -> list[Any]:
    one = [(kind, settings, "each", Event()) for kind, settings in EACH.items()]
    one += [(kind, settings, "each", WEvent(3)) for kind, settings in OF_WINDOWS.items()]
    one += [(kind, settings, "running", Event()) for kind, settings in RUNNING.items()]
    return [
        pytest.param(
            Count(Pure(1), horizon=50, window=window, unit=unit, mechanism=MechanismConfig.build(kind, **settings)),
            id=kind.__name__,
        )
        for kind, settings, window, unit in one
    ]


def test_interval_surrounds_centre_of_release_in_data_units() -> None:
    total = Sum(Pure(1), **BOUNDS, window="each", mechanism=Stubborn)
    found = total.start().feed([1, 2.5, 10], ticks=[1, 2, 3], until=3)
    assert found.value.tolist() == [[3.5]] * 3
    assert found.stddev[:2].tolist() == [[0.5]] * 2
    assert isnan(found.stddev[2, 0])
    assert [side.ravel().tolist() for side in found.interval(0.9)] == [[0.0, 1.5, -inf], [2.0, 3.5, inf]]
    assert found.columns()["value"].reliable.ravel().tolist() == [True, True, False]  # reliable if bounded
    assert found.select_ticks(slice(1, 2)).interval()[0].tolist() == [[1.5]]
    assert found.select_tick(0).interval()[1].tolist() == [2.0]


def test_twin_with_intervals_around_the_value_is_caught() -> None:
    """The value is biased, so an interval around it misses the truth at every tick."""
    released = Count(Pure(1), window="each", mechanism=Stubborn).counter.start().feed([[1], [100]])
    low, high = adapted.build_adaptive_estimate(released, 1.0).interval()
    assert ((low <= [[1], [100]]) & (high >= [[1], [100]])).all()
    twin = AdaptiveRelease(released.value, released.value, released.error_bounds)
    low, high = adapted.build_adaptive_estimate(twin, 1.0).interval()
    assert not ((low <= [[1], [100]]) & (high >= [[1], [100]])).any()


@pytest.mark.parametrize("count", claims())
def test_statistic_releases_the_values_of_its_counter(count: Count) -> None:
    found = count.start(2, noise=InsecureNoise(5)).feed_totals(BLOCK)
    alone = count.counter.start(2, noise=InsecureNoise(5)).feed(BLOCK[:, 0])
    assert found.value.tolist() == alone.value.tolist()
    np.testing.assert_array_equal(found.stddev, alone.stddev)
    np.testing.assert_array_equal(found.interval(0.9), alone.interval(0.9))


@pytest.mark.parametrize("count", claims())
def test_steps_with_saves_between_equal_one_feed(count: Count) -> None:
    whole = count.start(2, noise=SilentNoise()).feed_totals(BLOCK)
    run = count.start(2, noise=SilentNoise())
    for tick, vector in enumerate(BLOCK):
        run = count.load(run.save(), noise=SilentNoise())
        one = run.step_totals(vector)
        assert one.value.tolist() == whole.select_tick(tick).value.tolist()
        np.testing.assert_array_equal(one.interval(), whole.select_tick(tick).interval())
    nothing = run.feed_totals(BLOCK[:0])
    assert nothing.value.shape == (0, whole.value.shape[1])


def test_run_started_without_saved_groups_releases_other_values() -> None:
    count = Count(Pure(1), window="each", mechanism=MechanismConfig.build(Pegasus, theta=1000))
    whole = count.start(2, noise=SilentNoise()).feed_totals(BLOCK)
    run = count.start(2, noise=SilentNoise())
    run.feed_totals(BLOCK[:3])
    fresh = count.start(2, noise=SilentNoise()).feed_totals(BLOCK[3:])
    assert run.feed_totals(BLOCK[3:]).value.tolist() == whole.value[3:].tolist()
    assert fresh.value.tolist() != whole.value[3:].tolist()


def test_events_of_users_are_bounded_before_a_counter_sees_them() -> None:
    count = Count(Pure(1), window="each", unit=User(2, 3), mechanism=Stubborn)
    run = count.start()
    assert run.step(users=["u"] * 5 + ["w"]).interval()[0].tolist() == [3 - 2.0]
    assert count.counter.max_unit_steps == 6  # type: ignore[attr-defined]  # an adaptive one


def test_a_whole_tick_is_cut_before_a_counter_sees_it() -> None:
    count = Count(Pure(1), window="each", unit=Tick(4), mechanism=Stubborn)
    assert count.start().step_totals([9]).interval()[0].tolist() == [4 - 2.0]
    assert count.counter.tick_sensitivity.l1 == 4


@pytest.mark.parametrize(
    "claim",
    [
        lambda mechanism: Mean(Pure(1), **BOUNDS, mechanism=mechanism),
        lambda mechanism: Variance(Pure(1), **BOUNDS, mechanism=mechanism),
        lambda mechanism: Summary(Pure(1), **BOUNDS, mechanism=mechanism),
        lambda mechanism: Quantile(Pure(1), q=0.5, **BOUNDS, mechanism=mechanism),
        lambda mechanism: Extremes(Pure(1), **BOUNDS, mechanism=mechanism),
        lambda mechanism: RangeCount(Pure(1), axes={"x": Axis(0, 9, 1)}, mechanism=mechanism),
        lambda mechanism: Histogram(Pure(1), domain=["a"], mechanism=mechanism),
        lambda mechanism: Distinct(Pure(1), universe=9, mechanism=mechanism),
        lambda mechanism: TopK(Pure(1), k=1, delta=1e-6, window="each", mechanism=mechanism),
        lambda mechanism: TopK(Pure(1), k=1, domain=["a"], window="each", mechanism=mechanism),
    ],
)
def test_statistics_that_are_decoded_from_sums_refuse_counters_that_adapt(claim: Any) -> None:
    with pytest.raises(ValueError, match=r"mechanism must be linear for \w+, got Pegasus"):
        claim(Pegasus)
    with pytest.raises(ValueError, match=r"mechanism must be linear for \w+, got Pegasus"):
        claim(MechanismConfig.build(Pegasus, smoother="average"))


def test_only_counts_and_sums_adapt() -> None:
    kinds = [Count, Sum, *Statistic.__subclasses__()]
    assert {kind for kind in kinds if kind.CAN_ADAPT} == {Count, Sum}


@pytest.mark.parametrize(
    ("mechanism", "window", "words"),
    [
        (Pegasus, "decayed 5", "'decayed 5', got Pegasus, which answers each or sliding or running"),
        (BudgetAbsorption, "running", "'running', got BudgetAbsorption, which answers each"),
        (SparseCounter, "each", "'each', got SparseCounter, which answers running"),
        (CascadingBuffers, "sliding 3", "'sliding 3', got CascadingBuffers, which answers running"),
    ],
)
def test_windows_that_a_mechanism_does_not_answer_are_refused(mechanism: Any, window: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"mechanism must be one that answers {words}"):
        Count(Pure(1), horizon=9, window=window, mechanism=mechanism)


@pytest.mark.parametrize("window", ["each", "sliding 3", "running"])
def test_a_window_is_passed_to_the_mechanism(window: str) -> None:
    counter: Any = Count(Pure(1), window=window, mechanism=Pegasus).counter
    assert counter.window == window


def test_an_invalid_window_is_refused_for_every_mechanism() -> None:
    for mechanism in (Pegasus, Kary):
        with pytest.raises(ValueError, match='window must be "running", "each"'):
            Count(Pure(1), horizon=9, window="sliding", mechanism=mechanism)


def test_an_impossible_promise_is_refused_by_the_mechanism() -> None:
    with pytest.raises(ValueError, match="loss must be Pure for Pegasus"):
        Count(Zcdp(1), window="each", mechanism=Pegasus)
    with pytest.raises(ValueError, match=r"unit must be .* for BudgetAbsorption, got User"):
        Count(Pure(1), window="each", unit=User(1, 3), mechanism=BudgetAbsorption)
    with pytest.raises(ValueError, match=r"settings of Pegasus must be among .*, got window"):
        MechanismConfig.build(Pegasus, window="each")
    with pytest.raises(ValueError, match="mechanism must be one of the mechanisms in continual or adaptive"):
        MechanismConfig.build(AdaptiveRelease)  # type: ignore[arg-type]  # no claim


def test_signedness_is_passed_to_the_mechanism() -> None:
    request: dict[str, Any] = {"window": "each", "mechanism": MechanismConfig.build(PegasusHierarchy, hierarchy=TREE)}
    counters: list[Any] = [
        Count(Pure(1), **request).counter,
        Sum(Pure(1), lower=0, upper=5, **request).counter,
        Sum(Pure(1), lower=-1, upper=5, **request).counter,
    ]
    assert [counter.lowest for counter in counters] == [0, 0, None]
    few: Any = Count(Pure(1), horizon=9, mechanism=SparseCounter).counter
    assert not few.signed


def test_error_bound_before_data_is_in_data_units() -> None:
    total = Sum(Pure(1), **BOUNDS, window="each", mechanism=Stubborn)
    assert (total.error_bound_at(1).stddev, total.error_bound_at(1).half_width(0.95)) == (0.5, 1.0)
    assert total.error_bound_at(3).half_width(0.95) == inf
    assert (total.stddev(1), total.predict_stddev("value", 2)) == (0.5, 0.5)
    assert isnan(total.stddev(3))
    assert total.error_depends_on == "how far all is from 7"


def test_error_bound_of_linear_counter_is_its_noise() -> None:
    total = Sum(Pure(1), **BOUNDS, horizon=9)
    assert total.error_bound_at(4) == total.noise_at(4)
    assert total.error_depends_on == ""
    assert isinstance(total.linear_counter, LinearMechanism)


def test_the_law_of_noise_exists_for_linear_counters_only() -> None:
    count = Count(Pure(1), window="each", mechanism=Pegasus)
    with pytest.raises(ValueError, match="mechanism must be linear for Count, got Pegasus"):
        count.noise_at(1)
    with pytest.raises(ValueError, match="mechanism must be linear for a test, got Pegasus"):
        require_linear(count.counter, "a test")
    run = count.start()
    run.step()
    with pytest.raises(TypeError, match="noise of Pegasus must be read from its releases"):
        run.noise()


def test_all_nodes_of_a_hierarchy_are_released() -> None:
    count = Count(Pure(1), window="each", mechanism=MechanismConfig.build(PegasusHierarchy, hierarchy=TREE, prune=0))
    found = count.start(2, noise=SilentNoise()).feed_totals(BLOCK[:1])
    assert found.value.shape == (1, 3)
    assert found.value[0, 2] == found.value[0, :2].sum()


def test_the_identity_of_a_claim_is_written_out() -> None:
    count = Count(Pure(1), horizon=8, mechanism=MechanismConfig.build(Kary, branching=3))
    assert count.identity() == (
        "Count(loss=Pure(epsilon=1), horizon=8, window='running', mechanism=MechanismConfig(mechanism=<class "
        "'streamgauge.continual.trees.kary.Kary'>, settings=(('branching', 3),)), pan_private=False, "
        "unit=Event(replace=False, moves=False), groups_per_event=1, open_ticks=False, shorter_windows=(), cells=None) "
        "by Kary(loss=Pure(epsilon=1), horizon=8, bound=Sensitivity(l1=1, l2_squared=1, coordinates=1), "
        "pan_private=False, unit=Event(replace=False, moves=False), branching=3, levels=2, open_ticks=False)"
    )
