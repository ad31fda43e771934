"""A finished source that can be read only once: standard input, up to its end, before any tick is released.

Nothing is known of the source before its end, so nothing is committed before it. Its fingerprint is a hash
of all that was read: a second run that goes on where a first one stopped must be given the same bytes.

Privacy
    As for finished files. The sums of all ticks are held in memory, as exact as they are, until the end.
"""

import hashlib
from collections.abc import Iterator
from fractions import Fraction

from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.finished_run import cohorts, engine_for, published
from streamgauge.pipeline.open_ticks import OpenTicks
from streamgauge.pipeline.opening import FINGERPRINT, Opened, RunRefused
from streamgauge.pipeline.quarantine import Quarantine
from streamgauge.query.protocols import Live
from streamgauge.query.released import Released

PLACES = 2**25  # of all ticks and groups: what may be held in memory at once
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
    check_room(opened, batches, last - first + 1)
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
            answer = engine.block(block.data, first, last, carry=False, header=source.header)
            batches.counted(answer.counts)
            quarantine.look(engine, block, answer.counts, source.header)
            waiting.add(answer.tallies)
    _remember(opened, digest.hexdigest().encode(), quarantine)
    yield from published(batches, waiting.close(last), first, last, lambda: None)


def check_room(opened: Opened, batches: Batches, ticks: int) -> None:
    """Refuses what might not fit, by declarations alone."""
    places = batches.places * ticks
    if places > PLACES:
        what = f"{ticks} ticks x {Fraction(places, ticks)} places"
        rule = f"ticks x groups must be at most {PLACES} for a finished standard input"
        raise RunRefused(
            f"{opened.file.path.name}: {rule}, got {what}: write it to a file, or take longer ticks"
        )


def _remember(opened: Opened, mark: bytes, quarantine: Quarantine) -> None:
    """Pins what was read, or refuses another input than the one that was charged."""
    if opened.fingerprint is None:
        opened.publisher.commit(state={FINGERPRINT: mark, **quarantine.saved()})
    elif opened.fingerprint != mark:
        rule = "standard input must be what was charged"
        raise RunRefused(f"{opened.file.path.name}: {rule}, got another: nothing of it was published")
