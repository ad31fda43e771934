"""Subjects of an audit: anything that claims a loss and can be run on two neighbours.

Any callable is a subject: another library's measurement, a function, a remote service.

    CallableSubject("theirs", measurement, Pure(1), [(0, 1)])

`run(data)` returns the public output of one run: a number, text, None, or these in lists or arrays of one shape. With
`is_vectorised=True`, `run(data, runs)` returns one row for each run, which is much faster. Every output is evidence
(see `audit.attack.outputs`). An exception is none, and ends the audit.

    CallableSubject("theirs", measurement, Pure(1), list(list_neighbours(inputs, differ_by_one)))

If the worst neighbours are unknown, give many: the runs of the scan try all, and the worst is counted on other runs.
"""

from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from inspect import isabstract, isclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from streamgauge.audit.attack.outputs import OutputShape, box_output, encode_outputs, stack_outputs, to_rows
from streamgauge.continual import LinearMechanism
from streamgauge.continual.run import build_noise
from streamgauge.noise import Entropy, Ints, Keystream, Noise
from streamgauge.noise.bernoulli import bernoulli, uniform_int
from streamgauge.noise.coerce import Floats
from streamgauge.noise.entropy import Bytes, draw_bytes
from streamgauge.noise.sampler_table import GaussianLaw, LaplaceLaw
from streamgauge.noise.source import sample
from streamgauge.privacy import Loss
from streamgauge.testing.noise import InsecureKeystream

if TYPE_CHECKING:
    from streamgauge.audit.exact.worst_case import WorstCase

Settings = Mapping[str, Any]
Score = Callable[[Floats], Floats]  # of views, one row each: the larger, the more it looks like `one`


@dataclass(frozen=True)
class Pair:
    """Two inputs that differ in one unit."""

    name: str
    one: Any = field(repr=False)
    other: Any = field(repr=False)
    evidence: Score | None = field(default=None, repr=False)  # the log-likelihood ratio, where it is known


class Subject(Protocol):
    """Anything with a claim."""

    @property
    def name(self) -> str: ...

    @property
    def loss(self) -> Loss:
        """The claimed loss between the two inputs of any pair."""

    def pairs(self) -> Sequence[Pair]:
        """Return neighbours that are worth an attack, the worst first."""

    def views(self, data: Any, runs: int) -> Floats:
        """Return the views of so many independent runs on `data`: one row each, all of one law.

        NaN stands for a missing number.
        """


@dataclass(frozen=True)
class ViewSubject:
    """A subject whose pairs are known, with a function that returns its views."""

    name: str
    loss: Loss
    known_pairs: Sequence[Pair]
    run_views: Callable[[Any, int], Floats] = field(repr=False)

    def pairs(self) -> Sequence[Pair]:
        return self.known_pairs

    def views(self, data: Any, runs: int) -> Floats:
        return self.run_views(data, runs)


@runtime_checkable
class ComputableSubject(Protocol):
    """A subject whose worst loss can be computed as well."""

    def worst(self) -> "WorstCase | None":
        """Return the worst of all neighbours, in the currency of the claim; None if it is not known."""


@dataclass(frozen=True)
class ClaimSubject:
    """A subject that is a claim of the package; `noise` is the system's unless given."""

    claim: Any
    _: KW_ONLY
    noise: Any = field(default=None, repr=False)
    title: str = ""

    DESCRIPTION: ClassVar[str] = ""  # follows the claim in names

    @property
    def name(self) -> str:
        return self.title or f"{self.claim!r}{self.DESCRIPTION}"

    @property
    def loss(self) -> Loss:
        """The claimed loss; of a linear mechanism the one that its noise is calibrated to, in its own accounting."""
        loss: Loss = self.claim.charged_loss if isinstance(self.claim, LinearMechanism) else self.claim.loss
        return loss

    @cached_property
    def source(self) -> Noise:
        """One source of noise for all starts of a mechanism."""
        return self.noise if self.noise is not None else build_noise(self.claim)


