"""A pipeline, as its users hold it: planned, run, iterated over, read.

pipeline = sg.Pipeline.from_file("clinic.toml")
print(pipeline.plan())
for released in pipeline:
    ...
pipeline.releases("fever_by_region").to_pandas()
"""

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fcntl import F_GETFL, fcntl
from functools import partial
from pathlib import Path
from typing import Any

from streamgauge.pipeline import freed
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.finished_run import finished_run
from streamgauge.pipeline.input_run import input_run, wait_for_header
from streamgauge.pipeline.keys import key_of
from streamgauge.pipeline.live_run import live_run
from streamgauge.pipeline.lock import Lock
from streamgauge.pipeline.opening import RunRefused, opened
from streamgauge.pipeline.options import Options
from streamgauge.pipeline.planning import Plan, plan_of
from streamgauge.pipeline.quarantine import PART, Quarantine
from streamgauge.pipeline.reading import read_book, read_releases
from streamgauge.pipeline.record_shares import RecordShares
from streamgauge.pipeline.report import Report
from streamgauge.pipeline.store import Store
from streamgauge.pipeline.words import counted
from streamgauge.query.blocks import Dropped
from streamgauge.query.formats import REPORTS, SENT
from streamgauge.query.pipeline_file import pipeline_of, read_pipeline
from streamgauge.query.promises import describe_contributions
from streamgauge.query.protocols import Live
from streamgauge.query.released import Released, Releases
from streamgauge.query.settings import PipelineFile
from streamgauge.query.stopped import Stopped
from streamgauge.sources import StandardInput, open_finished, open_live


def is_readable(descriptor: int) -> bool:
    """Whether it is open, and for reading."""
    try:
        return fcntl(descriptor, F_GETFL) & os.O_ACCMODE != os.O_WRONLY
    except OSError:
        return False


def input_of(file: PipelineFile, options: Options) -> StandardInput:
    """Standard input as a source, from where it is."""
    if not is_readable(options.standard_input):
        rule = "standard input must be open where it is the source"
        raise RunRefused(f"{file.path.name}: {rule}, got a closed one")
    stream = file.stream
    return StandardInput(
        options.standard_input,
        has_header=stream.format == "csv",
        compression=stream.compression,
        forgets=stream.pan_private,
    )


class Pipeline:
    """A pipeline file at work."""

    def __init__(self, file: PipelineFile) -> None:
        self.file = file

    @classmethod
    def from_file(cls, path: str | Path) -> "Pipeline":
        """Reads and checks a pipeline file; nothing else is touched."""
        return cls(read_pipeline(Path(path)))

    @classmethod
    def of(cls, tables: Mapping[str, Any], path: str | Path) -> "Pipeline":
        """The same, built in code: the tables of a file as dictionaries.

        `path` is where the file would lie: sources and sinks are relative to it, its store lies beside it.
        """
        return cls(pipeline_of(tables, Path(path)))

    def plan(self) -> Plan:
        """What each release costs and how wrong it will be. Reads no record and spends nothing."""
        return plan_of(self.file)

    def run(self, options: Options | None = None, **settings: Any) -> Report:
        """Runs it to its end, or until it is stopped; goes on where an earlier run stopped."""
        report = Report()
        for released in self.ticks(options, **settings):
            report.add(released)
        return report

    def ticks(self, options: Options | None = None, **settings: Any) -> Iterator[list[Released]]:
        """The same, ticks by ticks: what was published, after it was."""
        chosen = replace(options or Options(), **settings)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        stream = self.file.stream
        if stream.pan_private:
            freed.overwrite_freed()
        own = RecordShares(stream, chosen.diagnose) if self._counts(chosen) else None
        chosen = chosen if own is None else replace(chosen, shares=own)
        try:
            with suppress(Stopped):
                yield from self._ticks(chosen)
        finally:
            if own is not None:
                own.report()

    def _counts(self, options: Options) -> bool:
        """Return whether this run counts shares of records by itself."""
        return options.shares is None and not self.file.stream.pan_private

    def _ticks(self, options: Options) -> Iterator[list[Released]]:
        stream = self.file.stream
        if stream.arrival == "finished" and stream.source != "-":
            finished = open_finished(stream, self.file.path.parent, options.stop)
            with opened(self.file, options, finished.fingerprint().encode(), finished.schemas) as run:
                yield from finished_run(run, finished)
            return
        source = self._live(options)
        try:
            if stream.arrival == "live":
                with opened(self.file, options, None, source.schemas) as run:
                    yield from live_run(run, source)
            else:
                with opened(self.file, options, None, partial(wait_for_header, source, options)) as run:
                    yield from input_run(run, source)
        finally:
            if source is not options.inbox:
                source.close()

    def _live(self, options: Options) -> Live:
        if options.inbox is not None:
            return options.inbox
        stream = self.file.stream
        if stream.source in SENT:
            sent = "reports" if stream.source == REPORTS else "events"
            rule = f"source must be one that a run can read by itself, got {sent}, which are sent"
            raise RunRefused(f"{self.file.path.name}: {rule}: use streamgauge serve")
        return (
            input_of(self.file, options) if stream.source == "-" else open_live(stream, self.file.path.parent)
        )

    def __iter__(self) -> Iterator[Released]:
        for released in self.ticks():
            yield from released

    def releases(self, name: str | None = None) -> Releases:
        """What was published of a release so far; its name may be left out where there is one only."""
        counts = describe_contributions(self.file.stream)
        return read_releases(self.file.folder, name, contributions=counts)

    def ledger(self) -> Book:
        """What was charged, and what is left."""
        return read_book(self.file.folder, self.file.stream)

    def quarantine(self) -> tuple[Dropped, ...]:
        """Where the records lie that could not be read: private.

        A finished source is read for it; of one that goes on it is in the store, which takes the key.
        """
        stream = self.file.stream
        if stream.arrival == "finished" and stream.source != "-":
            source = open_finished(stream, self.file.path.parent)
            return tuple(Quarantine.of_files(self.file, source).records)
        with Lock(self.file.folder):
            store = Store.open(self.file.folder, key_of(self.file), create=False)
            try:
                return tuple(Quarantine(store.state().get(PART)).records)
            finally:
                store.close()

    def __repr__(self) -> str:
        return f"<pipeline {self.file.path.name}, {counted(len(self.file.releases), 'release')}>"

    def _repr_html_(self) -> str:
        return self.plan()._repr_html_()
