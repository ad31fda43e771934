"""Standard output: whole lines, at least once.

What was printed cannot be taken back: after a crash between printing and committing, the lines of the last
write come again, equal to the first; a reader knows them by (release, tick, group). There is no trace to
read.
"""

import fcntl
import os
import sys
from collections.abc import Callable, Sequence
from io import UnsupportedOperation
from typing import Any, BinaryIO

from streamgauge.query.released import Released
from streamgauge.sinks.failures import ReaderGone, SinkFailed, failing
from streamgauge.sinks.lines import Form, Stamp, Trace, in_order, told


class StandardOutput:
    """A sink of lines that go to `out`, or to standard output as it is when they do."""

    name = "-"

    def __init__(self, form: Form, owner: str = "", out: BinaryIO | None = None) -> None:
        self.form = form
        self.owner = owner
        self._out = out
        self._begun = False

    def resume(self, position: bytes | None) -> Trace | None:
        """There is nothing to tell; what is closed is refused, before anything is charged."""
        if self._out is None and not _is_open(sys.stdout):
            raise SinkFailed("standard output must be open where it is a sink, got a closed one")
        return None

    def astray(self, knows: Callable[[Trace], bool]) -> None:
        """What was printed is not there to be compared."""

    def write(self, releases: Sequence[Released], tick: int, chain: str) -> bytes:
        with failing("standard output"):
            try:
                self._print(releases, str(Stamp(tick, chain, self.owner)))
            except BrokenPipeError:
                self._let_go()
                raise ReaderGone("standard output must stay open, got a reader that closed it") from None
        return told((tick, chain), 0)

    def _print(self, releases: Sequence[Released], stamp: str) -> None:
        if not self._begun:
            self._put(self.form.header)
        self._begun = True
        for item in in_order(releases):
            self._put(self.form.lines(item, stamp))

    def _put(self, lines: bytes) -> None:
        out = self._out or getattr(sys.stdout, "buffer", None)
        if out is None:  # a notebook's
            sys.stdout.write(lines.decode())
            sys.stdout.flush()
        else:
            out.write(lines)
            out.flush()

    def _let_go(self) -> None:
        """Lets what is still in buffers go nowhere, so that the interpreter can end in silence."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (self._out or sys.stdout).fileno())
        os.close(nowhere)

    def close(self) -> None:
        pass


def _is_open(out: Any) -> bool:
    """Whether something can be written to it, as far as can be told: a notebook's has no descriptor."""
    if out is None:
        return False
    try:
        return fcntl.fcntl(out.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (UnsupportedOperation, AttributeError):
        return True
    except (OSError, ValueError):
        return False
