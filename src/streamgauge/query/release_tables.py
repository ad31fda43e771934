"""[[release]]: what is published at every tick, and what it may cost.

The cost is an `epsilon`, a `rho`, or a `share` of the whole budget in the currency that the budget is kept
in; a pure budget takes no rho, which implies no epsilon. Groups that are discovered take a `delta` beside it
of the budget's. Under an (epsilon, delta) budget a share is a rho, a part of what all deltas and all epsilons
in the file leave: shares that sum to 1 take the rest. A release of a finished or pan-private
stream ends with it; one of another live stream goes on for ever unless it has a `horizon`. Whether the SQL
can be answered is the planner's to say, and whether a release that declares no cost is of reports, which have
theirs.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from streamgauge.privacy import Approx, BudgetExceeded, Event, Ledger, Loss, Pure, Tick, Zcdp
from streamgauge.query.alerts import alerts_of
from streamgauge.query.mechanism_names import mechanism_of
from streamgauge.query.settings import Release, Stream
from streamgauge.query.toml_keys import BadFile, Rule, Table
from streamgauge.query.toml_rules import DELTA, EPSILON, LINE, MOST, NAME, SHARE, SQL, TEXT, rational, whole
from streamgauge.query.windows import ticks_rule, window_rule

RELEASE_KEYS = (
    *("name", "sql", "window", "epsilon", "rho", "share", "horizon", "mechanism", "max_groups", "delta"),
    *("expected", "alerts", "title", "description"),
)
COSTS = ("epsilon", "rho", "share")


def releases_of(top: Table, stream: Stream) -> tuple[Release, ...]:
    """All releases of the file, in its order."""
    tables = top.array("release", "tables")
    if not tables:
        raise BadFile("release must be given at least once, got nothing (write [[release]])")
    named = [_table(f"release {i}", value) for i, value in enumerate(tables, 1)]
    taken = sum((_delta(table, stream.budget) or Fraction(0) for table in named), Fraction(0))
    pure = [Pure(table.required("epsilon", EPSILON)) for table in named if "epsilon" in table]
    shared = _shared(stream, taken, pure) if any("share" in table for table in named) else None
    releases = tuple(_release(table, stream, shared) for table in named)
    seen: set[str] = set()
    for release in releases:
        if release.name.lower() in seen:
            raise BadFile(
                f"release.{release.name}.name must differ from all others in more than case, got it again"
            )
        seen.add(release.name.lower())
    return releases


def release_of(value: Any, stream: Stream) -> Release:
    """One release by itself, which is in no file."""
    table = _table("release", value)
    return _release(table, stream, stream.budget.kept_beside(_delta(table, stream.budget) or Fraction(0)))


def _shared(stream: Stream, taken: Fraction, pure: Sequence[Pure]) -> Pure | Zcdp:
    """Return what shares are parts of: the budget beside deltas and, if it has one itself, pure losses."""
    budget, unit = stream.budget, stream.unit
    if not isinstance(budget, Approx):
        return budget.kept_beside(taken)
    ledger, native = Ledger(budget, unit), not isinstance(unit, Event | Tick)
    try:
        for report in stream.reports.values():
            ledger.charge("column", report.loss)
        for loss in pure:
            ledger.charge("release", loss, native=native, per_tick=isinstance(unit, Tick))
    except BudgetExceeded:
        return Zcdp.nothing()
    return ledger.left(delta=taken)


def _table(where: str, value: Any) -> Table:
    """A release's table, which is called by its name where it has one."""
    table = Table.open(where, value)
    name = table.entries.get("name")
    where = table.where if NAME.parse(name) is None else f"release.{name}"
    return Table.of(where, value, RELEASE_KEYS)


def _release(table: Table, stream: Stream, shared: Pure | Zcdp | None) -> Release:
    mechanism, settings = mechanism_of(table)
    ends = stream.ticks if stream.arrival == "finished" or stream.pan_private else None
    return Release(
        name=table.required("name", NAME),
        sql=table.required("sql", SQL),
        loss=_loss(table, stream, shared),
        window=table.optional("window", window_rule(stream.tick), "running"),
        horizon=table.required("horizon", ticks_rule(stream.tick, stream.ticks))
        if "horizon" in table
        else ends,
        mechanism=mechanism,
        settings=settings,
        max_groups=table.optional("max_groups", whole(most=MOST), 10**6),
        delta=_delta(table, stream.budget),
        share=table.optional("share", SHARE),
        expected=table.optional("expected", LEVEL),
        alerts=alerts_of(table, stream.tick),
        title=table.optional("title", LINE, ""),
        description=table.optional("description", TEXT, ""),
    )


def _loss(table: Table, stream: Stream, shared: Pure | Zcdp | None) -> Loss:
    budget, given = stream.budget, [key for key in COSTS if key in table]
    if not given and stream.reports:
        return Pure.nothing()  # whether it must have a cost, its SQL says (`local_parts`)
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise BadFile(f"{table.where} must be given exactly one of epsilon, rho and share, got {got}")
    if shared is not None and "share" in table:
        if not shared.amount:
            raise table.bad("share", "left out where epsilons or deltas in the file leave nothing")
        return shared.part(table.required("share", SHARE))
    if "epsilon" in table:
        return Pure(table.required("epsilon", EPSILON))
    if isinstance(budget, Pure):
        raise table.bad("rho", "left out under a pure budget, since zCDP implies no epsilon without a delta")
    return Zcdp(table.required("rho", EPSILON))


def _delta(table: Table, budget: Loss) -> Fraction | None:
    delta = table.optional("delta", DELTA)
    if delta is None:
        return None
    if not isinstance(budget, Approx):
        raise table.bad("delta", "left out unless the budget has a delta")
    if delta >= budget.delta:
        raise table.bad("delta", "below the budget's delta")
    return delta


def _level(value: Any) -> float | None:
    number = rational(value)
    return float(number) if number is not None and number > 0 else None


LEVEL = Rule('a number above 0, such as 0.5 or "1/200"', _level)
