"""What a run says: on standard output, on standard error, and by warnings, each time anew.

Threads that were there before go on speaking to whoever they spoke to: bars of progress are no part of a run.
"""

import contextlib
import io
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

HIDDEN = (ResourceWarning, DeprecationWarning, PendingDeprecationWarning, ImportWarning)  # Python's own habit


@dataclass
class Overheard:
    """All that was said."""

    printed: io.BytesIO = field(default_factory=io.BytesIO)
    errors: io.StringIO = field(default_factory=io.StringIO)
    killed: bool = False

    @property
    def out(self) -> bytes:
        return self.printed.getvalue()


class Beside:
    """Standard error, of which one run's part goes to `own`; all others keep theirs."""

    def __init__(self, own: io.StringIO, theirs: Any) -> None:
        self.own, self.theirs = own, theirs
        self.others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}

    def _at(self) -> Any:
        return self.theirs if threading.get_ident() in self.others else self.own

    def write(self, text: str) -> int:
        return int(self._at().write(text))

    def flush(self) -> None:
        self._at().flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.theirs, name)


@contextlib.contextmanager
def overheard() -> Iterator[Overheard]:
    """Listens."""
    heard = Overheard()
    out = io.TextIOWrapper(heard.printed, encoding="utf-8", write_through=True)
    beside: Any = Beside(heard.errors, sys.stderr)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(beside),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        for kind in HIDDEN:
            warnings.simplefilter("ignore", kind)
        yield heard
    heard.errors.writelines(f"{each.category.__name__}: {each.message}\n" for each in warned)
    out.flush()
    out.detach()
