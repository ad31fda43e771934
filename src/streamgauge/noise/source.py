"""Where mechanisms get their noise: `Noise`, the injected chance, and its two real sources.

`SecureNoise` draws ahead: small requests are served, each draw once, from pools of ready draws, one for
each law. Pools and key die in the child of a fork. `EphemeralNoise` serves pan-private runs, whose memory
an intruder may see: every call takes a fresh key from the operating system and keeps no key, no buffer and
no unused draw when it returns.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from operator import index
from threading import Lock
from typing import Protocol

import numpy as np

from streamgauge.noise.chance import throw, toss
from streamgauge.noise.entropy import Bytes, Entropy, EntropyError, Keystream, Unique, renew_after_fork
from streamgauge.noise.laws import GaussianLaw, Ints, LaplaceLaw, Law
from streamgauge.noise.numbers import rational
from streamgauge.noise.sampler import draw
from streamgauge.noise.table import table

POOL = 4096
SMALL = 1024
LAWS = 256  # pools held at once; unused draws of forgotten ones are never handed out


class Noise(Protocol):
    """The only way a mechanism gets noise: independent draws of a law on the integers, modulo 2^64."""

    def laplace(self, scale: Fraction, size: int) -> Ints:
        """P(k) proportional to exp(-|k|/scale)."""
        ...

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        """P(k) proportional to exp(-k^2/(2 variance))."""
        ...


def whole(size: object) -> int:
    """A number of draws as Python's own integer."""
    try:
        number = -1 if isinstance(size, bool | np.bool_) else index(size)  # type: ignore[arg-type]  # that is what is found out here
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"size must be a whole number of at least 0, got {size!r}")
    return number


def sample(law: Law, entropy: Entropy, size: int) -> Ints:
    """`size` independent exact draws from `law`."""
    out = np.empty(whole(size), np.int64)
    try:
        draw(table(law), entropy, out)
    except BaseException:
        out.fill(0)
        raise
    return out


class Pool:
    """Ready draws of one law; each leaves once, whatever interrupts whom.

    The draws before `used` have left or are lost. Each change is one store, and the stores come in the order
    in which an interrupt between two of them loses draws and repeats none.
    """

    __slots__ = ("draws", "law", "parameter", "used")

    def __init__(self, law: Law, parameter: Fraction) -> None:
        self.law = law
        self.parameter = parameter  # the very object asked with: knowing it again is cheaper than hashing it
        self.draws = np.empty(0, np.int64)
        self.used = 0

    def add(self, fresh: Ints) -> None:
        self.draws = np.concatenate([self.draws[self.used :], fresh])
        self.used = 0


class Pools:
    """The pools of one family of laws, the latest at hand: hashing a fraction would cost more than a draw."""

    __slots__ = ("family", "latest", "name", "pools")

    def __init__(self, name: str, family: Callable[[Fraction], Law]) -> None:
        self.name = name
        self.family = family
        self.pools: dict[tuple[int, int], Pool] = {}
        self.latest = Pool(family(Fraction(1)), Fraction(1))

    def find(self, parameter: Fraction) -> Pool:
        asked = parameter if type(parameter) is Fraction else rational(self.name, parameter)
        key = asked.numerator, asked.denominator
        pool = self.pools.get(key) or self._made(rational(self.name, asked))
        pool.parameter = asked
        self.latest = pool
        return pool

    def _made(self, parameter: Fraction) -> Pool:
        pool = Pool(self.family(parameter), parameter)
        kept = self.pools if len(self.pools) < LAWS else {}
        kept[parameter.numerator, parameter.denominator] = pool
        self.pools = kept
        return pool


class Ready:
    """All draws made ahead by one process. They are discarded together, by a single store."""

    __slots__ = ("gaussian", "laplace", "pid")

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.laplace = Pools("scale", LaplaceLaw)
        self.gaussian = Pools("variance", GaussianLaw)


class SecureNoise(Unique):
    """Exact noise over a keystream keyed by the operating system. Thread-safe.

    Not copyable; in the child of a fork it starts anew with another key and empty pools.

    >>> noise = SecureNoise()
    >>> noise.laplace(Fraction(3), 5).shape
    (5,)
    """

    __slots__ = ("__weakref__", "_keystream", "_lock", "_ready")

    def __init__(self) -> None:
        self._keystream = Keystream()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets key, ready draws and the lock, which a thread left behind by a fork may have held."""
        self._lock = Lock()
        self._keystream.renew()
        self._ready = Ready()

    def laplace(self, scale: Fraction, size: int) -> Ints:
        with self._lock:
            return self._taken(self._of_this_process().laplace, scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        with self._lock:
            return self._taken(self._of_this_process().gaussian, variance, size)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        """0 or 1 each, never drawn ahead; P(1) = chance exactly."""
        with self._lock:
            return toss(self._keystream, rational("chance", chance), whole(size))

    def uniform(self, sides: int, size: int) -> Ints:
        """0 to sides - 1, never drawn ahead."""
        with self._lock:
            return throw(self._keystream, sides, whole(size))

    def _of_this_process(self) -> Ready:
        """A process that Python did not see fork has no ready draws."""
        if self._ready.pid != os.getpid():
            self._ready = Ready()
        return self._ready

    def _taken(self, pools: Pools, parameter: Fraction, size: int) -> Ints:
        if type(size) is not int or size < 0:
            size = whole(size)
        pool = pools.latest
        if pool.parameter is not parameter:
            pool = pools.find(parameter)
        if size > SMALL:
            return self._fresh(pool.law, size)
        if size > len(pool.draws) - pool.used:
            pool.add(self._fresh(pool.law, POOL))
        first = pool.used
        pool.used = end = first + size
        taken = pool.draws[first:end].copy()
        if len(taken) != size:
            raise EntropyError(f"ready draws must be {size}, got {len(taken)}")
        return taken

    def _fresh(self, law: Law, size: int) -> Ints:
        """Draws over the keystream; when that is dead, no ready draw may leave any more."""
        try:
            return sample(law, self._keystream, size)
        except EntropyError:
            self._ready = Ready()
            raise


class EphemeralNoise(Unique):
    """Exact noise that leaves nothing behind: for pan-private runs."""

    __slots__ = ()

    def laplace(self, scale: Fraction, size: int) -> Ints:
        with once() as keystream:
            return sample(LaplaceLaw(rational("scale", scale)), keystream, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        with once() as keystream:
            return sample(GaussianLaw(rational("variance", variance)), keystream, size)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        """0 or 1 each; P(1) = chance exactly."""
        with once() as keystream:
            return toss(keystream, rational("chance", chance), whole(size))

    def uniform(self, sides: int, size: int) -> Ints:
        """0 to sides - 1, each with the same probability exactly."""
        with once() as keystream:
            return throw(keystream, sides, whole(size))


@contextmanager
def once() -> Iterator[Keystream]:
    """A keystream whose key dies here, even if an exception holds on to a frame that used it."""
    keystream = Keystream()
    try:
        yield keystream
    finally:
        keystream.renew()
