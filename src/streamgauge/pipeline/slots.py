"""Where data keys live and die: two slots in a small file of their own, overwritten in place.

Slot g mod 2 holds the data key of generation g, wrapped by the curator's key. A commit from g to g + 1:

    1. the rows of generation g + 1 are written in an open transaction
    2. slot g + 1 is written and flushed                       over the remains of slot g - 1
    3. the transaction is committed and flushed
    4. slot g is overwritten with chance bytes and flushed

**Promise.** After any crash the store opens, as of before the commit or as of after it, and once a commit
has returned, or the store was opened again, no data key but the newest is in any file.
Proof: the committed generation is g until 3 and g + 1 from then on, and nothing else decides which state is
the true one. Slot g is whole until 4 begins, and slot g + 1 from the end of 2 on, so whichever 3 left
committed has its key; the slots lie in blocks of their own, so a torn write harms one only. Opening destroys
the slot that is not of the committed generation, as 4 does. The file is no part of the database: there the
journal would keep what was overwritten.

A commit that *failed* in step 3 may still be found committed after a crash, so it decides nothing: the store
takes no further commit until it was opened again, which writes to the journal before a slot is destroyed.

A slot may also be written by one who cannot read it (`Sealing`): the data key is under what a key of its own,
forgotten at once, and the public side of the curator's key agree on (X25519). So a run that has let go of the
curator's key has no way back into what it wrote. Keys that are made on the way are overwritten (`wipe`).

What this cannot reach: flash that remaps blocks, copy-on-write file systems, snapshots and backups may keep
an old slot, which the curator's key still opens.
"""

import errno
import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from streamgauge.noise.entropy import system_key, wipe
from streamgauge.pipeline.durable import PRIVATE_FILE
from streamgauge.pipeline.sealed import seal, unseal
from streamgauge.query.durable import sync
from streamgauge.query.held import Held

BLOCK = 4096
MAGIC, SEALED = b"SGSLOT1\n", b"SGSLOT2\n"
RECORD = Struct("<8s16s32s48sQ32s")  # magic, check of the key, salt, wrapped data key, generation, checksum
Read = tuple[bytes, bytes, bytes, bytes]  # magic, check, salt, wrapped


class OtherKey(Exception):  # noqa: N818 - told as WrongKey by the store
    """The slot is whole and was written under another curator's key."""


def wrap(secret: bytes, identity: str, generation: int, data_key: bytes) -> bytes:
    """A slot: the data key under a key that the curator's and a fresh salt make, used this once."""
    salt = system_key()
    with _derived(secret, b"wrap", salt) as key:
        wrapped = seal(key, data_key, identity, "slot", generation)
    return record(MAGIC, _check(secret), salt, wrapped, generation)


def unwrap(secret: bytes, identity: str, generation: int, slot: Read) -> bytes:
    magic, check, salt, wrapped = slot
    if not hmac.compare_digest(check, _check(secret)):
        raise OtherKey
    opened = _agreed(_private(secret), salt, salt) if magic == SEALED else _derived(secret, b"wrap", salt)
    with opened as key:
        return unseal(key, wrapped, identity, "slot", generation)


@dataclass(frozen=True)
class Sealing:
    """What is left of a curator's key to one who writes slots and must not be able to read them."""

    source: str  # where the key came from
    public: bytes
    check: bytes

    @classmethod
    def of(cls, source: str, secret: bytes) -> "Sealing":
        return cls(source, _private(secret).public_key().public_bytes_raw(), _check(secret))

    def wrap(self, identity: str, generation: int, data_key: bytes) -> bytes:
        own = _made(system_key())
        salt = own.public_key().public_bytes_raw()
        with _agreed(own, self.public, salt) as key:
            wrapped = seal(key, data_key, identity, "slot", generation)
        return record(SEALED, self.check, salt, wrapped, generation)


def record(magic: bytes, check: bytes, salt: bytes, wrapped: bytes, generation: int) -> bytes:
    plain = RECORD.pack(magic, check, salt, wrapped, generation, bytes(32))
    return plain[:-32] + hashlib.sha256(plain).digest()


def read_record(data: bytes) -> tuple[int, Read] | None:
    """The generation and the content of a slot that is whole."""
    if len(data) < RECORD.size:
        return None
    magic, check, salt, wrapped, generation, _ = RECORD.unpack_from(data)
    whole = magic in (MAGIC, SEALED)
    whole = whole and data[: RECORD.size] == record(magic, check, salt, wrapped, generation)
    return (generation, (magic, check, salt, wrapped)) if whole else None


def find(data: bytes, generation: int) -> Read | None:
    """The slot of a generation in the bytes of a slots file."""
    found = read_record(data[generation % 2 * BLOCK :])
    return found[1] if found is not None and found[0] == generation else None


@contextmanager
def _derived(secret: bytes, purpose: bytes, salt: bytes) -> Iterator[bytes]:
    """A key for a while."""
    key = hmac.digest(secret, b"streamgauge " + purpose + b"\0" + salt, "sha256")
    try:
        yield key
    finally:
        wipe(key)


@contextmanager
def _agreed(own: X25519PrivateKey, public: bytes, salt: bytes) -> Iterator[bytes]:
    """The key that a private and a public side agree on, for a while."""
    agreed = own.exchange(X25519PublicKey.from_public_bytes(public))
    try:
        with _derived(agreed, b"seal", salt) as key:
            yield key
    finally:
        wipe(agreed)


def _private(secret: bytes) -> X25519PrivateKey:
    with _derived(secret, b"private", b"") as key:
        return X25519PrivateKey.from_private_bytes(key)


def _made(key: bytes) -> X25519PrivateKey:
    try:
        return X25519PrivateKey.from_private_bytes(key)
    finally:
        wipe(key)


def _check(secret: bytes) -> bytes:
    """Tells a wrong key from damage; it says nothing else about the key, which has 256 bits of chance."""
    with _derived(secret, b"check", b"") as key:
        return key[:16]


class Slots:
    """The slots file, open for overwriting, and held: no second store can be open on it."""

    def __init__(self, path: Path) -> None:
        self._held = Held(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)

    def find(self, generation: int) -> Read | None:
        return find(os.pread(self._open, 2 * BLOCK, 0), generation)

    def write(self, generation: int, slot: bytes) -> None:
        """Over the slot of the generation before the last."""
        written = os.pwrite(self._open, slot, generation % 2 * BLOCK)
        if written != len(slot):
            raise OSError(errno.ENOSPC, "no space left for a key")
        sync(self._open)

    def destroy(self, generation: int) -> None:
        """Overwrites the slot of a generation, and whatever else may lie there."""
        self.write(generation, hashlib.shake_256(system_key()).digest(RECORD.size))

    def close(self) -> None:
        self._held.close()

    @property
    def _open(self) -> int:
        return self._held.descriptor
