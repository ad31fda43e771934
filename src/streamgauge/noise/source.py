"""`Noise`, the injected source of draws, and its two real implementations.

`SecureNoise` draws ahead. Small requests are served, each draw once, from pools of ready draws, one for
each law. Pools and key are dropped in the child of a fork. `EphemeralNoise` serves pan-private runs, whose
memory an intruder may see. Every call reads a fresh key from the operating system. No key, buffer or unused
draw remains when it returns.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from threading import Lock
from typing import ClassVar, Protocol

import numpy as np

from streamgauge.noise.bernoulli import bernoulli, uniform_int
from streamgauge.noise.coerce import as_fraction
from streamgauge.noise.entropy import (
    REAL_SYSTEM,
    Bytes,
    Entropy,
    EntropyError,
    Keystream,
    KeySystem,
    Uncopyable,
    renew_after_fork,
)
from streamgauge.noise.sampler import fill_draws
from streamgauge.noise.sampler_table import GaussianLaw, Ints, LaplaceLaw, Law, build_table


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """Sizes of pools of ready draws."""

    pool_draws: int = 4096
    max_pooled_draws: int = 1024  # larger requests are drawn by themselves
    max_pools: int = 256  # at once; unused draws of dropped ones are never released


DEFAULT_POOL_SIZES = PoolSizes()


class Noise(Protocol):
    """Independent draws of a law on the integers, modulo 2^64.

    A mechanism gets noise from nowhere else.
    """

    def laplace(self, scale: Fraction, size: int) -> Ints:
        """Draw with P(k) proportional to exp(-|k|/scale)."""
        ...

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        """Draw with P(k) proportional to exp(-k^2/(2 variance))."""
        ...


def parse_size(size: object) -> int:
    """Return a number of draws as Python's own integer."""
    try:
        number = -1 if isinstance(size, bool | np.bool_) else index(size)  # type: ignore[arg-type]  # checked here
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"size must be a whole number of at least 0, got {size!r}")
    return number


def sample(law: Law, entropy: Entropy, size: int) -> Ints:
    """Return `size` independent exact draws from `law`."""
    out = np.empty(parse_size(size), np.int64)
    try:
        fill_draws(build_table(law), entropy, out)
    except BaseException:
        out.fill(0)
        raise
    return out


class DrawPool:
    """Ready draws of one law; each is returned once, also under interrupts.

    The draws before `used_count` have left or are lost. Each change is one store, and the stores come in the order
    in which an interrupt between two of them loses draws and repeats none.
    """

    __slots__ = ("draws", "law", "parameter", "used_count")

    def __init__(self, law: Law, parameter: Fraction) -> None:
        self.law = law
        self.parameter = parameter  # the requested object: comparing identities is cheaper than hashing
        self.draws = np.empty(0, np.int64)
        self.used_count = 0

    def add(self, fresh: Ints) -> None:
        self.draws = np.concatenate([self.draws[self.used_count :], fresh])
        self.used_count = 0


class FamilyPools:
    """The pools of one family of laws; the latest one is found without hashing.

    Hashing a fraction would cost more than a draw.
    """

    __slots__ = ("family", "latest", "max_pools", "name", "pools")

    def __init__(
        self, name: str, family: Callable[[Fraction], Law], max_pools: int = DEFAULT_POOL_SIZES.max_pools
    ) -> None:
        self.name = name
        self.family = family
        self.max_pools = max_pools
        self.pools: dict[tuple[int, int], DrawPool] = {}
        self.latest = DrawPool(family(Fraction(1)), Fraction(1))

    def find(self, parameter: Fraction) -> DrawPool:
        exact = parameter if type(parameter) is Fraction else as_fraction(self.name, parameter)
        key = exact.numerator, exact.denominator
        pool = self.pools.get(key) or self._add_pool(as_fraction(self.name, exact))
        pool.parameter = exact
        self.latest = pool
        return pool

    def _add_pool(self, parameter: Fraction) -> DrawPool:
        pool = DrawPool(self.family(parameter), parameter)
        pools = self.pools if len(self.pools) < self.max_pools else {}
        pools[parameter.numerator, parameter.denominator] = pool
        self.pools = pools
        return pool


