"""A finished source that can be read only once: standard input, up to its end, before any tick is released.

Nothing is known of the source before its end, so nothing is committed before it. Its fingerprint is a hash
of all that was read: a second run that goes on where a first one stopped must be given the same bytes.

Privacy
    As for finished files: bounds on users count from the first tick, wherever a run goes on. The sums of all
    ticks are held in memory, as exact as they are, until the end.
"""

import hashlib
from collections.abc import Iterable, Iterator

from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.finished_run import cohorts, engine_for, published
from streamgauge.pipeline.open_ticks import OpenTicks
from streamgauge.pipeline.opening import FINGERPRINT, Opened, RunRefused
from streamgauge.pipeline.options import Options
from streamgauge.pipeline.quarantine import Quarantine
from streamgauge.pipeline.room import no_room
from streamgauge.query.protocols import Live
from streamgauge.query.released import Released
from streamgauge.query.source_schema import SourceSchema
from streamgauge.query.stopped import check
from streamgauge.sources import StandardInput

PAUSE = 20_000  # microseconds


def input_run(opened: Opened, source: Live) -> Iterator[list[Released]]:
    """Reads to the end, then publishes all ticks that are left."""
    groups = cohorts(opened.runs)
    if not groups:
        return
    if len(groups) > 1:
        raise RunRefused(
            f"{opened.file.path.name}: releases must be at one tick to share standard input, got several"
        )
    batches = Batches(opened, groups[0])
    first, last = groups[0][0].next_tick, max(run.last_tick or 0 for run in groups[0])
    if refusal := no_room(opened.file.stream, [run.planned for run in groups[0]]):
        raise RunRefused(f"{opened.file.path.name}: {refusal}")
    waiting, digest = OpenTicks(batches.measures), hashlib.sha256()
    quarantine = Quarantine()
    with engine_for(opened, batches) as engine:
        while not source.ended:
            block = source.read()
            if opened.options.stop.is_set():
                return
            if block is None:
                opened.options.clock.sleep(PAUSE)
                continue
            digest.update(block.data)
            answer = engine.block(block.data, 1, last, carry=False, header=source.header)
            opened.options.step("read")
            batches.counted(answer)
            quarantine.look(engine, block, answer.counts, source.header)
            waiting.add(answer.tallies)
    opened.warn_of_header(source.header)
    _remember(opened, digest.hexdigest().encode(), quarantine)
    yield from published(batches, waiting.close(last), first, last, lambda: None)


def wait_for_header(source: Live, options: Options) -> Iterable[SourceSchema]:
    """Return the columns of standard input once its first line was read; raises Stopped by a stop."""
    while isinstance(source, StandardInput) and source.has_header and source.header is None:
        check(options.stop)
        source.fetch()
        if source.header is None:
            options.clock.sleep(PAUSE)
    return source.schemas()


def _remember(opened: Opened, mark: bytes, quarantine: Quarantine) -> None:
    """Pins what was read, or refuses another input than the one that was charged."""
    if opened.fingerprint is None:
        opened.publisher.commit(state={FINGERPRINT: mark, **quarantine.saved()})
    elif opened.fingerprint != mark:
        rule = "standard input must be what was charged"
        raise RunRefused(f"{opened.file.path.name}: {rule}, got another: nothing of it was published")
