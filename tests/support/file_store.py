"""A store of plain files: a second backing, which shows that nothing above the protocol needs SQLite."""

import pickle
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamgauge.files import make_private_folder, replace_file
from streamgauge.interfaces import (
    MAX_ENTRY,
    EntryRow,
    HeadRow,
    LedgerRow,
    MarkRow,
    PartRow,
    ReleaseRow,
    StoreBacking,
    StoreDriver,
    StoreReading,
)
from streamgauge.store.errors import StoreNotFoundError, build_access_error, build_repeat_error, build_writer_error
from streamgauge.store.lock import Lock


class FileReading:
    """All rows in one file, read again at each call."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rows.pickle"
        self.folder = folder

    @property
    def address(self) -> str:
        return str(self.folder)

    @property
    def data(self) -> dict[str, Any]:
        rows: dict[str, Any] = pickle.loads(self.path.read_bytes())
        return rows

    def head(self) -> HeadRow:
        head: HeadRow = self.data["head"]
        return head

    def sealed_keys(self) -> bytes:
        sealed: bytes = self.data["sealed_keys"]
        return sealed

    def entries(self, first: int = 0, limit: int = MAX_ENTRY) -> Iterator[EntryRow]:
        return iter([entry for entry in self.data["entries"] if entry.number >= first][:limit])

    def entries_at(self, tick: int, until: int = MAX_ENTRY) -> list[EntryRow]:
        return [entry for entry in self.data["entries"] if entry.tick == tick and entry.number <= until]

    def ledger(self, until: int = MAX_ENTRY, skip: int = 0) -> list[LedgerRow]:
        return [row for row in self.data["ledger"] if row.number <= until][skip:]

    def count_ledger(self, until: int) -> int:
        return len(self.ledger(until))

    def release_names(self, until: int) -> list[str]:
        return list(dict.fromkeys(row.release for row in self.data["releases"] if row.number <= until))

    def releases(
        self,
        release: str,
        first: int,
        last: int,
        until: int,
        *,
        step: int = 1,
        limit: int,
        payload_bytes: int | None = None,
        newest_first: bool = False,
    ) -> list[ReleaseRow]:
        rows: list[ReleaseRow] = self.data["releases"]
        rows = [row for row in rows if row.release == release and first <= row.tick <= last]
        rows = [row for row in rows if row.number <= until and (row.tick - first) % step == 0]
        rows.sort(key=lambda row: row.tick, reverse=newest_first)
        return [row._replace(payload=row.payload[:payload_bytes]) for row in rows[:limit]]

    def count_ticks(self, release: str, first: int, last: int, step: int = 1) -> int:
        return len(self.releases(release, first, last, MAX_ENTRY, step=step, limit=MAX_ENTRY))

    def rows(self, after: int, until: int, limit: int, payload_bytes: int | None = None) -> list[ReleaseRow]:
        rows: list[ReleaseRow] = [row for row in self.data["releases"][after:] if row.number <= until]
        return [row._replace(payload=row.payload[:payload_bytes]) for row in rows[:limit]]

    def count_rows(self, until: int) -> int:
        return bisect_right(self.data["releases"], until, key=lambda row: row.number)

    def marks(self) -> list[MarkRow]:
        return list(self.data["marks"].values())

    def last_write_time(self) -> int:
        return self.path.stat().st_mtime_ns // 1000 + 1

    def parts(self) -> Iterator[PartRow]:
        return iter(list(self.data["parts"].values()))

    def close(self) -> None:
        pass


class FileBacking(FileReading):
    """A transaction changes a copy in memory, which replaces the file at its end."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        make_private_folder(folder)
        self.lock = self.acquire()
        self.open_data: dict[str, Any] | None = None

    def acquire(self) -> Lock:
        own = self.folder / "writer"  # the folder's own lock is the run's
        make_private_folder(own)
        return Lock(own)

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def data(self) -> dict[str, Any]:
        return super().data if self.open_data is None else self.open_data

    def create(self, head: HeadRow, sealed_keys: bytes) -> None:
        entries = [EntryRow(head.number, head.tick, head.chain)]
        empty = {"head": HeadRow(*head), "sealed_keys": sealed_keys, "entries": entries}
        self.write({**empty, "releases": [], "ledger": [], "marks": {}, "parts": {}})

    def write(self, data: dict[str, Any]) -> None:
        replace_file(self.path, pickle.dumps(data))

    def check(self) -> None:
        assert isinstance(self.data, dict)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.open_data = super().data
        try:
            yield
            try:
                self.write(self.open_data)
            except OSError:
                raise build_access_error(self.address, "a failing disk") from None
        finally:
            self.open_data = None

    def write_head(self, head: HeadRow, sealed_keys: bytes) -> None:
        if self.data["head"].generation != head.generation - 1:
            raise build_writer_error(self.address)
        self.data.update(head=HeadRow(*head), sealed_keys=sealed_keys)

    def touch_head(self) -> None:
        pass

    def add_entry(self, entry: EntryRow, released: Sequence[tuple[str, int, bytes]], ledger: Sequence[str]) -> None:
        known = {(row.release, row.tick) for row in self.data["releases"]}
        self.data["entries"].append(entry)
        for release, tick, payload in released:
            if (release, tick) in known:
                raise build_repeat_error(release, tick)
            place = len(self.data["releases"]) + 1
            self.data["releases"].append(ReleaseRow(place, entry.number, entry.chain, release, tick, payload))
        self.data["ledger"] += [LedgerRow(entry.number, entry.chain, text) for text in ledger]

    def write_part(self, part: PartRow) -> None:
        self.data["parts"][part.name] = PartRow(*part)

    def delete_part(self, name: str) -> None:
        self.data["parts"].pop(name, None)

    def delete_parts(self) -> None:
        self.data["parts"].clear()

    def write_marks(self, marks: Iterable[MarkRow]) -> None:
        self.data["marks"].update({mark.name: MarkRow(*mark) for mark in marks})

    def slot_path(self, generation: int) -> Path:
        return self.folder / f"slot{generation % 2}"

    def find_slot(self, generation: int) -> bytes | None:
        path = self.slot_path(generation)
        return path.read_bytes() if path.exists() else None

    def write_slot(self, generation: int, slot: bytes) -> None:
        replace_file(self.slot_path(generation), slot)

    def destroy_slot(self, generation: int) -> None:
        self.write_slot(generation, secrets.token_bytes(200))

    def empty_journal(self) -> bool:
        return True

    def close(self) -> None:
        self.lock.release()


class FileDriver:
    """A store of plain files. A destroyed slot may still be on the disk, since files are replaced."""

    erases_slots = False

    def __init__(self, backing: type[FileBacking] = FileBacking) -> None:
        self.backing = backing

    def exists(self, folder: Path) -> bool:
        return (folder / "rows.pickle").exists()

    def open_writer(self, folder: Path, *, create: bool) -> StoreBacking:
        if not create and not self.exists(folder):
            raise StoreNotFoundError(folder)
        return self.backing(folder)

    def open_reader(self, folder: Path) -> StoreReading:
        if not self.exists(folder):
            raise StoreNotFoundError(folder)
        return FileReading(folder)

    def copy(self, folder: Path, to: Path) -> None:
        for path in filter(Path.is_file, folder.iterdir()):
            (to / path.name).write_bytes(path.read_bytes())


def build_driver(url: str) -> StoreDriver:
    assert url.startswith("files://")
    return FileDriver()
