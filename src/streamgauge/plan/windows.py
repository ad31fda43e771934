"""Several sliding windows of one release: its columns, and the queries that have them.

    window = ["sliding 1h", "sliding 24h"]      SELECT COUNT(*)  ->  count_1h, count_1d

The windows of an aggregate are read from one run of the longest (`continual.trees.window_bridge`). So all of them
together lose what one does, and the release is charged once.
"""

from collections.abc import Iterator
from dataclasses import replace

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import AUTO
from streamgauge.config.rules import format_duration
from streamgauge.config.settings import Release, Stream
from streamgauge.config.stream import PAN_PRIVATE_CLAUSE
from streamgauge.config.toml_table import format_value
from streamgauge.config.windows import count_window_ticks, format_window
from streamgauge.continual import WindowBridge
from streamgauge.privacy import Pure
from streamgauge.sql.query import Aggregate, Query

ARRAY_CLAUSE = "where window is an array"


def split_aggregates(query: Query, release: Release, tick: int) -> Query:
    """Return a query with a column for each window of each aggregate, named after both."""
    if not release.shorter_windows:
        return query
    windows = [*release.shorter_windows, count_window_ticks(release.window)]

    def build(aggregate: Aggregate, window: int) -> Aggregate:
        return replace(aggregate, name=f"{aggregate.name}_{format_duration(window * tick)}", window=window)

    return replace(query, aggregates=tuple(build(each, window) for each in query.aggregates for window in windows))


def check_windows(release: Release, query: Query, stream: Stream) -> None:
    """Reject a release with several windows that one run cannot answer."""
    if not release.shorter_windows:
        return
    if (unfit := next(_list_unfit(query, stream), None)) is not None:
        got = format_value([format_window(window, stream.tick) for window in release.windows])
        raise InvalidReleaseError(f"window must be one window, not an array, {unfit}, got {got}")
    if not isinstance(release.loss, Pure):
        got = "rho" if release.share is None else "a share of a budget that is kept in rho"
        raise InvalidReleaseError(f"cost must be given as epsilon {ARRAY_CLAUSE}, got {got}")
    if release.mechanism not in (AUTO, WindowBridge.__name__):
        rule = f'mechanism must be "{AUTO}" or "{WindowBridge.__name__}" {ARRAY_CLAUSE}'
        raise InvalidReleaseError(f'{rule}, got "{release.mechanism}"')


def _list_unfit(query: Query, stream: Stream) -> Iterator[str]:
    """Yield the properties of a query that need one window."""
    if query.report is not None:
        yield "for reports"
    if query.key is not None:
        yield f"for groups that are discovered, as those of {query.key.name}"
    if query.top is not None:
        yield "with ORDER BY, which ranks by one of them"
    if stream.pan_private:
        yield PAN_PRIVATE_CLAUSE
    for aggregate in query.aggregates:
        if aggregate.kind not in aggregate.function.window_kinds:
            yield f"for {aggregate.name.rpartition('_')[0]} (only a COUNT or SUM has several)"
