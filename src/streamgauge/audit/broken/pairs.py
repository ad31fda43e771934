"""Two mechanisms that differ in one mistake: the broken one must be condemned, its honest twin acquitted.

A mechanism with too little noise is the same mechanism with a larger loss, which it does not claim. So a twin with a
wrong constant is a mechanism of the package, rightly calibrated to its true loss, and only the claim is false. The
loss is computed at every horizon, and attacked.

The first paragraph of a broken twin's docstring is the reason why it is wrong. Its honest twin is the same claim of
the class of the package that it derives from, unless another is given.
"""

from collections import abc
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from inspect import getdoc
from math import inf
from typing import Any

from streamgauge.audit.exact.worst_case import price
from streamgauge.audit.subject import CallableSubject, ExperimentNoise, Pair, Subject
from streamgauge.audit.subjects.mechanisms import MechanismSubject
from streamgauge.continual import LinearMechanism
from streamgauge.noise import Noise
from streamgauge.privacy import Loss, Pure

TWIN_RUNS = 60_000  # of each neighbour, that are enough to condemn
UNIT_LOSS = Pure(1)

SampleFunction = abc.Callable[[ExperimentNoise, bool, Any, int], Any]  # chance, broken or honest, data, runs


@dataclass(frozen=True)
class TwinPair:
    """A broken mechanism, why it is wrong and what it loses in truth; and the honest one of the same claim.

    Both are attacked on the same neighbours.
    """

    broken: Subject
    honest: Subject
    reason: str
    truth: float = inf  # or a bound above it; infinite where one neighbour shows what the other cannot
    runs: int = TWIN_RUNS
    is_counted: bool = True  # whether experiments condemn it; what shows too rarely is condemned by computation
    has_wrong_estimates: bool = False  # whether it keeps its claim, and is condemned for its estimates

    @property
    def name(self) -> str:
        return self.broken.name


def build_twins(
    name: str, build: abc.Callable[..., Subject], broken: Any, honest: Any = None, **options: Any
) -> TwinPair:
    """Build both subjects by one function of the claim that differs, and of `title`."""
    acquitted = restore_claim(broken) if honest is None else honest
    reason = options.pop("reason", None) or read_reason(broken)
    return TwinPair(build(broken, title=name), build(acquitted, title=f"{name}: honest"), reason, **options)


def restore_claim(broken: Any) -> Any:
    """Return the same claim of the class of the package that a broken one derives from."""
    package = __name__.rpartition(".")[0]
    honest = next(cls for cls in type(broken).__mro__ if not cls.__module__.startswith(package))
    return honest(**{each.name: getattr(broken, each.name) for each in fields(broken) if each.init})


def read_reason(broken: Any) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((getdoc(broken) or "").partition("\n\n")[0].split())


def build_claimed_subject(
    mechanism: LinearMechanism[Any], *, loss: Loss, noise: Noise, title: str = ""
) -> MechanismSubject:
    """Build a subject of a mechanism over its whole horizon that claims `loss`."""
    return MechanismSubject(mechanism, mechanism.horizon or 1, stated=loss, max_pairs=1, noise=noise, title=title)


def replace_noise(mechanism: LinearMechanism[Any], cost: Fraction) -> LinearMechanism[Any]:
    """Return the mechanism under noise in which a move by one loses `cost`: 1/scale, or 1/(2 parameter).

    >>> from streamgauge import Pure
    >>> from streamgauge.continual import SimpleI
    >>> replace_noise(SimpleI(Pure(1), horizon=3), Fraction(1)).loss
    Pure(epsilon=3)
    """
    claim: Any = mechanism  # a dataclass, as all claims are
    loss = mechanism.charged_loss
    truth = loss.amount * cost / price(mechanism.distribution)
    other: LinearMechanism[Any] = replace(claim, loss=type(loss).from_amount(truth))
    return other


def pair_samples(
    chance: ExperimentNoise,
    name: str,
    sample: SampleFunction,
    pair: Pair,
    *,
    loss: Loss = UNIT_LOSS,
    truth: float = inf,
) -> TwinPair:
    """Build twins of a function, if there is no mechanism of the package to break; its docstring is the reason."""

    def build(is_broken: bool, title: str) -> Subject:
        return CallableSubject(title, partial(sample, chance, is_broken), loss, [pair], is_vectorised=True)

    return build_twins(name, build, True, False, truth=truth, reason=read_reason(sample))
