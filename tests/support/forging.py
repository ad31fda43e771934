"""Saved runs that were tampered with."""

import hashlib

from streamgauge.continual.state_io import MAGIC


def forged(saved: bytes, old: bytes, new: bytes) -> bytes:
    """The same bytes with another header, and a checksum to match."""
    start = len(MAGIC) + 8
    end = start + int.from_bytes(saved[len(MAGIC) : start], "little")
    header = saved[start:end].replace(old, new, 1)
    body = MAGIC + len(header).to_bytes(8, "little") + header + saved[end:-32]
    return body + hashlib.sha256(body).digest()


def altered(saved: bytes) -> bytes:
    """Return the bytes with one byte changed."""
    return saved[:-40] + bytes([saved[-40] ^ 1]) + saved[-39:]
