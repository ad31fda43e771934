"""Exact laws and moments of reports: coins and dice fall every way, hashes send items everywhere."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from streamgauge.localdp import hashing
from streamgauge.prime_field import P
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_draw import EveryWay, following, power

Law = dict[bytes, Fraction]


def law(claim: Any, item: Any) -> Law:
    """All reports that a device may send, with their chances."""
    found: Law = defaultdict(Fraction)
    path: Any = []
    while path is not None:
        chance = EveryWay(path)
        report = claim.privatise(item, chance)
        found[report] += chance.probability
        path = following(chance.left)
    return dict(found)


def worst_ratio(laws: list[Law]) -> Fraction:
    """The largest ratio of the chances of one report between two items."""
    reports = set().union(*laws)
    assert all(set(each) == reports for each in laws), "some item never sends what another does"
    return max(max(each[report] for each in laws) / min(each[report] for each in laws) for report in reports)


def keeps(claim: Any, laws: list[Law]) -> bool:
    return worst_ratio(laws) <= power(claim.loss.epsilon)


def through(points: list[int], values: tuple[int, ...]) -> list[int]:
    """The polynomial of degree 2 modulo p through three points: one, and only one."""
    a = b = c = 0
    for place, (x, value) in enumerate(zip(points, values, strict=True)):
        y, z = points[:place] + points[place + 1 :]
        weight = value * pow((x - y) * (x - z), -1, P)
        a, b, c = a + weight, b - weight * (y + z), c + weight * y * z
    return [a % P, b % P, c % P]


def every_family(claim: Any, items: list[Any], patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each way in which hashes can send three items to columns, made to be the claim's own, if it has any."""
    if not hasattr(claim, "family"):
        yield
        return
    points = [claim.family.word(item) for item in items]
    ways = [through(points, columns) for columns in product(range(claim.width), repeat=3)]
    for chosen in product(ways, repeat=claim.hashes):
        patch.setattr(hashing, "compute_row_coefficients", lambda row, seed, chosen=chosen: chosen[row])
        hashing.coefficients.cache_clear()
        yield
    patch.undo()
    hashing.coefficients.cache_clear()


def moved(claim: Any, report: bytes, items: list[Any]) -> Any:
    """Return the change of the estimates by one report."""
    collector = claim.build_collector()
    assert collector.add(report) == 1
    return claim.counts(collector._state.table, 1, items)


@dataclass
class Moments:
    """Means and variances of estimates over coins, dice and hashes."""

    mean: Any
    variance: Any


def moments(claim: Any, counts: Counter[Any], patch: pytest.MonkeyPatch) -> Moments:
    """Return the moments of estimates of three items. Reports are independent for given hashes."""
    items = list(counts)
    means, spreads = [], []
    for _ in every_family(claim, items, patch):
        mean = spread = np.zeros(len(items))
        by_report = {report: moved(claim, report, items) for report in law(claim, items[0])}
        for item, count in counts.items():
            chances = [(float(chance), by_report[report]) for report, chance in law(claim, item).items()]
            first = sum(chance * by for chance, by in chances)
            second = sum(chance * by**2 for chance, by in chances)
            mean, spread = mean + count * first, spread + count * (second - first**2)
        means.append(mean)
        spreads.append(spread)
    return Moments(np.mean(means, 0), np.mean(spreads, 0) + np.var(means, 0))


def mean_squares(claim: Any, counts: Counter[Any], patch: pytest.MonkeyPatch) -> float:
    """The mean of the estimated sum of squares, over every joint outcome."""
    total, families = 0.0, 0
    for _ in every_family(claim, list(counts), patch):
        laws = [law(claim, item) for item in counts.elements()]
        for reports in product(*laws):
            chance = float(np.prod([float(each[report]) for each, report in zip(laws, reports, strict=True)]))
            collector = claim.build_collector()
            collector.add(list(reports))
            total += chance * claim.squares(collector._state.table, len(reports))
        families += 1
    return total / families


def assert_exact(claim: Any, patch: pytest.MonkeyPatch) -> None:
    """Over all hashes and coins, means are the counts and variances those stated."""
    counts = Counter({"a": 5, "b": 3, "c": 0})
    found = moments(claim, counts, patch)
    stated = [claim.variance(count, 8, 34 - count**2) for count in counts.values()]
    assert found.mean == pytest.approx(list(counts.values()))
    assert found.variance == pytest.approx(stated)


def assert_squares(claim: Any, patch: pytest.MonkeyPatch) -> None:
    for counts, squares in (((2, 1, 0), 5), ((1, 1, 1), 3)):
        held = Counter(dict(zip("abc", counts, strict=True)))
        assert mean_squares(claim, held, patch) == pytest.approx(squares)


def assert_encoded(claim: Any, draws: Callable[[InsecureNoise, int], tuple[Any, ...]]) -> None:
    """Assert that a batch of reports equals `encode` of each item with its draws."""
    items = [("a", "b", 7)[place % 3] for place in range(30)]
    sent = claim.privatise_many(items, InsecureNoise(1))
    drawn = zip(*(each.tolist() for each in draws(InsecureNoise(1), 30)), strict=True)
    encoded = [claim.encode(item, *each) for item, each in zip(items, drawn, strict=True)]
    assert [report.tobytes() for report in sent] == encoded
