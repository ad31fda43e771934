"""The loss of a unit to a tumbling release, over all placements of its ticks in short streams."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.planner import plan_release
from streamgauge.plan.tumbling import count_squares
from streamgauge.privacy import IntegerZcdp, Zcdp
from tests.support.exact_loss import lost
from tests.support.pipelines import Tables, pipeline, tables

LENGTH, SHOWN_TICKS = 3, 8  # ticks of a period, and of the enumerated stream
USER = {"user": "u", "max_events_per_tick": 2}
UNITS: list[Any] = [
    "event",
    *({"w_event": w} for w in (2, 3, 4, 7)),
    *({**USER, "max_ticks": most} for most in (1, 2, 3, 4, 5)),
]
ALL_AT_ONCE = {"name": "periods", "sql": "SELECT COUNT(*) FROM v", "window": "tumbling 30s"}
COLUMNS = {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 10], "grid": 1}}


def build(folder: Path, unit: Any, currency: str, columns: Tables = COLUMNS, **release: Any) -> Any:
    """Return the plan of one tumbling release, which takes the whole budget."""
    counts = {"name": "periods", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "tumbling 30s", "share": 1}
    made = tables({**counts, **release, "epsilon": None}, unit=unit, budget={currency: 1}, columns=columns)
    made["release"] = [{key: value for key, value in each.items() if value is not None} for each in made["release"]]
    file = pipeline(folder, made).file
    return plan_release(file, file.releases[0])


def list_tick_sets(unit: Any) -> Iterator[tuple[int, ...]]:
    """Yield the ticks of units, from 0."""
    if unit == "event":
        yield from ((tick,) for tick in range(SHOWN_TICKS))
    elif "w_event" in unit:
        for first in range(SHOWN_TICKS - unit["w_event"] + 1):
            yield tuple(range(first, first + unit["w_event"]))
    else:
        yield from combinations(range(SHOWN_TICKS), unit["max_ticks"])


def list_differences(unit: Any) -> Iterator[np.ndarray]:
    """Yield how a unit moves the periods of a count of two groups; events of one tick may be in both."""
    events = unit.get("max_events_per_tick", 1) if isinstance(unit, dict) else 1
    places = [(most, 0) for most in [events]] + ([(1, 1)] if events > 1 else [])
    for ticks in list_tick_sets(unit):
        for chosen in product(places, repeat=len(ticks)):
            moved = np.zeros((-(-SHOWN_TICKS // LENGTH), 2), np.int64)
            for tick, move in zip(ticks, chosen, strict=True):
                moved[tick // LENGTH] += move
            yield moved


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_worst_unit_loses_exactly_the_release(tmp_path: Path, unit: Any, currency: str) -> None:
    statistic = build(tmp_path, unit, currency).parts[0].statistic
    worst = max(lost(statistic, moved) for moved in list_differences(unit))
    assert worst == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_users_of_distinct_counts_lose_at_most_the_release(tmp_path: Path, currency: str) -> None:
    unit = {**USER, "max_ticks": 4}
    columns = {**COLUMNS, "u": {"values": ["ann", "bob"]}}
    plan = build(tmp_path, unit, currency, columns, sql="SELECT g, COUNT(DISTINCT u) AS n FROM v GROUP BY g")
    differences = [np.minimum(moved, 1) for moved in list_differences(unit)]
    assert max(lost(plan.parts[0].statistic, moved) for moved in differences) <= 1 + 1e-9


def test_squares_are_the_most_over_all_placements() -> None:
    for length in (1, 2, 3, 4):
        for ticks in range(1, 7):
            placed = combinations(range(3 * length + ticks), ticks)
            worst = max(sum(np.bincount([tick // length for tick in each]) ** 2) for each in placed)
            assert worst == count_squares(ticks, length)


def test_adaptive_mechanisms_pay_as_if_all_ticks_met(tmp_path: Path) -> None:
    plan = build(tmp_path, {"w_event": 4}, "epsilon", mechanism="Pegasus")
    assert plan.parts[0].statistic.loss.epsilon == Fraction(1, 4)


@pytest.mark.parametrize(("unit", "charged"), [("event", IntegerZcdp("1/200")), ({"w_event": 4}, Zcdp("1/200"))])
def test_several_ticks_are_never_charged_at_integer_orders(tmp_path: Path, unit: Any, charged: Any) -> None:
    release = ALL_AT_ONCE | {"partial": True, "rho": "1/200", "horizon": "10m"}
    made = tables(unit=unit, live=True, pan_private=True, source="http", allowed_lateness="0s", allowed_earliness="0s")
    made["stream"]["budget"] = {"epsilon": 1, "delta": "1/1000000"}
    made["release"] = [release]
    file = pipeline(tmp_path, made).file
    plan = plan_release(file, file.releases[0])
    assert plan.charged_loss == charged
    assert charged.group(plan.stream.unit.ticks)  # what a part for each tick rests on


@pytest.mark.parametrize(
    ("release", "stream", "words"),
    [
        (
            {"window": "tumbling day Europe/Berlin"},
            {"tick": "1d", "end": "2027-01-05T00:00:00Z"},
            r'^v.toml: release periods: ticks must end at every boundary of "tumbling day Europe/Berlin", got one of '
            r'"1d" across 2026-01-05T23:00:00Z: write tick = "1h", or another start$',
        ),
        (
            {"sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "delta": 1e-6},
            {"columns": {"g": {"max_groups": 5}}, "unit": {"w_event": 3}, "budget": {"epsilon": 1, "delta": 1e-5}},
            'unit must be "event" where groups are discovered in periods, got one of several ticks',
        ),
    ],
)
def test_releases_that_cannot_tumble_are_refused(tmp_path: Path, release: Tables, stream: Tables, words: str) -> None:
    file = pipeline(
        tmp_path,
        tables({"name": "periods", "sql": "SELECT COUNT(*) FROM v", "window": "tumbling 30s", **release}, **stream),
    ).file
    with pytest.raises(InvalidReleaseError, match=words):
        plan_release(file, file.releases[0])
