"""Encryption of the state at rest, and the key slots.

    data key of generation g  --seals-->  the table of part keys  --opens-->  the parts, as last changed

A part that changes gets a fresh key. A part that stays keeps its ciphertext. Each commit seals the table again,
under a fresh data key.

**Promise.** An adversary with every ciphertext ever written and the data key of generation g can decrypt the parts
as they were at generation g, and nothing older or since removed. Proof: a ciphertext opens under its own key only.
That key was in the tables of the generations from its writing to its replacement and nowhere else. Each table opens
under the data key of its generation only. Names, sizes and times of change of the parts are not hidden: callers
choose them by public facts (`runtime.live`, `quarantine`, `engines.duckdb.user_bounds`).

Every key seals one message, so the nonce of AES-256-GCM is a constant. Store, kind, name and generation of a
ciphertext are authenticated with it, for the table also chain and tick. So no ciphertext can replace another, and
the public history cannot be rewritten under a state that does not belong to it.

Decrypted bytes are separate objects, so `overwrite` can remove them from memory.

**Key slots.** Data keys live in two slots, overwritten in place. Slot g mod 2 has the data key of generation g,
wrapped by the curator's key. A commit from g to g + 1:

    1. the rows of generation g + 1 are written in an open transaction
    2. slot g + 1 is written and flushed, over the remains of slot g - 1
    3. the transaction is committed and flushed
    4. slot g is overwritten with random bytes and flushed

**Promise.** After any crash the store opens, as of before the commit or as of after it. Once a commit has returned,
or the store was opened again, no data key but the newest is in any file.
Proof: the committed generation is g until step 3 and g + 1 from then on, and nothing else decides which state is
valid. Slot g is complete until step 4 begins, and slot g + 1 from the end of step 2. So the generation that step 3
left committed has its key. The slots are in separate blocks, so a torn write harms one only. Opening destroys
the slot that is not of the committed generation, as step 4 does.

A commit that *failed* in step 3 may still be found committed after a crash. So the store refuses further commits
until it is opened again, which writes to the journal before it destroys a slot.

A writer that cannot read slots can also write them (`SealingKey`). The data key is then wrapped by an X25519
agreement between an ephemeral key, which is dropped at once, and the public side of the curator's key. So a run
that has dropped the curator's key cannot decrypt its own writes. Intermediate keys are overwritten (`memory.wipe`).

Out of reach: flash that remaps blocks, copy-on-write file systems, snapshots and backups may retain an old slot,
which the curator's key still opens.
"""

import errno
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streamgauge.files import PRIVATE_FILE_MODE, FileLock, sync
from streamgauge.memory import wipe
from streamgauge.noise.entropy import KEY_BYTES, read_system_key

NONCE = bytes(12)
LENGTH = Struct("<H")
SECRET_PART = "secret"  # the part that keys the hashes of users; it has no data and is never removed

PartKeys = Mapping[str, bytes]


class DecryptionError(Exception):
    """A ciphertext that was not sealed under this key for this purpose.

    With code `other_key` it is a complete slot that was written under another curator's key.
    """

    def __init__(self, code: str = "not_sealed") -> None:
        super().__init__()
        self.code = code


def seal(key: bytes, plain: bytes, *about: str | int) -> bytes:
    """Encrypt under a key that is used this once."""
    return AESGCM(key).encrypt(NONCE, plain, json.dumps(about).encode())


def unseal(key: bytes, sealed: bytes, *about: str | int) -> bytes:
    try:
        return AESGCM(key).decrypt(NONCE, sealed, json.dumps(about).encode())
    except InvalidTag:
        raise DecryptionError from None


def seal_part(identity: str, name: str, generation: int, plain: bytes) -> tuple[bytes, bytes]:
    """Return a fresh key, and the part sealed under it."""
    key = read_system_key()
    try:
        return key, seal(key, plain, identity, "part", name, generation)
    except BaseException:
        wipe(key)
        raise


def unseal_part(key: bytes, identity: str, name: str, generation: int, sealed: bytes) -> bytes:
    return unseal(key, sealed, identity, "part", name, generation)


def overwrite(parts: Mapping[str, bytes | None]) -> None:
    """Wipe parts of a state after their last use, but not the secret, which is in use."""
    for name, plain in parts.items():
        if plain is not None and name != SECRET_PART:
            wipe(plain)


def overwrite_keys(keys: PartKeys) -> None:
    for key in keys.values():
        wipe(key)


def pack_keys(keys: PartKeys) -> bytes:
    entries = ((name.encode(), key) for name, key in keys.items())
    return b"".join(piece for name, key in entries for piece in (LENGTH.pack(len(name)), name, key))


def unpack_keys(packed: bytes) -> dict[str, bytes]:
    keys, at = {}, 0
    while at < len(packed):
        name = at + LENGTH.size
        key = name + LENGTH.unpack_from(packed, at)[0]
        at = key + KEY_BYTES
        keys[packed[name:key].decode()] = packed[key:at]
    return keys


BLOCK_BYTES = 4096
MAGIC, SEALED_MAGIC = b"SGSLOT1\n", b"SGSLOT2\n"
SLOT_STRUCT = Struct("<8s16s32s48sQ32s")  # magic, check of the key, salt, wrapped data key, generation, checksum
SlotContent = tuple[bytes, bytes, bytes, bytes]  # magic, check, salt, wrapped


