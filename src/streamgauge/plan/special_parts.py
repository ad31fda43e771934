"""Parts of queries of one fixed form: discovered groups, and columns of reports.

All releases of a column of reports read the same reports, which lost the column's epsilon when they were made.
So none of them costs anything more, for any windows and number.
"""

from dataclasses import replace
from math import floor
from typing import Any

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import AUTO
from streamgauge.config.settings import Release, Stream
from streamgauge.config.stream import PAN_PRIVATE_CLAUSE, check_pan_private_release
from streamgauge.plan.aggregates.function import Output
from streamgauge.plan.aggregates.prediction import DEFAULT_EVENTS, ErrorPrediction, PredictionRequest
from streamgauge.plan.fitting import check_fit
from streamgauge.plan.measure import Cell, Measure
from streamgauge.plan.parts import CounterPart, build_mechanism, check_delta
from streamgauge.privacy import Loss, User
from streamgauge.sql.query import KeyColumn, Query
from streamgauge.statistics import TopK
from streamgauge.statistics.keys.ranking import PRINTED_CONFIDENCE
from streamgauge.statistics.keys.top_k import MAX_CANDIDATE_KEYS
from streamgauge.statistics.local_frequency import LocalFrequency

MAX_WINDOW_TICKS = 1024  # ticks of a sliding window: the reports of each are in memory


def build_discovered_parts(release: Release, query: Query, key: KeyColumn, stream: Stream) -> tuple[CounterPart, ...]:
    """Return the one part of discovered groups. Thresholds spend the release's delta."""
    check_delta(release, query)
    check_pan_private_release(release, stream)
    check_fit(release, query, stream, ())
    if stream.pan_private:
        rule = f"groups must be declared {PAN_PRIVATE_CLAUSE}, since a memory of keys is exact"
        raise InvalidReleaseError(f"{rule}, got some of {key.name} that are discovered: declare values")
    if stream.weight is not None:
        rule = "groups must be declared where events have weights"
        raise InvalidReleaseError(f"{rule}, got some of {key.name} that are discovered: declare values")
    if isinstance(stream.unit, User):
        rule = "unit must be an event, or w_event, where groups are discovered"
        raise InvalidReleaseError(f"{rule}, got a user, of whom the number of groups is not bounded: declare values")
    limit = key.max_groups if query.top is None else query.top.limit or key.max_groups
    most = min(key.max_groups, release.max_groups, limit)
    statistic = TopK(
        release.loss,
        k=most,
        delta=release.delta,
        horizon=release.horizon,
        window=release.window,
        mechanism=build_mechanism(release, query),
        unit=stream.unit,
    )
    measure = Measure(query.where, (), lookups=query.lookups, columns=query.columns, key=key.sql)
    part = CounterPart(1, statistic, measure, (Output(0, "value"),), max_groups=most, predict=predict_keys)
    return (part,)


def predict_keys(request: PredictionRequest) -> ErrorPrediction:
    """Predict the error of all groups at once, published or not.

    Readers look at the largest, so all must be covered.
    """
    statistic, tick = request.statistic, request.tick
    noise, threshold = statistic.noise_at(tick), statistic.selection.threshold(tick)
    half_width = noise.simultaneous_half_width(PRINTED_CONFIDENCE, MAX_CANDIDATE_KEYS)
    note = f"a group appears at {floor(threshold) + 1:,} events"
    return ErrorPrediction(request.measure, tick, noise.stddev, half_width, request.events, note, threshold)


def is_unpriced(loss: Loss) -> bool:
    """Return whether no cost was declared, for a release that costs nothing by itself."""
    return not loss.amount


def resolve_loss(release: Release, query: Query, stream: Stream) -> Release:
    """Return a release with its loss: of its column of reports, or as declared."""
    if query.report is None:
        if is_unpriced(release.loss):
            raise InvalidReleaseError("cost must be given as exactly one of epsilon, rho and share, got none of them")
        return release
    column = query.report.column
    own = stream.reports[column].loss
    if not is_unpriced(release.loss) and release.column != column:
        rule = f"epsilon must be left out, the reports of {column} have lost {float(own.epsilon):g}"
        raise InvalidReleaseError(f"{rule} already, got a cost")
    return replace(release, loss=own, column=column)


def build_report_parts(release: Release, query: Query, stream: Stream) -> tuple[CounterPart, ...]:
    """Return the one part of a release over a column of reports."""
    codes = query.report
    if codes is None:
        raise InvalidReleaseError("sql must be of a column of reports, got another")
    _check_report_release(release)
    report = stream.reports[codes.column]
    if len(report.values) > release.max_groups:
        rule = f"groups must be at most max_groups = {release.max_groups}"
        raise InvalidReleaseError(f"{rule}, got {len(report.values)} values of {codes.column}")
    frequency: Any = LocalFrequency(
        report.mechanism, items=report.values, window=release.window, horizon=release.horizon
    )
    frequency = replace(frequency, copies=report.max_copies(frequency.ticks))
    cell = Cell(codes.sql, codes.universe, size=codes.report_bytes)
    measure = Measure(None, (), columns=query.columns, cell=cell)
    return (CounterPart(1, frequency, measure, (Output(0, "value"),), predict=predict_reports),)


def predict_reports(request: PredictionRequest) -> ErrorPrediction:
    """Predict the error of a rare value.

    `expected_events` is for one value: all values have so many reports each.
    """
    statistic, events = request.statistic, request.events
    reports = DEFAULT_EVENTS if events is None else max(1.0, events * statistic.channels)
    note = f"of a value that few have, among {reports:,.0f} reports that are spread evenly over the others"
    more = "; `expected_events` tells how many to expect a tick" if events is None else ""
    return request.build_normal(statistic.stddev(reports), events, note + more)


def _check_report_release(release: Release) -> None:
    """Reject settings that reports cannot have."""
    kind, _, ticks = release.window.partition(" ")
    if kind == "decayed" or int(ticks or 0) > MAX_WINDOW_TICKS:
        rule = f'window must be "running", "each" or "sliding ..." of at most {MAX_WINDOW_TICKS} ticks for reports'
        raise InvalidReleaseError(f"{rule}, got {'a decayed one' if kind == 'decayed' else f'{ticks} ticks'}")
    if release.mechanism != AUTO:
        raise InvalidReleaseError(f'mechanism must be left out for reports, got "{release.mechanism}"')
    if release.delta is not None:
        raise InvalidReleaseError("delta must be left out for reports, got one")
