"""Files that outlive a power cut and are nobody else's: mode 0600, flushed, and named only when whole."""

import os
from pathlib import Path

from streamgauge.query.durable import sync, sync_path, write_all

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(folder: Path) -> None:
    """Makes a folder, or closes one that others could look into."""
    if not folder.exists():
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        sync_path(folder.parent)
    if folder.stat().st_mode & 0o077:
        folder.chmod(PRIVATE_FOLDER)


def new_file(path: Path, data: bytes = b"") -> None:
    """Writes a file that must not exist yet; what could not be written whole is removed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        write_all(descriptor, data)
        sync(descriptor)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Puts new content under a name at once: whoever looks sees the old or the new."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    new_file(fresh, data)
    rename(fresh, path)


def rename(old: Path, new: Path) -> None:
    """Gives a file or a folder its name, for good."""
    os.replace(old, new)
    sync_path(new.parent)
