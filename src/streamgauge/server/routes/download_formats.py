"""Forms of a download: CSV in the wide or the long shape, and an Arrow stream.

A form has a header, blocks of rows, and an end. Together they are one file, for any blocks. The
columns follow from the declared shape and the selected measures. They do not depend on the selected groups,
nor on the rows of a block.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import numpy as np

from streamgauge.config.settings import Label
from streamgauge.optional import MissingPackageError, require_package
from streamgauge.releases import tables
from streamgauge.releases.release import Releases, TickRelease
from streamgauge.releases.schema import RANK_COLUMN, ReleaseSchema
from streamgauge.server.http.errors import HttpError
from streamgauge.sinks import CsvLines, WideCsv

LONG_LINE_END = b",\n"  # the end of a long line without a stamp, which no other field can end with
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of Arrow's IPC format


class DownloadFormat(Protocol):
    """A format of rows; `rows_each` is the number of rows for one tick and group."""

    header: bytes
    end: bytes
    rows_each: int

    def encode(self, items: Sequence[TickRelease]) -> bytes:
        """Return the rows of some ticks, or of a part of one tick."""
        ...


class WideCsvFormat:
    """A row for each tick and group, with a column for each group key."""

    end, rows_each = b"", 1

    def __init__(self, shape: ReleaseSchema, counts: Mapping[str, int]) -> None:
        self._lines = WideCsv([shape])
        self.header = self._lines.header

    def encode(self, items: Sequence[TickRelease]) -> bytes:
        return b"".join(map(self._lines.format_lines, items))


class LongCsvFormat:
    """A row for each tick, group and measure, with the group as JSON.

    The measures of a tick follow each other. If a tick is sent in parts, those of a part do.
    """

    end = b""

    def __init__(self, shape: ReleaseSchema, counts: Mapping[str, int]) -> None:
        self._lines, self.rows_each = CsvLines(), len(shape.measures)
        self.header = self._lines.header.replace(b",trace\n", b"\n")

    def encode(self, items: Sequence[TickRelease]) -> bytes:
        lines = b"".join(self._lines.format_lines(item, None) for item in items)
        return lines.replace(LONG_LINE_END, b"\n")


@cache
def load_arrow() -> Any:
    """Return pyarrow, with pandas loaded if it is installed: pyarrow imports it with its first array.

    Raises:
        HttpRefusal: pyarrow is not installed.
    """
    try:
        with require_package("pyarrow", "streamgauge[arrow]"):
            import pyarrow
    except MissingPackageError as missing:
        raise HttpError(406, "not_acceptable", str(missing)) from None
    pyarrow.array(np.zeros(1))
    return pyarrow


class ArrowFormat:
    """A record batch for each block, in the wide shape; the metadata of the schema has the counts.

    Libraries accept a stream that ends between two batches, with or without its end-of-stream mark.
    """

    end, rows_each = END_OF_STREAM, 1

    def __init__(self, shape: ReleaseSchema, counts: Mapping[str, int]) -> None:
        self._arrow, self._shape = load_arrow(), shape
        self._schema = self._build_schema().with_metadata({name: str(n) for name, n in counts.items()})
        self.header = self._schema.serialize().to_pybytes()

    def encode(self, items: Sequence[TickRelease]) -> bytes:
        releases = Releases.from_releases(items[0].shape, items)
        plain, labels = tables.build_columns(releases)
        places = np.concatenate(
            [np.arange(len(releases.shape.groups))[releases.find_group_positions(item)] for item in items]
        )
        if "level" not in self._shape.columns:
            plain["level"] = np.array([place.level for place in releases.shape.groups], np.int64)[places]
        columns = [self._build_column(field, plain, labels, len(places)) for field in self._schema]
        batch = self._arrow.RecordBatch.from_arrays(columns, schema=self._schema)
        return bytes(batch.serialize().to_pybytes())

    def _build_column(self, field: Any, plain: dict[str, Any], labels: dict[str, Any], count: int) -> Any:
        if field.name in plain:
            return self._arrow.array(plain[field.name], type=field.type, from_pandas=True)
        found: list[Label | None] = labels.get(field.name, [None] * count)
        if self._arrow.types.is_string(field.type):
            found = [label if label is None else str(label) for label in found]
        return self._arrow.array(found, type=field.type)

    def _build_schema(self) -> Any:
        pa, shape = self._arrow, self._shape
        moment = pa.timestamp("us", tz="UTC")
        kinds = {"tick": pa.int64(), "start": moment, "end": moment, "level": pa.int64(), RANK_COLUMN: pa.int64()}
        for name in shape.columns:
            known = tables.find_arrow_type(shape.find_label_type(name))
            kinds[name] = pa.array(shape.labels(name)).type if known is None else known
        reliable = {f"{measure}_reliable" for measure in shape.measures}
        return pa.schema(
            [(name, kinds.get(name, pa.bool_() if name in reliable else pa.float64())) for name in shape.wide_columns]
        )


DOWNLOAD_FORMATS: dict[tuple[str, str], Callable[[ReleaseSchema, Mapping[str, int]], DownloadFormat]] = {
    ("csv", "wide"): WideCsvFormat,
    ("csv", "long"): LongCsvFormat,
    ("arrow", "wide"): ArrowFormat,
}


def build_format(
    name: str, layout: str, shape: ReleaseSchema, measures: Sequence[str], counts: Mapping[str, int]
) -> DownloadFormat:
    """Return the format of a download.

    The columns are those of the selected measures, or of all if none is named. `counts` go to clients that can
    read them.
    """
    own = tuple(measure for measure in shape.measures if not measures or measure in measures)
    declared = shape if own == shape.measures else replace(shape, measures=own)
    return DOWNLOAD_FORMATS[name, layout](declared, counts)
