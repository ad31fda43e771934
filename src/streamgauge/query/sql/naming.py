"""Names of output columns: those that were given, or made from what is asked for; never two alike."""

import re
from collections.abc import Iterable

from sqlglot import exp

from streamgauge.query.query import Refused
from streamgauge.query.sql.nodes import Node

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
LONGEST = 48


def given(item: Node) -> str | None:
    """The alias of an item, if it has one."""
    name = item.alias
    if name and not NAME.fullmatch(name):
        raise Refused(f"a name must be letters, digits and _, at most 63 of them, got {name!r}")
    return name or None


def described(*parts: str) -> str:
    """A name from words.

    >>> described("avg", "temperature * 1.8")
    'avg_temperature_1_8'
    """
    words = re.sub(r"[^a-z0-9]+", "_", "_".join(parts).lower()).strip("_")[:LONGEST].rstrip("_")
    return words if NAME.fullmatch(words) else f"_{words}"


def of_group(node: Node) -> str:
    """The name of a column, or of a date part, or the words of an expression."""
    if isinstance(node, exp.Column):
        return node.name if NAME.fullmatch(node.name) else described(node.name)
    return described(words(node))


def words(node: Node) -> str:
    """An expression as it was asked for, in one spelling."""
    return node.sql(dialect="duckdb", comments=False)


def unique(names: Iterable[tuple[str, bool]]) -> list[str]:
    """All different: a made name takes a number, a given one must not be given twice."""
    pairs = list(names)
    taken = {name.lower() for name, is_given in pairs if is_given}
    if len(taken) != sum(is_given for _, is_given in pairs):
        raise Refused("output names must differ: give each column an AS name of its own")
    return [name if is_given else _free(name, taken) for name, is_given in pairs]


def _free(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free.lower())
    return free
