"""Standard output: whole lines, at least once.

What was printed cannot be taken back: after a crash between printing and committing, the lines of the last
write come again, equal to the first; a reader knows them by (release, tick, group). There is no trace to
read.
"""

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from streamgauge.query.released import Released
from streamgauge.sinks.failures import ReaderGone, failing
from streamgauge.sinks.lines import Form, Trace, in_order, stamp_of, told


class StandardOutput:
    """A sink of lines that go to `out`, or to standard output as it is when they do."""

    name = "-"

    def __init__(self, form: Form, out: BinaryIO | None = None) -> None:
        self.form = form
        self._out = out
        self._begun = False

    def resume(self, position: bytes | None) -> Trace | None:
        return None

    def write(self, releases: Sequence[Released], tick: int, chain: str) -> bytes:
        with failing("standard output"):
            try:
                self._print(releases, stamp_of((tick, chain)))
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
