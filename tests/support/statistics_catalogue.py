"""Every statistic of the package, discovered, with settings, events to try, and the truth.

An unknown statistic makes the tests fail: there is no opt-out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge import statistics
from streamgauge.sketches import CellHash, ItemHash
from streamgauge.statistics import Estimate, Statistic
from streamgauge.statistics.keys.approx_frequency import name_text
from tests.support.catalogue import claims

PURE, ZCDP = sg.Pure(Fraction(1, 2)), sg.Zcdp(Fraction(1, 8))
APPROX = sg.Approx(1, Fraction(1, 10**6))
WIDTH = 3
REFUSED = (
    'window must be "running" where users leave',
    "loss must be Approx where keys are discovered",
    "delta must be None where the loss has one",
)
Rows = list[Any]  # what the events of one tick carry


@dataclass(frozen=True)
class Stream:
    """Events of a stream: of each its values, its tick (from 1), its group, its user."""

    rows: Rows
    ticks: np.ndarray
    groups: np.ndarray
    users: np.ndarray

    def tick(self, number: int) -> "Stream":
        return self.only(np.flatnonzero(self.ticks == number))

    def only(self, places: np.ndarray) -> "Stream":
        rows = [self.rows[place] for place in places]
        return Stream(rows, self.ticks[places], self.groups[places], self.users[places])


@dataclass(frozen=True)
class Kind:
    """Recipe to try one statistic: its settings, possible events, and the truth about some events."""

    settings: tuple[dict[str, Any], ...]
    carried: tuple[Any, ...]  # all that one event can carry, a representative of each kind
    truth: Callable[[Any, Stream, int], Any]  # of one group's events up to a tick: what `read_off` should be
    losses: tuple[Any, ...] = (PURE, ZCDP, APPROX)
    read_off: Callable[[Any, int], Any] = lambda release, group: release.value[..., group]
    columns: Callable[[Rows], Any] = lambda rows: rows
    column: str = "values"  # what the column is called that events carry
    windows: tuple[str, ...] = ("running", "each", "sliding 3", "decayed 4", "decayed polynomial 1.5")


def numbers(seen: Stream) -> list[float]:
    """Return the values of events that carry a number."""
    return [row for row in seen.rows if isinstance(row, int | float)]


def rounded(grid: Any, seen: Stream) -> np.ndarray:
    """Return numbers as a claim with a grid uses them: clipped and rounded."""
    values: np.ndarray = grid.reals(grid.integers(numbers(seen)))
    return values


def cells(axis: Any, rows: list[Any]) -> np.ndarray:
    """Return numbers as a claim with cells uses them: the lower edge of the cell, clipped."""
    edges: np.ndarray = axis.edges
    return edges[np.clip(np.searchsorted(edges, rows, "right") - 1, 0, axis.cells - 1)]


def mean_of(claim: Any, seen: Stream, now: int) -> float:
    """Return the mean of at least two events. A single one is shrunk by half towards the middle."""
    values = rounded(claim.moments.grid, seen)
    return float((values - claim.moments.middle_value).sum() / max(2, len(values)) + claim.moments.middle_value)


def variance_of(claim: Any, seen: Stream, now: int) -> float | None:
    """Return the variance of at least three events. Fewer have no promise but the interval."""
    values = rounded(claim.moments.grid, seen)
    if len(values) <= 2:
        return None
    return float(values.var(ddof=1) ** (0.5 if claim.root else 1))


def summary_of(claim: Any, seen: Stream, now: int) -> np.ndarray:
    """Return the measures in their order; NaN if nothing is promised."""
    values = rounded(claim.grid, seen)
    spread = float(values.var(ddof=1)) if len(values) > 2 else np.nan
    all_five = np.array([len(values), values.sum(), mean_of(claim, seen, now), spread, spread**0.5])
    return all_five[: len(claim.measures)]


def quantile_of(claim: Any, seen: Stream, now: int) -> np.ndarray:
    """The first cell at whose end at least the part q of all events has come."""
    values = np.sort(cells(claim.axis, numbers(seen)))
    edges = claim.axis.edges[: claim.axis.cells]
    ranks = np.searchsorted(values, edges, "right")
    return np.array([edges[np.argmax(ranks >= q * len(values))] for q in claim.q])


def extremes_of(claim: Any, seen: Stream, now: int) -> np.ndarray:
    values = cells(claim.axis, numbers(seen))
    ends = claim.axis.edges[[claim.axis.cells - 1, 0]]
    return np.array([values.min(), values.max()]) if len(values) else ends


def ranking_of(claim: Any, seen: Stream, now: int) -> list[tuple[Any, int]]:
    """Largest first; discovered ones, if their count has ever passed the threshold of its tick."""
    if claim.domain is not None:
        counts = {label: seen.rows.count(label) for label in claim.domain}
        return sorted(counts.items(), key=lambda item: -item[1])[: claim.k]
    known = {row for row in seen.rows if row is not None}
    found = []
    for key in known:
        ticks = [tick for row, tick in zip(seen.rows, seen.ticks, strict=True) if row == key]
        ever = any(sum(t <= u for t in ticks) > claim.selection.threshold(u) for u in range(1, now + 1))
        found += [(key, len(ticks))] if ever else []
    return sorted(found, key=lambda item: (-item[1], str(item[0])))[: claim.k]


def sketched(claim: Any, seen: Stream, now: int) -> np.ndarray:
    """Return the medians of signed cells, which the texts share."""
    hashes, table = CellHash(ItemHash(claim.key), claim.rows, claim.hash_columns), np.zeros((3, 2), np.int64)
    hashes.add(table, to_words([row for row in seen.rows if isinstance(row, str)]), None, 1)
    return np.asarray(np.median(hashes.read(table, to_words(claim.items)), axis=0))


def to_words(texts: Any) -> np.ndarray:
    return np.array([[name_text(text), 0] for text in texts], np.uint64).reshape(-1, 2)


BOXES: tuple[dict[str, Any], ...] = ({}, {"x": (2, None)}, {"x": (None, 5), "y": (1, 2)}, {"y": (3, 4)})
STRONG = (sg.Pure(2000), sg.Zcdp(10**9))  # hardly any noise: little is needed to be enough
BOUNDS: dict[str, Any] = {"lower": -3, "upper": 2, "step": 0.5}
VALUES = (-7, -3, -1.26, 0, 0.5, 2, 9.5, None)

KINDS: dict[str, Kind] = {
    "ApproxFrequency": Kind(
        ({"items": ("a", "d"), "rows": 3, "hash_columns": 2, "key": (107).to_bytes(32, "big")},),  # a and b cancel
        ("a", "b", "c", 3, None),
        sketched,
    ),
    "Count": Kind(({},), (1, 2.5, "x", None), lambda claim, seen, now: sum(row is not None for row in seen.rows)),
    "Sum": Kind((BOUNDS,), VALUES, lambda claim, seen, now: float(rounded(claim.grid, seen).sum())),
    "Mean": Kind((BOUNDS,), VALUES, mean_of, STRONG),
    "Variance": Kind((BOUNDS, {**BOUNDS, "root": True}), VALUES, variance_of, STRONG),
    "Summary": Kind(
        (BOUNDS, {**BOUNDS, "squares": True}),
        VALUES,
        summary_of,
        STRONG,
        read_off=lambda release, group: np.array([getattr(release, name).value[..., group] for name in release.names]),
    ),
    "Histogram": Kind(
        ({"domain": ("a", "b", 3)},),
        ("a", "b", 3, "c", None),
        lambda claim, seen, now: np.array([seen.rows.count(label) for label in claim.domain], float),
        read_off=lambda release, group: release.value[group],
    ),
    "TopK": Kind(
        ({"domain": ("a", "b", 3), "k": 2}, {"k": 2}, {"k": 2, "delta": Fraction(1, 10**6)}),
        ("a", "b", "b", 3, "c", None),
        ranking_of,
        read_off=lambda release, group: list(zip(release.keys[group], release.counts[group].tolist(), strict=True)),
        losses=(PURE, ZCDP, APPROX, sg.Approx(40, Fraction(1, 10**6))),
    ),
    "RangeCount": Kind(
        ({"axes": {"x": sg.statistics.Axis(0, 8, 1), "y": sg.statistics.Axis(0, 4, 1)}, "branching": 2},),
        ((0, 0), (3.5, 1), (2, 9), (-1, 3.99), (7, 2), None),
        lambda claim, seen, now: np.array([boxed(claim, seen, box) for box in BOXES], float),
        read_off=lambda release, group: np.array([release.count(**box).value[group] for box in BOXES]),
        columns=lambda rows: {"x": [side(row, 0) for row in rows], "y": [side(row, 1) for row in rows]},
    ),
    "Quantile": Kind(
        ({"lower": 0, "upper": 16, "step": 1, "branching": 2, "q": (0.25, 0.5, 0.9)},),
        (-2, 0, 3, 3.5, 8, 15, 99, None),
        quantile_of,
        read_off=lambda release, group: release.value[:, group],
    ),
    "Extremes": Kind(
        ({"lower": 0, "upper": 16, "step": 1, "branching": 2},),
        (-2, 0, 3, 3.5, 8, 15, 99, None),
        extremes_of,
        STRONG,
        read_off=lambda release, group: release.value[:, group],
    ),
    "Distinct": Kind(
        (
            {"universe": 20, "unit": sg.User(9, 9), "max_groups": WIDTH},
            {"universe": 20, "unit": sg.User(9, 9), "max_changes": WIDTH},
            {"universe": 20},
        ),
        (*range(20), 20, -1, None),
        lambda claim, seen, now: len({row for row in seen.rows if row is not None and 0 <= row < 20}),
        column="users",
        windows=("running", "each"),
    ),
}


def side(row: Any, place: int) -> Any:
    return row[place] if isinstance(row, tuple) else row


def boxed(claim: Any, seen: Stream, box: dict[str, Any]) -> int:
    """Return the number of events in a box; values outside an axis are clipped to its ends."""
    rows = [row for row in seen.rows if row is not None]
    inside = np.ones(len(rows), bool)
    for place, name in enumerate("xy"):
        axis = dict(claim.axes)[name]
        values = cells(axis, [row[place] for row in rows])
        low, high = box.get(name, (None, None))
        inside &= (values >= (0 if low is None else low)) & (values < (99 if high is None else high))
    return int(inside.sum())


def statistics_found() -> list[type[Statistic[Any]]]:
    return claims(statistics, Statistic)


@dataclass(frozen=True)
class Case:
    """A statistic with all its settings but the horizon."""

    cls: type[Statistic[Any]]
    loss: Any
    settings: tuple[tuple[str, Any], ...]

    @property
    def kind(self) -> Kind:
        return KINDS[self.cls.__name__]

    def claim(self, horizon: int | None = None, **more: Any) -> Any:
        return self.cls(self.loss, **{"horizon": horizon, **dict(self.settings), **more})

    def __str__(self) -> str:
        shown = [self.loss.currency, *(f"{name}={value}" for name, value in self.settings)]
        return f"{self.cls.__name__}({', '.join(shown)})"


def cases() -> Iterator[Case]:
    for cls in statistics_found():
        assert cls.__name__ in KINDS, f"{cls.__name__} has no events to try: add it to KINDS"
        kind = KINDS[cls.__name__]
        for settings in kind.settings:
            for loss in kind.losses:
                for window in kind.windows:
                    case = Case(cls, loss, (*settings.items(), ("window", window)))
                    if keeps(case):
                        yield case


def keeps(case: Case) -> bool:
    """Return whether the claim can be made with this loss. A refusal must be a message of the package."""
    try:
        case.claim(20)
    except ValueError as refusal:
        if str(refusal).startswith(REFUSED):
            return False
        raise
    return True


CASES = list(cases())
RUNNING = [case for case in CASES if dict(case.settings)["window"] == "running"]
KEPT = [case for case in CASES if case in RUNNING or case.loss.currency != "approximate"]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_kept_case = pytest.mark.parametrize("case", KEPT, ids=str)  # in windows, not what is kept as a rho
every_running_case = pytest.mark.parametrize("case", RUNNING, ids=str)


def stream(case: Case, ticks: int, events: int = 200, seed: int = 1) -> Stream:
    rng = np.random.default_rng(seed)
    carried = case.kind.carried
    rows = [carried[i] for i in rng.integers(0, len(carried), events)]
    order = np.sort(rng.integers(1, ticks + 1, events))
    return Stream(rows, order, rng.integers(0, WIDTH, events), rng.integers(0, 40, events))


def given(case: Case, claim: Any, part: Stream) -> dict[str, Any]:
    """The columns that a run of this claim is given."""
    columns = {case.kind.column: case.kind.columns(part.rows), "groups": part.groups}
    return {"users": part.users, **columns} if claim.bounds_users else columns


def parts(release: Any) -> list[np.ndarray]:
    """All numbers of a release, however it is made up."""
    if isinstance(release, Estimate):
        others = [getattr(release, name) for name in release.ARRAYS[2:]]
        return [release.value, release.stddev, release.reliable, *release.interval(0.9), *others]
    if isinstance(release, sg.statistics.SummaryEstimates):
        release = [getattr(release, name) for name in release.names]
    if isinstance(release, sg.statistics.RangeRelease):
        return [part for box in BOXES for part in parts(release.count(**box))]
    if isinstance(release, tuple | list):
        return [part for item in release for part in parts(item)]
    if is_dataclass(release):
        return [part for field in fields(release) for part in parts(getattr(release, field.name))]
    if callable(release):
        return []
    return [np.asarray(release)]


def same(one: Any, two: Any, *, close: bool = True) -> None:
    """Equal releases: floats that were decoded from equal sums, to their last digits."""
    first, second = parts(one), parts(two)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert a.shape == b.shape
        if a.dtype.kind == "f" and close:
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)
        else:
            np.testing.assert_array_equal(a, b)
