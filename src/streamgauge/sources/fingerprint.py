"""What a finished file is known by."""

from hashlib import sha256
from pathlib import Path

from streamgauge.sources.errors import unreadable

EDGE = 2**16  # bytes at head and tail that are looked at


def fingerprint(path: Path) -> str:
    """A hash of the file's name, size, time of change, head and tail."""
    try:
        with path.open("rb") as file:
            found = path.stat()
            edges = sha256(file.read(EDGE))
            file.seek(max(0, found.st_size - EDGE))
            edges.update(file.read(EDGE))
    except OSError as error:
        raise unreadable(path, error) from None
    return sha256(repr((path.name, found.st_size, found.st_mtime_ns, edges.digest())).encode()).hexdigest()
