"""Real runs of a copy of a pipeline file, in a folder of their own that is gone afterwards.

The parser, the planner, the engine, the store and the sinks are those of any run, and so is the noise. Each
run has a fresh store under a fresh key, and ends after the first ticks; a live one has a clock that stands
where these are over. Nothing outside of the folder is read or written but the code: not the pipeline's
source, nor its store, nor its budget.

A run may be broken off in its second tick and gone on with, from its store, in a second life (see `Broken`):
what readers saw at the end of each life is kept apart.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np

from streamgauge.audit.broken_runs import Broken, Killed
from streamgauge.audit.file_copies import Copies
from streamgauge.audit.input_records import Input, written
from streamgauge.audit.overheard import Overheard, overheard
from streamgauge.audit.public_texts import besides
from streamgauge.audit.sink_forms import taken_apart
from streamgauge.audit.sink_rows import View
from streamgauge.noise import Noise
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.pipeline.keys import create_key
from streamgauge.pipeline.options import Options
from streamgauge.pipeline.pipeline import Pipeline
from streamgauge.query.formats import STANDARD
from streamgauge.query.settings import PipelineFile, SinkSettings
from streamgauge.testing import HandClock

MEMORY = Path("/") / "dev" / "shm"  # where there is one, nothing of a run meets a disk
KEY = "audit.key"
ALL_AT_ONCE = 2**60  # places that go into one commit


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that its owner alone can look into, gone at the end, be it by Ctrl-C or SIGTERM."""
    inside = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="streamgauge-audit-", dir=inside) as folder, ended_like_ctrl_c():
        yield Path(folder)


