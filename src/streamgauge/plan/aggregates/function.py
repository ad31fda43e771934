"""Aggregate function: everything that the planner needs of it.

    SELECT SUM(x)  ->  read       Aggregate: a bounded expression and its constants
                       find_run   aggregates with equal keys share one run
                       build      PartDraft: statistic, sums of the engine, prediction

No code outside an aggregate's module compares its name.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from streamgauge.adaptive import AdaptiveMechanism
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Release, Stream
from streamgauge.plan.aggregates.prediction import Predict, predict_counter
from streamgauge.plan.measure import Cell, GridValue
from streamgauge.privacy import Loss, Unit
from streamgauge.sql.dialect import Node
from streamgauge.sql.expressions import quote_identifier
from streamgauge.sql.query import Aggregate, Value
from streamgauge.sql.reader import ExpressionReader
from streamgauge.statistics.estimate import name_window
from streamgauge.statistics.mechanism_config import MechanismSpec

LEAVE_OUT_HINT = "leave mechanism out"
AdaptiveClaim = type[AdaptiveMechanism[Any]]


@dataclass(frozen=True)
class Output:
    """Column of a part's release that answers an aggregate."""

    aggregate: int  # its index in the SELECT
    column: str  # its name in the part's release


@dataclass(frozen=True)
class PartSettings:
    """Settings that all parts of a release share."""

    loss: Loss
    horizon: int | None
    window: str
    mechanism: MechanismSpec
    unit: Unit
    width: int  # groups of its level
    expected: Fraction | None = None  # events of one of them in a tick
    is_pan_private: bool = False  # true if no exact value may stay in memory
    shorter_windows: tuple[int, ...] = ()  # ticks
    groups_per_event: int = 1  # more for the pairs of a mapper

    def to_settings(self) -> dict[str, Any]:
        private: dict[str, Any] = {"pan_private": True, "open_ticks": True} if self.is_pan_private else {}
        private |= {"shorter_windows": self.shorter_windows} if self.shorter_windows else {}
        private |= {"groups_per_event": self.groups_per_event} if self.groups_per_event > 1 else {}
        return private | {name: getattr(self, name) for name in ("horizon", "window", "mechanism", "unit")}


@dataclass(frozen=True)
class AggregateGroup:
    """Aggregates of a SELECT that one run answers, with their indices."""

    members: tuple[tuple[int, Aggregate], ...]

    @property
    def function(self) -> "AggregateFunction":
        """Function that builds the run."""
        function: AggregateFunction = self.members[0][1].function
        return function

    @property
    def aggregates(self) -> list[Aggregate]:
        return [aggregate for _, aggregate in self.members]

    @property
    def value(self) -> Value:
        """Expression of the first aggregate."""
        value = self.members[0][1].value
        if value is None:
            raise InvalidReleaseError("an aggregate must have an expression, got none")
        return value

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(aggregate.kind for aggregate in self.aggregates)

    def read_off(self, column: str) -> tuple[Output, ...]:
        """Return outputs that all show one column, or the column of their window."""
        return tuple(
            Output(place, name_window(aggregate.window) if aggregate.window else column)
            for place, aggregate in self.members
        )


@dataclass(frozen=True)
class PartDraft:
    """One run: a statistic, the sums that it needs of the engine, and its outputs."""

    statistic: Any  # a `Statistic`, or a table of users
    outputs: tuple[Output, ...]
    values: tuple[GridValue, ...] = ()
    cell: Cell | None = None
    predict: Predict = predict_counter
    is_code_count: bool = False  # true if the cells that occur are counted, not their events


def weight_sql(stream: Stream) -> str | None:
    """Return SQL of the weight of an event, 1, -1 or NULL; None if every event counts once."""
    return None if stream.weight is None else quote_identifier(stream.weight)


def find_own_run(aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> Hashable:
    """Return a key that aggregates of one function over one argument share."""
    argument = aggregate.codes or aggregate.value
    return aggregate.function.names, argument and argument.sql, aggregate.arguments


def reject_adaptive(group: AggregateGroup, release: Release, claim: AdaptiveClaim) -> None:
    """Reject every mechanism that adapts to its data."""
    names = " and ".join(dict.fromkeys(aggregate.kind.upper() for aggregate in group.aggregates))
    raise InvalidReleaseError(f"{names} cannot use {release.mechanism}: {LEAVE_OUT_HINT}")


@dataclass(frozen=True, eq=False)
class AggregateFunction:
    """Aggregate function of SQL."""

    names: tuple[str, ...]  # in lower case
    read: Callable[[Node, ExpressionReader], Aggregate]  # rejects arguments that have no bounds
    build: Callable[[AggregateGroup, PartSettings, Stream], PartDraft]
    find_run: Callable[[Aggregate, Sequence[Aggregate]], Hashable] = find_own_run
    check_adaptive: Callable[[AggregateGroup, Release, AdaptiveClaim], None] = reject_adaptive
    parts: frozenset[str] = frozenset({"this"})  # of a call, if the parser knows the name
    reads_events: bool = True  # False if only tables of users answer it
    window_kinds: frozenset[str] = frozenset()  # of aggregates that one run answers for several sliding windows
    count_kinds: frozenset[str] = frozenset()  # of aggregates that count, and so are not negative
    additive_kinds: frozenset[str] = frozenset()  # of aggregates whose groups add up to the group above
    reads_weights: bool = False  # True if it says what an event that is taken back means
    user_column: str | None = None  # the column of a table of users that answers it, if one does
