"""Planner: from a pipeline file to releases that can be run, without data.

It reads declarations only. A planned release has its parts (the statistics and their losses), and the schema of its
results: the same places at every tick, for all data, unless groups are discovered.

**Mechanism choices.** The mechanism of each part is chosen when the release is planned, and pinned when it is charged.

    {"mechanism": "BridgeTree", "settings": {"radices": [11, 10]}}
    {"mechanism": "Pegasus", "settings": {"split": "4/5", "theta": "5", "smoother": "median", "max_group_ticks": 256}}

An open choice, by "auto" or by a name without settings, is that of least predicted error, as computed by the
version that plans the release.

Promise
    A charged part has exactly the counter that it was charged with, even if another would be chosen now. The
    settings of a choice are written out, so that nothing is left to be chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, product
from typing import Any, NotRequired, TypedDict

from streamgauge import sql
from streamgauge.config.canonical import build_release_block, to_canonical_json
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import find_mechanism, parse_json_setting
from streamgauge.config.periods import Periods
from streamgauge.config.settings import Label, PipelineFile, Release, Stream
from streamgauge.plan.alerts import AlertColumn, build_alert_columns
from streamgauge.plan.consistency import Adjustments, build_adjustments
from streamgauge.plan.pairs import build_pair_query, check_slot
from streamgauge.plan.parts import CONFIDENCE, CounterPart, build_parts, build_user_parts
from streamgauge.plan.rollups import compute_width
from streamgauge.plan.special_parts import build_discovered_parts, build_report_parts, resolve_loss
from streamgauge.plan.tumbling import resolve_periods
from streamgauge.plan.windows import check_windows, split_aggregates
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Event, IntegerZcdp, Loss, XAdjacent
from streamgauge.releases.release import Group, ReleaseSchema
from streamgauge.releases.schema import RENAME_HINT
from streamgauge.sql.query import Query
from streamgauge.statistics import Statistic
from streamgauge.statistics.mechanism_config import MechanismConfig

MechanismChoice = Mapping[str, Any]  # ready for JSON
MechanismChoices = Sequence[MechanismChoice | None]


def build_choice(statistic: Any) -> MechanismChoice | None:
    """Return the mechanism of a statistic with all settings.

    Returns None if they do not determine it.
    """
    if not statistic.HAS_CHOICE:
        return None
    counter = statistic.counter
    choice = {
        "mechanism": type(counter).__name__,
        "settings": {name: _to_json(value) for name, value in MechanismConfig.from_mechanism(counter).settings},
    }
    return choice if apply_choice(statistic, choice).counter == counter else None


def apply_choice(statistic: Statistic[Any], choice: MechanismChoice | None) -> Statistic[Any]:
    """Return the same statistic with a choice as if the file named it."""
    if choice is None:
        return statistic
    settings = {name: _from_json(name, value) for name, value in choice["settings"].items()}
    made: Any = statistic
    counted: Statistic[Any] = replace(
        made, mechanism=MechanismConfig.build(find_mechanism(choice["mechanism"]), **settings)
    )
    return counted


def apply_choices(parts: Sequence[CounterPart], choices: MechanismChoices) -> tuple[CounterPart, ...]:
    """Return the parts of a release as charged, or unchanged without choices."""
    if choices and len(choices) != len(parts):
        raise InvalidReleaseError(f"parts must be as many as were charged, {len(choices)}, got {len(parts)}")
    pairs = zip(parts, choices or [None] * len(parts), strict=True)
    return tuple(replace(part, statistic=apply_choice(part.statistic, choice)) for part, choice in pairs)


def _to_json(value: Any) -> Any:
    if isinstance(value, Hierarchy):
        return {"parents": list(value.parents)}
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, type):
        return value.__name__
    return str(value) if isinstance(value, Fraction) else value


def _from_json(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return Hierarchy(value["parents"])
    if name == "inner":
        return find_mechanism(value)
    return parse_json_setting(value)


class RankedLayout(TypedDict):
    """Ranking of a release as JSON: the measure that ranks, and the most places of a tick."""

    measure: str
    places: int


class ReleaseLayout(TypedDict):
    """Schema of a release as JSON: group columns with their labels, and levels."""

    measures: list[str]
    groups: list[tuple[str, list[Label]]]
    levels: list[int]
    discovered: NotRequired[str]  # the column whose groups are discovered
    ranked: NotRequired["RankedLayout"]  # if the places of a tick are its largest groups
    consistent: NotRequired[list[str]]  # rules that the numbers of each measure obey, in words


def build_schema(release: str, layout: ReleaseLayout, contributions: str = "") -> ReleaseSchema:
    """Return the schema of a layout. Discovered and ranked groups are left out: each tick has its own."""
    found, ranked = layout.get("discovered"), list[tuple[str, type]]()
    if "ranked" in layout:
        ranked = [(found, str)] if found else [(name, find_label_type(labels)) for name, labels in layout["groups"]]
    places = () if found or ranked else list_places(layout)
    consistency = "; ".join(layout.get("consistent", ()))
    return ReleaseSchema(release, tuple(layout["measures"]), places, found, contributions, consistency, tuple(ranked))


def list_places(layout: ReleaseLayout) -> tuple[Group, ...]:
    """Return all declared groups of all levels, the last group column running fastest."""
    return tuple(
        Group(level, tuple(zip([name for name, _ in groups], labels, strict=True)))
        for level in layout["levels"]
        for groups in [layout["groups"][:level]]
        for labels in product(*(labels for _, labels in groups))
    )


def find_label_type(labels: Sequence[Label]) -> type:
    """Return the type of labels: text if they have several."""
    kinds = {type(label) for label in labels}
    return kinds.pop() if len(kinds) == 1 else str


def outline_layout(layout: ReleaseLayout) -> ReleaseLayout:
    """Return a layout of the same columns and levels with one label for each column."""
    return {**layout, "groups": [(name, labels[:1]) for name, labels in layout["groups"]]}


@dataclass(frozen=True)
class ReleasePlan:
    """Release that can be run."""

    release: Release
    query: Query
    parts: tuple[CounterPart, ...]
    stream: Stream
    block: str  # its canonical text, which the store pins
    mechanisms: tuple[MechanismChoice | None, ...] = ()  # of its parts; the charge pins them
    alerts: tuple[AlertColumn, ...] = ()  # its last measures
    adjustments: Adjustments = ()  # of its aggregates, if it is consistent

    @property
    def name(self) -> str:
        return self.release.name

    @property
    def charged_loss(self) -> Loss:
        """Loss that the ledger charges: the declared one, at integer orders only if a part needs that."""
        needs_integers = any(isinstance(part.charged_loss, IntegerZcdp) for part in self.parts)
        return self.release.loss.as_integer_zcdp() if needs_integers else self.release.loss

    @property
    def layout(self) -> ReleaseLayout:
        """Layout of the results at every tick."""
        return build_layout(self.query, self.alerts, self.adjustments)

    @cached_property
    def periods(self) -> Periods | None:
        """Periods of a tumbling window, each of which has one row."""
        return Periods.from_window(self.release.window, self.stream)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of GROUP BY."""
        key = self.query.key
        return tuple(group.name for group in self.query.groups) if key is None else (key.name,)

    @property
    def groups(self) -> int:
        """Number of groups of all levels, ranked or not; if discovered, the maximum released."""
        return sum(part.max_groups for part in self.parts) if self.query.key else sum(self._widths.values())

    @cached_property
    def offsets(self) -> dict[int, int]:
        """First place of each level."""
        begins = accumulate(self._widths.values(), initial=0)
        return dict(zip(self._widths, begins, strict=False))

    @property
    def _widths(self) -> dict[int, int]:
        """Number of groups of each level."""
        return {level: compute_width(self.query, level) for level in self.query.levels}

    def last_tick(self, first: int) -> int | None:
        """Return the last tick of the stream for a release that starts at `first`."""
        horizon = None if self.release.horizon is None else first + self.release.horizon - 1
        return min((end for end in (self.stream.ticks, horizon) if end is not None), default=None)

    def list_row_ticks(self, ticks: int) -> list[int]:
        """Return which of the stream's first ticks have a row, for a release that starts with it."""
        end = self.last_tick(1)
        last = ticks if end is None else min(ticks, end)
        if self.periods is None or self.release.partial:
            return list(range(1, last + 1))
        rows = list(self.periods.list_last_ticks(1, last))
        return rows if last != end or rows[-1:] == [end] else [*rows, end]


