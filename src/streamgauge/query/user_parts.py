"""From a SELECT to tables of users, where users are the unit of a pan-private stream.

Each question has a table of its own, but for COUNT(DISTINCT user) and DENSITY(user), which are read off one.
Users who may share a hash are counted as such. The loss of a release is shared evenly among its tables; of
each, one part hides who is in the table and the other is spent by estimates, one a tick: so the last tick
must be known.
"""

from fractions import Fraction
from typing import Any

from streamgauge.query.measure import Cell, Measure
from streamgauge.query.mechanism_names import AUTO
from streamgauge.query.pan_private import WITH
from streamgauge.query.parts import Output, Part, Sort, sorted_out
from streamgauge.query.query import Query, Refused
from streamgauge.query.settings import Release, Stream
from streamgauge.statistics.user_table import COUNT, SHARE, Asked, UserTable

QUESTIONS: dict[str, Asked] = {
    "distinct": "density",
    "density": "density",
    "heavy_fraction": "heavy_fraction",
    "cropped_mean": "cropped_mean",
}
FORMS = "COUNT(DISTINCT user), DENSITY(user), HEAVY_FRACTION(user, k) or CROPPED_MEAN(user, t)"


def user_parts(release: Release, query: Query, stream: Stream) -> tuple[Part, ...]:
    """The parts of a release, a table each."""
    check_users(release, query, stream)
    sorts = list(sorted_out(query.aggregates))
    horizon = release.horizon if release.horizon is not None else stream.ticks
    if horizon is None:
        raise Refused(f"horizon must be given, or stream.end, {WITH}: every estimate costs, got neither")
    share = release.loss.part(Fraction(1, len(sorts)))
    settings: dict[str, Any] = {
        "horizon": horizon,
        "intrusions": stream.intrusions,
        "hashed": _hashed(stream),
    }
    return tuple(_part(sort, query, UserTable(share, **_asked(sort), **settings)) for sort in sorts)


def _hashed(stream: Stream) -> bool:
    """Whether users are known by hashes."""
    column = stream.columns.get(stream.user or "")
    return column is not None and column.hashed is not None


def _asked(sort: Sort) -> dict[str, Any]:
    aggregate = sort.members[0][1]
    universe = 0 if aggregate.codes is None else aggregate.codes.universe
    return {"kind": QUESTIONS[aggregate.kind], "universe": universe, "times": aggregate.times}


def _part(sort: Sort, query: Query, table: Any) -> Part:
    codes = sort.members[0][1].codes
    cell = None if codes is None else Cell(codes.sql, codes.universe)
    measure = Measure(query.where, (), lookups=query.lookups, columns=query.columns, cell=cell)
    names = [(place, COUNT if each.kind == "distinct" else SHARE) for place, each in sort.members]
    return Part(0, table, measure, tuple(Output(place, name) for place, name in names))


def check_users(release: Release, query: Query, stream: Stream) -> None:
    """Refuses what cannot be read off a table of users."""
    for aggregate in query.aggregates:
        if aggregate.codes is None:
            raise Refused(f"aggregates must be {FORMS} where users are the unit {WITH}, got {aggregate.name}")
        if aggregate.codes.column != stream.user:
            got = aggregate.codes.column
            raise Refused(f"{aggregate.kind.upper()} must be of the users' column {stream.user}, got {got}")
    if query.groups or query.key is not None:
        raise Refused(
            f"GROUP BY must be left out where users are the unit {WITH}: release each group by WHERE"
        )
    for name, value, only in (("window", release.window, "running"), ("mechanism", release.mechanism, AUTO)):
        if value != only:
            raise Refused(f'{name} must be "{only}" where users are the unit {WITH}, got "{value}"')
