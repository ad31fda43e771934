"""Deltas of charges against enumeration: mechanisms that may fail lose what they charge."""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from math import exp

import pytest

from streamgauge.privacy import Approx, Event, Ledger, Pure, Tick, Unit, User, WEvent, Zcdp
from streamgauge.privacy.conversions import epsilon_from_rho
from streamgauge.statistics import TopK

# Against enumeration: every pair of laws is a table {outcome: (P, Q)} of exact or float probabilities.

Laws = dict[object, tuple[float, float]]


def leaky(step: float, leak: float) -> Laws:
    """Return the laws of randomised response at epsilon = step with a leak of the bit."""
    lie = 1 / (1 + exp(step))
    rest = {("no", 1): (1 - lie, lie), ("no", 0): (lie, 1 - lie)}
    failed = {("leaks", 1): (leak, 0.0), ("leaks", 0): (0.0, leak)}
    return {o: (p * (1 - leak), q * (1 - leak)) for o, (p, q) in rest.items()} | (failed if leak else {})


def hockey_stick(laws: Iterable[tuple[float, float]], epsilon: float) -> float:
    """Return the least delta at this epsilon, the worse of both directions."""
    pairs = list(laws)
    one = sum(max(p - exp(epsilon) * q, 0.0) for p, q in pairs)
    other = sum(max(q - exp(epsilon) * p, 0.0) for p, q in pairs)
    return max(one, other)


def adaptively(
    rounds: int, choose: Callable[[tuple[object, ...]], Laws], release: tuple[object, ...] = ()
) -> Iterator[tuple[float, float]]:
    """Return the law of several releases, each chosen from the earlier ones."""
    if not rounds:
        yield 1.0, 1.0
        return
    for outcome, (p, q) in choose(release).items():
        for rest_p, rest_q in adaptively(rounds - 1, choose, (*release, outcome)):
            yield p * rest_p, q * rest_q


@pytest.mark.parametrize("converted", ["1/1000", "1/50"])
def test_composed_releases_that_may_fail_satisfy_their_charge(converted: str) -> None:
    """Six rounds at epsilon 1/2, or at 1/4 with a leak of 1/100 after a bit of 1."""
    step, leak, rounds, left = 0.5, 0.01, 6, Fraction(converted)

    def choose(release: tuple[object, ...]) -> Laws:
        return leaky(step / 2, leak) if release and release[-1] == ("no", 1) else leaky(step, leak)

    rho = rounds * Pure("1/2").as_zcdp().rho
    claimed = float(epsilon_from_rho(rho, left))
    true = hockey_stick(adaptively(rounds, choose), claimed)
    assert true <= float(left) + rounds * leak
    assert true > float(left), "a check that forgets deltas would be wrong here"


@pytest.mark.parametrize(("scale", "threshold"), [(2, 6), (3, 9), (4, 5)])
def test_discovered_keys_satisfy_their_charge(scale: int, threshold: int) -> None:
    """Key A has two events of others, B none; the unit may add one to each.

    Published: each noisy count above the threshold, B's only if B is eligible. The counters are pure at
    2/scale; the threshold takes P(noise > threshold - 1), without which no epsilon would do.
    """
    reach, ratio = 40 * scale, exp(-1 / scale)
    noise = {n: (1 - ratio) / (1 + ratio) * ratio ** abs(n) for n in range(-reach, reach + 1)}
    answer: dict[tuple[int | None, int | None], list[float]] = {}
    for world, (a, b) in enumerate(((3, 1), (2, 0))):
        for (n, p), (m, q) in product(noise.items(), noise.items()):
            key_a = a + n if a + n > threshold else None
            key_b = b + m if b and b + m > threshold else None
            answer.setdefault((key_a, key_b), [0.0, 0.0])[world] += p * q
    fails = sum(p for n, p in noise.items() if 1 + n > threshold)
    rho, left = Pure(Fraction(2, scale)).as_zcdp().rho, Fraction(1, 100)
    claimed = float(epsilon_from_rho(rho, left))
    assert hockey_stick(((p, q) for p, q in answer.values()), claimed) <= float(left) + fails
    assert hockey_stick(((p, q) for p, q in answer.values()), 50.0) == pytest.approx(fails)


DELTA = Approx(1, 1e-6).delta
UNITS = [Event(), WEvent(3), User(2, 3), Event(replace=True, moves=True), Tick(4)]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("epsilon", ["1/10", 2])
def test_top_k_charges_losses_of_counters_and_thresholds(unit: Unit, epsilon: str | int) -> None:
    claim = TopK(Approx(epsilon, 1e-6), k=2, horizon=30, unit=unit)
    loss, delta = claim.native_charge
    assert delta == claim.selection.delta
    assert (loss, delta) in [
        (Pure(epsilon), DELTA),
        (Approx(epsilon, 5e-7).additive_loss, DELTA / 2),
        (Pure(epsilon), DELTA / 2),
    ]
    assert loss == claim.counter.loss.additive_loss
    budget = Approx(loss.as_zcdp().as_approx(1e-6).epsilon + Fraction(1, 10**9), delta + DELTA)
    ledger = Ledger(budget, unit)
    ledger.charge("keys", loss, last=30, native=True, delta=delta)
    assert ledger.spent_loss() <= budget


def test_top_k_of_a_declared_domain_takes_no_delta() -> None:
    assert TopK(Pure(1), k=1, domain=["a", "b"], horizon=9).native_charge == (Pure(1), 0)
    assert TopK(Zcdp("1/8"), k=1, domain=["a", "b"], horizon=9).native_charge[1] == 0
