"""ORDER BY and LIMIT: the largest groups by a count or a sum, and refusals that say what to write instead."""

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql import parse
from streamgauge.sql.query import TopGroups
from streamgauge.sql.reader import normalize_query
from tests.support.sql_clinic import LOOKUPS, STREAM

BY_REGION = "SELECT region, COUNT(*), SUM(age) AS years, AVG(age) FROM visits GROUP BY region "
RANKED = {
    "ORDER BY COUNT(*) DESC LIMIT 3": TopGroups(0, 3),
    "order by count( * ) desc nulls last limit 3": TopGroups(0, 3),
    "ORDER BY (COUNT(*)) DESC": TopGroups(0, None),
    "ORDER BY 2 DESC LIMIT 1": TopGroups(0, 1),
    "ORDER BY 3 DESC LIMIT 1000000": TopGroups(1, 1_000_000),
    "ORDER BY count DESC LIMIT 2": TopGroups(0, 2),
    "ORDER BY YEARS DESC LIMIT 2": TopGroups(1, 2),
    "ORDER BY SUM(age) DESC": TopGroups(1, None),
}
REFUSED = {
    "LIMIT 3": "LIMIT must have ORDER BY, as in ORDER BY COUNT[(][*][)] DESC LIMIT 10; without LIMIT every group",
    "ORDER BY COUNT(*) LIMIT 3": "must be descending, as in ORDER BY COUNT[(][*][)] DESC: noise hides the smallest",
    "ORDER BY years ASC": "ORDER BY must be descending, as in ORDER BY years DESC",
    "ORDER BY region": "in SELECT, as in ORDER BY .* LIMIT 10, got region: groups come in the order they were decl",
    "ORDER BY 1 DESC": "must be of a count or sum in SELECT, as in .*, got 1",
    "ORDER BY 9 DESC": "ORDER BY 9 must be a position in SELECT, 1 to 4",
    "ORDER BY 0 DESC": "ORDER BY 0 must be a position in SELECT, 1 to 4",
    "ORDER BY SUM(raw) DESC": "must be of a count or sum in SELECT, as in .*, got SUM[(]raw[)]: SELECT it too",
    "ORDER BY COUNT(*) + 1 DESC": "must be of a count or sum in SELECT",
    "ORDER BY AVG(age) DESC LIMIT 3": "must be of a count or sum, got AVG[(]age[)], which is mostly noise where",
    "ORDER BY COUNT(*) DESC, region LIMIT 3": "of one count or sum: .*, so leave region out",
    "ORDER BY ALL": "must be of a count or sum in SELECT|VAR is not in|got ALL",
    "ORDER BY COUNT(*) DESC LIMIT 0": "LIMIT must be a whole number of groups from 1 to 1,000,000, got 0",
    "ORDER BY COUNT(*) DESC LIMIT 1000001": "LIMIT must be a whole number of groups",
    "ORDER BY COUNT(*) DESC LIMIT -1": "LIMIT must be a whole number of groups from 1 to 1,000,000, got -1",
    "ORDER BY COUNT(*) DESC LIMIT 2 + 1": "LIMIT must be a whole number of groups",
    "ORDER BY COUNT(*) DESC LIMIT 1.5": "LIMIT must be a whole number of groups",
    "ORDER BY COUNT(*) DESC LIMIT '3'": "LIMIT must be a whole number of groups",
    "ORDER BY COUNT(*) DESC LIMIT 10%": "LIMIT must be a whole number of groups",
    "ORDER BY COUNT(*) DESC LIMIT 3 OFFSET 2": "OFFSET is refused: take LIMIT for all ranks that you need",
    "ORDER BY COUNT(*) DESC FETCH FIRST 3 ROWS ONLY": "FETCH is refused: write LIMIT",
    "ORDER BY COUNT(*) DESC FETCH FIRST 3 ROWS WITH TIES": "FETCH is refused: write LIMIT",
}
UNRANKABLE = {
    "SELECT COUNT(*) FROM visits ORDER BY COUNT(*) DESC": "ORDER BY must have GROUP BY",
    "SELECT region, ward, COUNT(*) FROM visits GROUP BY ROLLUP (region, ward) ORDER BY 3 DESC": "without ROLLUP",
    "SELECT COUNT(age ORDER BY age) FROM visits": "ORDER BY in an aggregate is refused",
    "SELECT region FROM visits GROUP BY region ORDER BY COUNT(*) DESC LIMIT 3": "must have 1 to 64 aggregates",
}


@pytest.mark.parametrize("order", RANKED)
def test_count_or_sum_ranks_by_expression_position_or_name(order: str) -> None:
    query = parse(BY_REGION + order, STREAM, LOOKUPS)
    assert query.top == RANKED[order]
    assert parse(query.text, STREAM, LOOKUPS).top == RANKED[order]
    assert normalize_query(query.text) == query.text


@pytest.mark.parametrize("order", REFUSED)
def test_other_orders_are_refused_with_what_to_write(order: str) -> None:
    with pytest.raises(InvalidReleaseError, match=REFUSED[order]):
        parse(BY_REGION + order, STREAM, LOOKUPS)


@pytest.mark.parametrize("sql", UNRANKABLE)
def test_queries_without_rankable_groups_are_refused(sql: str) -> None:
    with pytest.raises(InvalidReleaseError, match=UNRANKABLE[sql]):
        parse(sql, STREAM, LOOKUPS)


def test_ranked_query_is_the_plain_one_with_a_ranking() -> None:
    plain, ranked = (parse(BY_REGION + more, STREAM, LOOKUPS) for more in ("", "ORDER BY 2 DESC LIMIT 2"))
    for name in ("groups", "levels", "aggregates", "where", "columns", "lookups", "key"):
        assert getattr(plain, name) == getattr(ranked, name)
    assert plain.top is None


def test_discovered_groups_are_ranked_with_one_count() -> None:
    query = parse("SELECT town, COUNT(*) FROM visits GROUP BY town ORDER BY 2 DESC LIMIT 5", STREAM, LOOKUPS)
    assert query.key is not None
    assert query.top == TopGroups(0, 5)
