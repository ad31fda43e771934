"""Saved runs: a header that says whose run it is, the arrays, and a checksum. No pickle.

    magic and version | length of header | header (JSON) | arrays, raw | SHA-256 of all before

The header holds the mechanism with all its settings, so that a run is never continued under
another claim. The checksum finds torn and altered files; it is no protection against a forger.
"""

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from streamgauge.continual.mechanism import Mechanism

MAGIC = b"streamgauge run 1\n"
DIGEST = hashlib.sha256().digest_size
S = TypeVar("S", bound=Any)


class BadSave(ValueError):  # noqa: N818 - named for what it is
    """Bytes that are not a run of this mechanism."""


def write_state(mechanism: "Mechanism[S]", width: int, intrusions: int, state: S) -> bytes:
    arrays: list[np.ndarray[Any, Any]] = []
    header = {
        "mechanism": repr(mechanism),
        "width": width,
        "intrusions": intrusions,
        "state": _described(state, arrays),
    }
    text = json.dumps(header).encode()
    parts = [MAGIC, len(text).to_bytes(8, "little"), text, *(array.tobytes() for array in arrays)]
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def read_state(saved: bytes, mechanism: "Mechanism[S]") -> tuple[int, int, S]:
    """The width, the announced intrusions and the state that `saved` holds."""
    body, digest = saved[:-DIGEST], saved[-DIGEST:]
    if not body.startswith(MAGIC):
        raise BadSave(f"saved must be a run of {MAGIC.decode().strip()!r}, got other bytes")
    if hashlib.sha256(body).digest() != digest:
        raise BadSave("saved must be whole, got a truncated or altered run")
    start = len(MAGIC) + 8
    end = start + int.from_bytes(body[len(MAGIC) : start], "little")
    header = json.loads(body[start:end])
    if header["mechanism"] != repr(mechanism):
        raise BadSave(f"saved must be a run of {mechanism!r}, got one of {header['mechanism']}")
    state, used = _restored(mechanism.initial(1, NoNoise()), header["state"], memoryview(body)[end:])
    if used != len(body) - end:
        raise BadSave("saved must be whole, got a truncated or altered run")
    return header["width"], header["intrusions"], state


def _described(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(np.ascontiguousarray(value))
        return {"dtype": value.dtype.str, "shape": value.shape}
    if is_dataclass(value):
        return {field.name: _described(getattr(value, field.name), arrays) for field in fields(value)}
    return value


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
