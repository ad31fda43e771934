"""How much a release adds to the work of a round, by declarations alone: whatever has come, or nothing.

    a frame         FRAME; cells of an axis AXIS more; each sum of it 1
    a discovery     KEYED
    SQL             1 for every TEXT characters; LAMBDA for each function in it (NULLIF, a division), which
                    an engine binds anew for all that it is nested in
    a part          PART: its noise, its intervals; 1 for every PLACES numbers of a tick
    a hashed column HASH_TABLE: its distinct values, whose intervals are worked out once for each law of noise
    reports         1 for every HASHED values that are hashed for an estimate
    an alert        PART: what it looks back at
    a commit        1 for every BYTES, since what waits for open ticks is committed whenever something comes

One is about a millisecond of one processor, measured on blocks of one event. (What many events take is the
work of whoever sends them.)

Privacy
    A tick leaves at the first multiple of `publish_delay` after its commit. If the work of a round came near
    that, who asks for enough could see by the clock whether a round before had an event. So the work of all
    that analysts ask for is bounded (`max_asked_work`), and two rounds of it, one after the other, take less
    than the usual delay: 200 were measured to take 0.25 s at most, over all kinds of expressions.
"""

from streamgauge.engines.row_source import RowSource
from streamgauge.engines.typed import coded
from streamgauge.pipeline.room import places_of, saved_bytes
from streamgauge.pipeline.scan import Scan
from streamgauge.query.measure import Measure
from streamgauge.query.planner import Planned

FRAME, AXIS, KEYED, PART, LAMBDA = 3, 2, 5, 3, 2
HASH_TABLE = 20
TEXT, PLACES, BYTES, HASHED = 2**7, 2**14, 2**17, 2**11


def work_of(plan: Planned) -> int:
    """What a round has to do for a release, in milliseconds or so."""
    measures = Scan.of([part.measure for part in plan.parts]).measures
    typed = RowSource(plan.stream, {}, measures, b"").typed
    parts = (
        PART * (len(plan.parts) + len(plan.alerts))
        + places_of(plan.parts) // PLACES
        + saved_bytes(plan) // BYTES
    )
    parts += HASH_TABLE * sum(getattr(part.statistic, "hash_cells", None) is not None for part in plan.parts)
    parts += sum(getattr(part.statistic, "hashed", 0) for part in plan.parts) // HASHED
    return parts + sum(work_of_measure(coded(each, typed)) for each in measures)


def work_of_measure(measure: Measure) -> int:
    """The same for what the engine adds up."""
    if measure.key is not None:
        return KEYED + _work_of_text(measure.key + (measure.where or ""))
    axis = measure.cell is not None and measure.cell.step is not None
    return FRAME + AXIS * axis + measure.rows - 1 + _work_of_text(_text(measure))


def _text(measure: Measure) -> str:
    """The SQL that depends on what is asked."""
    texts = [measure.where or "", *(value.sql for value in measure.values)]
    texts += [group.code for group in measure.groups] + ([measure.cell.sql] if measure.cell else [])
    return "".join(texts)


def _work_of_text(sql: str) -> int:
    return len(sql) // TEXT + LAMBDA * sql.count("lambda ")
