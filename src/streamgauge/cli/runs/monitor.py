"""Output of a run for its curator: progress bar, log file, signals.

    a terminal           a bar: ticks, records per second, dropped records, the budget; above it the shares
                         of records that have a time, a column, a declared value
    --json               lines on standard error: committed ticks, which readers of a server see later
    no terminal          curator.log in the pipeline's folder, mode 0600: the counters and the shares

**Privacy.** The number of events is private. It appears on a terminal, or in a file that only the curator can
read, unencrypted. It never goes to a pipe. With --quiet it appears nowhere.

A service repeats its options at every start (`Restart=`). So `--end` of an ended release prints a line, and the
run starts.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from threading import Event as Flag
from time import monotonic
from typing import Any, Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streamgauge.cli.console import escape_controls, stderr, to_one_line
from streamgauge.cli.errors import EXIT_STOPPED
from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.format import loss_text, plural
from streamgauge.runtime.ledger.log import ChargedRelease
from streamgauge.runtime.options import Progress as RunProgress
from streamgauge.runtime.pipeline import RunReport
from streamgauge.runtime.published import read_ledger_log, read_tick
from streamgauge.store.keys import default_key, is_same_file_system, key_path, redact_key

LOG_FILE_NAME = "curator.log"
ACCESS_FILE_NAME = "access.log"  # the same, of requests to the server
MAX_LOG_BYTES = 2**20
LOG_FILE_MODE = 0o600


class CuratorLog:
    """A log file that only the curator can read (mode 0600), with the counters of each commit.

    At a megabyte it is renamed to curator.log.1. A log that cannot be written does not end the run.
    """

    def __init__(self, folder: Path, name: str = LOG_FILE_NAME, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        self.path, self.max_bytes = folder / name, max_bytes

    def write(self, text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        try:
            if self.path.exists() and self.path.stat().st_size > self.max_bytes:
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, LOG_FILE_MODE)
            try:
                os.fchmod(descriptor, LOG_FILE_MODE)
                os.write(descriptor, f"{now} {text}\n".encode())
            finally:
                os.close(descriptor)
        except OSError:
            return


def progress_text(progress: RunProgress) -> str:
    """
    >>> progress_text(RunProgress(512, 2160, 20311, {"late": 2, "outside": 0}))
    'tick 512 of 2160, 20311 records, dropped: late 2'
    >>> progress_text(RunProgress(4096, None, 0, {}, catch_up_tick=454000))
    'catching up: tick 4096 of 454000, 0 records'
    """
    far = f"{progress.status_prefix}tick {progress.tick}"
    tick = far if progress.target_tick is None else f"{far} of {progress.target_tick}"
    if not progress.counts_events:
        return tick
    records = "record" if progress.events == 1 else "records"
    dropped = ", ".join(f"{rule} {count}" for rule, count in progress.dropped.items() if count)
    return f"{tick}, {progress.events} {records}{f', dropped: {dropped}' if dropped else ''}"


class RunProgressBar:
    """Progress bar: ticks of the total if there is one, else a pulse."""

    def __init__(self, file: PipelineFile) -> None:
        self.file = file
        self.console = stderr()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[ticks]}", markup=False),
            TextColumn("{task.fields[events]}", style="cyan", markup=False),
            TextColumn("{task.fields[budget]}", style="green", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        name, ticks = escape_controls(file.path.name), file.stream.ticks
        self._task = self._bar.add_task(
            name, total=ticks, ticks=f"reading {escape_controls(file.stream.source)}", events="", budget=""
        )
        self._budget = ""

    def start(self) -> None:
        self._bar.start()

    def stop(self) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def show_stopping(self) -> None:
        """Show in the bar that the run is stopping."""
        self._bar.update(self._task, description="stopping")

    def update(self, progress: RunProgress) -> None:
        self._budget = self._budget or self._format_charged()
        self._bar.update(
            self._task,
            completed=progress.tick,
            ticks=ticks_text(progress),
            events=self._format_speed(progress),
            budget=self._budget,
        )

    def _format_speed(self, progress: RunProgress) -> str:
        if not progress.counts_events:
            return ""
        elapsed = self._bar.tasks[0].elapsed or 0.0
        speed = f", {progress.events / elapsed:,.0f}/s" if elapsed > 0 else ""
        dropped = sum(progress.dropped.values())
        return plural(progress.events, "record") + speed + (f", {dropped:,} dropped" if dropped else "")

    def _format_charged(self) -> str:
        """Return the charged budget, which is constant during a run."""
        ledger = read_ledger_log(self.file).ledger
        if ledger is None:
            return ""
        return f"{loss_text(ledger.spent_loss())} of {loss_text(ledger.budget, named=False)}"


def ticks_text(progress: RunProgress) -> str:
    """
    >>> ticks_text(RunProgress(512, 2160, 0, {})), ticks_text(RunProgress(7, None, 0, {}))
    ('tick 512 of 2,160', 'tick 7')
    >>> ticks_text(RunProgress(4096, None, 0, {}, catch_up_tick=454000))
    'catching up: tick 4,096 of 454,000'
    """
    far = f"{progress.status_prefix}tick {progress.tick:,}"
    return far if progress.target_tick is None else f"{far} of {progress.target_tick:,}"


STOPPING_MESSAGE = "stopping; Ctrl-C again ends at once, which is safe too"
CATCH_UP_LINE_SECONDS = 5.0  # seconds between two lines of a run that catches up
SHOW_CURSOR_SEQUENCE = "\x1b[?25h"
NEW_KEY_MESSAGE = "store a copy of it elsewhere: without it the pipeline cannot resume"
SAME_DISK_WARNING = "is on the same file system as the store: a thief of that disk has both"


class RunMonitor:
    """Output of a run for its curator."""

    def __init__(self, file: PipelineFile, *, quiet: bool, as_json: bool) -> None:
        self.file, self.quiet, self.as_json = file, quiet, as_json
        self.log = CuratorLog(file.folder)
        is_printing = any(sink.facts.is_console for sink in file.sinks) and sys.stdout.isatty()
        has_bar = sys.stderr.isatty() and not (quiet or as_json or is_printing)
        self.bar = RunProgressBar(file) if has_bar else None
        self.key = key_path(file.stream.key or default_key(file.path), file.path.parent)
        self._expects_key = not self._key_exists  # the first run makes one
        self._printed_at = -inf  # time of the last line about catching up

    def __enter__(self) -> Self:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._print_new_key()
        if self.bar:
            self.bar.stop()

    def warn_about_key(self) -> None:
        """Warn if key and store are on one disk. The key itself is not read."""
        if self.quiet or self.key is None or not self._key_exists:
            return
        if is_same_file_system(self.key, self.file.folder):
            event = {"event": "warning", "message": f"key {SAME_DISK_WARNING}"}
            self._print(f"warning: the key {redact_key(self.key)} {SAME_DISK_WARNING}", event)

    @property
    def _key_exists(self) -> bool:
        return self.key is not None and os.path.exists(self.key)

    def _print_new_key(self) -> None:
        """Print the path of a new key once, as soon as it exists."""
        if not self._expects_key or not self._key_exists:
            return
        self._expects_key = False
        self.log.write(f"a new key is in {self.key}")
        if not self.quiet:
            event = {"event": "new_key", "path": str(self.key), "message": NEW_KEY_MESSAGE}
            self._print(f"a new key is in {self.key}: {NEW_KEY_MESSAGE}", event)
            self.warn_about_key()

    def on_progress(self, progress: RunProgress) -> None:
        self._print_new_key()
        if self.bar:
            self.bar.update(progress)
        elif not self.quiet:
            self.log.write(progress_text(progress))
        if self.as_json:
            self._print_json(
                {"event": "progress", "tick": progress.tick, "ticks": progress.ticks}
                | ({} if progress.catch_up_tick is None else {"target_tick": progress.catch_up_tick})
            )
        elif not self.quiet:
            self._print_catch_up(progress)

    def _print_catch_up(self, progress: RunProgress) -> None:
        """Print the position at intervals and at the end; it follows from the clock and the machine."""
        last, again = (progress.tick == progress.catch_up_tick, monotonic() - self._printed_at >= CATCH_UP_LINE_SECONDS)
        if self.bar is None and progress.catch_up_tick is not None and (last or again):
            self._printed_at = monotonic()
            self._print(ticks_text(progress), {})

    def diagnose(self, what: str) -> None:
        """Show a private line on the terminal, or else write it to the log; never to a pipe."""
        if self.bar:
            self.bar.console.print(to_one_line(what), soft_wrap=True)
        elif not self.quiet:
            self.log.write(what)

    def print_note(self, what: str) -> None:
        """Print that an option has no effect."""
        self.log.write(what)
        if not self.quiet:
            self._print(what, {"event": "note", "message": what})

    def print_address(self, address: str, *, danger: str | None, hints: Sequence[str] = ()) -> None:
        """Print the address of the server, hints at missing tokens, and a warning."""
        if self.quiet:
            return
        self._print(f"serving on {address}", {"event": "serving", "address": address})
        for hint in hints:
            self._print(hint, {"event": "note", "message": hint})
        if danger:
            self._print(f"warning: {danger}", {"event": "warning", "message": danger})

    def print_failure(self, why: str) -> None:
        """Print that the run failed while the server continues."""
        self.log.write(f"the run failed: {why}")
        if not self.quiet:
            event = {"event": "failed", "message": why}
            self._print(f"the run failed: {why}; readers can still read, until Ctrl-C", event)

    def on_stopping(self) -> None:
        """Print that the run is stopping. A signal calls this, so it writes without a buffer."""
        if self.bar:
            self.bar.show_stopping()
        elif not self.quiet:
            _write_unbuffered(json.dumps({"event": "stopping"}) if self.as_json else STOPPING_MESSAGE)

    def on_abort(self) -> None:
        """Restore the cursor, without a buffer."""
        if self.bar:
            _write_unbuffered(SHOW_CURSOR_SEQUENCE)

    def print_end(self, report: RunReport, *, stopped: bool) -> None:
        """Print the end of a run. It is public, since it follows from declarations and the clock."""
        if self.bar:
            self.bar.stop()
        tick = read_tick(self.file)
        self.log.write(f"stopped {format_position(tick)}" if stopped else f"ended with tick {tick}")
        if self.quiet:
            return
        event = {"event": "stopped" if stopped else "ended", "tick": tick, "published_ticks": report.ticks}
        text = f"stopped {format_position(tick)}; run again to resume" if stopped else str(report)
        self._print(text, event)

    def _print(self, text: str, event: dict[str, Any]) -> None:
        if self.as_json:
            self._print_json(event)
            return
        console = self.bar.console if self.bar else stderr()
        for line in text.splitlines():
            console.print(to_one_line(line), soft_wrap=True)

    def _print_json(self, event: dict[str, Any]) -> None:
        sys.stderr.write(json.dumps(event) + "\n")
        sys.stderr.flush()


def _write_unbuffered(text: str) -> None:
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"{text}\n".encode())


def format_position(tick: int) -> str:
    """
    >>> format_position(0), format_position(1200)
    ('before the first tick', 'after tick 1,200')
    """
    return f"after tick {tick:,}" if tick else "before the first tick"


def select_end_options(watching: RunMonitor, end: Sequence[str], force_end: Sequence[str]) -> dict[str, Any]:
    """Return the options that end releases; note the releases that have ended already."""
    file = watching.file
    known = read_ledger_log(file).latest_releases() if end or force_end else {}
    ended = [name for name in end if name not in force_end]
    for name in (*ended, *force_end):
        if has_ended(known.get(name), force=name in force_end):
            watching.print_note(f"release {name} has ended already, so there is nothing to end")
    return {
        "end_releases": tuple(name for name in ended if not has_ended(known.get(name), force=False)),
        "force_end_releases": tuple(name for name in force_end if not has_ended(known.get(name), force=True)),
    }


def has_ended(entry: ChargedRelease | None, *, force: bool) -> bool:
    """Return whether a release has ended, and, with `force`, does not drain."""
    return entry is not None and entry.end_tick is not None and not (force and entry.is_draining)


@contextmanager
def handle_signals(stop: Flag, monitor: RunMonitor) -> Iterator[None]:
    """Set `stop` at the first Ctrl-C or SIGTERM, and end the process at the second.

    Both are safe: committed ticks are published, now or by the next run. The former handlers are restored.
    """

    def handle_signal(number: int, frame: Any) -> None:
        if stop.is_set():
            monitor.on_abort()
            os._exit(EXIT_STOPPED)
        stop.set()
        monitor.on_stopping()

    before = {number: signal.signal(number, handle_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
