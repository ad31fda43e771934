"""One run answers any box: exactly without noise, else with the claimed error."""

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from streamgauge import Event, Pure, User, Zcdp
from streamgauge.continual import Kary
from streamgauge.privacy import Sensitivity, Tick
from streamgauge.statistics.ordered.axis import Axis
from streamgauge.statistics.ordered.range_count import RangeCount
from streamgauge.testing.noise import InsecureNoise, SilentNoise

AXES = {"age": Axis(0, 50, 10), "pay": Axis(-1, 1, 0.5)}
WIDTH, Z = 4000, 6.5


def claim(**settings: Any) -> RangeCount:
    made: dict[str, Any] = {"axes": AXES, "horizon": 6, **settings}
    return RangeCount(made.pop("loss", Pure(1)), **made)


def table(seed: int, size: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(-5, 60, size), "pay": rng.normal(0, 0.7, size)}


def true_count(events: dict[str, Any], age: tuple[Any, Any], pay: tuple[Any, Any]) -> int:
    """Count by plain comparison. Values outside an axis belong to its end cells."""
    inside = np.ones(len(events["age"]), bool)
    for name, (start, end) in (("age", age), ("pay", pay)):
        edges = AXES[name].edges
        values = np.clip(np.asarray(events[name], float), edges[0], np.nextafter(edges[-1], -np.inf))
        inside &= (values >= (edges[0] if start is None else start)) & (values < (edges[-1] if end is None else end))
    return int(inside.sum())


def boxes() -> list[tuple[tuple[Any, Any], tuple[Any, Any]]]:
    """All possible ranges, with open ends."""

    def pairs(axis: Axis) -> list[tuple[Any, Any]]:
        edges = axis.edges.tolist()
        closed = [(start, end) for start in edges for end in edges if start <= end]
        return [*closed, *((start, None) for start in edges), *((None, end) for end in edges), (None, None)]

    return list(product(pairs(AXES["age"]), pairs(AXES["pay"])))


@pytest.mark.one_of_each
@pytest.mark.parametrize("branching", [0, 2, 3])
@pytest.mark.parametrize("pan_private", [False, True])
def test_without_noise_every_box_is_exact(branching: int, pan_private: bool) -> None:
    run = claim(branching=branching, pan_private=pan_private).start(noise=SilentNoise())
    events = [table(seed) for seed in range(3)]
    for tick, now in enumerate(events):
        release = run.step(now)
        for age, pay in boxes():
            expected = sum(true_count(past, age, pay) for past in events[: tick + 1])
            assert release.count(age=age, pay=pay).value.tolist() == [expected]
    assert release.count().value.tolist() == [180]
    assert release.count({"age": (10, 10)}).value.tolist() == [0]


def test_a_time_range_is_the_difference_of_two_releases() -> None:
    run = claim().start(noise=SilentNoise())
    first, _, last = (run.step(table(seed)) for seed in range(3))
    between = last.count(age=(20, None)).value - first.count(age=(20, None)).value
    assert between.tolist() == [sum(true_count(table(seed), (20, None), (None, None)) for seed in (1, 2))]


def moves(statistic: RangeCount) -> list[np.ndarray]:
    """Return the vector of every possible event in two groups."""
    centres = [(axis.edges[:-1] + axis.edges[1:]) / 2 for axis in AXES.values()]
    values = [{"age": [age], "pay": [pay]} for age, pay in product(*centres)]
    return [statistic.compute_totals(value, [group], width=2) for value, group in product(values, (0, 1))]


def worst(vectors: list[np.ndarray]) -> tuple[int, int, int]:
    return (
        max(int(np.abs(v).sum()) for v in vectors),
        max(int((v**2).sum()) for v in vectors),
        max(int((v != 0).sum()) for v in vectors),
    )


@pytest.mark.parametrize("branching", [0, 2, 3])
def test_sensitivity_is_the_largest_move_of_a_unit(branching: int) -> None:
    one, other = claim(branching=branching), claim(branching=branching, unit=Event(replace=True))
    added = moves(one)
    assert Sensitivity(*worst(added)) == one.tick_sensitivity
    replaced = [a - b for a, b in product(added, added)] + added
    assert Sensitivity(*worst(replaced)) == other.tick_sensitivity
    forgotten = prod(tree.levels for tree in one.space.trees) - 1
    assert worst(added)[0] > forgotten


def test_tick_or_user_moves_by_all_its_events() -> None:
    levels = claim().space.levels
    assert claim(unit=Tick(3)).tick_sensitivity == Sensitivity(3 * levels, 9 * levels, 3 * levels)
    assert claim(unit=User(2, 4)).tick_sensitivity == Sensitivity(2 * levels, 4 * levels, 2 * levels)


