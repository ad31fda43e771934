"""SQL of a release: a total dialect in which every aggregate has known bounds.

    query          a checked SELECT
    parser         from text to a checked query, also of reports and of discovered groups
    functions      aggregate functions by name
    dialect        the allow-list of nodes
    refusals       what to write instead of SQL that is refused
    scope          names of streams, lookups and columns
    reader         one rule per node, total arithmetic
    expressions    typed, bounded, total expressions
    conditions     three-valued conditions
    calendar       days, hours and other units of a stream
    grouping       GROUP BY and ROLLUP
    ranking        ORDER BY and LIMIT
    arguments      arguments of aggregate functions

Privacy
    A query maps an event by that event, the declarations and public tables alone. It cannot raise, loop, sleep,
    read, draw or depend on another event. The text of the query bounds the time that it needs for one event. A
    query is refused because of its text and of declarations alone.
"""

from typing import TYPE_CHECKING, Any

from streamgauge.config.errors import InvalidReleaseError

if TYPE_CHECKING:
    from streamgauge.sql.parser import parse

__all__ = ["InvalidReleaseError", "parse"]


def __getattr__(name: str) -> Any:
    """Import `parse`, and sqlglot with it, when it is first used."""
    if name != "parse":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streamgauge.sql.parser import parse

    return parse