def wrap(secret: bytes, identity: str, generation: int, data_key: bytes) -> bytes:
    """Return a slot: the data key under a key derived from the curator's key and a fresh salt."""
    salt = read_system_key()
    with _derive_key(secret, b"wrap", salt) as key:
        wrapped = seal(key, data_key, identity, "slot", generation)
    return pack_slot(MAGIC, _compute_check(secret), salt, wrapped, generation)


def unwrap(secret: bytes, identity: str, generation: int, slot: SlotContent) -> bytes:
    magic, check, salt, wrapped = slot
    if not hmac.compare_digest(check, _compute_check(secret)):
        raise DecryptionError("other_key")
    is_sealed = magic == SEALED_MAGIC
    opened = _agree_key(_derive_private_key(secret), salt, salt) if is_sealed else _derive_key(secret, b"wrap", salt)
    with opened as key:
        return unseal(key, wrapped, identity, "slot", generation)


@dataclass(frozen=True)
class SealingKey:
    """The public side of a curator's key: it writes slots and cannot read them."""

    source: str  # of the key, for messages
    public: bytes
    check: bytes

    @classmethod
    def from_secret(cls, source: str, secret: bytes) -> "SealingKey":
        return cls(source, _derive_private_key(secret).public_key().public_bytes_raw(), _compute_check(secret))

    def wrap(self, identity: str, generation: int, data_key: bytes) -> bytes:
        own = _load_private_key(read_system_key())
        salt = own.public_key().public_bytes_raw()
        with _agree_key(own, self.public, salt) as key:
            wrapped = seal(key, data_key, identity, "slot", generation)
        return pack_slot(SEALED_MAGIC, self.check, salt, wrapped, generation)


def pack_slot(magic: bytes, check: bytes, salt: bytes, wrapped: bytes, generation: int) -> bytes:
    plain = SLOT_STRUCT.pack(magic, check, salt, wrapped, generation, bytes(32))
    return plain[:-32] + hashlib.sha256(plain).digest()


def unpack_slot(data: bytes) -> tuple[int, SlotContent] | None:
    """Return generation and content of a slot, or None if it is not complete."""
    if len(data) < SLOT_STRUCT.size:
        return None
    magic, check, salt, wrapped, generation, _ = SLOT_STRUCT.unpack_from(data)
    whole = magic in (MAGIC, SEALED_MAGIC)
    whole = whole and data[: SLOT_STRUCT.size] == pack_slot(magic, check, salt, wrapped, generation)
    return (generation, (magic, check, salt, wrapped)) if whole else None


def parse_slot(data: bytes | None, generation: int) -> SlotContent | None:
    """Return the content of a slot if it is complete and of this generation."""
    found = unpack_slot(data or b"")
    return found[1] if found is not None and found[0] == generation else None


def find_slot(data: bytes, generation: int) -> SlotContent | None:
    """Return the slot of a generation in the bytes of a slots file."""
    return parse_slot(data[generation % 2 * BLOCK_BYTES :], generation)


def select_slot(data: bytes, generation: int) -> bytes:
    """Return the bytes of a slots file without the slot of another generation."""
    at = generation % 2 * BLOCK_BYTES
    return bytes(at) + data[at : at + BLOCK_BYTES].ljust(2 * BLOCK_BYTES - at, b"\0")


@contextmanager
def _derive_key(secret: bytes, purpose: bytes, salt: bytes) -> Iterator[bytes]:
    """Derive a key that is wiped when the block ends."""
    key = hmac.digest(secret, b"streamgauge " + purpose + b"\0" + salt, "sha256")
    try:
        yield key
    finally:
        wipe(key)


@contextmanager
def _agree_key(own: X25519PrivateKey, public: bytes, salt: bytes) -> Iterator[bytes]:
    """Derive a key from an agreement; it is wiped when the block ends."""
    agreed = own.exchange(X25519PublicKey.from_public_bytes(public))
    try:
        with _derive_key(agreed, b"seal", salt) as key:
            yield key
    finally:
        wipe(agreed)


def _derive_private_key(secret: bytes) -> X25519PrivateKey:
    with _derive_key(secret, b"private", b"") as key:
        return X25519PrivateKey.from_private_bytes(key)


def _load_private_key(key: bytes) -> X25519PrivateKey:
    try:
        return X25519PrivateKey.from_private_bytes(key)
    finally:
        wipe(key)


def _compute_check(secret: bytes) -> bytes:
    """Return 16 bytes that distinguish a wrong key from damage.

    They reveal nothing else about the key, which has 256 random bits.
    """
    with _derive_key(secret, b"check", b"") as key:
        return key[:16]


class KeySlots:
    """The slots file, locked, so that no second store can be open on it."""

    def __init__(self, path: Path) -> None:
        self._file_lock = FileLock(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE_MODE)

    def read(self, generation: int) -> bytes:
        return os.pread(self._file_lock.descriptor, BLOCK_BYTES, generation % 2 * BLOCK_BYTES)

    def write(self, generation: int, slot: bytes) -> None:
        """Overwrite the slot of the generation before the last."""
        written = os.pwrite(self._file_lock.descriptor, slot, generation % 2 * BLOCK_BYTES)
        if written != len(slot):
            raise OSError(errno.ENOSPC, "no space left for a key")
        sync(self._file_lock.descriptor)

    def destroy(self, generation: int) -> None:
        """Overwrite the place of a generation with random bytes."""
        self.write(generation, hashlib.shake_256(read_system_key()).digest(SLOT_STRUCT.size))

    def close(self) -> None:
        self._file_lock.close()
