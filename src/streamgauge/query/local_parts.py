"""From a SELECT to estimates, where a column has reports.

All releases of a column read the same reports, which lost the column's epsilon when they were made: so none
of them costs anything beside it, whichever their windows are, and however many there are.
"""

from dataclasses import replace
from typing import Any

from streamgauge.privacy import Loss
from streamgauge.query.measure import Cell, Measure
from streamgauge.query.mechanism_names import AUTO
from streamgauge.query.parts import Output, Part
from streamgauge.query.query import Query, Refused
from streamgauge.query.settings import Release, Stream
from streamgauge.statistics.local_frequency import LocalFrequency

LONGEST = 1024  # ticks of a sliding window: the reports of each are kept


def is_unpriced(loss: Loss) -> bool:
    """Whether no cost was declared: for what costs nothing by itself."""
    return not loss.amount


def priced(release: Release, query: Query, stream: Stream) -> Release:
    """The release with the loss that it has: of a column of reports the column's, else what was declared."""
    if query.report is None:
        if is_unpriced(release.loss):
            raise Refused("cost must be given as exactly one of epsilon, rho and share, got none of them")
        return release
    column = query.report.column
    own = stream.reports[column].loss
    if not is_unpriced(release.loss) and release.column != column:
        rule = f"epsilon must be left out, the reports of {column} have lost {float(own.epsilon):g}"
        raise Refused(f"{rule} already, got a cost")
    return replace(release, loss=own, column=column)


def local_parts(release: Release, query: Query, stream: Stream) -> tuple[Part, ...]:
    """The one part of a release over a column of reports."""
    codes = query.report
    if codes is None:
        raise Refused("sql must be of a column of reports, got another")
    _check(release)
    report = stream.reports[codes.column]
    if len(report.values) > release.max_groups:
        rule = f"groups must be at most max_groups = {release.max_groups}"
        raise Refused(f"{rule}, got {len(report.values)} values of {codes.column}")
    frequency: Any = LocalFrequency(
        report.claim, items=report.values, window=release.window, horizon=release.horizon
    )
    frequency = replace(frequency, copies=report.copies(frequency.ticks))
    cell = Cell(codes.sql, codes.universe, size=codes.size)
    measure = Measure(None, (), columns=query.columns, cell=cell)
    return (Part(1, frequency, measure, (Output(0, "value"),)),)


def _check(release: Release) -> None:
    """Refuses what is not made of reports that are there."""
    kind, _, ticks = release.window.partition(" ")
    if kind == "decayed" or int(ticks or 0) > LONGEST:
        rule = f'window must be "running", "each" or "sliding ..." of at most {LONGEST} ticks for reports'
        raise Refused(f"{rule}, got {'a decayed one' if kind == 'decayed' else f'{ticks} ticks'}")
    if release.mechanism != AUTO:
        raise Refused(f'mechanism must be left out for reports, got "{release.mechanism}"')
    if release.delta is not None:
        raise Refused("delta must be left out for reports, got one")
