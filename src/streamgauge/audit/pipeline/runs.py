"""Real runs of a copy of a pipeline file, in a folder of their own that is removed afterwards.

Parser, planner, engine, store, sinks and noise are those of any run. Each run has a fresh store under a fresh key, and
ends after the first ticks. A live run has a clock that stands at their end. Nothing outside of the folder is read or
written but the code: not the pipeline's source, its store or its budget.

A run may be interrupted in its second tick and resumed from its store in a second attempt. The outputs of both attempts
are separate:

    stop    requested in its second tick, which is published first
    kill    at a step of the second tick's commit, from drawing to publishing, by an exception that no code catches

Besides measured numbers these are public, and must not depend on the data:

    printed    standard output but for rows, standard error, and warnings
    raised     the type and the text of a failure; exit codes follow from the type
    named      the files that exist
    sinks      all bytes but measured numbers and chains, in order, and the spelling of numbers

Counters for the curator (`curator.log`, the bar on a terminal) are private and not compared. Threads that existed
before a run still write to their own standard error.
"""

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from threading import Event as Flag
from typing import Any, cast

import numpy as np

from streamgauge.audit.pipeline.copies import Copies
from streamgauge.audit.pipeline.inputs import InputRecords, write_source
from streamgauge.audit.pipeline.outputs import SinkContent, SinkView, parse_sink
from streamgauge.config.settings import PipelineFile, SinkSettings
from streamgauge.noise import Noise
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.runtime.options import Options
from streamgauge.runtime.pipeline import Pipeline
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import ManualClock

IGNORED_WARNINGS = (ResourceWarning, DeprecationWarning, PendingDeprecationWarning, ImportWarning)  # Python's own habit


@dataclass
class CapturedOutput:
    """All that was said."""

    stdout: io.BytesIO = field(default_factory=io.BytesIO)
    stderr: io.StringIO = field(default_factory=io.StringIO)
    is_killed: bool = False


class ThreadStderr:
    """Standard error, of which one run's part goes to `own`; all others keep theirs."""

    def __init__(self, own: io.StringIO, theirs: Any) -> None:
        self.own, self.theirs = own, theirs
        self.others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}

    def _choose_stream(self) -> Any:
        return self.theirs if threading.get_ident() in self.others else self.own

    def write(self, text: str) -> int:
        return int(self._choose_stream().write(text))

    def flush(self) -> None:
        self._choose_stream().flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.theirs, name)


@contextlib.contextmanager
def capture_output() -> Iterator[CapturedOutput]:
    """Capture standard output, standard error and warnings."""
    captured = CapturedOutput()
    out = io.TextIOWrapper(captured.stdout, encoding="utf-8", write_through=True)
    others: Any = ThreadStderr(captured.stderr, sys.stderr)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(others),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        for kind in IGNORED_WARNINGS:
            warnings.simplefilter("ignore", kind)
        yield captured
    captured.stderr.writelines(f"{each.category.__name__}: {each.message}\n" for each in warned)
    out.flush()
    out.detach()


# In order, of one commit.
COMMIT_STEPS = (
    "noise_drawn",
    "releases_packed",
    "store_committed",
    "guard_written",
    "sink_written",
    "sink_position_saved",
)


class RunKilledError(BaseException):
    """A run is over, at once."""


@dataclass(frozen=True)
class RunInterruption:
    """An early end of a run: killed at a step, or requested to stop there."""

    step: str
    is_graceful: bool = False
    tick: int = 2

    def __str__(self) -> str:
        return "requested to stop" if self.is_graceful else f"killed at {self.step}"

    def apply_options(self, options: Options) -> Options:
        """Return the options of the first attempt."""
        stop, drawn = Flag(), 0

        def step(name: str) -> None:
            nonlocal drawn
            drawn += name == "noise_drawn"
            if drawn < self.tick or name != self.step:
                return
            if not self.is_graceful:
                raise RunKilledError
            stop.set()

        return replace(options, stop=stop, step=step)


AFTER_FIRST_WRITE = RunInterruption("sink_written", tick=1)  # readers have the tick, and the store does not know
ALL_INTERRUPTIONS = (RunInterruption("store_committed", is_graceful=True), *map(RunInterruption, COMMIT_STEPS))