@dataclass(frozen=True)
class ExperimentNoise:
    """Exact noise, coins, dice and uniform floats of an experiment, from one stream of bits.

    A seeded stream makes an audit repeatable. A key for each draw, as mechanisms in service have, would be slow.
    """

    entropy: Entropy = field(default_factory=Keystream)

    @classmethod
    def from_label(cls, label: str) -> "ExperimentNoise":
        """Return noise that is the same every time, for repeatable experiments."""
        return cls(InsecureKeystream(label))

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return sample(LaplaceLaw(scale), self.entropy, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return sample(GaussianLaw(variance), self.entropy, size)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        return bernoulli(self.entropy, chance, size)

    def uniform(self, sides: int, size: int) -> Ints:
        return uniform_int(self.entropy, sides, size)

    def words(self, size: int) -> Ints:
        """Draw whole numbers below 2^53, all equally likely."""
        return (draw_bytes(self.entropy, 8 * size).view(np.uint64) >> np.uint64(11)).astype(np.int64)

    def uniforms(self, size: int) -> Floats:
        """Draw floats in [0, 1), as textbooks do: multiples of 2^-53."""
        return np.asarray(self.words(size) * 2.0**-53, np.float64)


def list_settings(cls: type[Any], known: Mapping[str, Sequence[Settings]], given: set[str]) -> Sequence[Settings]:
    """Return the settings that a class is tried with. One that needs others is an error, not an omission."""
    needed = {each.name for each in fields(cls) if each.default is MISSING}
    found = known.get(cls.__name__, ({},))
    for settings in found:
        if unknown := needed - given - {*settings}:
            raise TypeError(f"settings of {cls.__name__} must be in the catalogue, got none of {unknown}")
    return found


def find_claims(package: Any, method: str, *names: str) -> dict[str, type[Any]]:
    """Return the concrete public dataclasses of a package that have a method and some fields."""
    found = {name: getattr(package, name) for name in package.__all__}
    return {
        name: cls
        for name, cls in found.items()
        if isclass(cls) and not isabstract(cls) and hasattr(cls, method)
        if {"loss", *names} <= set(getattr(cls, "__dataclass_fields__", ()))
    }


BATCH_OUTPUTS = 10_000  # outputs that are held as they came
MAX_REPR_CHARS = 40  # characters of an input

InputPair = tuple[Any, Any]  # inputs that differ in one unit


def list_neighbours(inputs: Iterable[Any], are_neighbours: abc.Callable[[Any, Any], bool]) -> Iterator[InputPair]:
    """List all pairs of these inputs that are neighbours.

    >>> list(list_neighbours([(), (1,), (1, 2)], lambda one, other: abs(len(one) - len(other)) == 1))
    [((), (1,)), ((1,), (1, 2))]
    """
    return (both for both in combinations(inputs, 2) if are_neighbours(*both))


@dataclass(frozen=True)
class CallableSubject:
    """A subject out of a callable; see the module.

    >>> from streamgauge import Pure
    >>> constant = CallableSubject("a constant", lambda data: ["same", 7, None], Pure(1), [(0, 1)])
    >>> constant.views(0, 2).shape
    (2, 5)
    """

    name: str
    run: abc.Callable[..., Any] = field(repr=False)
    loss: Loss
    neighbours: Sequence[Pair | InputPair] = field(repr=False)  # evidence of a pair is of encoded views
    is_vectorised: bool = False

    def pairs(self) -> Sequence[Pair]:
        return [
            each if isinstance(each, Pair) else Pair(" and ".join(map(shorten, each)), *each)
            for each in self.neighbours
        ]

    def views(self, data: Any, runs: int) -> Floats:
        shape = self.shape
        if self.is_vectorised:
            return encode_outputs(to_rows(self.run(data, runs), runs), shape)
        sizes = [min(BATCH_OUTPUTS, runs - done) for done in range(0, runs, BATCH_OUTPUTS)]
        batches = (stack_outputs([self.run(data) for _ in range(size)]) for size in sizes)
        return np.concatenate([encode_outputs(batch, shape) for batch in batches])

    @cached_property
    def shape(self) -> OutputShape:
        """That of one output, which all others must have: one run says it."""
        first = self.pairs()[0].one
        return to_rows(self.run(first, 1), 1).shape[1:] if self.is_vectorised else box_output(self.run(first)).shape


def shorten(data: Any) -> str:
    """Return the first characters of an input, which is synthetic."""
    text = repr(data)
    return text if len(text) <= MAX_REPR_CHARS else f"{text[:MAX_REPR_CHARS]}.."