class ReadyDraws:
    """All draws made ahead by one process. They are discarded together, by a single store."""

    __slots__ = ("gaussian", "laplace", "pid")

    def __init__(self, pid: int, max_pools: int) -> None:
        self.pid = pid
        self.laplace = FamilyPools("scale", LaplaceLaw, max_pools)
        self.gaussian = FamilyPools("variance", GaussianLaw, max_pools)


class SecureNoise(Uncopyable):
    """Exact noise over a keystream keyed by the operating system. Thread-safe.

    Not copyable. The child of a fork starts with another key and empty pools.

    >>> noise = SecureNoise()
    >>> noise.laplace(Fraction(3), 5).shape
    (5,)
    """

    __slots__ = ("__weakref__", "_keystream", "_lock", "_process_id", "_ready", "_sizes")

    def __init__(self, keystream: Keystream | None = None, sizes: PoolSizes = DEFAULT_POOL_SIZES) -> None:
        self._keystream = Keystream() if keystream is None else keystream
        self._process_id, self._sizes = self._keystream.system.process_id, sizes
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Drop key, ready draws and lock; another thread may hold the lock at a fork."""
        self._lock = Lock()
        self._keystream.renew()
        self._drop_ready_draws()

    def _drop_ready_draws(self) -> None:
        self._ready = ReadyDraws(self._process_id(), self._sizes.max_pools)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        with self._lock:
            return self._draw(self._own_ready_draws().laplace, scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        with self._lock:
            return self._draw(self._own_ready_draws().gaussian, variance, size)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        """Draw zeros and ones, never ahead; P(1) = chance exactly."""
        with self._lock:
            return bernoulli(self._keystream, as_fraction("chance", chance), parse_size(size))

    def uniform(self, sides: int, size: int) -> Ints:
        """Draw 0 to sides - 1, never ahead."""
        with self._lock:
            return uniform_int(self._keystream, sides, parse_size(size))

    def _own_ready_draws(self) -> ReadyDraws:
        """Drop ready draws if the process id changed without Python's fork hooks."""
        if self._ready.pid != self._process_id():
            self._drop_ready_draws()
        return self._ready

    def _draw(self, pools: FamilyPools, parameter: Fraction, size: int) -> Ints:
        if type(size) is not int or size < 0:
            size = parse_size(size)
        pool = pools.latest
        if pool.parameter is not parameter:
            pool = pools.find(parameter)
        if size > self._sizes.max_pooled_draws:
            return self._draw_fresh(pool.law, size)
        if size > len(pool.draws) - pool.used_count:
            pool.add(self._draw_fresh(pool.law, self._sizes.pool_draws))
        first = pool.used_count
        pool.used_count = end = first + size
        draws = pool.draws[first:end].copy()
        if len(draws) != size:
            raise EntropyError(f"ready draws must be {size}, got {len(draws)}")
        return draws

    def _draw_fresh(self, law: Law, size: int) -> Ints:
        """Draw over the keystream; when that is dead, no ready draw may leave any more."""
        try:
            return sample(law, self._keystream, size)
        except EntropyError:
            self._drop_ready_draws()
            raise


class EphemeralNoise(Uncopyable):
    """Exact noise that leaves nothing behind: for pan-private runs."""

    __slots__ = ()
    SYSTEM: ClassVar[KeySystem] = REAL_SYSTEM

    def laplace(self, scale: Fraction, size: int) -> Ints:
        with ephemeral_keystream(self.SYSTEM) as keystream:
            return sample(LaplaceLaw(as_fraction("scale", scale)), keystream, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        with ephemeral_keystream(self.SYSTEM) as keystream:
            return sample(GaussianLaw(as_fraction("variance", variance)), keystream, size)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        """Draw zeros and ones; P(1) = chance exactly."""
        with ephemeral_keystream(self.SYSTEM) as keystream:
            return bernoulli(keystream, as_fraction("chance", chance), parse_size(size))

    def uniform(self, sides: int, size: int) -> Ints:
        """Draw 0 to sides - 1, each with the same probability exactly."""
        with ephemeral_keystream(self.SYSTEM) as keystream:
            return uniform_int(keystream, sides, parse_size(size))


@contextmanager
def ephemeral_keystream(system: KeySystem) -> Iterator[Keystream]:
    """Yield a keystream whose key dies here, even if an exception holds a frame."""
    keystream = Keystream(system)
    try:
        yield keystream
    finally:
        keystream.renew()
