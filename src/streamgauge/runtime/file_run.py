"""Runs over batch sources: one scan, then all ticks, in batches.

Files
    The position of such a run is the last committed tick and a fingerprint of the source: a restart scans again.
    Releases that begin later were requested, or added to the file after others had run. They are scanned separately.
    Releases that are behind come first, but releases of the file come before ad hoc releases.

    Commands are applied between two batches of ticks. A release that is added then has its own scan, after the one at
    hand. So the current releases advance, however many commands arrive.

    Privacy. The scanned file must be the charged file: its fingerprint is compared before the first scan and before
    every commit. A changed file is refused, or charged again as another edition.

Standard input
    A batch standard input can be read only once, so it is read to its end before any tick is released. Nothing is known
    of the source before its end, so nothing is committed before it. Its fingerprint is a hash of all bytes. A
    second run that continues a stopped one must be given the same bytes.

    Privacy. As for batch files: bounds on users count from the first tick, for any tick at which a run resumes. The
    exact sums of all ticks are in memory until the end.
"""

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

from streamgauge.interfaces import BatchSource, StopRequestedError, StreamingSource
from streamgauge.plan.measure import Tally
from streamgauge.records.source_schema import SourceSchema
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.live.open_ticks import OpenTicks
from streamgauge.runtime.options import Options
from streamgauge.runtime.plan.limits import find_input_refusal
from streamgauge.runtime.quarantine import Quarantine
from streamgauge.runtime.release_run import Batches, ReleaseRun
from streamgauge.runtime.session import FINGERPRINT_PART, RunRefusedError, RunSession


def run_files(session: RunSession, source: BatchSource) -> Generator[list[TickRelease]]:
    """Publish all remaining ticks, or until a stop, and yield them after publication."""

    def check_source() -> None:
        if source.fingerprint().encode() != session.fingerprint:
            rule = "source must not change while it is read"
            raise RunRefusedError(f"{session.file.path.name}: {rule}, got a change: nothing of it was published")

    with suppress(StopRequestedError):
        while True:
            session.apply_commands(check_source)  # no engine is open between two scans
            if cohorts := order_cohorts(session):
                yield from _publish_cohort(session, source, cohorts[0], check_source)
            if session.options.stop.is_set() or not (group_cohorts(session.runs) or session.wait_for_commands()):
                return


def _publish_cohort(
    session: RunSession, source: BatchSource, runs: list[ReleaseRun], check_source: Callable[[], None]
) -> Iterator[list[TickRelease]]:
    """Publish all ticks of releases with the same next tick."""
    batches = session.options.find_class(Batches)(session, runs)
    with batches.open_engine() as engine:
        first, last = runs[0].next_tick, max(run.last_tick or 0 for run in runs)
        if session.shares is not None:
            session.shares.restart()
        for answer in engine.scan_ranges(source.ranges, first, last, session.options.stop):
            session.options.step("block_read")
            batches.add_counts(answer)
            yield from publish_ticks(batches, answer.tallies, answer.first, answer.last, check_source)


def order_cohorts(session: RunSession) -> list[list[ReleaseRun]]:
    """Return all cohorts, those with a release of the file first."""
    entries = session.ledger_log.releases
    return sorted(group_cohorts(session.runs), key=lambda runs: all(entries[run.name].requested_by for run in runs))


def group_cohorts(runs: Sequence[ReleaseRun]) -> list[list[ReleaseRun]]:
    """Group unfinished releases by their next tick, those that are behind first."""
    left = [run for run in runs if run.last_tick is None or run.next_tick <= run.last_tick]
    ordered = sorted(left, key=lambda run: run.next_tick)
    return [list(group) for _, group in groupby(ordered, key=lambda run: run.next_tick)]


def publish_ticks(
    batches: Batches, answers: Sequence[Tally], first: int, last: int, check_source: Callable[[], None]
) -> Iterator[list[TickRelease]]:
    """Release the ticks from `first` to `last` and publish them, a batch at a time."""
    options, publisher = batches.session.options, batches.session.publisher
    for begin, end in batches.split_ticks(first, last):
        if options.stop.is_set():
            return
        released = batches.release_ticks(answers, begin, end)
        options.step("noise_drawn")
        check_source()
        newest = max(end, publisher.store.tick)  # releases that begin later process old ticks
        publisher.commit(tick=newest, released=released, state=batches.save_state())
        batches.report_progress(end)
        yield released
        batches.session.apply_commands(check_source)


INPUT_POLL_MICROSECONDS = 20_000


def run_input(session: RunSession, source: StreamingSource) -> Generator[list[TickRelease]]:
    """Read to the end, then publish all remaining ticks."""
    groups = group_cohorts(session.runs)
    if not groups:
        return
    if len(groups) > 1:
        raise RunRefusedError(
            f"{session.file.path.name}: releases must be at one tick to share standard input, got several"
        )
    batches = Batches(session, groups[0])
    first, last = groups[0][0].next_tick, max(run.last_tick or 0 for run in groups[0])
    if refusal := find_input_refusal(session.file.stream, [run.plan for run in groups[0]]):
        raise RunRefusedError(f"{session.file.path.name}: {refusal}")
    waiting, digest = OpenTicks(batches.measures), hashlib.sha256()
    quarantine = Quarantine()
    with batches.open_engine() as engine:
        while not source.is_exhausted:
            block = source.read()
            if session.options.stop.is_set():
                return
            if block is None:
                session.options.clock.sleep(INPUT_POLL_MICROSECONDS)
                continue
            digest.update(block.data)
            answer = engine.scan_block(block, 1, last, carry=False, header=source.header)
            session.options.step("block_read")
            batches.add_counts(answer)
            quarantine.inspect_block(engine, block, answer.counts, source.header)
            waiting.add(answer.tallies)
    session.warn_of_header(source.header)
    mark = digest.hexdigest().encode()
    if session.fingerprint is None:
        session.publisher.commit(state={FINGERPRINT_PART: mark, **quarantine.save_state()})
    elif session.fingerprint != mark:
        rule = "standard input must be what was charged"
        raise RunRefusedError(f"{session.file.path.name}: {rule}, got another: nothing of it was published")
    yield from publish_ticks(batches, waiting.close(last), first, last, lambda: None)


def wait_for_header(source: StreamingSource, options: Options) -> Iterable[SourceSchema]:
    """Return the columns of a source that is read once, after its first line.

    Raises:
        StopRequestedError: if the run is stopped before.
    """
    source.wait_for_header(lambda: options.clock.sleep(INPUT_POLL_MICROSECONDS), options.stop)
    return source.schemas()
