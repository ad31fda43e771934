"""Columns of all libraries give the same events, and domains encode declared labels only."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamgauge as sg
from streamgauge.noise import Grid
from streamgauge.statistics import Axis
from streamgauge.statistics.events import Domain, find_present, to_column, to_whole_numbers
from streamgauge.statistics.keys.ranking import to_plain_keys
from streamgauge.statistics.user_bounds import encode_users
from streamgauge.testing.noise import SilentNoise

NUMBERS: list[Any] = [1.5, None, 2.0, float("nan"), -4.25]
NAMES: list[Any] = ["north", "south", None, "west", "north"]


def categorical(items: list[Any]) -> Any:
    """Return a categorical column with all items as categories."""
    return pd.Series(items, dtype=pd.CategoricalDtype(list(dict.fromkeys([i for i in items if not pd.isna(i)]))))


MAKERS = {
    "list": list,
    "pandas": pd.Series,
    "pandas nullable": lambda items: pd.Series(items).convert_dtypes(),
    "polars": lambda items: pl.Series("c", items, strict=False),
    "arrow": pa.array,
    "arrow chunked": lambda items: pa.chunked_array([pa.array(items[:2]), pa.array(items[2:])]),
    "objects": lambda items: np.array(items, object),
    "pandas of a filtered frame": lambda items: pd.Series(items, index=range(5000, 5000 + len(items))).convert_dtypes(),
    "pandas turned round": lambda items: pd.Series(items, index=range(len(items))[::-1]).convert_dtypes(),
    "pandas categories": categorical,
    "pandas on arrow": lambda items: pd.Series(pa.array(items), dtype=pd.ArrowDtype(pa.array(items).type)),
    "arrow dictionary": lambda items: pa.array(items).dictionary_encode(),
    "arrow chunked dictionary": lambda items: pa.table({"x": pa.array(items).dictionary_encode()})["x"],
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_numbers_and_labels_of_every_library_are_the_same_events(maker: Any) -> None:
    claim = sg.statistics.Sum(sg.Pure(1), lower=-5, upper=5, step=0.25, horizon=4)
    run = claim.start(groups=["north", "south"], noise=SilentNoise())
    released = run.step(maker(NUMBERS), groups=maker(NAMES))
    assert released.value.tolist() == [1.5 - 4.25, 0.0]
    count = sg.statistics.Count(sg.Pure(1), horizon=4).start(noise=SilentNoise())
    assert count.step(maker(NUMBERS)).value.tolist() == [3.0]
    assert count.step(maker(NAMES)).value.tolist() == [7.0]


def test_categories_dictionaries_and_whole_numbers_with_nulls_are_read() -> None:
    domain = Domain(("north", "south"))
    expected = [0, 1, -1, -1, 0]
    assert domain.encode(pd.Series(NAMES, dtype="category")).tolist() == expected
    assert domain.encode(pa.array(NAMES).dictionary_encode()).tolist() == expected
    assert domain.encode(pl.Series(NAMES, dtype=pl.Categorical)).tolist() == expected
    years = Domain((2024, 2025))
    for made in (pd.Series([2025, None, 7], dtype="Int64"), pa.array([2025, None, 7]), pl.Series([2025, None, 7])):
        assert years.encode(made).tolist() == [1, -1, -1]


@given(st.lists(st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b"]), st.none(), st.booleans(), st.floats())))
def test_the_code_of_an_item_depends_on_that_item_alone(items: list[Any]) -> None:
    for labels in ((1, 2, -3), ("a", "b"), ("a", 1), (True, "b")):
        domain = Domain.from_labels("domain", labels)
        together = domain.encode(items)
        alone = [domain.encode([item])[0] for item in items]
        assert together.tolist() == alone


@given(st.lists(st.one_of(st.integers(), st.floats(), st.none(), st.text(max_size=2))))
def test_whole_numbers_are_read_item_by_item(items: list[Any]) -> None:
    numbers, there = to_whole_numbers(to_column("ticks", items))
    for item, number, ok in zip(items, numbers, there, strict=True):
        limit = 2**53 if isinstance(item, float) else 2**62
        whole = isinstance(item, int | float) and abs(item) < limit and item == int(item)
        assert ok == whole
        assert number == item or not whole


BASES: dict[str, list[Any]] = {
    "numbers and nulls": [3, None, 2**53 + 1, None, 3],
    "words and nulls": ["a", None, "b", None],
    "large floats": [2.0**60, 3.0, 2.0**53],
    "numbers": [3, 1, 2**53 + 1, 2**61, 3],
    "small numbers": [3, 1, 200, 3],
    "floats": [3.0, 1.0, 2.5, 3.0],
    "truth values": [True, False, True],
    "text": ["a", "b\0", "a"],
    "bytes": [b"a", b"b", b"a\0"],
}
JUNK: list[Any] = [None, float("nan"), 7, 1.5, True, "x", b"x", 2**70, -(2**63), "\ud800", [1], object()]


def read_alone(items: Any) -> list[Any]:
    """Return all readings of a column, item by item."""
    read = to_column("values", items)
    numbers, there = to_whole_numbers(read)
    codes, names = encode_users(read)
    return list(
        zip(
            np.where(there, numbers, -7).tolist(),
            Domain((1, 3, 2**53 + 1, 2**60)).encode(read).tolist(),
            Domain((2**60, "a")).encode(read).tolist(),
            Domain(("a", "b", True)).encode(read).tolist(),
            [names[code] if code >= 0 else None for code in codes],
            to_plain_keys(read).tolist(),
            Grid(0, 10, "1/2").integers(read).tolist(),
            Grid(0, 10, "1/2").find_present(read).tolist(),
            Axis(0, 10, 1).encode(read)[0].tolist(),
            find_present(read).tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("base", BASES)
def test_each_column_item_is_read_independently_of_others(base: str, maker: Any) -> None:
    """Every sensitivity depends on this: an added event changes no other."""
    items = BASES[base]
    alone = [read_alone([item])[0] for item in items]
    for junk in JUNK:
        try:
            made = maker([*items, junk])
        except Exception:
            continue  # this library has no such column
        if not changed_before(made, items):
            assert read_alone(made)[: len(items)] == alone, junk
    made = maker(items)
    assert changed_before(made, items) or read_alone(made) == alone


def changed_before(made: Any, items: list[Any]) -> bool:
    """Return True if the library itself changed the items, which cannot be undone."""
    rest = made.to_pylist() if hasattr(made, "to_pylist") else list(made)
    return not all(same_item(a, b) for a, b in zip(rest, items, strict=False))


def same_item(rest: Any, item: Any) -> bool:
    if item is None:
        return bool(pd.isna(rest))
    plain_rest = rest.item() if isinstance(rest, np.generic) else rest
    return plain_rest == item and (type(plain_rest) is type(item) or abs(item) < 2**53)


def test_labels_are_declared_plain_and_distinct() -> None:
    for labels, words in (
        ([], "groups must have at least one label, got none"),
        ("north", "groups must be a list of labels, in an order, got 'north'"),
        ([1.5], "groups must be text, whole numbers or truth values, got 1.5"),
        ([1, 1], "groups must be distinct, got 1 twice"),
        ({"a"}, "groups must be a list of labels, in an order, got {'a'}"),
        (3, "groups must be a list of labels, in an order, got 3"),
    ):
        with pytest.raises(ValueError, match="^" + words):
            Domain.from_labels("groups", labels)
    assert Domain.from_labels("groups", np.array([3, 1])).labels == (3, 1)
    for made in (pd.Series(["a", "b"]), pl.Series(["a", "b"]), pa.array(["a", "b"])):
        assert Domain.from_labels("groups", made).labels == ("a", "b")


def test_missing_items_are_not_counted() -> None:
    assert find_present(np.array(["2026-01-01", "NaT"], "datetime64[s]")).tolist() == [True, False]
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    assert find_present(to_column("values", masked)).tolist() == [True, False, True]
    with pytest.raises(ValueError, match=r"^values must be a column of one dimension, got 2$"):
        to_column("values", np.zeros((2, 2)))


NESTED: dict[str, Any] = {
    "arrow lists": lambda more: pa.array([[1, 2], [2], [1], *more]),
    "polars lists": lambda more: pl.Series([[1, 2], [2], [1], *more]),
    "arrow structs": lambda more: pa.array([{"a": 1}] * 3 + more),
    "polars arrays": lambda more: pl.Series([[1], [2], [1], *more], dtype=pl.Array(pl.Int64, 1)),
    "arrow runs": lambda more: pc.run_end_encode(pa.array([2**60, 2**60, 3, *more])),
    "times": lambda more: pd.Series(pd.to_datetime(["2020-01-01"] * 3 + more), dtype="timestamp[ns][pyarrow]"),
}


@pytest.mark.parametrize("maker", NESTED.values(), ids=NESTED.keys())
def test_columns_of_other_things_are_read_item_by_item_too(maker: Any) -> None:
    one, two = read_alone(maker([])), read_alone(maker([None]))
    assert two[:3] == one


def test_struct_columns_are_read_item_by_item() -> None:
    for extra in ([], [None]):
        series = pl.Series([{"a": 1}] * 3 + extra, dtype=pl.Struct({"a": pl.Int64}))
        assert find_present(to_column("values", series)).sum() == 3


def test_no_item_gives_a_warning() -> None:
    class Odd(float):
        pass

    class Giving:
        def __float__(self) -> float:
            return Odd(2)

    for item in (np.complex128(1 + 2j), 1 + 2j, Giving(), np.float16(2)):
        read_alone([item, 3])
    assert Grid(0, 9).find_present([np.complex128(1), Giving()]).tolist() == [False, True]
