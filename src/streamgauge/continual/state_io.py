"""Saved runs: a header with the identity of the claim, arrays, a checksum.

    magic and version | length of header | header (JSON) | arrays, raw | SHA-256 of all before

There is no pickle. The header holds the identity of the claim, all its settings, so that a run is never
continued under another claim. The checksum finds torn and altered files. It is no protection against a forger.

Privacy
    A save is a second copy of the state. `pack` makes that copy and no other, `unpack` none but the state that
    it returns. To forget a save, overwrite its bytes (`memory.wipe`).

Widening
    Most arrays of a state have one column per group, on their last axis. Some are public and have none. Two
    blank states, of one and of two groups, show the difference: arrays of different width have columns.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from streamgauge.memory import WipedArrays
from streamgauge.noise.entropy import Bytes

MAGIC = b"streamgauge run 1\n"
DIGEST_BYTES = hashlib.sha256().digest_size
WRONG_STATE_MESSAGE = "saved must hold a state of its claim, got another"
SavedBytes = bytes | bytearray | memoryview
S = TypeVar("S", bound=Any)


class InvalidSaveError(ValueError):
    """Bytes that are not a run of this mechanism, or not a release of this schema."""


def pack(identity: str, width: int, record: dict[str, int], state: Any) -> bytes:
    """Return a state, a dataclass of arrays, plain numbers and such dataclasses, as bytes."""
    arrays: list[np.ndarray[Any, Any]] = []
    header = {"mechanism": identity, "width": width, "record": record, "state": _describe(state, arrays)}
    text = json.dumps(header).encode()
    with WipedArrays() as secret:
        octets = [_to_bytes(array, secret) for array in arrays]
        parts: list[Any] = [MAGIC, len(text).to_bytes(8, "little"), text, *octets]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        return b"".join([*parts, digest.digest()])


def unpack(
    saved: SavedBytes, identity: str, blank: Callable[[int], S], display_name: str = ""
) -> tuple[int, dict[str, int], S]:
    """Return width, record and state that `pack` wrote; reject another claim's.

    `blank` makes a state of a width, which shows the structure. `shown` is the claim as printed.
    """
    header, raw = _parse_header(saved)
    if header.get("mechanism") != identity:
        raise InvalidSaveError(
            f"saved must be a run of {display_name or identity}, got one of {header.get('mechanism')}"
        )
    try:
        width, record = int(header["width"]), {name: int(n) for name, n in header["record"].items()}
        like = blank(width)
        state, used = _restore(like, header["state"], raw)
        whole = width > 0 and used == len(raw) and _has_same_structure(state, like)
    except (KeyError, TypeError, ValueError, AttributeError, MemoryError):
        whole = False
    if not whole:
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    return width, record, state


def _parse_header(saved: SavedBytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and the raw arrays, if the bytes are complete."""
    if not isinstance(saved, SavedBytes):
        raise InvalidSaveError(f"saved must be bytes, got {type(saved).__name__}")
    whole = memoryview(saved)
    body, digest = whole[:-DIGEST_BYTES], whole[-DIGEST_BYTES:]
    if whole[: len(MAGIC)] != MAGIC:
        raise InvalidSaveError(f"saved must be a run of {MAGIC.decode().strip()!r}, got other bytes")
    if hashlib.sha256(body).digest() != digest:
        raise InvalidSaveError("saved must be whole, got a truncated or altered run")
    start = len(MAGIC) + 8
    end = start + int.from_bytes(body[len(MAGIC) : start], "little")
    try:
        header = json.loads(bytes(body[start:end]))
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    return header, body[end:]


def _has_same_structure(state: Any, like: Any) -> bool:
    """Return whether a state has parts of the same kinds as another.

    Rows may have been added with time. The last axis is the width; if it is empty, it is a list that grows.
    """
    if isinstance(like, np.ndarray):
        kinds = {like.dtype.str, np.dtype(np.float64).str}
        wide = like.shape[-1] in (0, state.shape[-1])
        return wide and state.ndim == like.ndim and state.dtype.str in kinds
    if is_dataclass(like):
        return all(_has_same_structure(getattr(state, f.name), getattr(like, f.name)) for f in fields(like))
    return type(state) is type(like)


def _describe(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"dtype": value.dtype.str, "shape": value.shape}
    if is_dataclass(value):
        return {field.name: _describe(getattr(value, field.name), arrays) for field in fields(value)}
    return value


def _to_bytes(array: np.ndarray[Any, Any], secret: WipedArrays) -> Bytes:
    """Return the contiguous bytes of an array; a copy for it is overwritten."""
    there = array.flags.c_contiguous
    row: Bytes = (array if there else secret(np.ascontiguousarray(array))).reshape(-1).view(np.uint8)
    return row


def _restore(like: Any, description: Any, raw: memoryview) -> tuple[Any, int]:
    """Return the described value, of the kind of `like`, and its raw bytes used."""
    if is_dataclass(like) and not isinstance(like, type):
        values, used = {}, 0
        for name, part in description.items():
            values[name], more = _restore(getattr(like, name), part, raw[used:])
            used += more
        return type(like)(**values), used
    if isinstance(description, dict):
        array = np.frombuffer(raw, description["dtype"], int(np.prod(description["shape"])))
        return array.reshape(description["shape"]).copy(), array.nbytes
    return description, 0


def count_numbers(state: Any) -> int:
    """Return how many numbers the arrays of a state hold."""
    if isinstance(state, np.ndarray):
        return int(state.size)
    return sum(count_numbers(getattr(state, f.name)) for f in fields(state)) if is_dataclass(state) else 0


class BlankNoise:
    """Zeros, for a blank state that only shows the structure of states."""

    def laplace(self, scale: object, size: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
        return np.zeros(size, np.int64)

    gaussian = laplace


Array = np.ndarray[Any, Any]


def append_columns(state: Any, more: Any, one: Any, two: Any) -> None:
    """Append the groups of `more` to `state`, in place; `one` and `two` are blanks."""
    for name in (field.name for field in fields(state)):
        part, other, narrow, wide = (getattr(whole, name) for whole in (state, more, one, two))
        if is_dataclass(part):
            append_columns(part, other, narrow, wide)
        elif isinstance(part, np.ndarray) and narrow.shape[-1] != wide.shape[-1]:
            setattr(state, name, join_columns(part, other))


def join_columns(left: Array, right: Array) -> Array:
    """Return both arrays as one, padded to the larger number of rows."""
    rows = max(left.shape[0], right.shape[0])
    if left.ndim > 1:
        left, right = pad_rows(left, rows), pad_rows(right, rows)
    return np.concatenate([left, right], axis=-1)


def pad_rows(array: Array, rows: int) -> Array:
    padding = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, padding]) if len(padding) else array