def build_layout(query: Query, alerts: tuple[AlertColumn, ...], adjustments: Adjustments = ()) -> ReleaseLayout:
    """Return the layout of a query and its alerts at every tick."""
    groups = [(group.name, list(group.labels)) for group in query.groups]
    names = [aggregate.name for aggregate in query.aggregates]
    names += [alert.build_name(names) for alert in alerts]
    layout: ReleaseLayout = {"measures": names, "groups": groups, "levels": list(query.levels)}
    if query.key is not None:
        layout["discovered"] = query.key.name
    if query.top is not None:
        layout["ranked"] = {"measure": names[query.top.measure], "places": query.top.limit or count_groups(query)}
    if adjustments:
        layout["consistent"] = [each.describe(name) for name, each in zip(names, adjustments, strict=False) if each]
    return layout


def count_groups(query: Query) -> int:
    """Return the number of groups of all levels or, if they are discovered, the most that are released."""
    return query.key.max_groups if query.key else sum(compute_width(query, level) for level in query.levels)


def parse_query(file: PipelineFile, release: Release) -> Query:
    """Return the query of a release, with a column for each of its windows."""
    query = build_pair_query(file, release) if release.mapper else sql.parse(release.sql, file.stream, file.lookups)
    return split_aggregates(limit_places(query, release), release, file.stream.tick)