def agrees(errors: np.ndarray, claimed: float) -> bool:
    scaled = errors / claimed
    uncertainty = np.sqrt(max((scaled**4).mean() - (scaled**2).mean() ** 2, 0.5) / len(errors))
    return bool(abs((scaled**2).mean() - 1) < Z * uncertainty)


@pytest.mark.parametrize("loss", [Pure(1), Zcdp(1)])
def test_standard_error_of_box_matches_simulation(loss: Pure | Zcdp) -> None:
    statistic = claim(loss=loss, branching=2)
    release = statistic.start(WIDTH, InsecureNoise(21)).step()
    for box in ({}, {"age": (10, 40)}, {"age": (None, 40), "pay": (0, None)}, {"age": (30, 40), "pay": (-0.5, 1)}):
        estimate = release.count(box)
        predicted = statistic.stddev(1, box)
        assert (estimate.stddev == predicted).all()
        assert agrees(estimate.value, predicted)
        assert not agrees(estimate.value, 0.7 * predicted)
        assert not agrees(estimate.value, 1.3 * predicted)
        low, high = estimate.interval(0.95)
        assert 0.93 < ((low <= 0) & (high >= 0)).mean() < 0.99


def test_twin_with_noise_of_one_block_is_caught() -> None:
    statistic = claim(branching=2)
    estimate = statistic.start(WIDTH, InsecureNoise(22)).step().count(age=(10, 40), pay=(-0.5, 0.5))
    assert not agrees(estimate.value, statistic.counter.stddev(1))


def fed(statistic: RangeCount, noise: Any) -> tuple[Any, Any]:
    """Return the releases of the same events in one call and step by step."""
    events = [table(seed, 20) for seed in range(4)]
    groups = [np.arange(20) % 3 for _ in events]
    together = {name: np.concatenate([event[name] for event in events]) for name in AXES}
    ticks = np.repeat(np.arange(1, 5), 20)
    block = statistic.start(3, noise()).feed(together, ticks=ticks, until=4, groups=np.concatenate(groups))
    run = statistic.start(3, noise())
    return block, [run.step(event, groups=group) for event, group in zip(events, groups, strict=True)]


@pytest.mark.parametrize("window", ["running", "each", "sliding 2", "decayed 2"])
def test_feeding_equals_stepping(window: str) -> None:
    block, steps = fed(claim(window=window), lambda: InsecureNoise(3))
    box: dict[str, Any] = {"age": (10, None), "pay": (None, 0.5)}
    assert np.allclose(block.count(box).value, [step.count(box).value for step in steps])
    assert np.allclose(block.count(box).interval()[1], [step.count(box).interval()[1] for step in steps])
    assert (block.quantile(0.5, "age").value == [step.quantile(0.5, "age").value for step in steps]).all()
    assert (block.extremes("pay").value == [step.extremes("pay").value for step in steps]).all()


def test_an_empty_feed_releases_nothing() -> None:
    none = claim().start(2, SilentNoise()).feed({"age": [], "pay": []}, ticks=[], until=0, groups=[])
    assert none.count(age=(10, 20)).value.shape == (0, 2)
    assert none.quantile(0.5, "age").value.shape == (0, 2)
    assert none.extremes("age").value.shape == (0, 2, 2)


def test_saved_run_continues_bit_for_bit() -> None:
    noise = InsecureNoise(4)
    run = claim().start(groups=["a", "b"], noise=noise)
    run.step(table(1, 2), groups=["a", "b"])
    twin = claim().load(run.save(), noise.clone())
    one, two = run.step(table(2, 2), groups=["b", "b"]), twin.step(table(2, 2), groups=["b", "b"])
    assert (one.nodes == two.nodes).all()


def test_users_are_bounded_before_they_are_placed() -> None:
    run = claim(unit=User(1, 2)).start(noise=SilentNoise())
    for expected in (1, 2, 2):
        release = run.step({"age": [1, 2], "pay": [0, 0]}, users=["eve", "eve"])
        assert release.count().value.tolist() == [expected]


def test_event_without_number_on_an_axis_is_not_counted() -> None:
    release = claim().start(noise=SilentNoise()).step({"age": [1, None, 3], "pay": [0.1, 0.1, "much"]})
    assert release.count().value.tolist() == [1]


def test_any_table_with_named_columns_is_accepted() -> None:
    records = np.array([(12, 0.1), (44, -0.9)], dtype=[("age", "i8"), ("pay", "f8")])
    assert claim().start(noise=SilentNoise()).step(records).count(age=(None, 40)).value.tolist() == [1]
    with pytest.raises(ValueError, match="values must be a table with a column 'pay', got none"):
        claim().start().step({"age": [1]})
    with pytest.raises(ValueError, match="values must be a table with a column 'age', got none"):
        claim().start().step([1, 2])


