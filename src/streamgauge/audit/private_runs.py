"""Real runs of a copy of a pipeline file, in a folder of their own that is gone afterwards.

The parser, the planner, the engine, the store and the sinks are those of any run, and so is the noise. Each
run has a fresh store under a fresh key, and ends after the first ticks; a live one has a clock that stands
where these are over. Nothing outside of the folder is read or written but the code: not the pipeline's
source, nor its store, nor its budget.
"""

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

from streamgauge.audit.file_copies import Copies
from streamgauge.audit.input_records import Input, written
from streamgauge.audit.sink_rows import View, entries_of
from streamgauge.noise import Noise
from streamgauge.noise.numbers import Floats
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
    """A folder that its owner alone can look into, gone at the end."""
    inside = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="streamgauge-audit-", dir=inside) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Ended:
    """What a run left behind."""

    views: Floats = field(repr=False)  # what readers see of each copy
    besides: str  # what was printed that is no row, what was raised, which files there are
    raised: Exception | None


@dataclass
class PrivateRuns:
    """Runs of one copy over its first ticks."""

    copies: Copies
    ticks: int
    folder: Path
    noise: Noise | None = None  # the machine's, fresh for every run
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
            printed, raised = self._run(file, source, noise or self.noise)
            found = [entries_of(sink, own / sink.to, printed) for sink in file.sinks]
            views = view.read(self.copies, found)
            return Ended(views, besides(file, printed, raised), raised)
        finally:
            shutil.rmtree(own)

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

    def _run(self, file: PipelineFile, source: Path, noise: Noise | None) -> tuple[bytes, Exception | None]:
        """What was printed, and what was raised: of the run, not of the machine."""
        printed, raised = io.BytesIO(), None
        out = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
        with source_of(file, source) as (at_work, descriptor), contextlib.redirect_stdout(out):
            options = Options(
                noise=noise,
                clock=HandClock(file.stream.begins(self.ticks + 1) + file.stream.lateness),
                ticks=self.ticks,
                batch=ALL_AT_ONCE,
                standard_input=descriptor,
            )
            try:
                self._first_ticks(Pipeline(at_work), options)
            except (OSError, MemoryError):
                raise
            except Exception as error:
                raised = error
        return printed.getvalue(), raised

    def _first_ticks(self, pipeline: Pipeline, options: Options) -> None:
        with contextlib.closing(cast(Any, pipeline.ticks(options))) as ticks:
            for released in ticks:
                if max((each.tick for each in released), default=0) >= self.ticks:
                    return


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


def besides(file: PipelineFile, printed: bytes, raised: Exception | None) -> str:
    """All that is public of a run but for rows; nothing in it may depend on the data."""
    own = file.path.parent
    names = [f"{release.name}," for release in file.releases]
    rows = ('{"release":', "release,", *names) if any(sink.to == STANDARD for sink in file.sinks) else ()
    lines = [line for line in printed.decode(errors="replace").splitlines() if not line.startswith(rows)]
    told = "" if raised is None else f"{type(raised).__name__}: {raised}".replace(str(own), "")
    files = sorted(str(path.relative_to(own)) for path in own.rglob("*"))
    return repr((lines, told, files))