def build_public_text(
    file: PipelineFile, sinks: Sequence[SinkContent], output: CapturedOutput, error: Exception | None
) -> str:
    own = str(file.path.parent)
    is_sink = any(sink.facts.is_console for sink in file.sinks)
    printed = () if is_sink else (output.stdout.getvalue().decode(errors="replace"),)
    shown = "" if error is None else f"{type(error).__name__}: {error}"
    said = [each.replace(own, "") for each in (*printed, output.stderr.getvalue(), shown)]
    names = sorted(str(path.relative_to(own)) for path in file.path.parent.rglob("*"))
    written = [  # of each sink a hash of its text, bytes that are no row, and numbers with odd spellings
        (blake2b(found.text, digest_size=16).hexdigest(), found.read_rows()[1], found.list_oddities())
        for found in sinks
    ]
    return repr((said, output.is_killed, names, written))


SHARED_MEMORY_FOLDER = Path("/") / "dev" / "shm"  # where there is one, nothing of a run meets a disk
KEY_FILE_NAME = "audit.key"
UNLIMITED_BATCH = 2**60  # places that go into one commit


@contextlib.contextmanager
def create_private_folder() -> Iterator[Path]:
    """Create a folder that only its owner can read, and remove it at the end, also on Ctrl-C or SIGTERM."""
    shared = SHARED_MEMORY_FOLDER
    inside = shared if shared.is_dir() and os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="streamgauge-audit-", dir=inside) as folder, interrupt_on_sigterm():
        yield Path(folder)


@contextlib.contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Make SIGTERM an interrupt, unless other code handles it."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@dataclass(frozen=True)
class RunAttempt:
    """The output of a run until it ended or was interrupted."""

    views: Floats = field(repr=False)  # what readers see of each copy
    public_text: str  # all else that is public, see `public_texts`
    numbers: bytes = field(repr=False)  # of all sinks, whether looked at or not
    error: Exception | None


@dataclass(frozen=True)
class RunOutcome:
    """The output of a run: one attempt, or two."""

    attempts: tuple[RunAttempt, ...]

    @property
    def views(self) -> Floats:
        return np.hstack([life.views for life in self.attempts])

    @property
    def public_text(self) -> str:
        return "\n".join(life.public_text for life in self.attempts)

    @property
    def public_output(self) -> tuple[str, ...]:
        """Everything that is public of it."""
        return (self.public_text, *(life.numbers.hex() for life in self.attempts))

    @property
    def error(self) -> Exception | None:
        return next((life.error for life in self.attempts if life.error is not None), None)

    def find_redrawn(self, view: SinkView) -> Bools:
        """Return, for each copy, whether a number differs between both attempts."""
        first, last = (view.numbers(life.views) for life in (self.attempts[0], self.attempts[-1]))
        return np.asarray(((first != last) & ~np.isnan(first) & ~np.isnan(last)).any(axis=1))


