"""How a store begins: made under another name, and named when it is whole.

A crash on the way leaves no store, and the next attempt starts over. Everything happens while the slots file
is held, so that two runs cannot found a store at once.
"""

from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

from streamgauge.pipeline import database, schema
from streamgauge.pipeline.durable import rename
from streamgauge.pipeline.head import Head, seal_head
from streamgauge.pipeline.keys import Key
from streamgauge.pipeline.slots import Slots
from streamgauge.query.durable import sync_path

STEPS = ("founding begun", "first slot written", "founded")


def found(folder: Path, key: Key, slots: Slots, steps: Callable[[str], None]) -> None:
    """A store with no history and no state."""
    head = Head.first()
    sealed, slot = seal_head(key, head, {})
    steps("founding begun")
    slots.write(head.generation, slot)
    steps("first slot written")
    fresh = folder / (database.STORE + ".new")
    _write(fresh, head, sealed)
    rename(fresh, folder / database.STORE)
    steps("founded")


def _write(path: Path, head: Head, sealed: bytes) -> None:
    sql = database.new_database(path)
    try:
        sql.execute("BEGIN")
        schema.create(sql)
        identity, generation, *place = astuple(head)
        sql.execute(
            "INSERT INTO head VALUES (1, ?, ?, 0, ?, ?, ?, ?)", (identity, generation, *place, sealed)
        )
        sql.execute("INSERT INTO entries VALUES (?, ?, ?)", place)
        sql.execute("COMMIT")
    finally:
        sql.close()
    sync_path(path)
