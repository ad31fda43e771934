"""Where mechanisms get their noise: `Noise`, the injected chance, and its two real sources.

`SecureNoise` draws ahead: small requests are served, each draw once, from pools of ready draws, one for
each law. Pools and key die in the child of a fork. `EphemeralNoise` serves pan-private runs, whose memory
an intruder may see: every call takes a fresh key from the operating system and keeps no key, no buffer and
no unused draw when it returns.
"""

import os
from collections.abc import Callable
from fractions import Fraction
from threading import Lock
from typing import Protocol

import numpy as np

from streamgauge.noise.entropy import Entropy, EntropyError, Keystream, Unique, renew_after_fork
from streamgauge.noise.laws import GaussianLaw, Ints, LaplaceLaw, Law
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


def sample(law: Law, entropy: Entropy, size: int) -> Ints:
    """`size` independent exact draws from `law`."""
    if size < 0:
        raise ValueError(f"size must be at least 0, got {size}")
    out = np.empty(size, np.int64)
    draw(table(law), entropy, out)
    return out


class Pool:
    """Ready draws of one law; each leaves once."""

    __slots__ = ("draws", "law", "left", "used")

    def __init__(self, law: Law) -> None:
        self.law = law
        self.empty()

    def empty(self) -> None:
        self.draws = np.empty(0, np.int64)
        self.used = self.left = 0

    def add(self, fresh: Ints) -> None:
        self.draws = np.concatenate([self.draws[self.used :], fresh])
        self.used, self.left = 0, len(self.draws)


class Pools:
    """The pools of one family of laws, the latest at hand: hashing a fraction would cost more than a draw."""

    __slots__ = ("family", "latest", "parameter", "pools")

    def __init__(self, family: Callable[[Fraction], Law]) -> None:
        self.family = family
        self.pools: dict[tuple[int, int], Pool] = {}
        self.parameter: Fraction | None = None
        self.latest = Pool(family(Fraction(1)))

    def find(self, parameter: Fraction) -> Pool:
        key = parameter.numerator, parameter.denominator
        pool = self.pools.get(key)
        if pool is None:
            pool = Pool(self.family(Fraction(parameter)))
            if len(self.pools) >= LAWS:
                self.pools.clear()
            self.pools[key] = pool
        self.parameter, self.latest = parameter, pool
        return pool


class SecureNoise(Unique):
    """Exact noise over a keystream keyed by the operating system. Thread-safe.

    Not copyable; in the child of a fork it starts anew with another key and empty pools.

    >>> noise = SecureNoise()
    >>> noise.laplace(Fraction(3), 5).shape
    (5,)
    """

    __slots__ = ("__weakref__", "_gaussian", "_keystream", "_laplace", "_lock", "_pid")

    def __init__(self) -> None:
        self._keystream = Keystream()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets key, ready draws and the lock, which a thread left behind by a fork may have held."""
        self._lock = Lock()
        self._keystream.renew()
        self._laplace = Pools(LaplaceLaw)
        self._gaussian = Pools(GaussianLaw)
        self._pid = os.getpid()

    def laplace(self, scale: Fraction, size: int) -> Ints:
        with self._lock:
            pools = self._laplace
            return self._taken(pools.latest if pools.parameter is scale else pools.find(scale), size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        with self._lock:
            pools = self._gaussian
            return self._taken(pools.latest if pools.parameter is variance else pools.find(variance), size)

    def _taken(self, pool: Pool, size: int) -> Ints:
        if self._pid != os.getpid():
            self._drop_pools()
        if size > SMALL:
            return self._fresh(pool.law, size)
        if not 0 <= size <= pool.left:
            pool.add(self._fresh(pool.law, POOL if size > 0 else size))
        first = pool.used
        pool.used = end = first + size
        pool.left -= size
        return pool.draws[first:end].copy()

    def _fresh(self, law: Law, size: int) -> Ints:
        try:
            return sample(law, self._keystream, size)
        except EntropyError:
            self._drop_pools()
            raise

    def _drop_pools(self) -> None:
        """A process that Python did not see fork, or a dead keystream: no ready draw may leave any more."""
        self._pid = os.getpid()
        for pool in (*self._laplace.pools.values(), *self._gaussian.pools.values()):
            pool.empty()


class EphemeralNoise(Unique):
    """Exact noise that leaves nothing behind: for pan-private runs."""

    __slots__ = ()

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return sample(LaplaceLaw(Fraction(scale)), Keystream(), size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return sample(GaussianLaw(Fraction(variance)), Keystream(), size)
