"""Mappers with reducers: the worst move of one unit is enumerated, and equals the sensitivity."""

import dataclasses
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.mapreduce import Mapper, MapperError
from streamgauge.statistics import Count, Distinct, Sum
from streamgauge.testing.noise import SilentNoise

pytest.importorskip("wasmtime")

LISTED = """
def mapper(pairs):
    for pair in pairs.split():
        emit(pair.split("=")[0], number(pair.split("=")[1]))
"""
KEYS, VALUES = ("a", "b", "c", "d"), (-3, -1, 0, 2, 9)  # beyond both bounds, and between them
REDUCERS = ("count", "sum", "mean", "variance", "quantile", "threshold")
UNITS = [sg.Event(), sg.Event(replace=True), sg.User(2, 1), sg.Tick(2), sg.WEvent(2)]


def build(reducer: str = "sum", **settings: Any) -> Mapper:
    given: dict[str, Any] = {"max_pairs": 2, "lower": -1, "upper": 2, "grid": 1, "reducer": reducer, **settings}
    given["level"] = 3 if reducer == "threshold" else None
    return Mapper(LISTED, {"pairs": "text"}, KEYS, **given)


def list_records() -> list[str]:
    """Return records of no, one, two and three keys with all values."""
    few = [
        " ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
        for size in (0, 1, 2)
        for keys in combinations(KEYS, size)
        for values in product(VALUES, repeat=size)
    ]
    return [*few, "a=9 b=9 c=9", "a=9 a=9 b=-3 c=9 d=9", "e=9 a=2", "a=x b=2"]


def farthest(moves: np.ndarray) -> tuple[int, int, int]:
    return (int(abs(moves).sum(axis=1).max()), int((moves**2).sum(axis=1).max()), int((moves != 0).sum(axis=1).max()))


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("reducer", REDUCERS)
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp(1)], ids=repr)
def test_worst_move_of_a_unit_is_the_sensitivity(reducer: str, unit: Any, loss: Any) -> None:
    mapper = build(reducer)
    settings: dict[str, Any] = {"horizon": 4, "unit": unit}
    run = mapper.start(loss, noise=SilentNoise(), **settings)
    count = unit.events

    def total(record: str) -> np.ndarray:
        users = [record or "none"] * count if isinstance(unit, sg.User) else None  # a new user each time
        return run.map_records({"pairs": [record] * count}, users).reshape(-1)

    single = np.stack([total(record) for record in list_records()])
    moves = single if not unit.replace else (single[:, None] - single[None]).reshape(-1, single.shape[1])
    reach = mapper.find_sensitivity(loss, **settings)
    l1, l2_squared, coordinates = farthest(moves)
    assert (l1, l2_squared) == (reach.l1, reach.l2_squared)
    assert coordinates <= reach.coordinates


def test_formulas_of_the_sensitivity() -> None:
    replaced = sg.Event(replace=True)
    assert build("count").find_sensitivity(sg.Pure(1), horizon=4).l1 == 2
    assert build("count").find_sensitivity(sg.Pure(1), horizon=4, unit=replaced).l1 == 4
    wide = build("sum", lower=-5, upper=5)
    assert wide.find_sensitivity(sg.Pure(1), horizon=4, unit=replaced).l2_squared == 2 * 10**2
    narrow = build("sum", lower=4, upper=5)
    assert narrow.find_sensitivity(sg.Pure(1), horizon=4, unit=replaced).l2_squared == 2 * 2 * 5**2
    several = build("sum").find_sensitivity(sg.Pure(1), horizon=4, unit=sg.User(3, 1))
    assert (several.l1, several.l2_squared) == (3 * 2 * 2, 9 * 2 * 4)


@pytest.mark.parametrize("pairs", [1, 3, 4, 9])
def test_groups_are_at_most_pairs_and_keys(pairs: int) -> None:
    mapper = build("count", max_pairs=pairs)
    run = mapper.start(sg.Pure(1), horizon=4, noise=SilentNoise())
    assert run.map_records({"pairs": ["a=1 b=1 c=1 d=1"]}).sum() == mapper.max_groups == min(pairs, 4)


