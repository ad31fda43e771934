"""The pipeline as users call it: plan, run, iterate, read.

pipeline = sg.Pipeline.from_file("clinic.toml")
print(pipeline.plan())
for released in pipeline:
    ...
pipeline.releases("fever_by_region").to_pandas()

A run returns a `RunReport` when it ends.
"""

import resource
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamgauge import memory as freed
from streamgauge.config.pipeline_file import parse_pipeline, read_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.config.stream import describe_contributions
from streamgauge.interfaces import StopRequestedError, StreamingSource
from streamgauge.releases.release import Releases, TickRelease
from streamgauge.runtime.format import plural

# Methods import the planner, the engine and the store on use: importing all of them lasts most of a second.
if TYPE_CHECKING:
    from streamgauge.records.blocks import DroppedRecord
    from streamgauge.runtime.ledger.log import LedgerLog
    from streamgauge.runtime.options import Options
    from streamgauge.runtime.plan.plan import Plan
    from streamgauge.runtime.session import RunSession


@dataclass
class RunReport:
    """Number of published ticks per release.

    Public, since it follows from declarations and the clock.
    """

    ticks: dict[str, int] = field(default_factory=dict)  # by release

    def add(self, released: Sequence[TickRelease]) -> None:
        for each in released:
            name = each.shape.release
            self.ticks[name] = self.ticks.get(name, 0) + 1

    def __str__(self) -> str:
        if not self.ticks:
            return "nothing was left to publish"
        return "\n".join(f"{name}: {plural(ticks, 'tick')} published" for name, ticks in self.ticks.items())


def open_live_source(file: PipelineFile, options: "Options") -> StreamingSource:
    """Open a source that a run reads in order.

    Such a source is a streaming one, or a batch that can be read only once.
    """
    from streamgauge.runtime.session import RunRefusedError
    from streamgauge.sources import SourceError, open_streaming_source

    if file.stream.source_facts.needs_server:
        sent = "reports" if file.stream.has_reports else "events"
        rule = f"source must be one that a run can read by itself, got {sent}, which are sent"
        raise RunRefusedError(f"{file.path.name}: {rule}: use streamgauge serve")
    try:
        return open_streaming_source(
            file.stream, file.path.parent, stop=options.stop, clock=options.clock, standard_input=options.standard_input
        )
    except SourceError as refusal:
        raise RunRefusedError(f"{file.path.name}: {refusal}") from None


class Pipeline:
    """A pipeline file, ready to be planned, run and read."""

    def __init__(self, file: PipelineFile) -> None:
        self.file = file

    @classmethod
    def from_file(cls, path: str | Path) -> "Pipeline":
        """Read and check a pipeline file. Touch nothing else."""
        return cls(read_pipeline(Path(path)))

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any], path: str | Path) -> "Pipeline":
        """Build a pipeline in code, from the tables of a file as dictionaries.

        `path` is the place of the file: sources and sinks are relative to it, and the store is in the same folder.
        """
        return cls(parse_pipeline(tables, Path(path)))

    def plan(self) -> "Plan":
        """Return the cost and the predicted error of each release.

        Reads no record and spends nothing.
        """
        from streamgauge.runtime.plan.plan import plan_pipeline

        return plan_pipeline(self.file)

    def run(self, options: "Options | None" = None, **settings: Any) -> RunReport:
        """Run the pipeline to its end, or until it is stopped.

        Continues at the tick after the last one that an earlier run published. Takes the arguments of `open_run`.
        """
        report = RunReport()
        for released in self.ticks(options, **settings):
            report.add(released)
        return report

    def ticks(
        self, options: "Options | None" = None, *, source: StreamingSource | None = None, **settings: Any
    ) -> Iterator[list[TickRelease]]:
        """Run the pipeline and yield the releases of each commit after they are published.

        Takes the arguments of `open_run`.
        """
        with suppress(StopRequestedError), self.open_run(options, source=source, **settings) as run:
            yield from run.ticks

    @contextmanager
    def open_run(
        self, options: "Options | None" = None, *, source: StreamingSource | None = None, **settings: Any
    ) -> "Iterator[RunSession]":
        """Open the pipeline, and close it on every exit. An iteration over its `ticks` runs it.

        Args:
            source: a streaming source that the caller closes, instead of that of the file.

        Raises:
            StopRequestedError: if the run is stopped before it is open.
        """
        from streamgauge.runtime.options import Options

        chosen = replace(options or Options(), **settings)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        stream = self.file.stream
        if stream.pan_private:
            freed.zero_freed_memory()
        with ExitStack() as stack:
            if chosen.commands is not None:
                stack.callback(chosen.commands.close)  # commands that no run takes are rejected
            yield self._open(chosen, source, stack)

    def _open(self, options: "Options", source: StreamingSource | None, stack: ExitStack) -> "RunSession":
        from streamgauge.runtime.file_run import run_files, run_input, wait_for_header
        from streamgauge.runtime.live.run import run_live
        from streamgauge.runtime.session import start_session
        from streamgauge.sources import open_batch_source

        stream = self.file.stream
        ticks: Generator[list[TickRelease]]
        if stream.mode == "batch" and not stream.is_read_once:
            batch = open_batch_source(stream, self.file.path.parent, options.stop)
            fingerprint = batch.fingerprint().encode()
            session = stack.enter_context(start_session(self.file, options, fingerprint, batch.schemas))
            ticks = run_files(session, batch)
        else:
            if source is None:
                source = open_live_source(self.file, options)
                stack.callback(source.close)
            live = stream.mode == "streaming"
            schemas = source.schemas if live else partial(wait_for_header, source, options)
            session = stack.enter_context(start_session(self.file, options, None, schemas))
            ticks = (run_live if live else run_input)(session, source)
        stack.callback(ticks.close)
        session.ticks = ticks
        return session

    def __iter__(self) -> Iterator[TickRelease]:
        for released in self.ticks():
            yield from released

    def releases(self, name: str | None = None) -> Releases:
        """Return the published ticks of a release.

        `name` may be omitted if the pipeline has only one release.
        """
        from streamgauge.runtime.published import read_releases

        counts = describe_contributions(self.file.stream)
        return read_releases(self.file, name, contributions=counts)

    def ledger(self) -> "LedgerLog":
        """Return the ledger: all charges, and the remaining loss."""
        from streamgauge.runtime.published import read_ledger_log

        return read_ledger_log(self.file)

    def quarantine(self) -> "tuple[DroppedRecord, ...]":
        """Return the positions of the records that could not be read. Private.

        Reads a batch source again. The positions in a streaming source come from the store, which needs the key.
        """
        from streamgauge.runtime.quarantine import QUARANTINE_PART, Quarantine
        from streamgauge.sources import open_batch_source
        from streamgauge.store.drivers import find_driver
        from streamgauge.store.keys import load_pipeline_key
        from streamgauge.store.lock import Lock
        from streamgauge.store.store import Store

        stream = self.file.stream
        if stream.mode == "batch" and not stream.is_read_once:
            source = open_batch_source(stream, self.file.path.parent)
            return tuple(Quarantine.from_files(self.file, source).records)
        with Lock(self.file.folder):
            key, driver = load_pipeline_key(self.file), find_driver(self.file)
            with Store.open_writer(self.file.folder, key, create=False, driver=driver) as store:
                return tuple(Quarantine(store.state().get(QUARANTINE_PART)).records)

    def __repr__(self) -> str:
        return f"<pipeline {self.file.path.name}, {plural(len(self.file.releases), 'release')}>"

    def _repr_html_(self) -> str:
        return self.plan()._repr_html_()
