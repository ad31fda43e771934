"""Noise for tests: silent, counted, deterministic, a single impulse. None of it protects anyone.

Shipped so that users can test their own mechanisms; imports no test runner.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Chance, Ints, Noise
from streamgauge.noise.chance import throw, toss
from streamgauge.noise.entropy import Bytes, Entropy, cipher, encrypt_zeros
from streamgauge.noise.laws import GaussianLaw, LaplaceLaw, Law
from streamgauge.noise.numbers import rational
from streamgauge.noise.source import sample, whole

CHUNK = 1 << 13
Draws = Callable[[Entropy, Fraction, int], npt.NDArray[Any]]


class SilentNoise:
    """All draws are zero: what a mechanism does without noise. Coins and dice have no such thing."""

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return np.zeros(size, np.int64)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return np.zeros(size, np.int64)


@dataclass
class CountedNoise:
    """Passes requests on to `inner` and writes down (kind, scale or variance, size) of each.

    >>> noise = CountedNoise(SilentNoise())
    >>> noise.laplace(Fraction(2), 3)
    array([0, 0, 0])
    >>> noise.requests, noise.total
    ([('laplace', Fraction(2, 1), 3)], 3)
    """

    inner: Noise  # a Chance, if coins or dice are asked for
    requests: list[tuple[str, Fraction, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many draws were asked for."""
        return sum(size for _, _, size in self.requests)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        self.requests.append(("laplace", scale, size))
        return self.inner.laplace(scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        self.requests.append(("gaussian", variance, size))
        return self.inner.gaussian(variance, size)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        self.requests.append(("coins", chance, size))
        return cast(Chance, self.inner).coins(chance, size)

    def uniform(self, sides: int, size: int) -> Ints:
        self.requests.append(("uniform", Fraction(sides), size))
        return cast(Chance, self.inner).uniform(sides, size)


@dataclass
class ImpulseNoise:
    """Zeros, but for draw number `index` (from 0, counted over all draws in order), which is `value`.

    >>> noise = ImpulseNoise(3, 7)
    >>> noise.laplace(Fraction(1), 2), noise.gaussian(Fraction(1), 3)
    (array([0, 0]), array([0, 7, 0]))
    """

    index: int
    value: int
    drawn: int = 0

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._next(size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._next(size)

    def _next(self, size: int) -> Ints:
        out = np.zeros(size, np.int64)
        if self.drawn <= self.index < self.drawn + size:
            out[self.index - self.drawn] = self.value
        self.drawn += size
        return out


class InsecureKeystream:
    """A keystream that anybody who knows its label can repeat."""

    def __init__(self, label: str) -> None:
        self._context = cipher(sha256(label.encode()).digest())

    def fill(self, out: Bytes) -> None:
        encrypt_zeros(self._context, out)


def drawn_from(family: Callable[[Fraction], Law]) -> Draws:
    """Draws of the laws of a family."""
    return lambda entropy, parameter, size: sample(family(parameter), entropy, size)


def _thrown(entropy: Entropy, sides: Fraction, size: int) -> Ints:
    return throw(entropy, int(sides), size)


class InsecureNoise:
    """Exact draws over a keystream made from a seed: repeatable, and so no protection at all.

    Draw number i of a given kind and scale depends on the seed alone, not on how requests were cut or
    mixed: every chunk of CHUNK draws of every law has a key of its own.

    >>> one, two = InsecureNoise(5), InsecureNoise(5)
    >>> whole = one.laplace(Fraction(10), 6)
    >>> bool((whole == np.concatenate([two.laplace(Fraction(10), 2), two.laplace(Fraction(10), 4)])).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[tuple[str, int, int], InsecureStream] = {}

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._stream("laplace", drawn_from(LaplaceLaw), rational("scale", scale)).take(whole(size))

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._stream("gaussian", drawn_from(GaussianLaw), rational("variance", variance)).take(
            whole(size)
        )

    def coins(self, chance: Fraction, size: int) -> Bytes:
        return self._stream("coins", toss, rational("chance", chance)).take(whole(size)).astype(np.uint8)

    def uniform(self, sides: int, size: int) -> Ints:
        return self._stream("uniform", _thrown, rational("sides", sides)).take(whole(size))

    def _stream(self, kind: str, draws: Draws, parameter: Fraction) -> "InsecureStream":
        key = kind, parameter.numerator, parameter.denominator
        if key not in self._streams:
            self._streams[key] = InsecureStream(f"{self.seed} {key}", draws, parameter)
        return self._streams[key]

    def clone(self) -> Self:
        """Another noise that goes on exactly as this one would."""
        twin = type(self)(self.seed)
        twin._streams = {key: replace(stream) for key, stream in self._streams.items()}
        return twin


@dataclass
class InsecureStream:
    """The draws of one kind and parameter, cut in chunks of CHUNK, each from a keystream of its own label
    and number."""

    label: str
    draws: Draws
    parameter: Fraction
    used: int = 0
    number: int = -1
    chunk: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, size: int) -> Ints:
        out = np.empty(size, np.int64)
        done = 0
        while done < size:
            number, place = divmod(self.used, CHUNK)
            if number != self.number:
                self.number = number
                keystream = InsecureKeystream(f"{self.label} {number}")
                self.chunk = self.draws(keystream, self.parameter, CHUNK)
            part = self.chunk[place : place + size - done]
            out[done : done + len(part)] = part
            done += len(part)
            self.used += len(part)
        return out


@dataclass
class HandClock:
    """A clock that stands still until somebody moves it; to sleep is to move it.

    >>> clock = HandClock(1_000)
    >>> clock.sleep(500)
    >>> clock.now(), clock.steady()
    (1500, 1500)
    """

    time: int = 0  # microseconds since 1970 (UTC)
    drift: int = 0  # what the wall clock was set forward or back since

    def now(self) -> int:
        return self.time + self.drift

    def steady(self) -> int:
        return self.time

    def sleep(self, microseconds: int) -> None:
        self.time += microseconds
