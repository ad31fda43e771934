"""Two mechanisms that differ in one mistake: the broken one must be condemned, its honest twin acquitted.

A mechanism with too little noise is the same mechanism with a larger loss, which it does not claim. So a twin with a
wrong constant is a mechanism of the package, rightly calibrated to its true loss, and only the claim is false. The
loss is computed at every horizon, and attacked.

Experiments draw exact noise, uniform floats and coins from one stream of bits. A seeded stream makes an audit
repeatable. Mechanisms in service never have one.
"""

from collections import abc
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

import numpy as np

from streamgauge.audit.exact.worst_case import price
from streamgauge.audit.subject import CallableSubject, Pair, Subject
from streamgauge.audit.subjects.mechanisms import MechanismSubject
from streamgauge.continual import LinearMechanism
from streamgauge.noise import Entropy, Ints, Keystream, Noise
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.noise.sampler_table import GaussianLaw, LaplaceLaw
from streamgauge.noise.source import sample
from streamgauge.privacy import Loss, Pure
from streamgauge.testing.noise import InsecureKeystream


def build_claimed_subject(name: str, mechanism: LinearMechanism[Any], *, loss: Loss, noise: Noise) -> MechanismSubject:
    """Build a subject of a mechanism over its whole horizon that claims `loss`."""
    return MechanismSubject(mechanism, mechanism.horizon or 1, stated=loss, max_pairs=1, noise=noise, title=name)


def replace_noise(mechanism: LinearMechanism[Any], cost: Fraction) -> LinearMechanism[Any]:
    """Return the mechanism under noise in which a move by one loses `cost`: 1/scale, or 1/(2 parameter).

    >>> from streamgauge import Pure
    >>> from streamgauge.continual import SimpleI
    >>> replace_noise(SimpleI(Pure(1), horizon=3), Fraction(1)).loss
    Pure(epsilon=3)
    """
    claim: Any = mechanism  # a dataclass, as all claims are
    loss = mechanism.loss.additive_loss
    truth = loss.amount * cost / price(mechanism.distribution)
    other: LinearMechanism[Any] = replace(claim, loss=type(loss).from_amount(truth))
    return other


@dataclass(frozen=True)
class ExperimentNoise:
    """A source of noise for mechanisms, and of all else that an experiment draws."""

    entropy: Entropy = field(default_factory=Keystream)

    @classmethod
    def from_label(cls, label: str) -> "ExperimentNoise":
        """Return noise that is the same every time, for repeatable experiments."""
        return cls(InsecureKeystream(label))

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return sample(LaplaceLaw(scale), self.entropy, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return sample(GaussianLaw(variance), self.entropy, size)

    def words(self, size: int) -> Ints:
        """Draw whole numbers below 2^53, all equally likely."""
        raw = np.empty(8 * size, np.uint8)
        self.entropy.fill(raw)
        return (raw.view(np.uint64) >> np.uint64(11)).astype(np.int64)

    def uniforms(self, size: int) -> Floats:
        """Draw floats in [0, 1), as textbooks do: multiples of 2^-53."""
        return np.asarray(self.words(size) * 2.0**-53, np.float64)

    def coins(self, chance: float, size: int) -> Bools:
        return np.asarray(self.uniforms(size) < chance, np.bool_)


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
    name: str, reason: str, build: abc.Callable[[str, Any], Subject], broken: Any, honest: Any, **options: Any
) -> TwinPair:
    """Build both subjects by one function of their title and of what differs."""
    return TwinPair(build(name, broken), build(f"{name}: honest", honest), reason, **options)


@dataclass(frozen=True)
class Mistake:
    """A function that can be broken, where there is no mechanism of the package to break."""

    name: str
    reason: str
    sample: SampleFunction = field(repr=False)

    def __call__(self, chance: ExperimentNoise, broken: bool, data: Any, runs: int) -> Any:
        return self.sample(chance, broken, data, runs)

    def build_twins(
        self, chance: ExperimentNoise, pair: Pair, *, loss: Loss = UNIT_LOSS, truth: float = inf
    ) -> TwinPair:
        """Build the function with the mistake, and without."""

        def build(title: str, is_broken: bool) -> Subject:
            sample = partial(self.sample, chance, is_broken)
            rest: dict[str, Any] = {"pair": pair.name, "evidence": pair.evidence, "is_vectorised": True}
            return CallableSubject(title, sample, loss, pair.one, pair.other, **rest)

        return build_twins(self.name, self.reason, build, True, False, truth=truth)


def name_mistake(name: str, reason: str) -> abc.Callable[[SampleFunction], Mistake]:
    """Mark a function with its mistake."""
    return partial(Mistake, name, reason)
