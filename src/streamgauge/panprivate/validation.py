"""Checks of the settings of a claim, and refusals of a run.

All of them are public.

No refusal depends on the users who came.
"""

from dataclasses import fields
from math import inf, isfinite
from typing import Any, Literal

import numpy as np

from streamgauge.continual.run import LimitExceededError
from streamgauge.continual.validation import check_whole
from streamgauge.noise import SecureNoise
from streamgauge.noise.coerce import as_fraction
from streamgauge.privacy import Pure

LawName = Literal["symmetric", "paper"]
LAW_NAMES = ("symmetric", "paper")
HashMode = bool | Literal["before"]  # by the claim, or by its caller, to numbers of cells
HASHED_BEFORE = "before"
MAX_UNIVERSE = 2**40  # of a universe
Settings = Any  # a claim: a dataclass with the settings of `TableMechanism`


def check_table_settings(claim: Settings) -> None:
    """Reject settings that make no claim, and convert NumPy's numbers to Python's."""
    for each in fields(claim):
        value = getattr(claim, each.name)
        if isinstance(value, np.integer | np.bool_):
            object.__setattr__(claim, each.name, value.item())
        elif isinstance(each.default, bool) and not isinstance(value, bool):
            if each.name != "hashed":
                raise ValueError(f"{each.name} must be True or False, got {value!r}")
            if value != HASHED_BEFORE:
                raise ValueError(f'hashed must be True, False or "{HASHED_BEFORE}", got {value!r}')
    if not isinstance(claim.loss, Pure) or claim.loss.epsilon <= 0:
        raise ValueError(f"loss must be Pure and positive for {type(claim).__name__}, got {claim.loss!r}")
    check_whole("universe", claim.universe)
    if claim.universe > MAX_UNIVERSE:
        raise ValueError(f"universe must be at most 2**40, got {claim.universe}")
    if claim.sample is not None:
        check_whole("sample", claim.sample)
        if claim.sample > claim.universe:
            raise ValueError(f"sample must be at most the universe {claim.universe}, got {claim.sample}")
    check_whole("seed", claim.seed, least=0)
    check_whole("releases", claim.releases)
    check_whole("intrusions", claim.intrusions, least=0)
    if claim.law not in LAW_NAMES:
        raise ValueError(f"law must be one of {', '.join(LAW_NAMES)}, got {claim.law!r}")
    if claim.split is not None:
        object.__setattr__(claim, "split", as_fraction("split", claim.split))
        if not 0 < claim.split < 1:
            raise ValueError(f"split must be above 0 and below 1, got {claim.split}")


def check_finite_error(claim: Settings) -> None:
    """Reject claims whose error is not finite after all announced intrusions."""
    try:
        stddev = claim.rough_stddev(claim.intrusions)
    except ArithmeticError:
        stddev = inf
    if not isfinite(stddev):
        raise ValueError(
            f"loss must be larger for {type(claim).__name__} to tell anything after {claim.intrusions} "
            f"announced intrusions, got {claim.loss!r}"
        )


def check_prediction(claim: Settings, value: float | None, intrusions: int) -> None:
    """Reject predictions for impossible values."""
    most = inf if claim.hashed else claim.highest
    if value is not None and not (isfinite(value) and 0 <= value <= most):
        raise ValueError(f"value must be between 0 and {most:g}, got {value}")
    check_whole("intrusions", intrusions, least=0)
    if intrusions > claim.intrusions:
        raise ValueError(f"intrusions must be at most the {claim.intrusions} that the claim reserves, got {intrusions}")


def check_noise_source(noise: object) -> None:
    """Reject sources without coins, and those with a key, since intruders read memory."""
    if isinstance(noise, SecureNoise):
        raise ValueError("noise must keep no key in a pan-private run, got SecureNoise")
    if noise is not None and not all(hasattr(noise, name) for name in ("laplace", "coins", "uniform")):
        raise ValueError(f"noise must be a source with laplace, coins and uniform, got {noise!r}")


def build_intrusions_error(intrusions: int) -> LimitExceededError:
    """Return the refusal of an intrusion beyond those that the claim reserves loss for."""
    return LimitExceededError(
        f"intrusions must be at most the {intrusions} that the claim reserves, got one more", "intrusions_exhausted"
    )
