"""Neighbouring inputs of a pipeline file: the worst units, and hostile ones.

One real run without noise shows how far each candidate (see `inputs`) moves every release. The worst are attacked:

    alone           a unit and no other                 its events in the first ticks, one group, at bounds
    among others    the same before other people's      in a crowd, if groups are discovered
    in a balance    between as many at both ends        which one unit tips: of a median, for example
    varied          a unit in several groups            up to its bounds and beyond
    hostile         records that no honest unit sends   which must count as declared

    absent          a user in all ticks, and one who is not in a window of them, if contributions renew

A unit repeats one record, as often as it may or twice as often; or has different records in rotation; or has as many of
every label as one may have, which bounds must cut; or another label in every tick, in more ticks than are allowed.

A hostile unit sends numbers out of bounds or absurd, which must count as the bound, or the other end of all bounds;
undeclared or too long labels; fields that are null, missing or of another type; NaN; torn, empty or non-UTF-8 bytes; a
time before the stream, in the next century or after all others; no user; or twice as many events as allowed. Each must
count as its declarations say, or for nothing, and change nothing else that readers see.

The joint loss of several releases depends on their WHERE clauses, never on data:

    disjoint    WHERE region = 'a' and WHERE region = 'b': no event is in both
    alike       the same WHERE, or one and none: the event that moves one farthest moves the other as far
    unknown     anything else

Promise
    Disjoint releases are disjoint: each requires labels of a declared column that the other does not. Proof: a
    conjunction is true only if all its members are, and one record has one label in a column. Families of
    `list_families` are alike: any event of the WHERE counts in all of them, and if a part needs a number at its bound,
    no other part of the family needs another number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
from sqlglot import exp

from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.audit.pipeline.inputs import MAX_LABELS, InputRecord, InputRecords, find_kind, to_plain_number
from streamgauge.audit.subject import Pair
from streamgauge.config.settings import Stream
from streamgauge.noise.coerce import Floats
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import ReleasePlan
from streamgauge.privacy import Event, Tick, User
from streamgauge.sql.dialect import Node, parse_select
from streamgauge.sql.functions import load_functions


def build_unit(stream: Stream, line: InputRecord, ticks: int, *, exceed_bounds: bool = False) -> InputRecords:
    """Return the most that one unit does in the first ticks, or twice as much."""
    unit = stream.unit
    most = list_window(stream, ticks)[-1] if isinstance(unit, User) else unit.ticks
    first, last = (1, most) if exceed_bounds else (line.tick, min(ticks, line.tick + min(unit.ticks, most) - 1))
    times = unit.events * (2 if exceed_bounds else 1)
    return tuple(replace(line, tick=tick) for tick in range(first, last + 1) for _ in range(times))


def list_window(stream: Stream, ticks: int) -> range:
    """List the first ticks that one user may be in, all of them unless contributions renew."""
    per = stream.unit.per if isinstance(stream.unit, User) else None
    return range(1, min(ticks, per or ticks) + 1)


def list_absences(stream: Stream, line: InputRecord, ticks: int) -> Iterator[Pair]:
    """List pairs of a user in all ticks, and one who is absent from a window of them, if contributions renew."""
    unit = stream.unit
    if not isinstance(unit, User) or unit.per is None or unit.per >= ticks:
        return
    times = range(unit.events)
    whole = tuple(replace(line, tick=tick) for tick in range(1, ticks + 1) for _ in times)
    for first in range(1, ticks - unit.per + 2):
        rest = tuple(each for each in whole if not first <= each.tick < first + unit.per)
        yield Pair(f"a user who is absent from {unit.per} ticks from tick {first}", whole, rest)


def drop_own_ticks(stream: Stream, line: InputRecord, others: InputRecords) -> InputRecords:
    """Drop others from the ticks of a unit that is a whole tick: what counts of a tick depends on all of it."""
    own = {1, line.tick} if isinstance(stream.unit, Tick) else set()
    return tuple(each for each in others if each.tick not in own)


def vary_columns(line: InputRecord, lines: Sequence[InputRecord]) -> dict[str, list[InputRecord]]:
    """Return, by column, a record and others that differ from it there, with the values of candidates."""
    found = {}
    for place, (name, own) in enumerate(line.columns):
        values = [own, *(each.columns[place][1] for each in lines)]
        few = list({(type(value), value): value for value in values}.values())[:MAX_LABELS]
        found[name] = [replace_values(line, {name: value}) for value in few]
    return {name: each for name, each in found.items() if len(each) > 1}


def replace_values(line: InputRecord, changes: Mapping[str, Any]) -> InputRecord:
    """Return the record with other values in some of its columns."""
    return replace(line, columns=tuple((name, changes.get(name, value)) for name, value in line.columns))


def list_varied_units(
    stream: Stream, line: InputRecord, lines: Sequence[InputRecord], ticks: int
) -> Iterator[tuple[str, InputRecords]]:
    """List named units whose events differ; none if a unit is one event."""
    unit, kinds = stream.unit, vary_columns(line, lines)
    if not kinds or unit.ticks * unit.events == 1:
        return
    whole = build_unit(stream, line, ticks)
    turns = [line, *(each for some in kinds.values() for each in some[1:])]
    rotating = tuple(replace(turns[n % len(turns)], tick=each.tick) for n, each in enumerate(whole))
    yield f"{describe_unit(stream, InputRecord(1))} whose events differ", rotating
    if isinstance(unit, User):
        every, times = list_window(stream, ticks), range(unit.events)
        for name, some in kinds.items():
            each = tuple(replace(kind, tick=tick) for tick in every for kind in some for _ in times)
            yield f"a user with all that is allowed of each {name}", each
            other = tuple(replace(some[tick % len(some)], tick=tick) for tick in every for _ in times)
            yield f"a user with another {name} in each tick", other


def replace_bounded(stream: Stream, line: InputRecord, ranges: float | None) -> InputRecord:
    """Return the record with numbers so many ranges beyond their bounds, or at the other bound if that is None."""
    changes = {}
    for name, value in line.columns:
        if bounds := stream.columns[name].bounds if name in stream.columns else None:
            low, high = map(to_plain_number, bounds)
            near, far, sign = (high, low, 1) if value == high else (low, high, -1)
            changes[name] = far if ranges is None else near + sign * ranges * (high - low)
    return replace_values(line, changes)


def describe_unit(stream: Stream, line: InputRecord) -> str:
    """
    >>> from types import SimpleNamespace
    >>> describe_unit(SimpleNamespace(unit=User(2, 3)), InputRecord(1, (("region", "north"),)))
    'a user (2 a tick, 3 ticks) of region north'
    """
    unit = stream.unit
    what = "an event" if unit.ticks == unit.events == 1 else f"a unit ({unit.events} a tick, {unit.ticks} ticks)"
    what = what.replace("a unit", "a user") if isinstance(unit, User) else what
    carried = ", ".join(f"{name} {value}" for name, value in line.columns)
    return f"{what} of {carried}" if carried else what


FAR_RANGES, ABSURD_RANGES = 10.0, 1e290  # ranges beyond the bounds
CENTURY_MICROSECONDS = 36525 * 86_400_000_000  # microseconds
UNDECLARED_TEXT = "an undeclared label"
LONG_TEXT_REPEATS = 300  # times that: longer than any text that is kept
WRONG_TYPE_VALUE = ("another", "type")  # in JSON a list
MALFORMED_LINES = {
    "that is torn": b'{"torn": "',
    "that is empty": b"",
    "that is no text": b'{"torn\xff\xfe": "',
    "without any field": b"{}",
}


def list_hostile_pairs(stream: Stream, ticks: int, line: InputRecord, others: InputRecords) -> Iterator[Pair]:
    """List all pairs with one hostile unit; `line` is the worst record."""
    turned = replace_bounded(stream, line, None)
    if turned != line:
        yield Pair(f"{describe_unit(stream, turned)}, alone", build_unit(stream, turned, ticks), ())
        for what, ranges in (("out of bounds", FAR_RANGES), ("absurd", ABSURD_RANGES)):
            wild = replace_bounded(stream, line, ranges)
            yield Pair(f"a unit whose numbers are {what}", build_unit(stream, wild, ticks), ())
    for name, odd in list_odd_records(stream, line):
        yield Pair(f"a record {name}, before others", (odd, *others), others)
    yield Pair("a record after all others", (*others, replace(line, tick=1)), others)
    if isinstance(stream.unit, User | Tick):
        twice = build_unit(stream, line, ticks, exceed_bounds=True)
        who = "a user" if isinstance(stream.unit, User) else "a tick"
        yield Pair(f"{who} with twice as many events as allowed", twice, ())


def list_odd_records(stream: Stream, line: InputRecord) -> Iterator[tuple[str, InputRecord]]:
    """List named records that are not as declared; fewer of Parquet, whose columns have types."""
    columns = [stream.columns[name] for name, _ in line.columns]
    texts = [column.name for column in columns if column.kind == "text" and find_kind(column) != "hashed"]
    numbers = [name for name, _ in line.columns if stream.columns[name].kind == "number"]
    if texts:
        yield "of an undeclared label", replace_values(line, dict.fromkeys(texts, UNDECLARED_TEXT))
        long = UNDECLARED_TEXT * LONG_TEXT_REPEATS
        yield "of a label that is too long", replace_values(line, dict.fromkeys(texts, long))
    if line.columns:
        yield "whose fields are null", replace_values(line, dict.fromkeys(dict(line.columns)))
        yield "whose fields are missing", replace(line, columns=())
    if stream.user is not None:
        yield "without a user", replace(line, user=None)
    yield "from before the stream", replace(line, tick=0)
    yield "from the next century", replace(line, tick_fraction=CENTURY_MICROSECONDS / stream.tick)
    if stream.format == "parquet":
        return
    if line.columns:
        yield "of other types", replace_values(line, dict.fromkeys(dict(line.columns), WRONG_TYPE_VALUE))
    if numbers:
        yield "whose numbers are none", replace_values(line, dict.fromkeys(numbers, nan))
    yield from ((name, InputRecord(line.tick, raw=raw)) for name, raw in MALFORMED_LINES.items())


BALANCED_EVENTS = 20  # events of other people at each end of the bounds
LARGE_GROUP_EVENTS = 300  # events of other people in one group, if groups must be large to be published


def rank_candidates(worths: Sequence[Floats]) -> list[int]:
    """Rank candidates: those that move most releases first, then those that move them farthest.

    `worths` has an array for each release.
    """
    moves = sum((each > 0).astype(np.float64) for each in worths)
    share = sum(each / max(float(each.max()), 1e-300) for each in worths)
    joint = int(np.lexsort((-np.asarray(share), -np.asarray(moves)))[0])
    own = [int(np.argmax(each)) for each in worths if each[joint] == 0 < each.max()]
    return list(dict.fromkeys([joint, *own]))


def list_input_pairs(
    stream: Stream, ticks: int, lines: Sequence[InputRecord], ranked: Sequence[InputRecord], *, in_crowd: bool
) -> Iterator[Pair]:
    """List all pairs that are worth an attack, the worst first; `ranked` are the records that move most."""
    line = ranked[0]
    unit, others = build_unit(stream, line, ticks), drop_own_ticks(stream, line, build_crowd(ticks, lines, line))
    yield Pair(f"{describe_unit(stream, line)}, alone", unit, ())
    yield Pair(f"{describe_unit(stream, line)}, among others", unit + others, others)
    yield from list_absences(stream, line, ticks)
    turned = replace_bounded(stream, line, None)
    if turned != line and not isinstance(stream.unit, Tick):
        ends = tuple(replace(each, user=1 + n) for n in range(BALANCED_EVENTS) for each in (line, turned))
        yield Pair(f"{describe_unit(stream, line)}, in a balance", unit + ends, ends)
    if in_crowd and not isinstance(stream.unit, Tick):
        many = tuple(replace(line, user=1 + number) for number in range(LARGE_GROUP_EVENTS))
        yield Pair(f"{describe_unit(stream, line)}, in a crowd", unit + many, many)
    for own in ranked[1:]:
        yield Pair(f"{describe_unit(stream, own)}, alone", build_unit(stream, own, ticks), ())
    for name, mixed in list_varied_units(stream, line, lines, ticks):
        yield Pair(name, mixed, ())
    yield from list_hostile_pairs(stream, ticks, line, others)


def build_crowd(ticks: int, lines: Sequence[InputRecord], worst: InputRecord) -> InputRecords:
    """Return events of other people in every tick: like the worst record, and unlike."""
    kinds = [worst, lines[len(lines) // 3], lines[2 * len(lines) // 3]]
    every = range(1, ticks + 1)
    return tuple(replace(line, tick=tick, user=n) for tick in every for n, line in enumerate(kinds, 1))


PartLoss = tuple[ReleasePlan, CounterPart, WorstCase]  # a part of a release, and what it loses by itself
Labels = frozenset[str | Fraction]

MAX_DISJOINT_PAIRS = 64  # pairs of releases that are compared: beyond them all are added up
BOUND_AGGREGATES = ("sum", "mean", "variance", "stddev")  # that lose most to a number at its bound


def max_joint_loss(pieces: Sequence[PartLoss]) -> float:
    """Return the largest joint loss: the sum, but of disjoint releases only the largest."""
    costs: dict[str, float] = {}
    for plan, _, worst in pieces:
        costs[plan.name] = costs.get(plan.name, 0.0) + float(worst.amount)
    plans = {plan.name: plan for plan, _, _ in pieces}
    if any(plan.stream.unit != Event() for plan in plans.values()):
        return sum(costs.values())  # units of several events are here and there
    pairs = combinations(plans.values(), 2)
    labels = {plan.name: find_required_labels(plan) for plan in plans.values()}
    apart = {
        frozenset((one.name, other.name))
        for one, other in pairs
        if any(
            labels[one.name][column].isdisjoint(labels[other.name][column])
            for column in labels[one.name].keys() & labels[other.name].keys()
        )
    }
    return sum(costs.values()) if len(apart) > MAX_DISJOINT_PAIRS else _find_worst_set(list(costs), costs, apart)


def _find_worst_set(names: Sequence[str], costs: Mapping[str, float], apart: set[frozenset[str]]) -> float:
    """Return the largest cost of names of which no two are disjoint."""
    if not names:
        return 0.0
    first, rest = names[0], names[1:]
    others = [name for name in rest if frozenset((first, name)) not in apart]
    found = costs[first] + _find_worst_set(others, costs, apart)
    return found if len(others) == len(rest) else max(found, _find_worst_set(rest, costs, apart))


def find_required_labels(plan: ReleasePlan) -> dict[str, Labels]:
    """Return, by column, the labels of which an event must have one."""
    where = parse_select(plan.release.sql, load_functions(plan.stream.plugins)).args.get("where")
    found: dict[str, Labels] = {}
    for name, labels in _list_required_labels(where.this) if where is not None else ():
        if name in plan.stream.columns:
            found[name] = found.get(name, labels) & labels
    return found


def _list_required_labels(node: Node) -> Iterator[tuple[str, Labels]]:
    if isinstance(node, exp.And | exp.Paren):
        for part in (node.this, node.args.get("expression")):
            if part is not None:
                yield from _list_required_labels(part)
    elif isinstance(node, exp.EQ):
        yield from _match_labels(node.this, [node.expression])
        yield from _match_labels(node.expression, [node.this])
    elif isinstance(node, exp.In):
        yield from _match_labels(node.this, node.expressions)


def _match_labels(column: Node, labels: Sequence[Node]) -> Iterator[tuple[str, Labels]]:
    literals = [label for label in labels if isinstance(label, exp.Literal)]
    if isinstance(column, exp.Column) and literals and len(literals) == len(labels):
        yield (column.name, frozenset(each.this if each.is_string else Fraction(each.this) for each in literals))


def list_families(pieces: Sequence[PartLoss]) -> Iterator[list[WorstCase]]:
    """List losses of parts that one event surely moves at once, each as far as possible."""
    for where in dict.fromkeys(plan.query.where for plan, _, _ in pieces):
        yield [worst for plan, part, worst in pieces if _is_moved_by(plan, part, where)]
    yield from ([worst] for _, _, worst in pieces)


def _is_moved_by(plan: ReleasePlan, part: CounterPart, where: str | None) -> bool:
    """Return whether an event of this WHERE moves a part as far as any does: for plain columns alone."""
    own = [plan.query.aggregates[output.aggregate] for output in part.outputs]
    values = {each.value.sql: each.kind for each in own if each.value is not None}
    known = {f'"{name}"' for name in plan.stream.columns}
    if plan.query.where not in (None, where) or not values.keys() <= known:
        return False
    return plan.query.where == where or not any(
        kind in BOUND_AGGREGATES and column in (where or "") for column, kind in values.items()
    )
