"""Noise for tests: silent, counted, repeatable, a single impulse.

None of it protects data. It is shipped so that users can test their own mechanisms, and imports no test
runner.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints, Noise, RandomSource
from streamgauge.noise.bernoulli import bernoulli, uniform_int
from streamgauge.noise.coerce import as_fraction
from streamgauge.noise.entropy import Bytes, Entropy, build_cipher, encrypt_zeros
from streamgauge.noise.sampler_table import GaussianLaw, LaplaceLaw, Law
from streamgauge.noise.source import parse_size, sample

CHUNK_DRAWS = 1 << 13
DrawFunction = Callable[[Entropy, Fraction, int], npt.NDArray[Any]]


class SilentNoise:
    """Noise whose draws are all zero. It has no coins and dice."""

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return np.zeros(size, np.int64)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return np.zeros(size, np.int64)


@dataclass
class CountedNoise:
    """Noise of `inner` that records (kind, scale or variance, size) of each request.

    >>> noise = CountedNoise(SilentNoise())
    >>> noise.laplace(Fraction(2), 3)
    array([0, 0, 0])
    >>> noise.requests, noise.total
    ([('laplace', Fraction(2, 1), 3)], 3)
    """

    inner: Noise  # a RandomSource, if coins or dice are drawn
    requests: list[tuple[str, Fraction, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Number of draws requested."""
        return sum(size for _, _, size in self.requests)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        self.requests.append(("laplace", scale, size))
        return self.inner.laplace(scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        self.requests.append(("gaussian", variance, size))
        return self.inner.gaussian(variance, size)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        self.requests.append(("coins", chance, size))
        return cast(RandomSource, self.inner).coins(chance, size)

    def uniform(self, sides: int, size: int) -> Ints:
        self.requests.append(("uniform", Fraction(sides), size))
        return cast(RandomSource, self.inner).uniform(sides, size)


@dataclass
class ImpulseNoise:
    """Zeros, except draw number `index` over all draws in order, which is `value`.

    >>> noise = ImpulseNoise(3, 7)
    >>> noise.laplace(Fraction(1), 2), noise.gaussian(Fraction(1), 3)
    (array([0, 0]), array([0, 7, 0]))
    """

    index: int
    value: int
    draw_count: int = 0

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._next(size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._next(size)

    def _next(self, size: int) -> Ints:
        out = np.zeros(size, np.int64)
        if self.draw_count <= self.index < self.draw_count + size:
            out[self.index - self.draw_count] = self.value
        self.draw_count += size
        return out


class InsecureKeystream:
    """Keystream that its label reproduces."""

    def __init__(self, label: str) -> None:
        self._context = build_cipher(sha256(label.encode()).digest())

    def fill(self, out: Bytes) -> None:
        encrypt_zeros(self._context, out)


def build_draw_function(family: Callable[[Fraction], Law]) -> DrawFunction:
    """Return the draws of the laws of a family."""
    return lambda entropy, parameter, size: sample(family(parameter), entropy, size)


def _draw_uniform(entropy: Entropy, sides: Fraction, size: int) -> Ints:
    return uniform_int(entropy, int(sides), size)


class InsecureNoise:
    """Exact draws over a keystream from a seed: repeatable, so no protection.

    Draw number i of a kind and scale depends on the seed alone, not on the sizes or order of requests. Every chunk
    of CHUNK_DRAWS draws of every law has its own key.

    >>> one, two = InsecureNoise(5), InsecureNoise(5)
    >>> whole = one.laplace(Fraction(10), 6)
    >>> bool((whole == np.concatenate([two.laplace(Fraction(10), 2), two.laplace(Fraction(10), 4)])).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[tuple[str, int, int], InsecureStream] = {}

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._stream("laplace", build_draw_function(LaplaceLaw), as_fraction("scale", scale)).draw(
            parse_size(size)
        )

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._stream("gaussian", build_draw_function(GaussianLaw), as_fraction("variance", variance)).draw(
            parse_size(size)
        )

    def coins(self, chance: Fraction, size: int) -> Bytes:
        return self._stream("coins", bernoulli, as_fraction("chance", chance)).draw(parse_size(size)).astype(np.uint8)

    def uniform(self, sides: int, size: int) -> Ints:
        return self._stream("uniform", _draw_uniform, as_fraction("sides", sides)).draw(parse_size(size))

    def _stream(self, kind: str, draws: DrawFunction, parameter: Fraction) -> "InsecureStream":
        key = kind, parameter.numerator, parameter.denominator
        if key not in self._streams:
            self._streams[key] = InsecureStream(f"{self.seed} {key}", draws, parameter)
        return self._streams[key]

    def clone(self) -> Self:
        """Return another noise that continues exactly as this one would."""
        twin = type(self)(self.seed)
        twin._streams = {key: replace(stream) for key, stream in self._streams.items()}
        return twin


@dataclass
class InsecureStream:
    """Draws of one kind and parameter, in chunks of CHUNK_DRAWS.

    Each chunk has a keystream with its own label and number.
    """

    label: str
    draw_function: DrawFunction
    parameter: Fraction
    used_count: int = 0
    number: int = -1
    chunk: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def draw(self, size: int) -> Ints:
        out = np.empty(size, np.int64)
        done = 0
        while done < size:
            number, place = divmod(self.used_count, CHUNK_DRAWS)
            if number != self.number:
                self.number = number
                keystream = InsecureKeystream(f"{self.label} {number}")
                self.chunk = self.draw_function(keystream, self.parameter, CHUNK_DRAWS)
            part = self.chunk[place : place + size - done]
            out[done : done + len(part)] = part
            done += len(part)
            self.used_count += len(part)
        return out


@dataclass
class ManualClock:
    """Clock that stands still until moved. Sleeping moves it.

    >>> clock = ManualClock(1_000)
    >>> clock.sleep(500)
    >>> clock.now(), clock.steady()
    (1500, 1500)
    """

    time: int = 0  # microseconds since 1970 (UTC)
    drift: int = 0  # adjustments of the wall clock, forward or back

    def now(self) -> int:
        return self.time + self.drift

    def steady(self) -> int:
        return self.time

    def sleep(self, microseconds: int) -> None:
        self.time += microseconds
