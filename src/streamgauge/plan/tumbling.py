"""Tumbling windows: a release of periods is planned as one of single ticks.

    tick      1 2 3 4   5 6 7 8   9 ...            window = "tumbling 4"
    period    1         2         3                the statistic's tick; window = "each"
    row             *         *                    at the last tick of a period, with its own start and end

The exact sums of a period's ticks are one vector, and each vector has its own noise.

With `partial = true` each tick has a row: the figure of its period so far. A running statistic over at most the ticks
of the longest period starts again, with fresh noise, at each period's first tick.

Privacy
    Neighbours: one unit, as everywhere. Each noise is drawn for one period, so an event loses what one period does:
    parallel composition over periods. A unit of several ticks may touch several periods, each at several ticks. The
    statistic is calibrated to one tick of a unit, at a part of the release's loss:

    pure    1 / T        of T ticks each loses epsilon / T (group privacy)
    zCDP    1 / S        S = most that n_1^2 + n_2^2 + ... can be, for n_i of the T ticks in period i

    Proof for zCDP: n ticks of one period lose at most n^2 times the rho of one. Noises of periods are independent, and
    periods share no mechanism, so their rhos add up. S is attained by filling whole periods (`count_squares`). A
    mechanism that adapts to earlier releases shares its state between periods. There S is T^2. Runs of partial
    figures share nothing. Bounds at integer orders have no group privacy. So a unit of several ticks has a budget of
    rho instead of one with a delta.
"""

from dataclasses import replace
from fractions import Fraction

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import AUTO, find_mechanism
from streamgauge.config.periods import Periods
from streamgauge.config.rules import format_duration
from streamgauge.config.settings import Release, Stream
from streamgauge.config.toml_table import format_value
from streamgauge.config.windows import format_window
from streamgauge.continual import LinearMechanism
from streamgauge.plan.rollups import resolve_mechanism
from streamgauge.privacy import Event, Pure, Unit, User, WEvent
from streamgauge.releases.release import format_utc_time
from streamgauge.sql.query import Query


def resolve_periods(release: Release, query: Query, stream: Stream) -> tuple[Release, Stream]:
    """Return the release and stream that a release's parts are built for: a period is a tick of them."""
    periods = Periods.from_window(release.window, stream)
    if periods is None:
        return release, stream
    check_periods(release, query, stream, periods)
    spread = count_spread(release, query, stream.unit, periods)
    expected, unit = release.expected_events, reduce_unit(stream.unit)
    own = replace(release, loss=release.loss.part(Fraction(1, spread)) if spread > 1 else release.loss)
    budget = stream.budget.additive_loss if spread > 1 else stream.budget
    if release.partial:
        part = replace(own, window="running", horizon=periods.survey.longest)
        return part, replace(stream, unit=unit, budget=budget)
    own = replace(
        own,
        window="each",
        horizon=None if release.horizon is None else periods.max_count(release.horizon),
        expected_events=None if expected is None else expected * periods.nominal_ticks,
    )
    return own, replace(stream, unit=unit, budget=budget)


def check_periods(release: Release, query: Query, stream: Stream, periods: Periods) -> None:
    """Reject releases that cannot have a row for each period."""
    got = format_value(format_window(release.window, stream.tick))
    if query.report is not None:
        rule = 'window must be "running", "each" or "sliding ..." for reports'
        raise InvalidReleaseError(f"{rule}, got {got}: a sliding window costs nothing more")
    if not isinstance(stream.unit, Event | WEvent | User) or stream.unit == Event(replace=True, moves=True):
        raise InvalidReleaseError(f"unit must be an event, w_event or a user with bounds for {got}, got another")
    if query.key is not None and stream.unit.ticks > 1:
        rule = 'unit must be "event" where groups are discovered in periods'
        raise InvalidReleaseError(f"{rule}, got one of several ticks: declare the values of {query.key.name}")
    misfit = periods.survey.misfit
    if misfit is not None:
        ticks = f'ticks must end at every boundary of {got}, got one of "{format_duration(stream.tick)}"'
        fix = f'write tick = "{format_duration(periods.survey.common_tick)}"'
        raise InvalidReleaseError(f"{ticks} across {format_utc_time(misfit)}: {fix}, or another start")


def count_spread(release: Release, query: Query, unit: Unit, periods: Periods) -> int:
    """Return by how much less one tick of a unit may lose than all of its ticks."""
    ticks = unit.ticks if release.horizon is None else min(unit.ticks, release.horizon)
    if isinstance(release.loss, Pure):
        return ticks
    return count_squares(ticks, periods.survey.longest if is_memoryless(release, query) else ticks)


def count_squares(ticks: int, longest: int) -> int:
    """Return the most that the squares of a unit's ticks in each period add up to.

    >>> count_squares(60, 24), 24**2 + 24**2 + 12**2
    (1296, 1296)
    """
    periods, rest = divmod(ticks, longest)
    return periods * longest**2 + rest**2


def is_memoryless(release: Release, query: Query) -> bool:
    """Return whether the noise of each period is independent of other periods."""
    if release.partial or release.mechanism == AUTO:
        return True
    return issubclass(find_mechanism(resolve_mechanism(release.mechanism, query)), LinearMechanism)


def reduce_unit(unit: Unit) -> Unit:
    """Return the part of a unit that lies in one tick."""
    if isinstance(unit, User):
        return User(unit.max_events_per_tick, 1)
    return Event(replace=unit.replace)
