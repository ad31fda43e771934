"""What a curator sees of a run, and where.

    a terminal           a bar: ticks, records per second, what was dropped, the budget; above it the shares
                         of records that have a time, a column, a declared value
    --json               lines on standard error: ticks, when they are committed, so before readers of a
                         server see them
    no terminal          curator.log in the pipeline's folder, mode 0600: the counters and the shares

**Privacy.** How many events there were is private. It is shown on a terminal, which its curator looks at, or
else written to a file that the curator alone can read, in the clear; never to a pipe. With --quiet it is
nowhere.
"""

import json
import os
import sys
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Self

from streamgauge.cli.curator_log import CuratorLog
from streamgauge.cli.progress_bar import Bar, ticks_text
from streamgauge.cli.screens import aside, one_line
from streamgauge.pipeline.keys import default_key, hidden, key_path, same_file_system
from streamgauge.pipeline.options import Progress
from streamgauge.pipeline.reader import Reader
from streamgauge.pipeline.report import Report
from streamgauge.query.settings import PipelineFile

STOPPING = "stopping; Ctrl-C again ends at once, which is safe too"
AGAIN = 5.0  # seconds between two lines of a run that catches up
SHOW_CURSOR = "\x1b[?25h"
NEW_KEY = "keep it, and a copy of it elsewhere: without it the pipeline cannot go on"
ONE_DISK = "lies on the same file system as the store: whoever has that disk has both"


class Watching:
    """Somebody who watches a run."""

    def __init__(self, file: PipelineFile, *, quiet: bool, as_json: bool) -> None:
        self.file, self.quiet, self.as_json = file, quiet, as_json
        self.log = CuratorLog(file.folder)
        self.bar = Bar(file) if self._shown() else None
        self.key = key_path(file.stream.key or default_key(file.path), file.path.parent)
        self._expected = not self._key_exists  # the first run makes one
        self._told = -inf  # when it was last told that the run catches up

    def _shown(self) -> bool:
        """A bar needs a terminal that nothing else is printed to."""
        printed = any(sink.to == "-" for sink in self.file.sinks) and sys.stdout.isatty()
        return sys.stderr.isatty() and not (self.quiet or self.as_json or printed)

    def __enter__(self) -> Self:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._tell_of_new_key()
        if self.bar:
            self.bar.stop()

    def warn_of_key(self) -> None:
        """Whoever has one disk should not have both, the store and its key. The key itself is not read."""
        if self.quiet or self.key is None or not self._key_exists:
            return
        if same_file_system(self.key, self.file.folder):
            told = {"event": "warning", "what": f"key {ONE_DISK}"}
            self._say(f"warning: the key {hidden(self.key)} {ONE_DISK}", told)

    @property
    def _key_exists(self) -> bool:
        return self.key is not None and os.path.exists(self.key)

    def _tell_of_new_key(self) -> None:
        """Once, as soon as it is there."""
        if not self._expected or not self._key_exists:
            return
        self._expected = False
        self.log.line(f"a new key is in {self.key}")
        if not self.quiet:
            told = {"event": "new key", "path": str(self.key), "what": NEW_KEY}
            self._say(f"a new key is in {self.key}: {NEW_KEY}", told)
            self.warn_of_key()

    def seen(self, progress: Progress) -> None:
        self._tell_of_new_key()
        if self.bar:
            self.bar.seen(progress)
        elif not self.quiet:
            self.log.progress(progress)
        if self.as_json:
            self._line({"event": "progress", "tick": progress.tick, "ticks": progress.ticks, **due(progress)})
        elif not self.quiet:
            self._tell_of_catching_up(progress)

    def _tell_of_catching_up(self, progress: Progress) -> None:
        """Now and then, and as it ends: how far it is follows from the clock and the machine."""
        last, again = progress.tick == progress.due, monotonic() - self._told >= AGAIN
        if self.bar is None and progress.due is not None and (last or again):
            self._told = monotonic()
            self._say(ticks_text(progress), {})

    def diagnose(self, what: str) -> None:
        """Show a private line on the terminal, or else write it to the log; never to a pipe."""
        if self.bar:
            self.bar.console.print(one_line(what), soft_wrap=True)
        elif not self.quiet:
            self.log.line(what)

    def note(self, what: str) -> None:
        """Something that a curator said and that needs not be done."""
        self.log.line(what)
        if not self.quiet:
            self._say(what, {"event": "note", "what": what})

    def serving(self, address: str, *, danger: str | None) -> None:
        """Where readers find the run, and what is dangerous about it."""
        if self.quiet:
            return
        self._say(f"serving on {address}", {"event": "serving", "address": address})
        if danger:
            self._say(f"warning: {danger}", {"event": "warning", "what": danger})

    def failed(self, why: str) -> None:
        """The run is over and its server is not."""
        self.log.line(f"the run failed: {why}")
        if not self.quiet:
            told = {"event": "failed", "what": why}
            self._say(f"the run failed: {why}; readers go on reading, until Ctrl-C", told)

    def stopping(self) -> None:
        """Called by a signal, perhaps in the middle of a line: nothing is printed through a buffer."""
        if self.bar:
            self.bar.stopping()
        elif not self.quiet:
            _at_once(json.dumps({"event": "stopping"}) if self.as_json else STOPPING)

    def dying(self) -> None:
        """The same."""
        if self.bar:
            _at_once(SHOW_CURSOR)

    def ended(self, report: Report, *, stopped: bool) -> None:
        """The last words: public, since they follow from declarations and the clock."""
        if self.bar:
            self.bar.stop()
        tick = last_tick(self.file.folder)
        self.log.line(f"stopped {where(tick)}" if stopped else f"ended with tick {tick}")
        if self.quiet:
            return
        told = {"event": "stopped" if stopped else "ended", "tick": tick, "published": report.ticks}
        text = f"stopped {where(tick)}; run again to go on" if stopped else str(report)
        self._say(text, told)

    def _say(self, text: str, told: dict[str, Any]) -> None:
        if self.as_json:
            self._line(told)
            return
        console = self.bar.console if self.bar else aside()
        for line in text.splitlines():
            console.print(one_line(line), soft_wrap=True)

    def _line(self, told: dict[str, Any]) -> None:
        sys.stderr.write(json.dumps(told) + "\n")
        sys.stderr.flush()


def due(progress: Progress) -> dict[str, int]:
    return {} if progress.due is None else {"due": progress.due}


def _at_once(text: str) -> None:
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"{text}\n".encode())


def where(tick: int) -> str:
    """
    >>> where(0), where(1200)
    ('before the first tick', 'after tick 1,200')
    """
    return f"after tick {tick:,}" if tick else "before the first tick"


def last_tick(folder: Path) -> int:
    """The last tick that was committed."""
    with Reader.at(folder) as reader:
        return reader.tick
