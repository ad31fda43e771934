"""The hash chain over everything public that was committed, in order.

Each entry hashes the chain before it, its tick, its releases and its ledger entries, every piece with its length.
So two different histories have different chains unless SHA-256 is broken. The first chain hashes the store's
identity.
"""

import hashlib
from collections.abc import Sequence
from struct import Struct

ENTRY = Struct("<32sqQQ")
RELEASE = Struct("<QqQ")
LENGTH = Struct("<Q")

Row = tuple[str, int, bytes]  # release, tick, payload


def genesis(identity: str) -> str:
    return hashlib.sha256(b"streamgauge chain 1\0" + identity.encode()).hexdigest()


def link(previous: str, tick: int, released: Sequence[Row], acts: Sequence[str]) -> str:
    """Return the chain after one more entry."""
    digest = hashlib.sha256(ENTRY.pack(bytes.fromhex(previous), tick, len(released), len(acts)))
    for name, at, payload in released:
        encoded = name.encode()
        digest.update(RELEASE.pack(len(encoded), at, len(payload)) + encoded)
        digest.update(payload)
    for act in acts:
        encoded = act.encode()
        digest.update(LENGTH.pack(len(encoded)) + encoded)
    return digest.hexdigest()