def test_broken_twin_without_pairs_is_caught() -> None:
    mapper = build("sum")
    run = mapper.start(sg.Pure(1), horizon=4, noise=SilentNoise())
    understated = Sum(sg.Pure(1), lower=-1, upper=2, step=1, horizon=4).tick_sensitivity
    assert abs(run.map_records({"pairs": ["a=2 b=2"]})).sum() > understated.l1


def test_stages_multiply_pairs_and_add_up_keys() -> None:
    second = Mapper(
        "def mapper(key, value):\n    emit('all', value)\n    if value > 1:\n        emit(key, 1)\n",
        {"key": "text", "value": "number"},
        ["all", *KEYS],
        max_pairs=2,
        lower=0,
        upper=10,
        grid=1,
        reducer="sum",
    )
    both = build("sum").then(second)
    assert (both.max_groups, len(both.stages)) == (4, 2)
    run = both.start(sg.Pure(1), horizon=4, noise=SilentNoise())
    found = run.map_records({"pairs": ["a=2 b=9 c=9", "d=1", "a=-3"]}).reshape(-1)
    assert found.tolist() == [4 + 1, 1, 1, 0, 0]  # the first stage clamps to 2, the sum of -1 to 0
    assert both.then(dataclasses.replace(second)).max_groups == 5


def test_worst_move_of_two_stages_is_the_sensitivity() -> None:
    second = dataclasses.replace(
        build("sum"),
        source="def mapper(key, value):\n    emit(key, value)\n    emit('d', value)\n",
        columns={"key": "text", "value": "number"},
    )
    both = build("sum", max_pairs=3).then(second)
    run = both.start(sg.Pure(1), horizon=4, noise=SilentNoise())
    moves = np.stack([run.map_records({"pairs": [record]}).reshape(-1) for record in list_records()])
    reach = both.find_sensitivity(sg.Pure(1), horizon=4)
    assert farthest(moves)[0] == reach.l1 == 4 * 2


def test_users_are_bounded_before_the_program() -> None:
    run = build("count").start(sg.Pure(1), horizon=4, unit=sg.User(1, 2), noise=SilentNoise())
    ticks = [["a=1 b=1", "c=1", "d=1"]] * 3
    found = [run.step({"pairs": records}, users=["u", "u", "v"]).value.tolist() for records in ticks]
    assert found == [[1, 1, 0, 1], [2, 2, 0, 2], [2, 2, 0, 2]]
    with pytest.raises(ValueError, match="users must be given"):
        run.step({"pairs": ["a=1"]})


def test_a_threshold_publishes_keys_with_large_counts() -> None:
    run = build("threshold").start(sg.Pure(1), horizon=4, noise=SilentNoise())
    found = run.step({"pairs": ["a=1"] * 3 + ["b=1"] * 2})
    assert [(each.key, each.value) for each in found] == [("a", 3.0)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reducer": "median"}, "reducer must be one of"),
        ({"reducer": "count", "level": 3.0}, "level must be given just"),
        ({"source": "def mapper(z):\n    pass"}, "parameters of mapper must be columns"),
        ({"first": Mapper(LISTED, {"pairs": "text"}, KEYS)}, "later stage must be key and value"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(MapperError, match=words):
        dataclasses.replace(build(), **settings)


def test_statistics_of_one_group_refuse_several() -> None:
    with pytest.raises(ValueError, match="groups_per_event must be 1 for this Distinct"):
        Distinct(sg.Pure(1), universe=4, horizon=4, groups_per_event=2)
    with pytest.raises(ValueError, match="groups_per_event must be 1 for this Count"):
        Count(sg.Pure(1), cells=8, window="each", horizon=4, groups_per_event=2)
    with pytest.raises(ValueError, match="adapts to its data"):
        Count(sg.Pure(1), mechanism=sg.adaptive.Pegasus, window="each", horizon=4, groups_per_event=2)
    with pytest.raises(ValueError, match="whole number"):
        Count(sg.Pure(1), horizon=4, groups_per_event=0)


def test_columns_of_different_lengths_are_refused() -> None:
    two = Mapper("def mapper(a, b):\n    pass\n", {"a": "number", "b": "number"}, ["k"])
    with pytest.raises(ValueError, match="one item for every record"):
        two.start(sg.Pure(1), horizon=2).step({"a": [1], "b": [1, 2]})
