"""Standard output: whole lines, at least once.

Printed lines cannot be withdrawn. After a crash between printing and committing, the lines of the last
write are printed again, equal to the first. A reader identifies them by (release, tick, group). There is no stamp to
read.
"""

import fcntl
import os
import sys
from collections.abc import Callable, Sequence
from io import UnsupportedOperation
from typing import Any, BinaryIO

from streamgauge.releases.release import TickRelease
from streamgauge.sinks.errors import SinkAccessError, translate_os_errors
from streamgauge.sinks.formats import ChainTrace, LineFormat, Stamp, build_position, sort_by_tick


class StandardOutput:
    """Sink of lines to `out`, or to the standard output of the moment of writing."""

    name = "-"

    def __init__(self, line_format: LineFormat, owner: str = "", out: BinaryIO | None = None) -> None:
        self.line_format = line_format
        self.owner = owner
        self._out = out
        self._has_started = False

    def resume(self, position: bytes | None) -> ChainTrace | None:
        """Reject a closed output before anything is charged. There is no stamp to return."""
        if self._out is None and not _is_open(sys.stdout):
            raise SinkAccessError("standard output must be open where it is a sink, got a closed one")
        return None

    def diverged(self, knows: Callable[[ChainTrace], bool]) -> None:
        """Return None: printed lines cannot be compared."""

    def check_columns(self) -> None:
        """Do nothing: a printed header cannot be compared."""

    def write(self, releases: Sequence[TickRelease], tick: int, chain: str) -> bytes:
        with translate_os_errors("standard output"):
            try:
                self._print(releases, str(Stamp(tick, chain, self.owner)))
            except BrokenPipeError:
                self._discard_buffers()
                raise SinkAccessError("standard output must stay open, got a reader that closed it") from None
        return build_position((tick, chain), 0)

    def _print(self, releases: Sequence[TickRelease], stamp: str) -> None:
        if not self._has_started:
            self._write_lines(self.line_format.header)
        self._has_started = True
        for item in sort_by_tick(releases):
            self._write_lines(self.line_format.format_lines(item, stamp))

    def _write_lines(self, lines: bytes) -> None:
        out = self._out or getattr(sys.stdout, "buffer", None)
        if out is None:  # output of a notebook
            sys.stdout.write(lines.decode())
            sys.stdout.flush()
        else:
            out.write(lines)
            out.flush()

    def _discard_buffers(self) -> None:
        """Discard buffered output, so that the interpreter can end without an error."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (self._out or sys.stdout).fileno())
        os.close(nowhere)

    def close(self) -> None:
        pass


def _is_open(out: Any) -> bool:
    """Return whether `out` can be written to, as far as that is known.

    The output of a notebook has no descriptor.
    """
    if out is None:
        return False
    try:
        return fcntl.fcntl(out.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (UnsupportedOperation, AttributeError):
        return True
    except (OSError, ValueError):
        return False
