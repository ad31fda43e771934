"""Whether a store is as it was committed: its pages, its history, its state.

Without the key: SQLite's own check of pages and indexes, and the chain, made again from all rows. With it:
the head opens only under the chain, tick and number that it was sealed with, and every part under the key
that the head has for it. So a bit that flips, a row that goes or comes, a part of another time and a history
that was rewritten with all its chains are all found, before anything is drawn from the state.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from streamgauge.pipeline.chain import genesis, link
from streamgauge.pipeline.head import Head
from streamgauge.pipeline.sealed import PartKeys, Unopened, unseal_part
from streamgauge.pipeline.store_errors import DamagedStore


def check_pages(sql: Connection, folder: Path) -> None:
    if sql.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
        raise DamagedStore(folder, "damaged pages")


def check_history(sql: Connection, folder: Path) -> None:
    """Makes the chain again, from the identity to the head."""
    head = Head.read(sql, folder)
    released = _taker(sql.execute("SELECT number, release, tick, payload FROM releases ORDER BY place"))
    acts = _taker(sql.execute("SELECT number, act FROM acts ORDER BY place"))
    last = (0, 0, genesis(head.identity))
    for number, tick, chain in sql.execute("SELECT number, tick, chain FROM entries ORDER BY number"):
        if number:
            last = (number, tick, link(last[2], tick, released(number), [act for (act,) in acts(number)]))
        if (number, tick, chain) != last:
            raise DamagedStore(folder, f"another history at entry {number}")
    if last != (head.number, head.tick, head.chain) or released(None) or acts(None):
        raise DamagedStore(folder, "a history with another end")


def opened_parts(sql: Connection, folder: Path, identity: str, keys: PartKeys) -> Iterator[tuple[str, bytes]]:
    """All parts of the state, decrypted; raises at the first that is not the one its key is for."""
    left = set(keys)
    for name, generation, sealed in sql.execute("SELECT name, generation, sealed FROM parts"):
        try:
            plain = unseal_part(keys[name], identity, name, generation, sealed)
        except (KeyError, Unopened):
            raise DamagedStore(folder, "a part of the state that was not committed") from None
        left.remove(name)
        yield name, plain
    if left:
        raise DamagedStore(folder, "a state with parts missing")


def _taker(rows: Iterator[Sequence[Any]]) -> Callable[[int | None], list[Any]]:
    """Takes the rows of one entry after the other, without their number; for None, whatever is left first."""
    waiting = next(rows, None)

    def take(number: int | None) -> list[Any]:
        nonlocal waiting
        taken = []
        while waiting is not None and (number is None or waiting[0] == number):
            taken.append(tuple(waiting[1:]))
            waiting = next(rows, None)
            if number is None:
                break
        return taken

    return take
