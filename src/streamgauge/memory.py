"""Wiping of secrets and freed memory, for runs whose memory can be seized.

No other module wipes memory. Python frees memory without overwriting it, so a secret stays readable until other
data replace it.

    WipedArrays           NumPy arrays of secrets, overwritten when a block ends
    wipe                  a key or a decrypted part, overwritten after its last use
    zero_freed_memory     all blocks that the C library frees afterwards, overwritten by it
    clear_traceback       frames of a stored exception, cleared, so that they keep no private data alive

Events are read once and dropped. Libraries that overwrite nothing free the request, its lines and the buffers of the
engine. If M_PERTURB is set, glibc overwrites blocks as they are freed, for the whole process and permanently.
It does not reach a few blocks of up to 1,032 bytes that each thread caches. Nor does it reach Python's own small
objects (below 512 bytes), which lie in pools. docs/deploy.md has the environment settings that disable both.
"""

import ctypes
import sys
from traceback import clear_frames
from typing import Any, Self, TypeVar

import numpy.typing as npt

M_PERTURB = -6  # as malloc.h defines it
PERTURB_BYTE = 0xA5

Array = TypeVar("Array", bound=npt.NDArray[Any])


class WipedArrays:
    """Arrays of secrets, overwritten when the block ends, also by an exception.

    >>> import numpy as np
    >>> with WipedArrays() as secret:
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


def wipe(secret: bytes | bytearray) -> None:
    """Overwrite a secret that nothing else refers to.

    Cipher, HMAC and key agreement return `bytes`, which Python cannot overwrite. CPython stores their content at a
    known offset, and this function writes there. The language does not define that: the object must not be shared,
    interned or used afterwards. Bytes of length 0 and 1 are shared by the interpreter, and are skipped. Other
    interpreters than CPython overwrite nothing.
    """
    if isinstance(secret, bytearray):
        secret[:] = bytes(len(secret))
    elif sys.implementation.name == "cpython" and len(secret) > 1:
        ctypes.memset(id(secret) + bytes.__basicsize__ - 1, 0, len(secret))


def zero_freed_memory() -> bool:
    """Make the C library overwrite freed blocks. Return False if it cannot."""
    try:
        return bool(ctypes.CDLL(None).mallopt(M_PERTURB, PERTURB_BYTE))
    except (OSError, AttributeError):
        return False


def clear_traceback(failure: BaseException, *, keep_lines: bool) -> None:
    """Clear the frames of an exception and its causes.

    `keep_lines` preserves the traceback itself.
    """
    left: list[BaseException | None] = [failure]
    known: list[BaseException] = []
    while left:
        each = left.pop()
        if each is None or each in known:
            continue
        known.append(each)
        left += [each.__cause__, each.__context__]
        clear_frames(each.__traceback__)
        if not keep_lines:
            each.with_traceback(None)
            each.__cause__ = each.__context__ = None