def limit_places(query: Query, release: Release) -> Query:
    """Return a query whose ranking has as many places as there are groups, if it has more or names none."""
    if query.top is None:
        return query
    most = min(count_groups(query), release.max_groups)
    limit = query.top.limit or most
    if query.key is not None and limit > most:
        rule = f"LIMIT must be at most max_groups = {most}, for groups of {query.key.name} are discovered"
        raise InvalidReleaseError(f"{rule}, got {limit}: declare a larger max_groups")
    return replace(query, top=replace(query.top, limit=min(limit, most)))


def outline_schema(file: PipelineFile, release: Release) -> ReleaseSchema:
    """Return the schema of a release without planning it, with one place a level."""
    query = parse_query(file, release)
    layout = build_layout(query, build_alert_columns(query, release.alerts))
    return build_schema(release.name, outline_layout(layout))


def plan_release(file: PipelineFile, release: Release, mechanisms: MechanismChoices | None = None) -> ReleasePlan:
    """Plan one release, or reject it with the name of the release and the rule.

    `mechanisms` are those of its charge. Without a charge they are chosen now.
    """
    try:
        query = parse_query(file, release)
        release = resolve_loss(release, query, file.stream)
        check_windows(release, query, file.stream)
        check_slot(release, file.stream)
        parts = _build_parts(release, query, file.stream)
        alerts = build_alert_columns(query, release.alerts)
        adjustments = build_adjustments(release, query, file.stream)
        chosen = [build_choice(part.statistic) for part in parts] if mechanisms is None else mechanisms
        parts = apply_choices(parts, chosen)
    except ValueError as refusal:
        raise InvalidReleaseError(f"{file.path.name}: release {release.name}: {refusal}") from None
    rewritten = replace(release, sql=query.text, alerts=tuple(each.alert for each in alerts))
    block = to_canonical_json(build_release_block(rewritten))
    plan = ReleasePlan(release, query, parts, file.stream, block, tuple(chosen), alerts, adjustments)
    _check_names(file, plan)
    return plan


def replan_release(plan: ReleasePlan, loss: Loss) -> ReleasePlan:
    """Plan a release again at another loss, with mechanisms chosen for it."""
    release = replace(plan.release, loss=loss, share=None)
    return replace(plan, release=release, parts=_build_parts(release, plan.query, plan.stream))


def _build_parts(release: Release, query: Query, stream: Stream) -> tuple[CounterPart, ...]:
    """Return the parts of a release.

    The largest of many noisy numbers tend to be those whose noise was high. So the bounds of ranked groups hold for
    all groups at once, by the union bound.
    """
    parts = _build_plain_parts(release, query, stream)
    if query.top is None or query.key is not None:  # those of discovered groups hold for all at once anyway
        return parts
    confidence = 1 - (1 - CONFIDENCE) / count_groups(query)
    return tuple(replace(part, confidence=confidence) for part in parts)


def _build_plain_parts(release: Release, query: Query, stream: Stream) -> tuple[CounterPart, ...]:
    release, stream = resolve_periods(release, query, stream)
    if query.report is not None:
        return build_report_parts(release, query, stream)
    if isinstance(stream.unit, XAdjacent):
        return build_user_parts(release, query, stream)
    if getattr(stream.unit, "moves", False):
        release, stream = halve_replacement(release, stream)
    if query.key is not None:
        return build_discovered_parts(release, query, query.key, stream)
    return build_parts(release, query, stream)


def halve_replacement(release: Release, stream: Stream) -> tuple[Release, Stream]:
    """Return a release and its stream as they are to each of two events, one removed and one added.

    A replacement is both, at any two ticks, by group privacy of two: a loss of epsilon/2 each makes epsilon, of rho/4
    rho. Adaptive mechanisms have it too. It is no more than the loss of two ticks of their own, at twice the bound.
    Bounds at integer orders have none, so either event has a budget of rho instead of one with a delta.
    """
    if release.delta is not None:
        rule = 'delta must be left out where adjacency = "replace" (a delta has no such group privacy)'
        raise InvalidReleaseError(f"{rule}, got {float(release.delta):g}: declare values")
    loss = release.loss.part(Fraction(1, 2**release.loss.additive_loss.power))
    return replace(release, loss=loss), replace(stream, unit=Event(), budget=stream.budget.additive_loss)


def _check_names(file: PipelineFile, plan: ReleasePlan) -> None:
    """Reject columns that readers could not distinguish, before anything is charged."""
    layout, columns = plan.layout, len(plan.query.aggregates)
    few = outline_layout(layout)
    own: ReleaseLayout = {**few, "measures": few["measures"][:columns]}
    for layout, way in ((own, RENAME_HINT), (few, "give the alert a name of its own, name = ...")):
        try:
            build_schema(plan.name, layout)
        except ValueError as refusal:
            raise InvalidReleaseError(f"{file.path.name}: {refusal}".replace(RENAME_HINT, way)) from None
