"""A store of plain files: a second backing, which shows that nothing above the protocol needs SQLite."""

import pickle
import secrets
from bisect import bisect_right
from contextlib import contextmanager
from pathlib import Path

from streamgauge.files import make_private_folder, replace_file
from streamgauge.interfaces import MAX_ENTRY, EntryRow, HeadRow, LedgerRow, MarkRow, PartRow, ReleaseRow
from streamgauge.store.errors import StoreNotFoundError, build_access_error, build_repeat_error, build_writer_error
from streamgauge.store.lock import Lock


class FileReading:
    """All rows in one file, read again at each call."""

    def __init__(self, folder):
        self.path = folder / "rows.pickle"
        self.folder = folder

    address = property(lambda self: str(self.folder))

    @property
    def data(self):
        return pickle.loads(self.path.read_bytes())

    def head(self):
        return self.data["head"]

    def sealed_keys(self):
        return self.data["sealed_keys"]

    def entries(self, first=0, limit=MAX_ENTRY):
        return iter([entry for entry in self.data["entries"] if entry.number >= first][:limit])

    def entries_at(self, tick, until=MAX_ENTRY):
        return [entry for entry in self.data["entries"] if entry.tick == tick and entry.number <= until]

    def ledger(self, until=MAX_ENTRY, skip=0):
        return [row for row in self.data["ledger"] if row.number <= until][skip:]

    def count_ledger(self, until):
        return len(self.ledger(until))

    def release_names(self, until):
        return list(dict.fromkeys(row.release for row in self.data["releases"] if row.number <= until))

    def releases(self, release, first, last, until, *, step=1, limit, payload_bytes=None, newest_first=False):
        rows = [row for row in self.data["releases"] if row.release == release and first <= row.tick <= last]
        rows = [row for row in rows if row.number <= until and (row.tick - first) % step == 0]
        rows.sort(key=lambda row: row.tick, reverse=newest_first)
        return [row._replace(payload=row.payload[:payload_bytes]) for row in rows[:limit]]

    def count_ticks(self, release, first, last, step=1):
        return len(self.releases(release, first, last, MAX_ENTRY, step=step, limit=MAX_ENTRY))

    def rows(self, after, until, limit, payload_bytes=None):
        rows = [row for row in self.data["releases"][after:] if row.number <= until]
        return [row._replace(payload=row.payload[:payload_bytes]) for row in rows[:limit]]

    def count_rows(self, until):
        return bisect_right(self.data["releases"], until, key=lambda row: row.number)

    def marks(self):
        return list(self.data["marks"].values())

    def last_write_time(self):
        return self.path.stat().st_mtime_ns // 1000 + 1

    def parts(self):
        return iter(list(self.data["parts"].values()))

    def close(self):
        pass


class FileBacking(FileReading):
    """A transaction changes a copy in memory, which replaces the file at its end."""

    def __init__(self, folder):
        super().__init__(folder)
        make_private_folder(folder)
        self.lock = self.acquire()
        self.open_data = None

    def acquire(self):
        own = self.folder / "writer"  # the folder's own lock is the run's
        make_private_folder(own)
        return Lock(own)

    exists = property(lambda self: self.path.exists())

    @property
    def data(self):
        return super().data if self.open_data is None else self.open_data

    def create(self, head, sealed_keys):
        entries = [EntryRow(head.number, head.tick, head.chain)]
        empty = {"head": HeadRow(*head), "sealed_keys": sealed_keys, "entries": entries}
        self.write({**empty, "releases": [], "ledger": [], "marks": {}, "parts": {}})

    def write(self, data):
        replace_file(self.path, pickle.dumps(data))

    def check(self):
        assert isinstance(self.data, dict)

    @contextmanager
    def transaction(self):
        self.open_data = super().data
        try:
            yield
            try:
                self.write(self.open_data)
            except OSError:
                raise build_access_error(self.address, "a failing disk") from None
        finally:
            self.open_data = None

    def write_head(self, head, sealed_keys):
        if self.data["head"].generation != head.generation - 1:
            raise build_writer_error(self.address)
        self.data.update(head=HeadRow(*head), sealed_keys=sealed_keys)

    def touch_head(self):
        pass

    def add_entry(self, entry, released, ledger):
        known = {(row.release, row.tick) for row in self.data["releases"]}
        self.data["entries"].append(entry)
        for release, tick, payload in released:
            if (release, tick) in known:
                raise build_repeat_error(release, tick)
            place = len(self.data["releases"]) + 1
            self.data["releases"].append(ReleaseRow(place, entry.number, entry.chain, release, tick, payload))
        self.data["ledger"] += [LedgerRow(entry.number, entry.chain, text) for text in ledger]

    def write_part(self, part):
        self.data["parts"][part.name] = PartRow(*part)

    def delete_part(self, name):
        self.data["parts"].pop(name, None)

    def delete_parts(self):
        self.data["parts"].clear()

    def write_marks(self, marks):
        self.data["marks"].update({mark.name: MarkRow(*mark) for mark in marks})

    def slot_path(self, generation):
        return self.folder / f"slot{generation % 2}"

    def find_slot(self, generation):
        path = self.slot_path(generation)
        return path.read_bytes() if path.exists() else None

    def write_slot(self, generation, slot):
        replace_file(self.slot_path(generation), slot)

    def destroy_slot(self, generation):
        self.write_slot(generation, secrets.token_bytes(200))

    def empty_journal(self):
        return True

    def close(self):
        self.lock.release()


class FileDriver:
    """A store of plain files. A destroyed slot may still be on the disk, since files are replaced."""

    erases_slots = False

    def __init__(self, backing=FileBacking):
        self.backing = backing

    def exists(self, folder):
        return (folder / "rows.pickle").exists()

    def open_writer(self, folder, *, create):
        if not create and not self.exists(folder):
            raise StoreNotFoundError(folder)
        return self.backing(folder)

    def open_reader(self, folder):
        if not self.exists(folder):
            raise StoreNotFoundError(folder)
        return FileReading(folder)

    def copy(self, folder, to):
        for path in filter(Path.is_file, folder.iterdir()):
            (to / path.name).write_bytes(path.read_bytes())


def build_driver(url):
    assert url.startswith("files://")
    return FileDriver()
