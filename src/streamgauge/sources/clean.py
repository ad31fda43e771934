"""Whether a finished file may be given to an engine as it is.

Promise
    A file is clean if and only if the splitter would hand out its bytes as they are: no byte order mark at
    the beginning of a line, no carriage return, no line longer than LONGEST, all UTF-8 (it may lack the last
    line feed). Then the engine that reads the file and the engine that reads the blocks see the same lines.
    This holds for the bytes that were looked at: who relies on it must know that the file did not change
    since.
"""

from pathlib import Path
from threading import Event as Flag

from streamgauge.query.blocks import LONGEST
from streamgauge.query.stopped import check
from streamgauge.sources.errors import unreadable
from streamgauge.sources.lines import is_marked, is_utf8, none_too_long

PIECE = 2**22  # bytes that are looked at at once: they fit into a processor's cache


def is_clean(path: Path, stop: Flag | None = None) -> bool:
    """One pass over the file, at about the speed of copying it, unless a stop is asked for."""
    room = bytearray(PIECE)
    view = memoryview(room)
    held = 0  # bytes of the line that has no end yet, at the beginning of the room
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(view[held:]):
                check(stop)
                filled = held + count
                data = room if filled == PIECE else room[:filled]
                end = data.rfind(b"\n") + 1
                if not _lines_are_clean(data, end):
                    return False
                held = filled - end
                room[:held] = room[end:filled]
    except OSError as error:
        raise unreadable(path, error) from None
    return is_utf8(room[:held]) and not is_marked(room[:held])


def _lines_are_clean(data: bytearray, end: int) -> bool:
    if b"\r" in data or len(data) - end > LONGEST:
        return False
    plain = data.isascii() or (is_utf8(data[:end]) and not is_marked(data[:end]))
    return plain and none_too_long(data, end)
