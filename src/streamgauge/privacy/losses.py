"""Losses: what one unit can lose, in the three currencies of the field.

    Pure(epsilon)           P(release | x) <= e^epsilon P(release | x')
    Zcdp(rho)               Renyi divergence of every order alpha is at most alpha rho
    Approx(epsilon, delta)  P(release in S | x) <= e^epsilon P(release in S | x') + delta

Fields are exact Fractions. Losses of one currency add (composition, concurrent and adaptive included) and
compare; currencies never mix silently. Conversions go two ways that must not be confused:

    as_pure, as_zcdp, as_approx   what a loss *implies* in another currency; never less than the truth
    kept_as                       what a mechanism has to keep so that it keeps this loss: the way of a budget

An (epsilon, delta) promise is kept through zCDP: discrete Gaussian noise obeys rho = l2^2 / (2 parameter)
exactly (Canonne, Kamath, Steinke 2020, Theorem 4), and rho converts once. The analytic Gaussian condition is
no theorem for discrete noise; see analytic.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Protocol, Self

from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution
from streamgauge.privacy import accountant, conversions
from streamgauge.privacy.errors import WrongCurrency
from streamgauge.privacy.exact import Number, exact, not_negative, positive, shown, whole

Through = Literal["closed form", "dp-accounting"]
_EPSILON_OF_RHO: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "closed form": conversions.epsilon_of_rho,
    "dp-accounting": accountant.epsilon_of_rho,
}


class Loss(Protocol):
    """What every currency can do."""

    @property
    def currency(self) -> str:
        """Its name in tables: "pure", "zCDP", "approximate"."""
        ...

    @property
    def amount(self) -> Fraction:
        """The number by which losses of one currency (and one delta) compare."""
        ...

    @property
    def kept_as(self) -> Pure | Zcdp:
        """The largest loss that adds up by itself and implies this one: what noise is calibrated to."""
        ...

    def kept_beside(self, delta: Number) -> Pure | Zcdp:
        """What else may be lost under this budget by releases that take a delta of it (see slack.py)."""
        ...

    def group(self, size: int) -> Loss:
        """The loss of `size` events that change together."""
        ...

    def part(self, fraction: Number) -> Pure | Zcdp:
        """A share of this loss; shares that sum to 1 compose to at most the whole."""
        ...

    def restate(self, loss: Loss) -> Loss:
        """Another loss in this one's currency (at this one's delta), if a theorem has it."""
        ...

    def as_pure(self) -> Pure: ...

    def as_zcdp(self) -> Zcdp: ...

    def as_approx(self, delta: Number, *, through: Through = "closed form") -> Approx: ...

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        """The least integer noise under which a vector that moves this far keeps the loss."""
        ...


@dataclass(frozen=True, order=True, slots=True, init=False, repr=False)
class Pure:
    """Pure epsilon-differential privacy.

    >>> Pure(0.25) + Pure("1/12"), Pure(1).group(3), Pure(2).as_zcdp()
    (Pure(epsilon=1/3), Pure(epsilon=3), Zcdp(rho=2))
    """

    currency: ClassVar[str] = "pure"
    power: ClassVar[int] = 1  # a group of k loses k**power times as much
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))

    @classmethod
    def nothing(cls) -> Self:
        """No loss at all, which sums may start from and no mechanism can keep."""
        return cls.from_amount(Fraction(0))

    @classmethod
    def from_amount(cls, amount: Fraction) -> Self:
        """A loss computed, not declared: zero is allowed."""
        loss = object.__new__(cls)
        object.__setattr__(loss, "epsilon", not_negative(amount, "epsilon"))
        return loss

    @classmethod
    def of(cls, *, l1: Number, scale: Number) -> Self:
        """The loss of discrete Laplace noise of this scale on a vector that moves by l1."""
        return cls(positive(l1, "l1") / positive(scale, "scale"))

    @property
    def amount(self) -> Fraction:
        return self.epsilon

    @property
    def kept_as(self) -> Pure:
        return self

    def kept_beside(self, delta: Number) -> Pure:
        _refuse_delta(self, delta)
        return self

    def __add__(self, other: Pure) -> Pure:
        return Pure.from_amount(self.epsilon + other.epsilon) if isinstance(other, Pure) else NotImplemented

    def group(self, size: int) -> Pure:
        return Pure(whole(size, "size") * self.epsilon)

    def part(self, fraction: Number) -> Pure:
        return Pure(_share(fraction) * self.epsilon)

    def restate(self, loss: Loss) -> Pure:
        return loss.as_pure()

    def as_pure(self) -> Pure:
        return self

    def as_zcdp(self) -> Zcdp:
        """epsilon^2 / 2 (Bun, Steinke 2016, Proposition 1.4)."""
        return Zcdp.from_amount(conversions.rho_of_epsilon(self.epsilon))

    def as_approx(self, delta: Number, *, through: Through = "closed form") -> Approx:
        """The same epsilon, whichever the way; delta is given away."""
        return Approx(self.epsilon, delta)

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        """Discrete Laplace of scale l1/epsilon: the weight of a shift by l1 is at most e^(l1/scale)."""
        return DiscreteLaplace(positive(l1, "l1") / positive(self.epsilon, "epsilon"))

    def __repr__(self) -> str:
        return f"Pure(epsilon={shown(self.epsilon)})"


@dataclass(frozen=True, order=True, slots=True, init=False, repr=False)
class Zcdp:
    """Zero-concentrated differential privacy (Bun, Steinke 2016).

    >>> Zcdp("1/2").group(3), Zcdp(0.5).part("1/4"), Zcdp("1/2").as_approx(1e-6)
    (Zcdp(rho=9/2), Zcdp(rho=1/8), Approx(epsilon=5.22153444453017, delta=1e-06))
    """

    currency: ClassVar[str] = "zCDP"
    power: ClassVar[int] = 2  # a group of k loses k**power times as much
    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", positive(rho, "rho"))

    @classmethod
    def nothing(cls) -> Self:
        """No loss at all, which sums may start from and no mechanism can keep."""
        return cls.from_amount(Fraction(0))

    @classmethod
    def from_amount(cls, amount: Fraction) -> Self:
        """A loss computed, not declared: zero is allowed."""
        loss = object.__new__(cls)
        object.__setattr__(loss, "rho", not_negative(amount, "rho"))
        return loss

    @classmethod
    def of(cls, *, l2_squared: Number, parameter: Number) -> Self:
        """The loss of (discrete) Gaussian noise of this parameter on a vector that moves that far."""
        return cls(positive(l2_squared, "l2_squared") / (2 * positive(parameter, "parameter")))

    @property
    def amount(self) -> Fraction:
        return self.rho

    @property
    def kept_as(self) -> Zcdp:
        return self

    def kept_beside(self, delta: Number) -> Zcdp:
        _refuse_delta(self, delta)
        return self

    def __add__(self, other: Zcdp) -> Zcdp:
        return Zcdp.from_amount(self.rho + other.rho) if isinstance(other, Zcdp) else NotImplemented

    def group(self, size: int) -> Zcdp:
        """size^2 rho (Bun, Steinke 2016, Proposition 1.9)."""
        return Zcdp(whole(size, "size") ** 2 * self.rho)

    def part(self, fraction: Number) -> Zcdp:
        return Zcdp(_share(fraction) * self.rho)

    def restate(self, loss: Loss) -> Zcdp:
        return loss.as_zcdp()

    def as_pure(self) -> Pure:
        raise WrongCurrency(f"loss must be pure, got {self}, which implies no epsilon without a delta")

    def as_zcdp(self) -> Zcdp:
        return self

    def as_approx(self, delta: Number, *, through: Through = "closed form") -> Approx:
        """The tight conversion at this delta, rounded up, by our closed form or by Google's accountant."""
        slack = _delta(delta)
        if through not in _EPSILON_OF_RHO:
            raise ValueError(f"through must be one of {', '.join(_EPSILON_OF_RHO)}, got {through}")
        if not self.rho:
            return Approx.nothing()
        return Approx(_EPSILON_OF_RHO[through](self.rho, slack), slack)

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        """Discrete Gaussian of parameter l2_squared/(2 rho)."""
        return DiscreteGaussian(positive(l2_squared, "l2_squared") / (2 * positive(self.rho, "rho")))

    def __repr__(self) -> str:
        return f"Zcdp(rho={shown(self.rho)})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Approx:
    """Approximate (epsilon, delta)-differential privacy. Its order is partial: both numbers decide.

    >>> Approx(1, 1e-6).kept_as
    Zcdp(rho=0.0243559703595)
    """

    currency: ClassVar[str] = "approximate"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", _delta(delta))

    @classmethod
    def nothing(cls) -> Self:
        """No loss at all, which sums may start from and no mechanism can keep."""
        loss = object.__new__(cls)
        object.__setattr__(loss, "epsilon", Fraction(0))
        object.__setattr__(loss, "delta", Fraction(0))
        return loss

    @property
    def amount(self) -> Fraction:
        return self.epsilon

    @property
    def kept_as(self) -> Zcdp:
        """The largest rho, rounded down, whose tight conversion is within this loss."""
        return Zcdp(conversions.rho_of_approx(self.epsilon, self.delta))

    def kept_beside(self, delta: Number) -> Zcdp:
        """The same at what is left of delta; nothing if nothing is.

        >>> Approx(1, 1e-6).kept_beside(9e-7) == Approx(1, 1e-7).kept_as
        True
        """
        left = self.delta - not_negative(delta, "delta")
        return Zcdp.from_amount(conversions.rho_of_approx(self.epsilon, left)) if left > 0 else Zcdp.nothing()

    def __add__(self, other: Approx) -> Approx:
        """Basic composition; compose in zCDP and convert once where you can, which is far tighter."""
        if not isinstance(other, Approx):
            return NotImplemented
        if not (self.epsilon and other.epsilon):
            return self if self.epsilon else other
        return Approx(self.epsilon + other.epsilon, self.delta + other.delta)

    def __le__(self, other: Approx) -> bool:
        if not isinstance(other, Approx):
            return NotImplemented
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def __lt__(self, other: Approx) -> bool:
        return self <= other and self != other if isinstance(other, Approx) else NotImplemented

    def group(self, size: int) -> Approx:
        """(k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1)); refused where that delta is 1 or more."""
        k = whole(size, "size")
        return Approx(k * self.epsilon, conversions.group_delta(self.epsilon, self.delta, k))

    def part(self, fraction: Number) -> Zcdp:
        """A share of the zCDP loss that keeps this one: converted once, not part by part."""
        return self.kept_as.part(fraction)

    def restate(self, loss: Loss) -> Approx:
        return loss.as_approx(self.delta)

    def as_pure(self) -> Pure:
        raise WrongCurrency(f"loss must be pure, got {self}, which implies no epsilon without its delta")

    def as_zcdp(self) -> Zcdp:
        raise WrongCurrency(
            f"loss must be pure or zCDP, got {self}, which implies no rho: "
            "charge the kept_as of a mechanism that is calibrated through it"
        )

    def as_approx(self, delta: Number, *, through: Through = "closed form") -> Approx:
        if _delta(delta) < self.delta:
            raise WrongCurrency(f"delta must be at least {shown(self.delta)}, got {delta}")
        return Approx(self.epsilon, delta)

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        return self.kept_as.calibrate(l1=l1, l2_squared=l2_squared)

    def __repr__(self) -> str:
        return f"Approx(epsilon={shown(self.epsilon)}, delta={shown(self.delta)})"


def _delta(value: Number) -> Fraction:
    delta = positive(value, "delta")
    if delta >= 1:
        raise ValueError(f"delta must be below 1, got {value}")
    return delta


def _refuse_delta(budget: Pure | Zcdp, delta: Number) -> None:
    taken = not_negative(delta, "delta")
    if taken:
        raise WrongCurrency(f"delta must be 0 under a budget of {budget}, which has none, got {shown(taken)}")


def _share(value: Number) -> Fraction:
    fraction = exact(value, "fraction")
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, got {value}")
    return fraction