@contextlib.contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM is an interrupt, unless somebody else listens to it."""
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
class Life:
    """What a run showed until it ended, or was broken off."""

    views: Floats = field(repr=False)  # what readers see of each copy
    besides: str  # all else that is public, see `public_texts`
    numbers: bytes = field(repr=False)  # of all sinks, whether looked at or not
    raised: Exception | None


@dataclass(frozen=True)
class Ended:
    """What a run left behind: one life, or two."""

    lives: tuple[Life, ...]

    @property
    def views(self) -> Floats:
        return np.hstack([life.views for life in self.lives])

    @property
    def besides(self) -> str:
        return "\n".join(life.besides for life in self.lives)

    @property
    def all(self) -> tuple[str, ...]:
        """Everything that is public of it."""
        return (self.besides, *(life.numbers.hex() for life in self.lives))

    @property
    def raised(self) -> Exception | None:
        return next((life.raised for life in self.lives if life.raised is not None), None)

    def redrawn(self, view: View) -> Bools:
        """Of each copy: whether a number was there in both lives, and not the same."""
        first, last = (view.numbers(life.views) for life in (self.lives[0], self.lives[-1]))
        return np.asarray(((first != last) & ~np.isnan(first) & ~np.isnan(last)).any(axis=1))


@dataclass
class PrivateRuns:
    """Runs of one copy over its first ticks, broken off or not."""

    copies: Copies
    ticks: int
    folder: Path
    noise: Noise | None = None  # the machine's, fresh for every run
    broken: Broken | None = None
    redrawn: int = 0  # runs that published a tick from two draws
    sources: dict[tuple[Input, ...], Path] = field(default_factory=dict, repr=False)
    numbers: Iterator[int] = field(default_factory=count, repr=False)

    def shown(self, view: View, inputs: Sequence[Input], noise: Noise | None = None) -> Floats:
        """What readers see of each copy; inputs are those of the copies in turn."""
        ended = self.ended(view, inputs, noise)
        if ended.raised is not None:
            raise ended.raised
        return ended.views

    def ended(self, view: View, inputs: Sequence[Input], noise: Noise | None = None) -> Ended:
        """One real run, whatever comes of it."""
        own = self.folder / f"run{next(self.numbers)}"
        own.mkdir(mode=0o700)
        try:
            file, source = self._file(own), self._source(tuple(inputs))
            with source_of(file, source) as (at_work, descriptor):
                options = self._options(file, descriptor, noise or self.noise)
                ended = Ended(tuple(self._lives(view, at_work, options)))
        finally:
            shutil.rmtree(own)
        if self.broken is not None:
            self.redrawn += int(ended.redrawn(view).sum())
        return ended

    def _lives(self, view: View, file: PipelineFile, options: Options) -> Iterator[Life]:
        if self.broken is not None:
            yield self._life(view, file, self.broken.options(options))
            if file.stream.source == STANDARD and file.stream.arrival == "finished":
                os.lseek(options.standard_input, 0, os.SEEK_SET)  # all of it is piped again
        yield self._life(view, file, options)

    def _life(self, view: View, file: PipelineFile, options: Options) -> Life:
        raised = None
        with overheard() as heard:
            try:
                self._first_ticks(Pipeline(file), options)
            except Killed:
                heard.killed = True
            except (OSError, MemoryError):
                raise
            except Exception as error:
                raised = error
        return self._told(view, file, heard, raised)

    def _told(self, view: View, file: PipelineFile, heard: Overheard, raised: Exception | None) -> Life:
        own = file.path.parent
        sinks = [taken_apart(sink, own / sink.to, heard.out) for sink in file.sinks]
        alone = self.copies.count == 1
        told = besides(file, sinks, heard, raised) if alone or raised is not None else ""
        numbers = b"".join(found.numbers.tobytes() for found in sinks) if alone else b""
        return Life(view.read(self.copies, sinks), told, numbers, raised)

    def _first_ticks(self, pipeline: Pipeline, options: Options) -> None:
        with contextlib.closing(cast(Any, pipeline.ticks(options))) as ticks:
            for released in ticks:
                if max((each.tick for each in released), default=0) >= self.ticks:
                    return

    def _options(self, file: PipelineFile, descriptor: int, noise: Noise | None) -> Options:
        """All ticks in one commit, or, where a run is broken off, each in its own."""
        return Options(
            noise=noise,
            clock=HandClock(file.stream.begins(self.ticks + 1) + file.stream.lateness),
            ticks=self.ticks if self.broken is None else 1,
            batch=ALL_AT_ONCE,
            standard_input=descriptor,
        )

    def _source(self, inputs: tuple[Input, ...]) -> Path:
        """Written once: sources are read, never changed."""
        if inputs not in self.sources:
            folder = self.folder / f"input{len(self.sources)}"
            folder.mkdir(mode=0o700)
            self.sources[inputs] = written(folder, self.copies.file.stream, self.copies.lines(inputs))
        return self.sources[inputs]

    def _file(self, own: Path) -> PipelineFile:
        create_key(own / KEY)
        file = self.copies.file
        stream = replace(file.stream, key=f"file:{KEY}")
        sinks = [self._placed(number, sink) for number, sink in enumerate(all_sinks(file))]
        return replace(file, path=own / file.path.name, stream=stream, sinks=tuple(sinks), unconfirmed=())

    def _placed(self, number: int, sink: SinkSettings) -> SinkSettings:
        to = sink.to if sink.to == STANDARD else f"sink{number}.{sink.format}"
        return replace(sink, to=to)


@contextlib.contextmanager
def source_of(file: PipelineFile, source: Path) -> Iterator[tuple[PipelineFile, int]]:
    """The file with its source, and the descriptor of what is standard input to it."""
    if file.stream.source != STANDARD:
        yield replace(file, stream=replace(file.stream, source=str(source))), 0
        return
    with source.open("rb") as opened:
        yield file, opened.fileno()


def all_sinks(file: PipelineFile) -> tuple[SinkSettings, ...]:
    """Those of the file; one more where there are releases that none of them has."""
    names = [release.name for release in file.releases]
    covered = {name for sink in file.sinks for name in sink.releases or names}
    left = tuple(name for name in names if name not in covered)
    return (*file.sinks, SinkSettings("releases.jsonl", "jsonl", left)) if left else file.sinks
