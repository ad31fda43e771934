"""The one spelling of a query: how a release is told apart from another, and shown.

It is the parser's, and another version of the parser may have another. So what was pinned is spelled anew
before it is compared: a query that says the same is the same query.
"""

from sqlglot import exp

from streamgauge.query.sql.dialect import read


def spelling(select: exp.Select) -> str:
    return select.sql(dialect="duckdb", identify=True, comments=False)


def respelled(sql: str) -> str:
    """A query in the spelling of today's parser; as it was, if that cannot read it."""
    try:
        return spelling(read(sql))
    except Exception:
        return sql
