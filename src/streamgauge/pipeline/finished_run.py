"""A run over a source that is all there: one scan, then tick after tick, in batches.

The position of such a run is the ticks that were committed, and a fingerprint of the source: a restart scans
again. Releases that begin later (asked for, or added to the file after others had run) are scanned by
themselves: those that are behind first, but what was asked for after what is in the file.

Where others wait for their turn (`Options.turn`), the run ends once all releases of the file that are not
over have a batch more, and those that were asked for and are furthest behind have one too. So however often
it is asked to, both go on.

Privacy
    The file that is scanned must be the file that was charged: its fingerprint is compared before the first
    scan, and before every commit. A file that changed is refused, or charged again as another edition.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from streamgauge.engines import DuckEngine
from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.opening import Opened, RunRefused
from streamgauge.pipeline.rehearsal import Rehearsal
from streamgauge.pipeline.release_run import ReleaseRun
from streamgauge.query.measure import Tally
from streamgauge.query.protocols import Finished
from streamgauge.query.released import Released
from streamgauge.query.stopped import Stopped


def finished_run(opened: Opened, source: Finished) -> Iterator[list[Released]]:
    """Publishes all ticks that are left, or until a stop; yields them as they leave."""
    with suppress(Stopped):
        yield from _all_ticks(opened, source)


def _all_ticks(opened: Opened, source: Finished) -> Iterator[list[Released]]:
    def unchanged() -> None:
        if source.fingerprint().encode() != opened.fingerprint:
            rule = "source must not change while it is read"
            raise RunRefused(f"{opened.file.path.name}: {rule}, got a change: nothing of it was published")

    late = False  # whether a release that was asked for has had its batch
    for own, runs in in_turn(opened):
        if late and opened.options.turn.is_set():
            return
        yield from _cohort_ticks(opened, source, runs, unchanged)
        late = not own


def _cohort_ticks(
    opened: Opened, source: Finished, runs: list[ReleaseRun], unchanged: Callable[[], None]
) -> Iterator[list[Released]]:
    """The ticks of releases that are at the same one, until others wait: a batch at least."""
    batches = Batches(opened, runs)
    with engine_for(opened, batches) as engine:
        first, last = runs[0].next_tick, max(run.last_tick or 0 for run in runs)
        rehearsal = Rehearsal(runs, min(last - first + 1, opened.options.ticks))
        rehearsal.begin(source.files)
        if opened.options.shares is not None:
            opened.options.shares.restart()
        for answer in engine.finished(source.files, first, last, opened.options.stop):
            rehearsal.end()
            opened.options.step("read")
            batches.counted(answer)
            yield from published(batches, answer.tallies, answer.first, answer.last, unchanged)
            if opened.options.turn.is_set():
                return


def in_turn(opened: Opened) -> list[tuple[bool, list[ReleaseRun]]]:
    """All cohorts, those first that have a release of the file; and whether they have."""
    entries, found = opened.book.entries, cohorts(opened.runs)
    told = [(any(entries[run.name].asked is None for run in runs), runs) for runs in found]
    return sorted(told, key=lambda cohort: not cohort[0])


def cohorts(runs: Sequence[ReleaseRun]) -> list[list[ReleaseRun]]:
    """Releases that are at the same tick, those that are behind first; not those that are over."""
    left = [run for run in runs if run.last_tick is None or run.next_tick <= run.last_tick]
    ordered = sorted(left, key=lambda run: run.next_tick)
    return [list(group) for _, group in groupby(ordered, key=lambda run: run.next_tick)]


def engine_for(opened: Opened, batches: Batches) -> DuckEngine:
    """An engine that is asked for all measures of these runs."""
    stream = opened.file.stream
    if stream.arrival == "live" and stream.format == "parquet":
        stream = replace(stream, format="jsonl")  # what live folders of Parquet files are read as
    return DuckEngine(
        stream,
        opened.file.lookups,
        list(batches.measures.values()),
        secret=opened.secret,
        memory=opened.options.memory,
        count_columns=opened.options.shares is not None,
    )


def published(
    batches: Batches, answers: Sequence[Tally], first: int, last: int, unchanged: Callable[[], None]
) -> Iterator[list[Released]]:
    """Takes ticks from `first` to `last` and publishes them, a batch at a time."""
    opened = batches.opened
    for begin, end in batches.cut(first, last):
        if opened.options.stop.is_set():
            return
        released = batches.take(answers, begin, end)
        opened.options.step("drawn")
        unchanged()
        newest = max(end, opened.publisher.store.tick)  # releases that begin later go through old ticks
        opened.publisher.commit(tick=newest, released=released, state=batches.saved())
        batches.seen(end)
        yield released
        if opened.options.turn.is_set():  # not before: a batch is published between two turns
            return
