"""Saved runs: a header that says whose run it is, the arrays, and a checksum. No pickle.

    magic and version | length of header | header (JSON) | arrays, raw | SHA-256 of all before

The header holds the identity of the claim, all its settings, so that a run is never continued under
another claim. The checksum finds torn and altered files; it is no protection against a forger.

Privacy
    What is saved is a second copy of the state. `pack` makes one and no other on its way, `unpack` none but
    the state that it returns: whoever has to forget a save overwrites its bytes (`noise.entropy.wipe`).
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from streamgauge.noise.entropy import Bytes, Wiped

MAGIC = b"streamgauge run 1\n"
DIGEST = hashlib.sha256().digest_size
ANOTHER = "saved must hold a state of its claim, got another"
Saved = bytes | bytearray | memoryview
S = TypeVar("S", bound=Any)


class BadSave(ValueError):  # noqa: N818 - named for what it is
    """Bytes that are not a run of this mechanism."""


def pack(identity: str, width: int, record: dict[str, int], state: Any) -> bytes:
    """A state, a dataclass of arrays, plain numbers and such dataclasses, as bytes."""
    arrays: list[np.ndarray[Any, Any]] = []
    header = {
        "mechanism": identity,
        "width": width,
        "record": record,
        "state": _described(state, arrays),
    }
    text = json.dumps(header).encode()
    with Wiped() as secret:
        octets = [_octets(array, secret) for array in arrays]
        parts: list[Any] = [MAGIC, len(text).to_bytes(8, "little"), text, *octets]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        return b"".join([*parts, digest.digest()])


def unpack(
    saved: Saved, identity: str, blank: Callable[[int], S], shown: str = ""
) -> tuple[int, dict[str, int], S]:
    """The width, the record of who saw it, and the state that `pack` wrote; refuses any other claim's.

    `blank` makes a state of a width, to tell what states are made of; `shown` is how to print the claim.
    """
    header, raw = _opened(saved)
    if header.get("mechanism") != identity:
        raise BadSave(f"saved must be a run of {shown or identity}, got one of {header.get('mechanism')}")
    try:
        width, record = int(header["width"]), {name: int(n) for name, n in header["record"].items()}
        like = blank(width)
        state, used = _restored(like, header["state"], raw)
        whole = width > 0 and used == len(raw) and _fits(state, like)
    except (KeyError, TypeError, ValueError, AttributeError, MemoryError):
        whole = False
    if not whole:
        raise BadSave(ANOTHER)
    return width, record, state


def _opened(saved: Saved) -> tuple[dict[str, Any], memoryview]:
    """The header and the raw arrays, if the bytes are whole."""
    if not isinstance(saved, Saved):
        raise BadSave(f"saved must be bytes, got {type(saved).__name__}")
    whole = memoryview(saved)
    body, digest = whole[:-DIGEST], whole[-DIGEST:]
    if whole[: len(MAGIC)] != MAGIC:
        raise BadSave(f"saved must be a run of {MAGIC.decode().strip()!r}, got other bytes")
    if hashlib.sha256(body).digest() != digest:
        raise BadSave("saved must be whole, got a truncated or altered run")
    start = len(MAGIC) + 8
    end = start + int.from_bytes(body[len(MAGIC) : start], "little")
    try:
        header = json.loads(bytes(body[start:end]))
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise BadSave(ANOTHER)
    return header, body[end:]


def _fits(state: Any, like: Any) -> bool:
    """Whether a state is made of the same kinds of parts as another; rows may have come with time.

    The last axis is the width; where it is empty, it is a list that grows.
    """
    if isinstance(like, np.ndarray):
        kinds = {like.dtype.str, np.dtype(np.float64).str}
        wide = like.shape[-1] in (0, state.shape[-1])
        return wide and state.ndim == like.ndim and state.dtype.str in kinds
    if is_dataclass(like):
        return all(_fits(getattr(state, f.name), getattr(like, f.name)) for f in fields(like))
    return type(state) is type(like)


def _described(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"dtype": value.dtype.str, "shape": value.shape}
    if is_dataclass(value):
        return {field.name: _described(getattr(value, field.name), arrays) for field in fields(value)}
    return value


def _octets(array: np.ndarray[Any, Any], secret: Wiped) -> Bytes:
    """The bytes of an array in a row; where they are not, in a copy that is overwritten."""
    there = array.flags.c_contiguous
    row: Bytes = (array if there else secret(np.ascontiguousarray(array))).reshape(-1).view(np.uint8)
    return row


def _restored(like: Any, description: Any, raw: memoryview) -> tuple[Any, int]:
    """The value that was described, of the same kind as `like`, and how many raw bytes it took."""
    if is_dataclass(like) and not isinstance(like, type):
        values, used = {}, 0
        for name, part in description.items():
            values[name], more = _restored(getattr(like, name), part, raw[used:])
            used += more
        return type(like)(**values), used
    if isinstance(description, dict):
        array = np.frombuffer(raw, description["dtype"], int(np.prod(description["shape"])))
        return array.reshape(description["shape"]).copy(), array.nbytes
    return description, 0


def numbers(state: Any) -> int:
    """How many numbers the arrays of a state hold."""
    if isinstance(state, np.ndarray):
        return int(state.size)
    return sum(numbers(getattr(state, f.name)) for f in fields(state)) if is_dataclass(state) else 0


class NoNoise:
    """No chance at all: for a blank state that only tells what a state is made of."""

    def laplace(self, scale: object, size: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
        return np.zeros(size, np.int64)

    gaussian = laplace
