"""Declared columns: from a raw field to what a query may compute with.

    text      at most 1024 characters; with `values`, NULL (or "other") unless declared; with `hashed`, a code
              (a report that is a vector of bits is left whole: its query looks at its length)
    number    a finite DOUBLE within its bounds; what cannot be read, and NaN, is NULL
    boolean   TRUE, FALSE or NULL
    time      what clocks in the stream's time zone show

Promise
    Total, and of one field alone. An infinity is clamped where there are bounds, NULL where there are none.
"""

from dataclasses import dataclass, replace

from streamgauge.engines import keyed_hash
from streamgauge.engines.quoting import double, name, text
from streamgauge.query import event_times as times
from streamgauge.query.measure import Measure
from streamgauge.query.query import GroupColumn
from streamgauge.query.raw_field import FIRST, LAST, Raw
from streamgauge.query.settings import Column, Stream

LONGEST_TEXT = 1024  # characters
OTHER = "other"
KINDS = {"number": "a number", "boolean": "true or false", "time": "a time"}


@dataclass(frozen=True)
class Typed:
    """How a column is read: first each raw field is `cast`, then the result is `finished`."""

    column: Column
    stream: Stream
    secret: bytes

    @property
    def declarations(self) -> list[str]:
        """SQL to run before the columns are read: a table of declared labels."""
        if not self.labelled:
            return []
        rows = ", ".join(f"({text(label)}, {code})" for code, label in enumerate(self.labels))
        made = f"CREATE TABLE {self._labels} (label VARCHAR, code INTEGER)"
        return [made, f"INSERT INTO {self._labels} VALUES {rows}"] if rows else [made]

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that were declared, each once."""
        return tuple(dict.fromkeys(str(label) for label in self.column.values or ()))

    @property
    def labelled(self) -> bool:
        """Whether texts are looked up among declared labels.

        By a join: a cast to ENUM takes its time over a text that it lacks, to look for similar ones.
        """
        return self.column.kind == "text" and self.column.hashed is None and self.column.values is not None

    @property
    def looked_up(self) -> tuple[str, str, str]:
        """SQL: a join with the labels, the label that was found, and its number."""
        own, label = name(self.column.name), f"{self._labels}.label"
        found = f"COALESCE({label}, {text(OTHER)})" if self.column.other else label
        code = f"{self._labels}.code AS {self.code}"
        return f"LEFT JOIN {self._labels} ON own.{own} = {label}", f"{found} AS {own}", code

    @property
    def code(self) -> str:
        """The column with the number of a label that was declared."""
        return name(f"$code of {self.column.name}")

    @property
    def valid(self) -> tuple[str, str] | None:
        """What a value must be to count as itself, in words, and SQL that is not NULL where it is."""
        column, own = self.column, name(self.column.name)
        if column.hashed is not None or column.report is not None:
            return None
        if column.values is not None:
            return f"a declared value of {column.name}", self.code if self.labelled else own
        return (f"{KINDS[column.kind]} in {column.name}", own) if column.kind in KINDS else None

    def numbers(self, group: GroupColumn) -> bool:
        """Whether a group's labels are the declared ones, by the same numbers."""
        mine = self.labelled and not self.column.other
        return mine and group.text == name(self.column.name) and group.labels == self.labels

    def cast(self, raw: Raw) -> str:
        kind = self.column.kind
        if kind == "number":
            return f"TRY_CAST({raw.number} AS DOUBLE)"
        if kind == "boolean":
            return f"TRY_CAST({raw.text} AS BOOLEAN)"
        if kind == "time":
            return times.microseconds(raw, self.stream, (FIRST, LAST))
        return self._text(raw.text)

    def finished(self) -> str:
        column, own = self.column, name(self.column.name)
        if column.kind == "time":
            return times.timestamp(own, self.stream.timezone, (FIRST, LAST))
        if column.kind == "number":
            return self._number(own)
        if column.kind == "boolean":
            return self._declared(own, [str(bool(label)).lower() for label in column.values or ()])
        return own

    def _text(self, value: str) -> str:
        column = self.column
        if column.hashed is not None:
            key = keyed_hash.key(self.secret, f"column {column.name}")
            return keyed_hash.code(key, value, column.hashed)
        return value if self.labelled or column.report is not None else f"left({value}, {LONGEST_TEXT})"

    def _number(self, own: str) -> str:
        if self.column.bounds is None:
            bounded = f"CASE WHEN isfinite({own}) THEN {own} END"
        else:
            low, high = (double(bound) for bound in self.column.bounds)
            bounded = (
                f"CASE WHEN {own} BETWEEN {low} AND {high} THEN {own} WHEN {own} < {low} THEN {low} "
                f"WHEN {own} > {high} AND NOT isnan({own}) THEN {high} END"
            )
        return self._declared(bounded, [double(float(label)) for label in self.column.values or ()])

    def _declared(self, value: str, labels: list[str]) -> str:
        if self.column.values is None:
            return value
        return f"CASE WHEN {value} IN ({', '.join(labels)}) THEN {value} END" if labels else "NULL"

    @property
    def _labels(self) -> str:
        return name(f"labels of {self.column.name}")


def coded(measure: Measure, columns: "list[Typed]") -> Measure:
    """The same measure; the number of a label that was looked up is not looked up again."""
    codes = {group: typed.code for group in measure.groups for typed in columns if typed.numbers(group)}
    groups = tuple(replace(group, code=codes.get(group, group.code)) for group in measure.groups)
    return replace(measure, groups=groups)
