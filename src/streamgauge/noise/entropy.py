"""AES-256-CTR keystream keyed by the operating system.

It is the only source of chance in the package.

It fails closed. If the system's entropy or the cipher fails, `EntropyError` is raised, the keystream
is dead, and nothing replaces it. After a fork the child has another key before any of its code runs
(`os.register_at_fork`). A process id that changed without Python's fork hooks is detected as well.
A keystream cannot be pickled or copied. Two copies would give two releases the same noise, and their
difference would be exact data.

A key is replaced from the operating system after REKEY_BYTES bytes. Distinguishing 2^28 blocks of AES in
counter mode from ideal bits then has advantage below 2^-72 beyond breaking AES itself.

A key is overwritten as soon as the cipher has it (`memory.wipe`). The cipher overwrites its own copy when it is
freed.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol, Self
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from streamgauge.memory import WipedArrays, wipe

Bytes = npt.NDArray[np.uint8]

KEY_BYTES = 32
REKEY_BYTES = 1 << 32
ZERO_BYTES = bytes(1 << 16)


class EntropyError(RuntimeError):
    """The operating system or the cipher did not return the requested bytes.

    No noise can be drawn.
    """


class Entropy(Protocol):
    """Source of uniform bits for the samplers: overwrites `out` with ideal bytes."""

    def fill(self, out: Bytes) -> None: ...


class Renewable(Protocol):
    """Holder of secrets that must be dropped in the child of a fork."""

    def renew(self) -> None: ...


fork_holders: WeakSet[Renewable] = WeakSet()  # renewed in the child of every fork, while they are alive


def renew_after_fork(holder: Renewable) -> None:
    """Run `holder.renew()` in the child of every later fork, before its own code."""
    fork_holders.add(holder)


def _renew_holders() -> None:
    for holder in list(fork_holders):
        holder.renew()


os.register_at_fork(after_in_child=_renew_holders)


class Uncopyable:
    """Refuses to be pickled or copied, so that no bit of chance is ever used twice."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} must be used where it was made, got a request to copy or pickle it")

    def __copy__(self) -> Self:
        return self.__reduce_ex__(2)

    def __deepcopy__(self, memo: object) -> Self:
        return self.__reduce_ex__(2)


def read_random_bytes(size: int) -> bytes:
    """Return bytes of the operating system."""
    return os.urandom(size)


def read_system_key(random_bytes: Callable[[int], bytes] = read_random_bytes) -> bytes:
    """Return a fresh key, or raise EntropyError."""
    try:
        key = random_bytes(KEY_BYTES)
    except Exception as error:
        raise EntropyError("the operating system's entropy source failed") from error
    if type(key) is not bytes or len(key) != KEY_BYTES:
        raise EntropyError(f"the operating system's entropy must be {KEY_BYTES} bytes, got others")
    return key


def build_cipher(key: bytes) -> CipherContext:
    """Return AES-256 in counter mode from block 0.

    A key is never used for two streams.
    """
    return Cipher(AES(key), CTR(bytes(16))).encryptor()


@dataclass(frozen=True, slots=True)
class KeySystem:
    """The parts of the operating system and of the cipher that a keystream depends on."""

    random_bytes: Callable[[int], bytes] = read_random_bytes
    process_id: Callable[[], int] = os.getpid
    build_cipher: Callable[[bytes], CipherContext] = build_cipher
    wipe: Callable[[bytes], None] = wipe
    rekey_bytes: int = REKEY_BYTES


REAL_SYSTEM = KeySystem()


def encrypt_zeros(context: CipherContext, out: Bytes) -> None:
    """Fill `out` with keystream, or raises EntropyError."""
    view = out.data
    try:
        for start in range(0, len(view), len(ZERO_BYTES)):
            part = view[start : start + len(ZERO_BYTES)]
            if context.update_into(ZERO_BYTES[: len(part)], part) != len(part):
                raise EntropyError("the cipher must fill its block, got fewer bytes")
    except EntropyError:
        raise
    except Exception as error:
        raise EntropyError("the cipher failed") from error


class Keystream(Uncopyable):
    """A keystream of this process alone. Not thread-safe: its holder has the lock."""

    __slots__ = ("__weakref__", "_context", "_dead", "_pid", "_remaining_bytes", "system")

    def __init__(self, system: KeySystem = REAL_SYSTEM) -> None:
        self.system = system
        self._dead = False
        self._context: CipherContext | None = None
        self._remaining_bytes = 0
        self._pid = 0
        renew_after_fork(self)

    @property
    def has_key(self) -> bool:
        """True if a key is in memory."""
        return self._context is not None

    def renew(self) -> None:
        """Forget the key; the next call takes another from the operating system."""
        self._context = None
        self._remaining_bytes = 0

    def fill(self, out: Bytes) -> None:
        if self._dead:
            raise EntropyError("this keystream failed before and stays closed")
        try:
            encrypt_zeros(self._keyed_context(len(out)), out)
        except EntropyError:
            self._dead = True
            self.renew()
            out.fill(0)
            raise

    def _keyed_context(self, size: int) -> CipherContext:
        pid = self.system.process_id()
        if self._context is None or pid != self._pid or self._remaining_bytes < size:
            self._context = _build_fresh_cipher(self.system)
            self._pid = pid
            self._remaining_bytes = max(self.system.rekey_bytes, size)
        self._remaining_bytes -= size
        return self._context


def _build_fresh_cipher(system: KeySystem) -> CipherContext:
    """Return a cipher; no other copy of its key exists."""
    key = read_system_key(system.random_bytes)
    try:
        return _check_cipher(system.build_cipher(key))
    except EntropyError:
        raise
    except Exception as error:
        raise EntropyError("the cipher could not be built") from error
    finally:
        system.wipe(key)


def _check_cipher(context: CipherContext) -> CipherContext:
    """Return the cipher after a test: 32 zero bytes have probability 2^-256."""
    proof = np.zeros(32, np.uint8)
    encrypt_zeros(context, proof)
    if not proof.any():
        raise EntropyError("the cipher must give a keystream, got zeros")
    return context


def draw_bytes(entropy: Entropy, size: int) -> Bytes:
    """Return uniform bytes in a new array."""
    out = np.empty(size, np.uint8)
    entropy.fill(out)
    return out


def draw_bits(entropy: Entropy, bits: int) -> int:
    """Return a uniform integer of `bits` bits, a multiple of 8."""
    with WipedArrays() as secret:
        out = secret(np.empty(bits // 8, np.uint8))
        entropy.fill(out)
        return int.from_bytes(out.tobytes(), "little")
