"""Mappers with a reducer: an analyst's code before a statistic, and its sensitivity before anything runs.

    records -> bounds of users -> program -> at most max_pairs (key, value) pairs -> clamp, grid -> statistic by key

**Enforcement.** A key that is not declared is dropped, and so is a value that is not finite. Values of one key of one
record are added up. Only the first `max_pairs` keys of a record count, in order of their first emission. The
statistic clamps each value to [lower, upper] and rounds it to the grid.

**Stages.** `first.then(second)` maps each pair of `first` by `second`, whose columns are `key` and `value`. A record
has at most the product of both numbers of pairs.

Privacy
    Neighbours: streams that differ in one unit of records. Promise: the loss of the statistic.
    Proof: pairs are a function of the program and one record (`executor`). So a record moves at most K = min(pairs,
    keys) groups, each as one event of the statistic moves one: K times as far in L1 and in squared L2
    (`groups_per_event`). The law tests enumerate that this bound is attained, and never passed.
    A unit of m records moves m times as far in L1, m^2 times in squared L2. Users are bounded before the program runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from streamgauge.mapreduce.columns import RecordColumn, TextColumn, build_column
from streamgauge.mapreduce.errors import MapperError
from streamgauge.mapreduce.executor import MappedPairs, MapperExecutor
from streamgauge.mapreduce.parser import parse_mapper
from streamgauge.mapreduce.program import MapperProgram, ValueKind
from streamgauge.noise import Ints, Noise
from streamgauge.privacy import Loss, Sensitivity, Tick
from streamgauge.privacy.rationals import Number
from streamgauge.statistics import Count, Estimate, EventRun, Mean, Quantile, Statistic, Sum, Variance
from streamgauge.statistics.events import to_column
from streamgauge.statistics.user_bounds import UserContributions

REDUCERS: dict[str, Callable[..., Statistic[Any]]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
    "quantile": Quantile,
    "threshold": Count,
}
COUNTING = ("count", "threshold")
PAIR_COLUMNS = ("key", "value")


@dataclass(frozen=True)
class Mapper:
    """Program of an analyst, its declared keys and bounds, and the reducer of its values.

    >>> Mapper("def mapper(line):\\n    emit(line, 1)", {"line": "text"}, ["dog", "cat"], max_pairs=1).program.max_pairs
    1
    """

    source: str
    columns: Mapping[str, ValueKind]
    keys: Sequence[str | int]
    max_pairs: int = 1
    lower: Number | None = None
    upper: Number | None = None
    grid: Number | None = None
    reducer: str = "count"
    max_steps: int = 10_000
    _: KW_ONLY
    level: float | None = None  # of `threshold`: the least noisy count that is published
    quantiles: Sequence[Number] = (0.5,)  # of `quantile`
    first: "Mapper | None" = None  # the stage before, if any

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys) if not isinstance(self.keys, str) else self.keys)
        if self.reducer not in REDUCERS:
            raise MapperError(f"reducer must be one of {', '.join(REDUCERS)}", repr(self.reducer))
        if (self.level is None) == (self.reducer == "threshold"):
            raise MapperError("level must be given just for the reducer threshold", repr(self.level))
        if self.first is not None and set(self.program_columns) - set(PAIR_COLUMNS):
            raise MapperError("columns of a later stage must be key and value", ", ".join(self.program_columns))
        self.program  # noqa: B018 - parsed now, so that a wrong source is refused now

    @cached_property
    def program(self) -> MapperProgram:
        """Checked program of this stage."""
        return parse_mapper(self.source, self.columns, self.keys, max_pairs=self.max_pairs, max_steps=self.max_steps)

    @property
    def program_columns(self) -> list[str]:
        """Columns that the program reads."""
        return [name for name, _ in self.program.columns]

    @property
    def stages(self) -> tuple["Mapper", ...]:
        return (*(self.first.stages if self.first is not None else ()), self)

    def then(self, second: "Mapper") -> "Mapper":
        """Return the two stages as one mapper. The second reads `key` and `value` of the first's pairs."""
        first = self if second.first is None else self.then(second.first)
        return replace(second, first=first)

    @property
    def max_groups(self) -> int:
        """The most groups in which one record counts."""
        return min(prod(stage.max_pairs for stage in self.stages), len(self.keys))

    @property
    def max_record_steps(self) -> int:
        """The most steps that one record can cost, in all stages."""
        pairs = [1, *(stage.max_pairs for stage in self.stages)]
        return sum(prod(pairs[: place + 1]) * stage.max_steps for place, stage in enumerate(self.stages))

    def build_statistic(self, loss: Loss, **settings: Any) -> Statistic[Any]:
        """Return the statistic by key that reduces the values. Settings are those of `streamgauge.statistics`."""
        given: dict[str, Any] = {**settings, "groups_per_event": self.max_groups}
        if self.reducer not in COUNTING:
            given |= {"lower": self.lower, "upper": self.upper, "step": self.grid}
        if self.reducer == "quantile":
            given["q"] = self.quantiles
        return REDUCERS[self.reducer](loss, **given)

    def find_sensitivity(self, loss: Loss, **settings: Any) -> Sensitivity:
        """Return the most that one unit moves the vector of one tick."""
        return self.build_statistic(loss, **settings).tick_sensitivity

    def start(self, loss: Loss, *, noise: Noise | None = None, **settings: Any) -> "MapperRun":
        """Return a new run: records in, estimates by key out."""
        statistic = self.build_statistic(loss, **settings)
        return MapperRun(self, statistic.start(groups=list(self.keys), noise=noise), MapperStages(self))


