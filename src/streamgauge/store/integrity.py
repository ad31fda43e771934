"""Checks that a store is as it was committed: its history and its state.

Without the key: the hash chain, computed again from all rows (`StoreBacking.check` looks at pages and indexes).
With it: the head opens only under the chain, tick and number that it was sealed with, and each part under the
key that the head has for it. So a flipped bit, a missing or additional row, a part of another time, and a history
that was rewritten with all its chains are found before anything is drawn from the state.
"""

from collections.abc import Iterator
from itertools import groupby

from streamgauge.interfaces import MAX_ENTRY, ReleaseRow, StoreReading
from streamgauge.store.encryption import DecryptionError, PartKeys, unseal_part
from streamgauge.store.errors import build_damage_error
from streamgauge.store.hash_chain import genesis, link

CHECK_ROWS = 64  # payloads in memory at a time


def check_history(backing: StoreReading) -> None:
    """Compute the chain again, from the identity to the head."""
    head = backing.head()
    released = groupby(read_rows(backing), key=lambda row: row.number)
    ledger = groupby(backing.ledger(), key=lambda row: row.number)
    next_released, next_ledger = next(released, None), next(ledger, None)
    last = (0, 0, genesis(head.identity))
    for number, tick, chain in backing.entries():
        if number:
            rows, texts = [], []
            if next_released is not None and next_released[0] == number:
                rows = [(row.release, row.tick, row.payload) for row in next_released[1]]
                next_released = next(released, None)
            if next_ledger is not None and next_ledger[0] == number:
                texts = [row.text for row in next_ledger[1]]
                next_ledger = next(ledger, None)
            last = (number, tick, link(last[2], tick, rows, texts))
        if (number, tick, chain) != last:
            raise build_damage_error(backing.address, f"another history at entry {number}")
    if last != (head.number, head.tick, head.chain) or next_released or next_ledger:
        raise build_damage_error(backing.address, "a history with another end")


def read_rows(backing: StoreReading) -> Iterator[ReleaseRow]:
    """Yield all release rows, read in batches."""
    after = 0
    while rows := backing.rows(after, MAX_ENTRY, CHECK_ROWS):
        yield from rows
        after = rows[-1].place


def decrypt_parts(backing: StoreReading, identity: str, keys: PartKeys) -> Iterator[tuple[str, bytes]]:
    """Yield all parts of the state, decrypted; reject the first that its key does not open."""
    left = set(keys)
    for name, generation, sealed in backing.parts():
        try:
            plain = unseal_part(keys[name], identity, name, generation, sealed)
        except (KeyError, DecryptionError):
            raise build_damage_error(backing.address, "a part of the state that was not committed") from None
        left.remove(name)
        yield name, plain
    if left:
        raise build_damage_error(backing.address, "a state with parts missing")
