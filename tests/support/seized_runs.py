"""The command itself, in a house whose every file is read: at home, in temporary folders, at work.

It is stopped (SIGSTOP), searched and killed: everything on the disk at that instant counts, open deleted files
included. Files in memory alone, as the engine has them, are on no disk.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from streamgauge.store.keys import create_key

MAIN = "from streamgauge.cli import main; main()"
TWO_CORES = "import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2]); "
FOLDERS = {
    "HOME": "home",
    **dict.fromkeys(("TMPDIR", "TMP", "TEMP", "SQLITE_TMPDIR"), "temporary"),
    **{f"XDG_{kind}_HOME": f"home/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA", "STATE")},
    "XDG_RUNTIME_DIR": "home/runtime",
}
PATIENCE = 300.0  # seconds until a run that does not come to the point fails the test
WRITES = os.O_WRONLY | os.O_RDWR


class House:
    """A folder in which everything happens; the source lies elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source = folder / "house", folder / "source"
        for each in ("work", *FOLDERS.values()):
            (self.folder / each).mkdir(parents=True, exist_ok=True)
        self.source.mkdir()
        create_key(self.folder / "v.key")

    def declare(self, text: str) -> None:
        (self.folder / "v.toml").write_text(text)

    @contextmanager
    def started(self, *options: str, main: str = MAIN, given: Any = subprocess.DEVNULL) -> Iterator["Seized"]:
        """`streamgauge run`, which does not outlive the test."""
        places = {name: str(self.folder / folder) for name, folder in FOLDERS.items()}
        words = [sys.executable, "-c", TWO_CORES + main, "run", str(self.folder / "v.toml"), *options]
        with (self.folder / "told").open("ab") as told:
            process = subprocess.Popen(
                words, stdin=given, stdout=told, stderr=told, cwd=self.folder / "work", env=os.environ | places
            )
        try:
            yield Seized(self, process)
        finally:
            process.kill()
            process.wait()

    def contents(self) -> dict[str, bytes]:
        """Every file there is."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        found = {}
        for path in files:
            with suppress(FileNotFoundError):  # a journal that came to its end meanwhile
                found[str(path.relative_to(self.folder))] = path.read_bytes()
        return found

    @property
    def published(self) -> int:
        """Lines in the sink."""
        sink = self.folder / "out.jsonl"
        return sink.read_bytes().count(b"\n") if sink.exists() else 0

    def keeps_open_ticks(self) -> bool:
        """Return whether events of an open tick were committed."""
        path = self.folder / "v.streamgauge" / "store.db"
        if not path.exists():
            return False
        held = suppress(sqlite3.OperationalError)  # by the run, for a while
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as sql, held:
            return bool(sql.execute("SELECT 1 FROM parts WHERE name = 'open_ticks'").fetchall())
        return False


class Seized:
    """A run that continues until it is seized."""

    def __init__(self, house: House, process: "subprocess.Popen[bytes]") -> None:
        self.house, self.process = house, process

    def wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        over = False  # known before it is looked: what happens as it ends has happened
        while not happened():
            if over:
                pytest.fail(f"the run is at no such point: {(self.house.folder / 'told').read_text()[-500:]}")
            time.sleep(0.005)
            over = self.process.poll() is not None or time.monotonic() > deadline

    def at_work(self) -> None:
        """Wait until the run holds the lock."""
        lock = self.house.folder / "v.streamgauge" / "lock"
        self.wait_until(lambda: lock.exists() and lock.read_text().strip() == str(self.process.pid))

    def looked_at(self) -> dict[str, bytes]:
        """Return the files on the disk at one instant; the run continues after it."""
        if self.process.poll() is not None:
            return self.house.contents()
        self.process.send_signal(signal.SIGSTOP)
        seen = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert seen is not None
        try:
            return self.house.contents() | dict(self._deleted() if seen.si_code == os.CLD_STOPPED else ())
        finally:
            self.process.send_signal(signal.SIGCONT)

    def killed(self) -> dict[str, bytes]:
        seen = self.looked_at()
        self.process.kill()
        self.process.wait()
        return seen | {f"{name}, after the kill": data for name, data in self.house.contents().items()}

    def ended(self) -> dict[str, bytes]:
        assert self.process.wait(PATIENCE) == 0, (self.house.folder / "told").read_text()[-500:]
        return self.house.contents()

    def _deleted(self) -> Iterator[tuple[str, bytes]]:
        """Files without a name; nothing may be open for writing outside of the house."""
        for number, target in self._descriptors().items():
            flags = int((self._process / "fdinfo" / number).read_text().split()[3], 8)
            inside = target.startswith((str(self.house.folder), "/dev/null", "/memfd:", "pipe:", "anon_inode:"))
            assert inside or not flags & WRITES, target
            if target.endswith(" (deleted)") and target.startswith("/") and not target.startswith("/memfd:"):
                yield target, (self._process / "fd" / number).read_bytes()

    def _descriptors(self) -> Mapping[str, str]:
        found = {}
        for path in (self._process / "fd").iterdir():
            with suppress(FileNotFoundError):
                found[path.name] = os.readlink(path)
        return found

    @property
    def _process(self) -> Path:
        return Path("/proc") / str(self.process.pid)
