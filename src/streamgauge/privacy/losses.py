"""Losses of one unit, in the currencies of the field.

    Pure(epsilon)           P(release | x) <= e^epsilon P(release | x')
    Zcdp(rho)               Renyi divergence of every order alpha is at most alpha rho
    IntegerZcdp(rho)        the same at alpha = 2, 3, ... only (see conversions.py)
    Approx(epsilon, delta)  P(release in S | x) <= e^epsilon P(release in S | x') + delta

Fields are exact Fractions. Losses of one currency compare and add (composition, concurrent and adaptive
included). Currencies never mix silently. Two conversions must not be confused:

    as_pure, as_zcdp, as_approx   the loss *implied* in another currency; never less than the truth
    as_integer_zcdp               the same
    additive_loss                 the loss that a mechanism is calibrated to under this budget

An (epsilon, delta) promise goes through zCDP. Discrete Gaussian noise obeys rho = l2^2 / (2 parameter)
exactly (Canonne, Kamath, Steinke 2020, Theorem 4), and rho is converted once. The analytic Gaussian condition is
no theorem for discrete noise; see analytic_gaussian.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Literal, Protocol, Self

from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution
from streamgauge.privacy import conversions
from streamgauge.privacy.errors import PrivacyError
from streamgauge.privacy.rationals import (
    Number,
    format_rational,
    parse_nonnegative,
    parse_positive,
    parse_rational,
    parse_whole,
)

ConversionMethod = Literal["closed form", "dp-accounting"]
_RHO_CONVERSIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "closed form": conversions.epsilon_from_rho,
    "dp-accounting": conversions.epsilon_from_rho_by_accountant,
}
_INTEGER_RHO_CONVERSIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "closed form": partial(conversions.epsilon_from_rho, integer_orders=True),
    "dp-accounting": partial(conversions.epsilon_from_rho_by_accountant, integer_orders=True),
}


class Loss(Protocol):
    """The operations of every currency."""

    @property
    def currency(self) -> str:
        """Its name in tables: "pure", "zCDP", "approximate"."""
        ...

    @property
    def amount(self) -> Fraction:
        """The number by which losses of one currency (and one delta) compare."""
        ...

    @property
    def additive_loss(self) -> AdditiveLoss:
        """The largest additive loss that implies this one; noise is calibrated to it."""
        ...

    def additive_loss_after_delta(self, delta: Number) -> AdditiveLoss:
        """Return the additive loss of this budget after releases that spend delta.

        See split_bounds.py.
        """
        ...

    def group(self, size: int) -> Loss:
        """Return the loss of `size` events that change together."""
        ...

    def part(self, fraction: Number) -> AdditiveLoss:
        """Return a share of this loss; shares that sum to 1 compose to at most the whole."""
        ...

    def restate(self, loss: Loss) -> Loss:
        """Return another loss in this currency, at this delta, if a theorem has it."""
        ...

    def as_pure(self) -> Pure: ...

    def as_zcdp(self) -> Zcdp: ...

    def as_integer_zcdp(self) -> IntegerZcdp: ...

    def as_approx(self, delta: Number, *, method: ConversionMethod = "closed form") -> Approx: ...

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        """Return the least integer noise with this loss for a vector that moves so far."""
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
        object.__setattr__(self, "epsilon", parse_positive(epsilon, "epsilon"))

    @classmethod
    def zero(cls) -> Self:
        """Return the loss of nothing: the start of sums, which no mechanism has."""
        return cls.from_amount(Fraction(0))

    @classmethod
    def from_amount(cls, amount: Fraction) -> Self:
        """Return a loss computed, not declared: zero is allowed."""
        loss = object.__new__(cls)
        object.__setattr__(loss, "epsilon", parse_nonnegative(amount, "epsilon"))
        return loss

    @property
    def amount(self) -> Fraction:
        return self.epsilon

    @property
    def additive_loss(self) -> Pure:
        return self

    def additive_loss_after_delta(self, delta: Number) -> Pure:
        _reject_delta(self, delta)
        return self

    def __add__(self, other: Pure) -> Pure:
        return Pure.from_amount(self.epsilon + other.epsilon) if isinstance(other, Pure) else NotImplemented

    def group(self, size: int) -> Pure:
        return Pure(parse_whole(size, "size") * self.epsilon)

    def part(self, fraction: Number) -> Pure:
        return Pure(_parse_share(fraction) * self.epsilon)

    def restate(self, loss: Loss) -> Pure:
        return loss.as_pure()

    def as_pure(self) -> Pure:
        return self

    def as_zcdp(self) -> Zcdp:
        """Return epsilon^2 / 2 (Bun, Steinke 2016, Proposition 1.4)."""
        return Zcdp.from_amount(conversions.rho_from_epsilon(self.epsilon))

    def as_integer_zcdp(self) -> IntegerZcdp:
        return self.as_zcdp().as_integer_zcdp()

    def as_approx(self, delta: Number, *, method: ConversionMethod = "closed form") -> Approx:
        """Return the same epsilon, by either method, with an unused delta."""
        return Approx(self.epsilon, delta)

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        """Return discrete Laplace noise of scale l1/epsilon.

        The weight of a shift by l1 is at most e^(l1/scale).
        """
        return DiscreteLaplace(parse_positive(l1, "l1") / parse_positive(self.epsilon, "epsilon"))

    def __repr__(self) -> str:
        return f"Pure(epsilon={format_rational(self.epsilon)})"


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
        object.__setattr__(self, "rho", parse_positive(rho, "rho"))

    @classmethod
    def zero(cls) -> Self:
        """Return the loss of nothing: the start of sums, which no mechanism has."""
        return cls.from_amount(Fraction(0))

    @classmethod
    def from_amount(cls, amount: Fraction) -> Self:
        """Return a loss computed, not declared: zero is allowed."""
        loss = object.__new__(cls)
        object.__setattr__(loss, "rho", parse_nonnegative(amount, "rho"))
        return loss

    @property
    def amount(self) -> Fraction:
        return self.rho

    @property
    def additive_loss(self) -> Zcdp:
        return self

    def additive_loss_after_delta(self, delta: Number) -> Zcdp:
        _reject_delta(self, delta)
        return self

    def __add__(self, other: Zcdp) -> Zcdp:
        return Zcdp.from_amount(self.rho + other.rho) if isinstance(other, Zcdp) else NotImplemented

    def group(self, size: int) -> Zcdp:
        """Return size^2 rho (Bun, Steinke 2016, Proposition 1.9)."""
        return Zcdp(parse_whole(size, "size") ** 2 * self.rho)

    def part(self, fraction: Number) -> Zcdp:
        return Zcdp(_parse_share(fraction) * self.rho)

    def restate(self, loss: Loss) -> Zcdp:
        return loss.as_zcdp()

    def as_pure(self) -> Pure:
        raise PrivacyError(f"loss must be pure, got {self}, which implies no epsilon without a delta")

    def as_zcdp(self) -> Zcdp:
        return self

    def as_integer_zcdp(self) -> IntegerZcdp:
        return IntegerZcdp.from_amount(self.rho)

    def as_approx(self, delta: Number, *, method: ConversionMethod = "closed form") -> Approx:
        """Return the tight conversion at this delta, rounded up.

        The method is our closed form or Google's accountant.
        """
        return _convert_rho(self.rho, delta, method, _RHO_CONVERSIONS)

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        """Return discrete Gaussian noise of parameter l2_squared/(2 rho)."""
        return DiscreteGaussian(parse_positive(l2_squared, "l2_squared") / (2 * parse_positive(self.rho, "rho")))

    def __repr__(self) -> str:
        return f"Zcdp(rho={format_rational(self.rho)})"


@dataclass(frozen=True, order=True, slots=True, init=False, repr=False)
class IntegerZcdp:
    """The bounds of zCDP at integer orders alone: the loss of Gaussian noise that looks ahead.

    It adds to zCDP, order by order, and converts at the best integer order. It implies no zCDP, and nothing for groups
    of events: group privacy passes through other orders.

    >>> IntegerZcdp("1/4") + Zcdp("1/4"), Approx(1, 1e-6).integer_order_loss
    (IntegerZcdp(rho=1/2), IntegerZcdp(rho=0.0243559571942))
    """

    currency: ClassVar[str] = "zCDP"  # its amounts are those of zCDP
    power: ClassVar[int] = 2
    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", parse_positive(rho, "rho"))

    @classmethod
    def zero(cls) -> Self:
        """Return the loss of nothing: the start of sums, which no mechanism has."""
        return cls.from_amount(Fraction(0))

    @classmethod
    def from_amount(cls, amount: Fraction) -> Self:
        """Return a loss computed, not declared: zero is allowed."""
        loss = object.__new__(cls)
        object.__setattr__(loss, "rho", parse_nonnegative(amount, "rho"))
        return loss

    @property
    def amount(self) -> Fraction:
        return self.rho

    @property
    def additive_loss(self) -> IntegerZcdp:
        return self

    @property
    def sufficient_loss(self) -> Zcdp:
        """The zCDP loss of the same rho, which implies this one."""
        return Zcdp.from_amount(self.rho)

    def additive_loss_after_delta(self, delta: Number) -> IntegerZcdp:
        _reject_delta(self, delta)
        return self

    def __add__(self, other: IntegerZcdp | Zcdp) -> IntegerZcdp:
        return (
            IntegerZcdp.from_amount(self.rho + other.rho) if isinstance(other, IntegerZcdp | Zcdp) else NotImplemented
        )

    __radd__ = __add__

    def group(self, size: int) -> IntegerZcdp:
        if parse_whole(size, "size") == 1:
            return self
        raise PrivacyError(f"size must be 1 under {self}, got {size}: group privacy passes through other orders")

    def part(self, fraction: Number) -> IntegerZcdp:
        return IntegerZcdp(_parse_share(fraction) * self.rho)

    def restate(self, loss: Loss) -> IntegerZcdp:
        return loss.as_integer_zcdp()

    def as_pure(self) -> Pure:
        raise PrivacyError(f"loss must be pure, got {self}, which implies no epsilon without a delta")

    def as_zcdp(self) -> Zcdp:
        raise PrivacyError(f"loss must be pure or zCDP, got {self}, which bounds integer orders only: name a delta")

    def as_integer_zcdp(self) -> IntegerZcdp:
        return self

    def as_approx(self, delta: Number, *, method: ConversionMethod = "closed form") -> Approx:
        """Return the conversion at the best integer order, rounded up."""
        return _convert_rho(self.rho, delta, method, _INTEGER_RHO_CONVERSIONS)

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        return self.sufficient_loss.calibrate(l1=l1, l2_squared=l2_squared)

    def __repr__(self) -> str:
        return f"IntegerZcdp(rho={format_rational(self.rho)})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Approx:
    """Approximate (epsilon, delta)-differential privacy.

    Its order is partial: both numbers decide.

    >>> Approx(1, 1e-6).additive_loss
    Zcdp(rho=0.0243559703595)
    """

    currency: ClassVar[str] = "approximate"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", parse_positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", _parse_delta(delta))

    @classmethod
    def zero(cls) -> Self:
        """Return the loss of nothing: the start of sums, which no mechanism has."""
        loss = object.__new__(cls)
        object.__setattr__(loss, "epsilon", Fraction(0))
        object.__setattr__(loss, "delta", Fraction(0))
        return loss

    @property
    def amount(self) -> Fraction:
        return self.epsilon

    @property
    def additive_loss(self) -> Zcdp:
        """The largest rho, rounded down, whose tight conversion is at most this loss."""
        return Zcdp(conversions.rho_from_approx(self.epsilon, self.delta))

    @property
    def integer_order_loss(self) -> IntegerZcdp:
        """The largest loss at integer orders, rounded down, that implies this one."""
        return IntegerZcdp(conversions.rho_from_approx(self.epsilon, self.delta, integer_orders=True))

    def additive_loss_after_delta(self, delta: Number) -> Zcdp:
        """Return the same at the remaining delta; zero if none remains.

        >>> Approx(1, 1e-6).additive_loss_after_delta(9e-7) == Approx(1, 1e-7).additive_loss
        True
        """
        left = self.delta - parse_nonnegative(delta, "delta")
        return Zcdp.from_amount(conversions.rho_from_approx(self.epsilon, left)) if left > 0 else Zcdp.zero()

    def __add__(self, other: Approx) -> Approx:
        """Compose by adding; composing in zCDP and converting once is far tighter."""
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
        """Return (k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1)).

        Reject a delta of 1 or more.
        """
        k = parse_whole(size, "size")
        return Approx(k * self.epsilon, conversions.group_delta(self.epsilon, self.delta, k))

    def part(self, fraction: Number) -> Zcdp:
        """Return a share of the zCDP loss that implies this one, converted once."""
        return self.additive_loss.part(fraction)

    def restate(self, loss: Loss) -> Approx:
        return loss.as_approx(self.delta)

    def as_pure(self) -> Pure:
        raise PrivacyError(f"loss must be pure, got {self}, which implies no epsilon without its delta")

    def as_zcdp(self) -> Zcdp:
        raise PrivacyError(
            f"loss must be pure or zCDP, got {self}, which implies no rho: "
            "charge the charged_loss of a mechanism that is calibrated through it"
        )

    def as_integer_zcdp(self) -> IntegerZcdp:
        return self.as_zcdp().as_integer_zcdp()

    def as_approx(self, delta: Number, *, method: ConversionMethod = "closed form") -> Approx:
        if _parse_delta(delta) < self.delta:
            raise PrivacyError(f"delta must be at least {format_rational(self.delta)}, got {delta}")
        return Approx(self.epsilon, delta)

    def calibrate(self, *, l1: Number, l2_squared: Number) -> Distribution:
        return self.additive_loss.calibrate(l1=l1, l2_squared=l2_squared)

    def __repr__(self) -> str:
        return f"Approx(epsilon={format_rational(self.epsilon)}, delta={format_rational(self.delta)})"


AdditiveLoss = Pure | Zcdp | IntegerZcdp


def _convert_rho(
    rho: Fraction,
    delta: Number,
    method: ConversionMethod,
    known: Mapping[str, Callable[[Fraction, Fraction], Fraction]],
) -> Approx:
    slack = _parse_delta(delta)
    if method not in known:
        raise ValueError(f"through must be one of {', '.join(known)}, got {method}")
    return Approx(known[method](rho, slack), slack) if rho else Approx.zero()


def _parse_delta(value: Number) -> Fraction:
    delta = parse_positive(value, "delta")
    if delta >= 1:
        raise ValueError(f"delta must be below 1, got {value}")
    return delta


def _reject_delta(budget: AdditiveLoss, delta: Number) -> None:
    slack = parse_nonnegative(delta, "delta")
    if slack:
        raise PrivacyError(f"delta must be 0 under a budget of {budget}, which has none, got {format_rational(slack)}")


def _parse_share(value: Number) -> Fraction:
    fraction = parse_rational(value, "fraction")
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, got {value}")
    return fraction
