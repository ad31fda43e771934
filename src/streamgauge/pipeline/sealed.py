"""The state at rest: each part under a key of its own, and the keys of all parts under one that dies.

    data key of generation g  --seals-->  the table of part keys  --opens-->  the parts, as last changed

A part that changes gets a fresh key; a part that stays keeps its ciphertext. The table is sealed anew at
every commit, under a fresh data key (see `slots` for where that lives, and when it dies).

**Promise.** Whoever has every ciphertext ever written and the data key of generation g can open the parts as
they were at generation g, and nothing older or since removed: a ciphertext opens under its own key only,
that key was in the tables of the generations from its writing to its replacement and nowhere else, and each
table opens under the data key of its generation only. Names, sizes and times of change of the parts are not
hidden: whoever commits chooses them by what is public (`live_run`, `quarantine`, `engines.user_bounds`).

Every key seals one message, so the nonce of AES-256-GCM is a constant. What a ciphertext is (store, kind,
name, generation, for the table also the chain and the tick) is authenticated with it: none can stand in for
another, and the public history cannot be rewritten under a state that does not belong to it.

What is unsealed is bytes of its own that nobody else holds: `overwrite` takes it out of memory.
"""

import json
from collections.abc import Mapping
from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streamgauge.noise.entropy import KEY_BYTES, system_key, wipe

NONCE = bytes(12)
LENGTH = Struct("<H")
SECRET = "secret"  # the part of a state that keys the hashes of users: it stays, and holds no data

PartKeys = Mapping[str, bytes]


class Unopened(Exception):  # noqa: N818 - not an error of anyone who uses the store: it is told as damage
    """The ciphertext is not what was sealed under this key as this thing."""


def seal(key: bytes, plain: bytes, *about: str | int) -> bytes:
    """Encrypts under a key that was never used and never will be again."""
    return AESGCM(key).encrypt(NONCE, plain, json.dumps(about).encode())


def unseal(key: bytes, sealed: bytes, *about: str | int) -> bytes:
    try:
        return AESGCM(key).decrypt(NONCE, sealed, json.dumps(about).encode())
    except InvalidTag:
        raise Unopened from None


def seal_part(identity: str, name: str, generation: int, plain: bytes) -> tuple[bytes, bytes]:
    """A fresh key, and the part under it."""
    key = system_key()
    try:
        return key, seal(key, plain, identity, "part", name, generation)
    except BaseException:
        wipe(key)
        raise


def unseal_part(key: bytes, identity: str, name: str, generation: int, sealed: bytes) -> bytes:
    return unseal(key, sealed, identity, "part", name, generation)


def overwrite(parts: Mapping[str, bytes | None]) -> None:
    """Parts of a state that were read or written, and are used no more; not the secret, which is in use."""
    for name, plain in parts.items():
        if plain is not None and name != SECRET:
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