@dataclass
class MapperStages:
    """Executors of all stages of a mapper."""

    mapper: Mapper
    constant_work: bool = False

    @cached_property
    def executors(self) -> list[MapperExecutor]:
        return [MapperExecutor(stage.program, constant_work=self.constant_work) for stage in self.mapper.stages]

    def run(self, columns: Mapping[str, RecordColumn]) -> MappedPairs:
        """Return the pairs of records: by record, each key once."""
        pairs = self.executors[0].run(columns)
        for stage, executor in zip(self.mapper.stages, self.executors[1:], strict=False):
            found = executor.run(build_pair_columns(stage, pairs))
            pairs = merge_pairs(MappedPairs(pairs.records[found.records], found.keys, found.values))
        return pairs


def build_pair_columns(stage: Mapper, pairs: MappedPairs) -> dict[str, RecordColumn]:
    """Return the pairs of a stage as the columns of the next. Declared bounds clamp its values."""
    values = pairs.values
    if stage.lower is not None and stage.upper is not None:
        values = np.clip(values, float(stage.lower), float(stage.upper))
    keys = stage.program.keys
    if not isinstance(keys[0], bytes):
        return {"key": np.array(keys, np.float64)[pairs.keys], "value": values}
    return {"key": TextColumn.from_items([keys[place] for place in pairs.keys.tolist()]), "value": values}


def merge_pairs(pairs: MappedPairs) -> MappedPairs:
    """Return pairs with the values of one key of one record added up, in order of their first emission."""
    both = np.stack([pairs.records, pairs.keys], axis=1)
    _, first, inverse = np.unique(both, axis=0, return_index=True, return_inverse=True)
    sums = np.zeros(len(first))
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(sums, inverse.reshape(-1), pairs.values)
    order = np.argsort(first, kind="stable")
    order = order[np.isfinite(sums[order])]
    return MappedPairs(pairs.records[first[order]], pairs.keys[first[order]], sums[order])


@dataclass(frozen=True)
class KeyEstimate:
    """Noisy count of one key that reached the level of a threshold."""

    key: str | int
    value: float
    stddev: float


class MapperRun:
    """Run of a mapper: the records of each tick in, estimates by key out."""

    def __init__(self, mapper: Mapper, run: EventRun[Any], stages: MapperStages) -> None:
        self.mapper, self.run, self._stages = mapper, run, stages
        self._users = UserContributions.from_unit(run.statistic.unit) if run.statistic.bounds_users else None

    @property
    def tick(self) -> int:
        """Number of ticks so far."""
        return self.run.tick

    def step(self, columns: Mapping[str, Any], *, users: Any = None) -> Any:
        """Map the records of one tick, and return the release.

        Args:
            columns: One column for each parameter of the program.
            users: The user of each record, if users are the unit: the group to which all of its pairs belong.
        """
        vector = self.map_records(columns, users)
        found = self.run.statistic.select_first(self.run.feed_totals(vector[None], is_bounded=True))
        return self.select_keys(found) if self.mapper.level is not None else found

    def map_records(self, columns: Mapping[str, Any], users: Any = None) -> Ints:
        """Return the exact vector of one tick, (channels, keys). It is secret."""
        program, statistic = self.mapper.stages[0].program, self.run.statistic
        typed = {name: build_column(kind, columns[name]) for name, kind in program.columns}
        if len({len(column) for column in typed.values()}) > 1:
            raise ValueError("columns must have one item for every record, got different lengths")
        count = len(next(iter(typed.values())))
        admitted = self._admit_records(count, users)
        if admitted is not None:
            typed = {name: select_records(column, admitted) for name, column in typed.items()}
        pairs = self._stages.run(typed)
        values = np.ones(len(pairs.keys), np.bool_) if self.mapper.reducer in COUNTING else pairs.values
        totals = statistic.compute_totals(values, pairs.keys, len(self.mapper.keys))
        return totals.reshape(statistic.channels, len(self.mapper.keys))

    def _admit_records(self, count: int, users: Any) -> Ints | None:
        """Return the records that count, if units are bounded; None for all."""
        unit = self.run.statistic.unit
        if isinstance(unit, Tick):
            return np.arange(min(count, unit.max_events))
        if self._users is None:
            return None
        if users is None:
            raise ValueError("users must be given so that their contributions can be bounded, got None")
        names = to_column("users", users)
        if len(names) != count:
            raise ValueError("users must have one item for every record, got another length")
        return self._users.admit_events(names, self.run.tick + 1)

    def select_keys(self, found: Estimate) -> list[KeyEstimate]:
        """Return the keys whose noisy count reaches the level: post-processing, which costs nothing."""
        level = self.mapper.level
        values, spreads = found.value.reshape(-1).tolist(), np.broadcast_to(found.stddev, found.value.shape)
        rows = zip(self.mapper.keys, values, spreads.reshape(-1).tolist(), strict=True)
        return [KeyEstimate(key, value, spread) for key, value, spread in rows if level is not None and value >= level]


def select_records(column: RecordColumn, places: Ints) -> RecordColumn:
    if isinstance(column, TextColumn):
        return TextColumn.from_items([column.item(place) for place in places.tolist()])
    return column[places]
