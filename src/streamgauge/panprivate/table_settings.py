"""Which settings make a claim, and what can be asked of one. Settings are public, and so are refusals."""

from dataclasses import fields
from math import inf, isfinite
from typing import Any, Literal, Protocol

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.noise import SecureNoise
from streamgauge.noise.numbers import rational
from streamgauge.privacy import Pure

LawName = Literal["symmetric", "paper"]
LAWS = ("symmetric", "paper")
Hashed = bool | Literal["before"]  # by the claim, or before users are handed to it, to numbers of cells
BEFORE = "before"
LARGEST = 2**40  # of a universe
Settings = Any  # a claim of this room: a dataclass with the settings of `TableClaim`


class Asked(Protocol):
    """The settings that say which predictions make sense."""

    @property
    def hashed(self) -> Hashed: ...

    @property
    def intrusions(self) -> int: ...

    @property
    def highest(self) -> float: ...


def check_table(claim: Settings) -> None:
    """Refuses settings that make no claim, and keeps NumPy's numbers as Python's."""
    for each in fields(claim):
        value = getattr(claim, each.name)
        if isinstance(value, np.integer | np.bool_):
            object.__setattr__(claim, each.name, value.item())
        elif isinstance(each.default, bool) and not isinstance(value, bool):
            _check_switch(each.name, value)
    if not isinstance(claim.loss, Pure) or claim.loss.epsilon <= 0:
        raise ValueError(f"loss must be Pure and positive for {type(claim).__name__}, got {claim.loss!r}")
    check_whole("universe", claim.universe)
    if claim.universe > LARGEST:
        raise ValueError(f"universe must be at most 2**40, got {claim.universe}")
    if claim.sample is not None:
        check_whole("sample", claim.sample)
        if claim.sample > claim.universe:
            raise ValueError(f"sample must be at most the universe {claim.universe}, got {claim.sample}")
    check_whole("seed", claim.seed, least=0)
    check_whole("releases", claim.releases)
    check_whole("intrusions", claim.intrusions, least=0)
    if claim.law not in LAWS:
        raise ValueError(f"law must be one of {', '.join(LAWS)}, got {claim.law!r}")
    _check_split(claim)


def _check_switch(name: str, value: object) -> None:
    if name != "hashed":
        raise ValueError(f"{name} must be True or False, got {value!r}")
    if value != BEFORE:
        raise ValueError(f'hashed must be True, False or "{BEFORE}", got {value!r}')


def check_told(claim: Settings) -> None:
    """Refuses claims of which nothing is left, in numbers that there are, once all intrusions were made."""
    try:
        stddev = claim.rough(claim.intrusions)
    except ArithmeticError:
        stddev = inf
    if not isfinite(stddev):
        raise ValueError(
            f"loss must be larger for {type(claim).__name__} to tell anything after {claim.intrusions} "
            f"announced intrusions, got {claim.loss!r}"
        )


def check_asked(claim: Asked, value: float | None, intrusions: int) -> None:
    """Refuses to predict what cannot be."""
    most = inf if claim.hashed else claim.highest
    if value is not None and not (isfinite(value) and 0 <= value <= most):
        raise ValueError(f"value must be between 0 and {most:g}, got {value}")
    check_whole("intrusions", intrusions, least=0)
    if intrusions > claim.intrusions:
        raise ValueError(
            f"intrusions must be at most the {claim.intrusions} that the claim reserves, got {intrusions}"
        )


def _check_split(claim: Settings) -> None:
    if claim.split is not None:
        object.__setattr__(claim, "split", rational("split", claim.split))
        if not 0 < claim.split < 1:
            raise ValueError(f"split must be above 0 and below 1, got {claim.split}")


def check_chance(noise: object) -> None:
    """Refuses what tosses no coins and, since the table is for intruders to see, what keeps a key."""
    if isinstance(noise, SecureNoise):
        raise ValueError("noise must keep no key in a pan-private run, got SecureNoise")
    if noise is not None and not all(hasattr(noise, name) for name in ("laplace", "coins", "uniform")):
        raise ValueError(f"noise must be a source with laplace, coins and uniform, got {noise!r}")
