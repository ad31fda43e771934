"""Which file comes after one that was renamed.

What was rotated several times between two reads, or while no one was reading, is found among the files whose
names add a number or a date (visits.jsonl.1, visits.jsonl-20260105): those that were written to later than
the one being read, in that order, and last the file of the name itself.
"""

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from streamgauge.sources.errors import unreadable

ROTATED = re.compile(r"[._-]\d[\dT:._-]*")  # what rotation adds to a name
NUMBER = re.compile(r"\.(\d{1,4})$")


@dataclass(frozen=True)
class Following:
    """The next file, as it was found."""

    path: Path
    inode: int


def rotated(path: Path) -> list[Path]:
    """The files beside it that may once have had its name."""
    try:
        names = os.listdir(path.parent)
    except OSError as error:
        raise unreadable(path.parent, error) from None
    longer = [name for name in names if name.startswith(path.name)]
    return [path.with_name(name) for name in longer if ROTATED.fullmatch(name, len(path.name))]


def following(path: Path, inode: int, modified: int) -> Following | None:
    """What comes after the file `inode`, last written to at `modified`, if it has bytes."""
    newest = _found(path)
    if newest is not None and newest.st_ino == inode:
        return None
    found = [(other, stat) for other in rotated(path) if (stat := _found(other)) is not None]
    own = [_turn(other, modified) for other, stat in found if stat.st_ino == inode]
    here = own[0] if own else (modified, -math.inf, "")
    turns = [(_turn(other, stat.st_mtime_ns), other, stat.st_ino) for other, stat in found if stat.st_size]
    later = sorted(turn for turn in turns if turn[0] > here)
    if later:
        return Following(*later[0][1:])
    return Following(path, newest.st_ino) if newest is not None and newest.st_size else None


def _turn(path: Path, modified: int) -> tuple[int, float, str]:
    """By time of the last change, then by number, which grows with age, then by date."""
    number = NUMBER.search(path.name)
    return modified, -int(number[1]) if number else 0, path.name


def _found(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
