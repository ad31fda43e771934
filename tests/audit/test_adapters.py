"""Audits of plain callables: every output of a run is evidence."""

from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from streamgauge import Pure
from streamgauge.audit.attack.measure import measure
from streamgauge.audit.attack.outputs import KIND_FLOAT, KIND_NAN, REMAINDER_KIND_OFFSET
from streamgauge.audit.subject import BATCH_OUTPUTS, CallableSubject, list_neighbours

SURE = 1 - 1e-9
dp.enable_features("contrib")


def shown(output: Any) -> list[float]:
    """Return the view of a run with this constant output."""
    return CallableSubject("one", lambda data: output, Pure(1), [(0, 1)]).views(0, 1)[0].tolist()


def measured(run: Any, *, one: Any = 1, other: Any = 0, runs: int = 4000, vectorised: bool = False) -> float:
    return measure(CallableSubject("subject", run, Pure(1), [(one, other)], vectorised), runs, SURE).amount


def laplace(kind: type, scale: float) -> Any:
    distance = dp.l1_distance(T=kind)
    domain = dp.vector_domain(dp.atom_domain(T=kind, **({"nan": False} if kind is float else {})))
    return dp.m.make_laplace(domain, distance, scale=scale)


@pytest.mark.parametrize("kind", [int, float])
def test_opendp_measurement_is_acquitted_and_with_half_noise_condemned(kind: type) -> None:
    for scale, times in ((1.0, 1), (0.5, 2)):
        measurement = laplace(kind, scale)
        found = measured(
            lambda count, runs, m=measurement: m([count] * runs),
            one=kind(1),
            other=kind(0),
            runs=20_000,
            vectorised=True,
        )
        assert found <= times
        assert (found > 1) == (times == 2)


def test_measurement_without_vector_argument_is_called_once_per_run() -> None:
    measurement = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=0.2)
    assert 1 < measured(measurement, runs=2000) <= 5


def test_numpy_noise_is_detected_by_its_lowest_bits() -> None:
    chance = np.random.default_rng(1)
    plain = measured(lambda x, runs: x + chance.laplace(0, 1, runs), one=1.0, other=0.0, runs=40_000, vectorised=True)
    cut = measured(lambda x, runs: np.rint(x + chance.laplace(0, 1, runs)), runs=40_000, vectorised=True)
    assert plain > 3
    assert cut <= 1


@pytest.mark.parametrize("odd", [nan, inf, -inf, None, "secret", b"\x00", 2**60 + 1, 10**400, object])
def test_output_of_one_neighbour_alone_condemns_the_run(odd: Any) -> None:
    """This includes integers that round to the same float."""
    usual: Any = 2**60 if odd == 2**60 + 1 else 0.0
    assert measured(lambda data: [7.0, odd if data else usual]) > 3


def test_leak_in_one_run_of_a_hundred_is_detected() -> None:
    chance = np.random.default_rng(2)
    assert measured(lambda data: nan if data and chance.integers(100) == 0 else 0.0, runs=20_000) > 1


def test_texts_are_distinguished_in_any_order() -> None:
    chance = np.random.default_rng(3)
    words = np.array(["b", "a", "d", "c", "e"])
    chances = {0: [0.2] * 5, 1: [0.02, 0.4, 0.16, 0.4, 0.02]}
    run = lambda data, runs: chance.choice(words, runs, p=chances[data])  # noqa: E731 - a callable
    assert 1.5 < measured(run, runs=40_000, vectorised=True) <= 2.31


def test_outputs_are_numbers_remainders_and_kinds() -> None:
    assert shown(3) == shown(np.int8(3)) == [3, 0, 0]
    assert shown(3.0) == [3, 0, KIND_FLOAT]
    assert shown([1, (2, 3)][1]) == [2, 3, 0, 0]
    assert shown(np.array([[1, 2], [3, 4]])) == shown([[1, 2], [3, 4]]) == [1, 2, 3, 4, 0, 0]
    assert shown(2**53 + 1) == [2.0**53, 1, REMAINDER_KIND_OFFSET]
    assert shown([nan, 1]) == [0, 1, 0, KIND_NAN]
    assert shown([1, nan]) == [1, 0, 0, KIND_NAN / 16]
    assert shown("same") == shown("same") != shown("other")


ODDEST = [(0.0, -0.0), (1, True), (1.0, True), (1, Decimal(1)), (Fraction(1, 3), 1 / 3), (Decimal("1.0"), Decimal(1))]


@pytest.mark.parametrize(("odd", "usual"), ODDEST)
def test_equal_values_of_other_types_are_distinguished(odd: Any, usual: Any) -> None:
    assert measured(lambda data: [7, odd if data else usual], runs=1000) > 1


def test_worst_of_many_neighbours_is_found() -> None:
    """Values are clamped to 5, so pairs with values of 5 or more lose most."""
    chance = np.random.default_rng(4)

    def total(values: tuple[int, ...], runs: int) -> Any:
        noise = chance.geometric(1 - np.exp(-1.0), (2, runs))
        return sum(min(value, 5) for value in values) + noise[0] - noise[1]

    inputs = [(), *((value,) for value in range(-1, 8))]
    found = list(list_neighbours(inputs, lambda one, other: len(one) != len(other)))
    assert len(found) == 9
    given = CallableSubject("given", total, Pure(4), [found[1]], is_vectorised=True)
    searched = CallableSubject("searched", total, Pure(4), found, is_vectorised=True)
    assert measure(given, 20_000, SURE).amount < 0.5
    worst = measure(searched, 20_000, SURE)
    assert 4 < worst.amount <= 5
    assert worst.pair in ("() and (5,)", "() and (6,)", "() and (7,)")


def test_many_runs_come_in_batches_without_loss() -> None:
    calls = iter(range(10**6))
    views = CallableSubject("counting", lambda data: float(next(calls)), Pure(1), [(0, 1)]).views(
        0, 2 * BATCH_OUTPUTS + 5
    )
    assert sorted(set(np.diff(np.sort(views[:, 0])))) == [1]
    assert views.shape == (2 * BATCH_OUTPUTS + 5, 3)


def test_integers_at_once_are_as_exact_as_one_by_one() -> None:
    big = np.array([2**63 - 1, -(2**63), 5])
    at_once = CallableSubject(
        "at once", lambda data, runs: np.tile(big, (runs, 1)), Pure(1), [(0, 1)], is_vectorised=True
    )
    assert at_once.views(0, 2)[1].tolist() == shown(big.tolist())


@pytest.mark.parametrize(
    ("run", "vectorised", "message"),
    [
        (lambda data: [0] * (1 + data), False, r"^run must return outputs of one shape, got \(2,\) and \(1,\)$"),
        (lambda data: [[1, 2], [3]], False, r"^run must return outputs of one shape, got \(1,\) and \(2,\)$"),
        (
            lambda data, runs: np.zeros((3, 2)),
            True,
            r"^run must return a row for each of 1 runs, got an array of shape \(3, 2\)$",
        ),
        (
            lambda data, runs: np.zeros((runs, runs)),
            True,
            r"^run must return outputs of one shape, got \(1,\) and \(9,\)$",
        ),
    ],
)
def test_outputs_of_different_shapes_are_refused(run: Any, vectorised: bool, message: str) -> None:
    subject = CallableSubject("ragged", run, Pure(1), [(1, 0)], vectorised)
    with pytest.raises(ValueError, match=message):
        subject.views(0, 9)


def test_an_exception_of_a_run_ends_the_audit() -> None:
    with pytest.raises(ZeroDivisionError):
        measured(lambda data: 1 / data)
