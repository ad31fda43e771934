"""Releases with discovered groups: packed with labels, unpacked bit for bit, joined."""

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.releases import codec as packed
from streamgauge.releases.release import Releases, ReleaseSchema, TickRelease
from streamgauge.sql import parse
from tests.support.sql_clinic import STREAM

FOUND = ReleaseSchema("words", ("count",), (), "word")
HOUR = 3600 * 10**6


def released(labels: list[str], tick: int = 1, shape: ReleaseSchema = FOUND) -> TickRelease:
    value = np.arange(len(labels), dtype=float)[None] + tick
    own = shape.with_groups(labels)
    return TickRelease(own, tick, HOUR * (tick - 1), HOUR * tick, value, value, value - 1, value + 1, value > 0)


@given(st.lists(st.text(max_size=9), unique=True, max_size=9), st.integers(1, 10**6))
def test_packed_release_with_labels_unpacks_bit_for_bit(labels: list[str], tick: int) -> None:
    one = released(labels, tick)
    two = TickRelease.unpack(FOUND, one.pack())
    assert two.shape == one.shape
    assert two.pack() == one.pack()
    assert [place.labels for place in two.shape.groups] == [(("word", label),) for label in labels]


def test_torn_altered_or_foreign_bytes_are_refused() -> None:
    data = released(["tea", "milk"]).pack()
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(InvalidSaveError):
            TickRelease.unpack(FOUND, changed)
        with pytest.raises(InvalidSaveError):
            TickRelease.unpack(FOUND, data[:place])
    for other in (ReleaseSchema("word", ("count",), (), "word"), ReleaseSchema("words", ("count",), (), "name")):
        with pytest.raises(InvalidSaveError, match="got another shape"):
            TickRelease.unpack(other, data)
    with pytest.raises(InvalidSaveError, match="must be of version 1, got 2"):
        TickRelease.unpack(ReleaseSchema("words", ("count",), ()), data)
    with pytest.raises(InvalidSaveError, match="must be of version 2, got 1"):
        TickRelease.unpack(
            FOUND, TickRelease(ReleaseSchema("words", ("count",), ()), 1, 0, 1, *[np.zeros((1, 0))] * 5).pack()
        )


def test_malformed_labels_are_refused() -> None:
    """The checksum matches, so only the label check refuses them."""
    body = released(["tea"]).pack()[: -packed.CHECKSUM.size].replace(b'["tea"]', b'["tea",')
    with pytest.raises(InvalidSaveError, match="got others"):
        TickRelease.unpack(FOUND, body + packed.CHECKSUM.pack(zlib.crc32(body)))


def test_releases_have_all_groups_in_order_of_discovery() -> None:
    some = [released([], 1), released(["tea"], 2), released(["milk", "tea"], 3), released(["milk"], 4)]
    joined = Releases.from_releases(FOUND, some)
    assert [place.labels[0][1] for place in joined.shape.groups] == ["tea", "milk"]
    values = joined.values("count")
    np.testing.assert_array_equal(values, [[np.nan, np.nan], [2, np.nan], [4, 3], [np.nan, 4]])
    table = joined.to_pandas()
    assert list(zip(table["tick"], table["word"], table["count"], strict=True)) == [
        (2, "tea", 2.0),
        (3, "milk", 3.0),
        (3, "tea", 4.0),
        (4, "milk", 4.0),
    ]
    assert joined.to_polars()["word"].to_list() == table["word"].tolist()
    assert str(Releases.from_releases(FOUND, some[:1]).to_arrow().schema.field("word").type) == "string"


def test_column_named_like_a_field_is_refused() -> None:
    with pytest.raises(ValueError, match="must have different names, got 'tick' twice"):
        ReleaseSchema("words", ("count",), (), "tick")


@pytest.mark.parametrize(
    ("sql", "name", "measure"),
    [
        ("SELECT town, COUNT(*) FROM visits GROUP BY town", "town", "count"),
        ("SELECT town AS place, COUNT(*) AS n FROM visits GROUP BY place", "place", "n"),
        ("SELECT COUNT(*) FROM visits AS v WHERE age > 3 GROUP BY v.town", "town", "count"),
        ("SELECT COUNT(*), town FROM visits GROUP BY 2", "town", "count"),
    ],
)
def test_discovered_column_can_be_given_by_any_name(sql: str, name: str, measure: str) -> None:
    query = parse(sql, STREAM, {})
    assert query.key is not None
    assert (query.key.name, query.key.sql, query.key.max_groups) == (name, '"town"', 100)
    assert (query.groups, query.levels, [a.name for a in query.aggregates]) == ((), (1,), [measure])
    assert "town" in query.columns


def test_discoverable_column_outside_group_by_is_a_text() -> None:
    query = parse("SELECT region, COUNT(*) FROM visits WHERE town = 'x' GROUP BY region", STREAM, {})
    assert query.key is None
    assert [group.name for group in query.groups] == ["region"]


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT town, region, COUNT(*) FROM visits GROUP BY town, region", "GROUP BY town must stand alone"),
        ("SELECT COUNT(*) FROM visits GROUP BY region, ROLLUP (town)", "GROUP BY town must stand alone"),
        ("SELECT town, COUNT(DISTINCT patient) FROM visits GROUP BY town", "takes one COUNT"),
        ("SELECT town, MAX(age) FROM visits GROUP BY town", "takes one COUNT"),
        ("SELECT COUNT(*) FROM visits GROUP BY COALESCE(town, 'x')", "must be the column town itself"),
        ("SELECT COUNT(*) FROM visits GROUP BY note", "declare its values, values = .*, or max_groups"),
    ],
)
def test_unsupported_discovery_queries_are_refused_with_advice(sql: str, rule: str) -> None:
    with pytest.raises(InvalidReleaseError, match=rule) as refusal:
        parse(sql, STREAM, {})
    assert "\n" not in str(refusal.value)


def test_a_twin_that_packs_no_labels_is_caught(monkeypatch: Any) -> None:
    monkeypatch.setattr(packed, "_pack_labels", lambda shape: packed.LENGTH.pack(2) + b"[]")
    with pytest.raises(InvalidSaveError):
        TickRelease.unpack(FOUND, released(["tea"]).pack())
