"""Entropy: an AES-256-CTR keystream keyed by the operating system. The only source of chance in the package.

Fails closed: if the system's entropy or the cipher fails, or comes up short, `EntropyError` is raised, the
keystream is dead, and nothing takes its place. After a fork the child has another key before any of its
code runs (`os.register_at_fork`), and a process id that changed behind Python's back is noticed as well.
A keystream cannot be pickled or copied: two copies would give two releases the same noise, and their
difference would be exact data.

A key is replaced from the operating system after REKEY bytes; telling 2^28 blocks of AES in counter mode from
ideal bits then succeeds with advantage below 2^-72 beyond breaking AES itself.

A key is overwritten as soon as the cipher has it, and the cipher overwrites its own copy when it is let go.
Python has no way to overwrite bytes; in CPython their place is known, elsewhere the key is left to the
garbage collector.
"""

import ctypes
import os
import sys
from typing import Any, NoReturn, Protocol, Self, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

Bytes = npt.NDArray[np.uint8]

KEY_BYTES = 32
REKEY = 1 << 32
ZEROS = bytes(1 << 16)

Array = TypeVar("Array", bound=npt.NDArray[Any])


class EntropyError(RuntimeError):
    """The operating system or the cipher did not give the bytes asked for. No noise can be drawn."""


class Entropy(Protocol):
    """Where the samplers get their bits: overwrites `out` with ideal bytes."""

    def fill(self, out: Bytes) -> None: ...


class Renewed(Protocol):
    """What must forget its secrets in the child of a fork."""

    def renew(self) -> None: ...


_live: WeakSet[Renewed] = WeakSet()


def renew_after_fork(holder: Renewed) -> None:
    """From now on `holder.renew()` runs in the child of every fork, before the child's own code."""
    _live.add(holder)


def _after_fork_in_child() -> None:
    for holder in list(_live):
        holder.renew()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Unique:
    """Refuses to be pickled or copied, so that no bit of chance is ever used twice."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} must be used where it was made, got a request to copy or pickle it"
        )

    def __copy__(self) -> Self:
        return self.__reduce_ex__(2)

    def __deepcopy__(self, memo: object) -> Self:
        return self.__reduce_ex__(2)


class Wiped:
    """Arrays that hold secrets for a while: all are overwritten when the block is left, however it is left.

    >>> with Wiped() as secret:
    ...     word = secret(np.full(3, 7))
    >>> word
    array([0, 0, 0])
    """

    __slots__ = ("arrays",)

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []

    def __call__(self, array: Array) -> Array:
        self.arrays.append(array)
        return array

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        for array in self.arrays:
            array.fill(0)


def wipe(secret: bytes) -> None:
    """Overwrites a key, or another secret, that nobody else holds; nothing where it is not CPython.

    Bytes of length 0 and 1 are the interpreter's own, and shared.
    """
    if sys.implementation.name == "cpython" and len(secret) > 1:
        ctypes.memset(id(secret) + bytes.__basicsize__ - 1, 0, len(secret))


def system_key() -> bytes:
    """A fresh key, or EntropyError."""
    try:
        key = os.urandom(KEY_BYTES)
    except Exception as error:
        raise EntropyError("the operating system's entropy source failed") from error
    if type(key) is not bytes or len(key) != KEY_BYTES:
        raise EntropyError(f"the operating system's entropy must be {KEY_BYTES} bytes, got others")
    return key


def cipher(key: bytes) -> CipherContext:
    """AES-256 in counter mode from block 0: a key is never used for two streams."""
    return Cipher(AES(key), CTR(bytes(16))).encryptor()


def encrypt_zeros(context: CipherContext, out: Bytes) -> None:
    """Fills `out` with keystream, or raises EntropyError."""
    view = out.data
    try:
        for start in range(0, len(view), len(ZEROS)):
            part = view[start : start + len(ZEROS)]
            if context.update_into(ZEROS[: len(part)], part) != len(part):
                raise EntropyError("the cipher must fill its block, got fewer bytes")
    except EntropyError:
        raise
    except Exception as error:
        raise EntropyError("the cipher failed") from error


class Keystream(Unique):
    """A keystream of this process alone. Not thread-safe: its holder has the lock."""

    __slots__ = ("__weakref__", "_context", "_dead", "_left", "_pid")

    def __init__(self) -> None:
        self._dead = False
        self._context: CipherContext | None = None
        self._left = 0
        self._pid = 0
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets the key; the next call takes another from the operating system."""
        self._context = None
        self._left = 0

    def fill(self, out: Bytes) -> None:
        if self._dead:
            raise EntropyError("this keystream failed before and stays closed")
        try:
            encrypt_zeros(self._keyed(len(out)), out)
        except EntropyError:
            self._dead = True
            self.renew()
            out.fill(0)
            raise

    def _keyed(self, size: int) -> CipherContext:
        pid = os.getpid()
        if self._context is None or pid != self._pid or self._left < size:
            self._context = _fresh_cipher()
            self._pid = pid
            self._left = max(REKEY, size)
        self._left -= size
        return self._context


def _fresh_cipher() -> CipherContext:
    """A cipher under a key that is nowhere else any more."""
    key = system_key()
    try:
        return _tested(cipher(key))
    except EntropyError:
        raise
    except Exception as error:
        raise EntropyError("the cipher could not be built") from error
    finally:
        wipe(key)


def _tested(context: CipherContext) -> CipherContext:
    """A cipher that is seen to encrypt: 32 zero bytes have a chance of 2^-256 under a true one."""
    proof = np.zeros(32, np.uint8)
    encrypt_zeros(context, proof)
    if not proof.any():
        raise EntropyError("the cipher must give a keystream, got zeros")
    return context


def random_bits(entropy: Entropy, bits: int) -> int:
    """A uniform integer of `bits` bits, a multiple of 8."""
    with Wiped() as secret:
        out = secret(np.empty(bits // 8, np.uint8))
        entropy.fill(out)
        return int.from_bytes(out.tobytes(), "little")