def test_quantiles_and_extremes_come_from_the_same_run() -> None:
    statistic = claim(axes={"age": Axis(0, 100, 1), "pay": Axis(0, 3, 1)}, loss=Pure(100))
    events = {"age": np.repeat([20, 30, 40, 90], 500), "pay": np.repeat([0, 0, 0, 2], 500)}
    release = statistic.start(noise=SilentNoise()).step(events)
    assert release.quantile((0.2, 0.5), "age").value.tolist() == [[20], [30]]
    assert release.quantile(0.5, "age", pay=(2, 3)).value.tolist() == [90]
    assert release.extremes("age").value.tolist() == [[20], [90]]
    assert release.extremes("age", pay=(None, 2)).value.tolist() == [[20], [40]]
    with pytest.raises(ValueError, match="axis must be one of 'age', 'pay', got None"):
        release.quantile(0.5)
    with pytest.raises(ValueError, match="bounds must be on other axes than 'age', got"):
        release.quantile(0.5, "age", age=(1, 2))


NAMES = ["tick", "box", "q", "axis", "self", "bounds", "confidence", "name"]


@pytest.mark.parametrize("name", [*NAMES, "doubt"])
def test_an_axis_may_have_any_name(name: str) -> None:
    statistic = claim(axes={"x": Axis(0, 9, 1), name: Axis(0, 9, 1)}, loss=Pure(100))
    release = statistic.start(noise=SilentNoise()).step({"x": [1, 2] * 99, name: [3, 4] * 99})
    box = {name: (3, 4)}
    assert release.count(box).value.tolist() == release.count(**box).value.tolist() == [99]
    assert statistic.stddev(2, box) == statistic.stddev(2, **box)  # type: ignore[arg-type]
    assert release.quantile(0.5, "x", box).value.tolist() == [1]
    assert release.quantile(0.5, "x", **box).value.tolist() == [1]
    assert release.extremes("x", box).value.tolist() == [[1], [1]]
    assert release.extremes(name).value.tolist() == [[3], [4]]
    if name != "doubt":
        assert release.extremes("x", **box).value.tolist() == [[1], [1]]  # type: ignore[arg-type]


def test_boxes_that_make_no_sense_are_refused() -> None:
    release: Any = claim().start().step()
    asking = (
        release.count,
        lambda *box, **bounds: release.quantile(0.5, "pay", *box, **bounds),
        lambda *box, **bounds: release.extremes("pay", *box, **bounds),
        lambda *box, **bounds: claim().stddev(1, *box, **bounds),
    )
    for ask in asking:
        with pytest.raises(ValueError, match="bounds must be given once for each axis, got 'age' twice"):
            ask({"age": (0, 10)}, age=(20, 30))
        with pytest.raises(ValueError, match=r"box must be a mapping of names to pairs .*, got 'age'"):
            ask("age")
    with pytest.raises(ValueError, match=r"doubt must be above 0 and at most 0.5, got \(0, 1\)"):
        release.extremes("age", doubt=(0, 1))


def test_the_claim_is_frozen_hashable_and_printable() -> None:
    one, two = claim(), claim(axes=tuple(AXES.items()), mechanism=None)
    assert one == two
    assert hash(one) == hash(two)
    assert "('age', Axis(lower=0, upper=50, step=10))" in repr(one)
    assert isinstance(claim(mechanism=Kary).counter, Kary)


def test_invalid_range_count_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"axes must be declared .* it must be public"):
        RangeCount(Pure(1), horizon=4)
    for wrong in ({}, [("age", 3)], "age", {3: AXES["age"]}, 5):
        with pytest.raises(ValueError, match="axes must be a mapping of names to axes, got"):
            claim(axes=wrong)
    with pytest.raises(ValueError, match="axes must have distinct names"):
        claim(axes=[("age", AXES["age"]), ("age", AXES["pay"])])
    with pytest.raises(ValueError, match=r"axes must make at most 2\*\*26 places \(take larger steps"):
        claim(axes={"x": Axis(0, 10_000, 1), "y": Axis(0, 10_000, 1)})
    with pytest.raises(ValueError, match="branching must be a whole number of at least 2, got 1"):
        claim(branching=1)
    with pytest.raises(ValueError, match=r"axis must be one of 'age', 'pay', got 'agee' \(did you mean 'age'\?\)"):
        claim().start().step().count(agee=(1, 2))
    with pytest.raises(ValueError, match="tick must be at most the horizon 6, got 7"):
        claim().stddev(7, age=(10, None))
