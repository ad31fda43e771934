"""Columns of records as typed arrays, item by item: an item's value depends on no other item.

number, time    doubles; NaN is a missing value
bool            true or false; a missing value is false
text            bytes of UTF-8, cut off at MAX_TEXT_BYTES; a missing value is empty
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.mapreduce.program import MAX_TEXT_BYTES, Constant, ValueKind

Doubles = npt.NDArray[np.float64]
TypedArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Texts one after another: text i is data[ends[i]:ends[i + 1]]."""

    data: bytes
    ends: npt.NDArray[np.int64]  # from 0, one more than there are texts

    @classmethod
    def from_items(cls, items: list[Any]) -> "TextColumn":
        texts = [encode_text(item) for item in items]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return cls(b"".join(texts), np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def item(self, place: int) -> bytes:
        return self.data[self.ends[place] : self.ends[place + 1]]


RecordColumn = TypedArray | TextColumn


def encode_text(item: Any) -> bytes:
    """Return the bytes of a text, and none for anything else."""
    if isinstance(item, str):
        data = item.encode("utf-8", "replace")
        return data if len(data) <= MAX_TEXT_BYTES else data[:MAX_TEXT_BYTES]
    return item[:MAX_TEXT_BYTES] if isinstance(item, bytes) else b""


def build_column(kind: ValueKind, values: Any) -> RecordColumn:
    """Return a column of one kind. It never raises for an item, of any type."""
    if isinstance(values, TextColumn):
        return values
    items = np.ma.getdata(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    missing = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    if items.ndim != 1:
        raise ValueError(f"columns must be of one dimension, got {items.ndim}")
    if kind == "text":
        texts = items.tolist()
        if missing is not None:
            texts = [None if gone else text for text, gone in zip(texts, missing.tolist(), strict=True)]
        return TextColumn.from_items(texts)
    if kind == "time" and items.dtype.kind == "M":
        moments = items.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        numbers = np.where(np.isnat(items), np.nan, moments)
    elif items.dtype.kind in "biuf":
        numbers = items.astype(np.float64)
    else:
        numbers = np.fromiter(map(_to_number, items.tolist()), np.float64, len(items))
    if missing is not None:
        numbers = np.where(missing, np.nan, numbers)
    return (numbers == 1) if kind == "bool" else numbers


def _to_number(item: Any) -> float:
    if isinstance(item, bool | int | float):
        try:
            return float(item)
        except OverflowError:
            return float("inf") if item > 0 else float("-inf")
    return float("nan")


def read_record(columns: Mapping[str, RecordColumn], place: int) -> dict[str, Constant]:
    """Return one record, for the interpreter."""
    return {
        name: column.item(place) if isinstance(column, TextColumn) else column[place].item()
        for name, column in columns.items()
    }
