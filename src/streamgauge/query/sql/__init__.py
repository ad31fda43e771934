"""The SQL of a release: a dialect in which nothing can fail, and every aggregate has known bounds.

    read (an allow-list of nodes) -> expressions (typed, bounded, total) -> groups and aggregates

Privacy
    What a query does with an event is a function of that event, of the declarations and of public tables.
    It cannot raise, loop, sleep, read, draw or depend on another event, and the time it takes for one event
    is bounded by the text of the query. Whether a query is refused depends on its text and on declarations.
"""

from streamgauge.query.query import Refused
from streamgauge.query.sql.select import parse

__all__ = ["Refused", "parse"]
