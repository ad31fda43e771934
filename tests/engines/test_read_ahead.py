"""Reading one item ahead changes neither the items, nor their order, nor where a failure shows."""

from collections.abc import Iterator
from threading import enumerate as threads

import pytest

from streamgauge.engines.duckdb.readers import read_ahead


def test_items_come_in_order() -> None:
    assert list(read_ahead(range(100))) == list(range(100))
    assert list(read_ahead([])) == []


def test_a_failure_comes_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    items = read_ahead(failing())
    assert next(items) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)


def test_at_most_two_more_items_are_made_than_were_used() -> None:
    made: list[int] = []
    items = read_ahead(made.append(i) or i for i in range(100))
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    items.close()
    assert len(made) <= 6


def test_reader_that_stops_early_leaves_no_thread() -> None:
    before = set(threads())
    for _ in range(20):
        items = read_ahead(iter(range(1000)))
        next(items)
        items.close()
    assert set(threads()) <= before
