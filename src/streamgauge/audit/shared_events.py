"""Which releases of a file one event may move at once: by what their WHERE says, never by data.

    apart        WHERE region = 'a' and WHERE region = 'b': no event is in both
    alike        the same WHERE, or one beside none at all: who moves one farthest moves the other as far
    unknown      anything else

Promise
    What is said to be `apart` is: each side asks a declared column for labels that the other does not.
    Proof: a conjunction is true only where all its members are, and one record has one label in a column.
    `families` are alike: any event of the WHERE counts in all of them, and where a part needs a number at its
    bound, no other part of the family asks for another number.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from sqlglot import exp

from streamgauge.audit.exact import Worst
from streamgauge.privacy import Event
from streamgauge.query.parts import Part
from streamgauge.query.planner import Planned
from streamgauge.query.sql.dialect import read
from streamgauge.query.sql.nodes import Node

Piece = tuple[Planned, Part, Worst]  # a part of a release, and what it loses by itself
Labels = frozenset[str | Fraction]

MOST_APART = 64  # pairs of releases that are gone through: beyond them all are added up
AT_BOUNDS = ("sum", "mean", "variance", "stddev")  # that lose most to a number at its bound


def most_together(pieces: Sequence[Piece]) -> float:
    """What all pieces lose together at most: the sum, but of releases that are apart only the dearest."""
    costs: dict[str, float] = {}
    for plan, _, worst in pieces:
        costs[plan.name] = costs.get(plan.name, 0.0) + float(worst.amount)
    plans = {plan.name: plan for plan, _, _ in pieces}
    if any(plan.stream.unit != Event() for plan in plans.values()):
        return sum(costs.values())  # units of several events are here and there
    pairs = combinations(plans.values(), 2)
    apart = {frozenset((one.name, other.name)) for one, other in pairs if are_apart(one, other)}
    return sum(costs.values()) if len(apart) > MOST_APART else _dearest(list(costs), costs, apart)


def _dearest(names: Sequence[str], costs: Mapping[str, float], apart: set[frozenset[str]]) -> float:
    """The dearest set of names of which no two are apart."""
    if not names:
        return 0.0
    first, rest = names[0], names[1:]
    beside = [name for name in rest if frozenset((first, name)) not in apart]
    found = costs[first] + _dearest(beside, costs, apart)
    return found if len(beside) == len(rest) else max(found, _dearest(rest, costs, apart))


def are_apart(one: Planned, other: Planned) -> bool:
    """Whether no event can be in both releases."""
    here, there = labels_asked(one), labels_asked(other)
    return any(here[name].isdisjoint(there[name]) for name in here.keys() & there.keys())


def labels_asked(plan: Planned) -> dict[str, Labels]:
    """By column, the labels that an event must have one of."""
    where = read(plan.release.sql).args.get("where")
    found: dict[str, Labels] = {}
    for name, labels in _asked(where.this) if where is not None else ():
        if name in plan.stream.columns:
            found[name] = found.get(name, labels) & labels
    return found


def _asked(node: Node) -> Iterator[tuple[str, Labels]]:
    if isinstance(node, exp.And | exp.Paren):
        for part in (node.this, node.args.get("expression")):
            if part is not None:
                yield from _asked(part)
    elif isinstance(node, exp.EQ):
        yield from _labelled(node.this, [node.expression])
        yield from _labelled(node.expression, [node.this])
    elif isinstance(node, exp.In):
        yield from _labelled(node.this, node.expressions)


def _labelled(column: Node, labels: Sequence[Node]) -> Iterator[tuple[str, Labels]]:
    literals = [label for label in labels if isinstance(label, exp.Literal)]
    if isinstance(column, exp.Column) and literals and len(literals) == len(labels):
        yield (
            column.name,
            frozenset(each.this if each.is_string else Fraction(each.this) for each in literals),
        )


def families(pieces: Sequence[Piece]) -> Iterator[list[Worst]]:
    """What is lost by pieces that one event surely moves at once, as far as each can be moved."""
    for where in dict.fromkeys(plan.query.where for plan, _, _ in pieces):
        yield [worst for plan, part, worst in pieces if _goes_with(plan, part, where)]
    yield from ([worst] for _, _, worst in pieces)


def _goes_with(plan: Planned, part: Part, where: str | None) -> bool:
    """Whether an event of this WHERE moves a part as far as any does: parts of plain columns alone."""
    own = [plan.query.aggregates[output.aggregate] for output in part.outputs]
    values = {each.value.sql: each.kind for each in own if each.value is not None}
    known = {f'"{name}"' for name in plan.stream.columns}
    if plan.query.where not in (None, where) or not values.keys() <= known:
        return False
    return plan.query.where == where or not any(
        kind in AT_BOUNDS and column in (where or "") for column, kind in values.items()
    )
