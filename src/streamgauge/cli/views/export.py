"""Published releases of a store, and their export as one file in the formats of the sinks.

    .csv      wide: a line per tick and group; or long: a line per tick, group and measure
    .jsonl    an object per tick and group, one a line; .json is the same as one array
    .parquet  the long form

The store is read without its key, also during a run. Ticks are written as they are read, so any number of them
fits into memory. The file is written beside its place and renamed.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from streamgauge.cli.errors import BadArgumentError, raise_bad_argument
from streamgauge.config.settings import PipelineFile
from streamgauge.config.stream import describe_contributions
from streamgauge.releases.release import Releases, ReleaseSchema, TickRelease
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.ledger.thresholds import NO_GROUP_TEXT, Thresholds
from streamgauge.runtime.publisher import build_schemas
from streamgauge.sinks import CsvLines, JsonLines, ParquetParts, WideCsv
from streamgauge.store.drivers import open_reader

PARQUET_BATCH_TICKS = 256  # ticks that are in memory when Parquet is written


def write_releases(ticks: Iterable[TickRelease], to: Path, wide: Sequence[ReleaseSchema] | None = None) -> int:
    """Write all ticks and return their number; CSV is wide if shapes are given."""
    counted = CountingIterator(ticks)
    with open_unfinished(to) as unfinished:
        if to.suffix == ".csv":
            _write_lines(counted, unfinished, CsvLines() if wide is None else build_wide_csv(wide))
        else:
            WRITERS[to.suffix](counted, unfinished)
    return counted.count


@contextmanager
def open_unfinished(path: Path) -> Iterator[Path]:
    """Return the path of a hidden file that replaces `path` once it is whole."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


class CountingIterator:
    """An iterator that counts its items."""

    def __init__(self, ticks: Iterable[TickRelease]) -> None:
        self._ticks = ticks
        self.count = 0

    def __iter__(self) -> Iterator[TickRelease]:
        for item in self._ticks:
            self.count += 1
            yield item


def build_wide_csv(shapes: Sequence[ReleaseSchema]) -> WideCsv:
    """Return the wide form of some releases; refuse column names with two meanings."""
    try:
        return WideCsv(shapes)
    except ValueError as refusal:
        raise BadArgumentError(f"--shape: {refusal}") from None


def _write_lines(ticks: Iterable[TickRelease], path: Path, form: CsvLines | WideCsv | JsonLines) -> None:
    with path.open("wb") as file:
        file.write(b"" if isinstance(form, JsonLines) else form.header)
        file.writelines(form.format_lines(item, None) for item in ticks)


def _write_json(ticks: Iterable[TickRelease], path: Path) -> None:
    form, between = JsonLines(), b"[\n"
    with path.open("wb") as file:
        for lines in filter(None, (form.format_lines(item, None) for item in ticks)):
            file.write(between + lines.rstrip(b"\n").replace(b"\n", b",\n"))
            between = b",\n"
        file.write(b"[]\n" if between == b"[\n" else b"\n]\n")


def _write_parquet(ticks: Iterable[TickRelease], path: Path) -> None:
    """Write parts, then join them: neither step has more than one part in memory."""
    import duckdb

    from streamgauge.records.fields import quote_text

    with TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        rest = iter(ticks)
        with closing(ParquetParts(path.name, Path(folder, "parts"))) as parts:
            while some := list(islice(rest, PARQUET_BATCH_TICKS)):
                parts.write(some, some[-1].tick, "")
        source = quote_text(f"{Path(folder, 'parts')}/*.parquet")
        with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
            found = f"SELECT * REPLACE (NULL::VARCHAR AS trace) FROM read_parquet({source})"
            engine.execute(f"COPY ({found}) TO {quote_text(str(path))} (FORMAT parquet)")


WRITERS: dict[str, Callable[[Iterable[TickRelease], Path], None]] = {
    ".json": _write_json,
    ".jsonl": lambda ticks, path: _write_lines(ticks, path, JsonLines()),
    ".parquet": _write_parquet,
}


class StoredReleases:
    """Published releases of one store."""

    def __init__(self, file: PipelineFile) -> None:
        self.reader = open_reader(file)
        acts = self.reader.ledger_entries()
        self.schemas = build_schemas(acts, describe_contributions(file.stream))
        self.thresholds = Thresholds(file, LedgerLog.read(acts, file.stream.unit))

    def __enter__(self) -> "StoredReleases":
        return self

    def __exit__(self, *failure: object) -> None:
        self.reader.close()

    def list_names(self, requested: str | None = None) -> tuple[str, ...]:
        """Return all published releases, or the requested one."""
        known = self.reader.release_names()
        if requested is None:
            return known
        if requested not in known:
            near = get_close_matches(requested, known, 1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise_bad_argument("release", f"one of {', '.join(known) or '(none yet)'}", f"{requested}{hint}")
        return (requested,)

    def read_ticks(self, name: str, first: int = 1, last: int | None = None) -> Iterator[TickRelease]:
        """Yield a release from one tick to another."""
        for _, payload in self.reader.releases(name, first, last):
            yield TickRelease.unpack(self.schemas[name], payload)

    def read_newest(self, name: str, count: int) -> Releases:
        """Return the last `count` rows. A release may have ended long ago, and its rows may be of long periods."""
        last = self.reader.tick
        while last > count and not any(self.reader.releases(name, last - count + 1, last)):
            last -= count
        span, found = count, deque[TickRelease](maxlen=count)
        while len(found) < count and span < 2 * last:
            span *= 2
            found = deque(self.read_ticks(name, max(1, last - span + 1), last), count)
        return Releases.from_releases(self.schemas[name], found)

    def read_all(self, name: str) -> Releases:
        return Releases.from_releases(self.schemas[name], self.read_ticks(name))

    def describe_absence(self, releases: Releases) -> str:
        """Return why a release with discovered groups shows none; an empty text if it shows some."""
        if releases.shape.discovered_column is None or not len(releases) or releases[-1].shape.groups:
            return ""
        found = self.thresholds.find(releases.release, releases[-1].tick)
        return NO_GROUP_TEXT if found is None else f"{NO_GROUP_TEXT}: {found.text}"