@dataclass
class PrivateRuns:
    """Runs of one copy over its first ticks, broken off or not."""

    copies: Copies
    ticks: int
    folder: Path
    noise: Noise | None = None  # the machine's, fresh for every run
    interruption: RunInterruption | None = None
    redrawn_count: int = 0  # runs that published a tick from two draws
    sources: dict[tuple[InputRecords, ...], Path] = field(default_factory=dict, repr=False)
    run_numbers: Iterator[int] = field(default_factory=count, repr=False)

    def run_views(self, view: SinkView, inputs: Sequence[InputRecords], noise: Noise | None = None) -> Floats:
        """Return the view of each copy; inputs are assigned to copies in rotation."""
        ended = self.run_once(view, inputs, noise)
        if ended.error is not None:
            raise ended.error
        return ended.views

    def run_once(self, view: SinkView, inputs: Sequence[InputRecords], noise: Noise | None = None) -> RunOutcome:
        """Run once, and return the outcome even if it failed."""
        own = self.folder / f"run{next(self.run_numbers)}"
        own.mkdir(mode=0o700)
        try:
            file, source = self._build_file(own), self._write_source(tuple(inputs))
            with open_source(file, source) as (at_work, descriptor):
                options = self._build_options(file, descriptor, noise or self.noise)
                ended = RunOutcome(tuple(self._run_attempts(view, at_work, options)))
        finally:
            shutil.rmtree(own)
        if self.interruption is not None:
            self.redrawn_count += int(ended.find_redrawn(view).sum())
        return ended

    def _run_attempts(self, view: SinkView, file: PipelineFile, options: Options) -> Iterator[RunAttempt]:
        if self.interruption is not None:
            yield self._run_attempt(view, file, self.interruption.apply_options(options))
            if file.stream.is_read_once:
                os.lseek(options.standard_input, 0, os.SEEK_SET)  # all of it is piped again
        yield self._run_attempt(view, file, options)

    def _run_attempt(self, view: SinkView, file: PipelineFile, options: Options) -> RunAttempt:
        raised = None
        with capture_output() as captured:
            try:
                with contextlib.closing(cast(Any, Pipeline(file).ticks(options))) as ticks:
                    for released in ticks:
                        if max((each.tick for each in released), default=0) >= self.ticks:
                            break
            except RunKilledError:
                captured.is_killed = True
            except (OSError, MemoryError):
                raise
            except Exception as error:
                raised = error
        own, alone = file.path.parent, self.copies.count == 1
        sinks = [parse_sink(sink, own / sink.to, captured.stdout.getvalue()) for sink in file.sinks]
        shown = build_public_text(file, sinks, captured, raised) if alone or raised is not None else ""
        numbers = b"".join(found.numbers.tobytes() for found in sinks) if alone else b""
        return RunAttempt(view.read(self.copies, sinks), shown, numbers, raised)

    def _build_options(self, file: PipelineFile, descriptor: int, noise: Noise | None) -> Options:
        """Build options: all ticks in one commit or, for interrupted runs, one tick in each."""
        return Options(
            noise=noise,
            clock=ManualClock(file.stream.tick_start(self.ticks + 1) + file.stream.allowed_lateness),
            max_batch_ticks=self.ticks if self.interruption is None else 1,
            max_batch_places=UNLIMITED_BATCH,
            standard_input=descriptor,
        )

    def _write_source(self, inputs: tuple[InputRecords, ...]) -> Path:
        """Write a source once: sources are read, never changed."""
        if inputs not in self.sources:
            folder = self.folder / f"input{len(self.sources)}"
            folder.mkdir(mode=0o700)
            self.sources[inputs] = write_source(folder, self.copies.file.stream, self.copies.build_records(inputs))
        return self.sources[inputs]

    def _build_file(self, own: Path) -> PipelineFile:
        create_key(own / KEY_FILE_NAME)
        file = self.copies.file
        stream = replace(file.stream, key=f"file:{KEY_FILE_NAME}")
        sinks = [self._place_sink(number, sink) for number, sink in enumerate(list_sinks(file))]
        return replace(file, path=own / file.path.name, stream=stream, sinks=tuple(sinks), unconfirmed_keys=())

    def _place_sink(self, number: int, sink: SinkSettings) -> SinkSettings:
        """Return the sink inside the trial's own folder; one of another package becomes a file of lines."""
        if sink.facts.is_console:
            return sink
        format = sink.format if sink.facts.is_path else "jsonl"
        return replace(sink, to=f"sink{number}.{format}", format=format)


@contextlib.contextmanager
def open_source(file: PipelineFile, source: Path) -> Iterator[tuple[PipelineFile, int]]:
    """Return the file with its source, and the descriptor of its standard input."""
    if not file.stream.source_facts.is_console:
        yield replace(file, stream=replace(file.stream, source=str(source))), 0
        return
    with source.open("rb") as opened:
        yield file, opened.fileno()


def list_sinks(file: PipelineFile) -> tuple[SinkSettings, ...]:
    """List the sinks of the file, and one more for releases that none of them has."""
    names = [release.name for release in file.releases]
    covered = {name for sink in file.sinks for name in sink.releases or names}
    left = tuple(name for name in names if name not in covered)
    return (*file.sinks, SinkSettings("releases.jsonl", "jsonl", left)) if left else file.sinks
