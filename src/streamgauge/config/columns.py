"""[stream.columns]: the readable fields of an event, and their public values.

    region = { values = ["north", "south"], other = true }    all possible groups
    temperature = { bounds = [35.0, 42.0], grid = 0.1 }        numbers, clamped
    sensor = { hash_cells = 65536, expected_distinct = 4000 }      any text, as a keyed hash
    diagnosis = { max_groups = 1000 }                          groups that are discovered, for a delta
    note = { type = "text" }                                   read by expressions only
    door = { values = ["a", "b"], max_changes = 4 }            values that leave, under `[stream] weight`
    emoji = { report = "LocalHashing", ... }                   private already: see below

Each column is declared in one of these forms. `type` may be repeated if it follows from the rest.

**Columns of reports.** They contain codes or vectors that devices made private before sending.

    emoji = { report = "HadamardCountMeanSketch", epsilon = 2, values = ["a", "b"], hashes = 1024,
              width = 1024, seed = 7, on_repeat = "charge", reports_per_user = 30 }

    report                                     values                          besides
    HadamardCountMeanSketch, LocalHashing,     the estimated values; a device  hashes, width, seed
    CountMeanSketch                            may report anything
    RandomisedResponse, HadamardResponse,      all values that a device may
    UnaryEncoding                              report

Reports of CountMeanSketch and UnaryEncoding are vectors of bits, which records contain as text
(`records.reports`). Those of the others are whole numbers.

`on_repeat` says how a device reports again. Either it sends its first report, even if its answer has changed
("repeat"), or it draws again and is charged again ("charge"). `reports_per_user` bounds how often a device reports,
once a tick. A new draw costs again. A repeated report has the same noise again, so error bars
are wider. Devices enforce the bound: the server cannot know it.

Privacy
    Local: one report loses `epsilon` to any recipient. A user loses `user_loss` in all.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from streamgauge import localdp
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.rules import (
    COLUMN,
    EPSILON,
    MAX_COUNT,
    NUMBER,
    SWITCH,
    build_choice_rule,
    build_int_rule,
    is_line,
    parse_label_number,
)
from streamgauge.config.settings import Column, Kind
from streamgauge.config.toml_table import Rule, TomlTable, build_rule_error, format_value, join_key
from streamgauge.noise import Grid
from streamgauge.privacy import Pure

REPORT_KEY = "report"
HASHED_PROTOCOLS = ("HadamardCountMeanSketch", "LocalHashing", "CountMeanSketch")
LISTED_PROTOCOLS = ("RandomisedResponse", "HadamardResponse", "UnaryEncoding")
VECTOR_PROTOCOLS = ("CountMeanSketch", "UnaryEncoding")
SETTING_KEYS = ("hashes", "width", "seed")
REPORT_KEYS = (REPORT_KEY, "epsilon", *SETTING_KEYS, "on_repeat", "reports_per_user")
PROTOCOL_RULE = build_choice_rule(*HASHED_PROTOCOLS, *LISTED_PROTOCOLS)
ON_REPEAT_RULE: Rule[Literal["repeat", "charge"]] = build_choice_rule("repeat", "charge")
MAX_REPORT_VALUES = 10**5
MAX_CODES = 2**28
MAX_TABLE_CELLS = 2**27  # of a table
MAX_VECTOR_BITS = 2**16  # of a vector
MAX_SEED = 2**53 - 1


@dataclass(frozen=True)
class ReportColumn:
    """Column that devices have made private."""

    protocol: str
    epsilon: Fraction
    _: KW_ONLY
    values: tuple[str | int, ...]
    on_repeat: Literal["repeat", "charge"]
    reports_per_user: int
    hashes: int | None = None
    width: int | None = None
    seed: int | None = None

    @cached_property
    def mechanism(self) -> Any:
        """Mechanism of the devices, by which collectors count."""
        given = {"items": self.values} if self.protocol in LISTED_PROTOCOLS else self.settings
        return getattr(localdp, self.protocol)(self.loss, **given)

    @property
    def is_vector(self) -> bool:
        """True if a report is a vector of bits, written as text."""
        return self.protocol in VECTOR_PROTOCOLS

    @property
    def settings(self) -> dict[str, int]:
        found = {name: getattr(self, name) for name in SETTING_KEYS}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def loss(self) -> Pure:
        """Loss of one report."""
        return Pure(self.epsilon)

    @property
    def user_loss(self) -> Pure:
        """Loss of all reports of one user."""
        return self.loss.group(self.reports_per_user if self.on_repeat == "charge" else 1)

    def max_copies(self, ticks: int | None) -> int:
        """Return the maximum copies of one report in a window of `ticks` ticks.

        None means all ticks.
        """
        if self.on_repeat == "charge":
            return 1
        return self.reports_per_user if ticks is None else min(ticks, self.reports_per_user)

    @property
    def with_default_settings(self) -> "ReportColumn":
        """Same column with the protocol's defaults for undeclared settings.

        Pinned settings must not change with the defaults of a later version.
        """
        settings = SETTING_KEYS if self.protocol in HASHED_PROTOCOLS else ()
        return replace(self, **{name: getattr(self.mechanism, name) for name in settings})

    def to_json(self) -> dict[str, Any]:
        """Return its settings, without those that its protocol does not have."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        same = "" if self.on_repeat == "charge" else ", always the same"
        often = f"reports at most {format_times(self.reports_per_user)}{same}"
        one, all_of_them = float(self.epsilon), float(self.user_loss.epsilon)
        return f"epsilon {one:.4g} a report, {all_of_them:.4g} a user who {often}"


def format_times(times: int) -> str:
    return "once" if times == 1 else f"{times:,} times"


def parse_report_column(name: str, table: TomlTable) -> Column:
    """Return the column that a table declares."""
    protocol = table.get_required(REPORT_KEY, PROTOCOL_RULE)
    for key in table:
        if key not in (*REPORT_KEYS, "values") or (protocol in LISTED_PROTOCOLS and key in SETTING_KEYS):
            raise table.build_error(key, f"left out for {protocol}", got="one")
    report = ReportColumn(
        protocol,
        table.get_required("epsilon", EPSILON),
        values=_parse_values(table),
        on_repeat=table.get_required("on_repeat", ON_REPEAT_RULE),
        hashes=table.get_optional("hashes", build_int_rule(maximum=MAX_CODES)),
        width=table.get_optional("width", build_int_rule(2, MAX_CODES)),
        seed=table.get_optional("seed", build_int_rule(0, MAX_SEED)),
        reports_per_user=table.get_required("reports_per_user", build_int_rule()),
    )
    _check_report(table, report)
    return Column(name, "text" if report.is_vector else "number", report=report.with_default_settings)


def _parse_values(table: TomlTable) -> tuple[str | int, ...]:
    given = table.get_array("values", "values")
    texts = all(is_line(value) for value in given)
    numbers = all(type(value) is int and abs(value) < 2**53 for value in given)
    if not (texts or numbers) or not 0 < len(given) <= MAX_REPORT_VALUES:
        raise table.build_error("values", "an array of 1 to 10^5 values, all text (in one line) or whole numbers")
    value, times = Counter(given).most_common(1)[0]
    if times > 1:
        raise table.build_error("values", "different from each other", got=f"{format_value(value)} twice")
    return tuple(given)


def _check_report(table: TomlTable, report: ReportColumn) -> None:
    """Reject settings that the protocol refuses, with its message.

    The message leaves out numbers that are not settings of the file.
    """
    try:
        claim = report.mechanism
    except ValueError as refusal:
        raise PipelineFileError(f"{table.path}: {refusal}") from None
    if report.is_vector:
        _check_vector(table, report)
    elif claim.codes > MAX_CODES:
        rule = f"{table.path} must have hashes x width of at most 2^27"
        raise PipelineFileError(f"{rule}, got {claim.codes} codes of reports")


def _check_vector(table: TomlTable, report: ReportColumn) -> None:
    key = "values" if report.protocol in LISTED_PROTOCOLS else "width"
    bits = len(report.values) if key == "values" else report.mechanism.width
    if bits > MAX_VECTOR_BITS:
        rule = f"at most {MAX_VECTOR_BITS}, the bits of a report of {report.protocol}"
        raise table.build_error(key, rule, got=str(bits))
    if key == "width" and report.mechanism.hashes * bits > MAX_TABLE_CELLS:
        rule = f"{table.path} must have hashes x width of at most 2^27"
        raise PipelineFileError(f"{rule}, got {report.mechanism.hashes} x {bits}")


COLUMN_KEYS = (
    *("values", "other", "bounds", "grid", "type", "hash_cells", "expected_distinct", "max_groups"),
    "max_changes",
    *REPORT_KEYS,
)
DECLARATION_KEYS = ("values", "bounds", "hash_cells", "max_groups")
REQUIRED_KEYS = {"other": "values", "grid": "bounds", "expected_distinct": "hash_cells"}
TYPE: Rule[Kind] = build_choice_rule("text", "number", "boolean")
MAX_COLUMN_VALUES = 10**6
MAX_VALUE_CHANGES = 2**16 - 1
OTHER_LABEL = "other"


def parse_columns(stream: TomlTable, reserved: Mapping[str, str]) -> dict[str, Column]:
    """Return the declared columns.

    `reserved` has the names of the time and user columns, by their meaning.
    """
    columns = {}
    for name, value in stream.get_tables("columns").items():
        where = join_key(stream.key_path("columns"), name)
        if COLUMN.parse(name) is None:
            raise build_rule_error(where, COLUMN.words, name)
        columns[name] = _parse_column(name, TomlTable.parse(where, value, COLUMN_KEYS))
    if reserved["time"] in columns:
        time = join_key(stream.key_path("columns"), reserved["time"])
        raise PipelineFileError(f"{time} must be left out, got the time column, which needs no declaration")
    check_distinct_names(stream.key_path("columns"), {*columns, *reserved.values()})
    return columns


def check_distinct_names(where: str, names: Collection[str]) -> None:
    """Reject names that differ only in case, which SQL does not distinguish."""
    known_names: dict[str, str] = {}
    for name in sorted(names):
        other = known_names.setdefault(name.casefold(), name)
        if other != name:
            raise PipelineFileError(f"{where} must be names that differ in more than case, got {other} and {name}")


def _parse_column(name: str, table: TomlTable) -> Column:
    if REPORT_KEY in table:
        return parse_report_column(name, table)
    ways = [way for way in DECLARATION_KEYS if way in table]
    if len(ways) > 1 or not (ways or "type" in table):
        rule = "declared by one of values, bounds, hash_cells, max_groups or type"
        raise PipelineFileError(f"{table.path} must be {rule}, got {' and '.join(ways) or 'none of them'}")
    for key, needed in REQUIRED_KEYS.items():
        if key in table and needed not in table:
            raise table.build_error(key, f"left out unless there are {needed}", got="it without")
    for key in REPORT_KEYS:
        if key in table:
            raise table.build_error(key, "left out unless there is a report = ...", got="it without")
    if "max_changes" in table and not {"values", "hash_cells"} & {*ways}:
        raise table.build_error("max_changes", "left out unless there are values or hash_cells", got="it without")
    column = _COLUMN_PARSERS[ways[0] if ways else "type"](name, table)
    column = replace(column, max_changes=table.get_optional("max_changes", build_int_rule(1, MAX_VALUE_CHANGES)))
    if table.get_optional("type", TYPE, column.kind) != column.kind:
        raise table.build_error("type", f'"{column.kind}" or left out, as {ways[0]} say')
    return column


def _parse_hashed_column(name: str, table: TomlTable) -> Column:
    cells = table.get_required("hash_cells", build_int_rule(2, MAX_COUNT))
    return Column(name, hash_cells=cells, expected_distinct=table.get_optional("expected_distinct", build_int_rule(1)))


def _parse_bounded_column(name: str, table: TomlTable) -> Column:
    pair = [NUMBER.parse(value) for value in table.get_array("bounds", "two numbers")]
    lower, upper = pair if len(pair) == 2 else (None, None)
    if lower is None or upper is None or lower >= upper:
        raise table.build_error("bounds", "two numbers, the lower first, such as [0, 100]")
    return Column(name, "number", bounds=(lower, upper), grid=_parse_grid(table, lower, upper))


def _parse_grid(table: TomlTable, lower: Fraction, upper: Fraction) -> Fraction | None:
    step = table.get_optional("grid", NUMBER)
    if step is None:
        return None
    try:
        return Grid(lower, upper, step).step
    except ValueError:
        rule = "a number above 0 that both bounds are multiples of, with fewer than 2^52 places"
        raise table.build_error("grid", rule) from None


def _parse_valued_column(name: str, table: TomlTable) -> Column:
    given = table.get_array("values", "values")
    kind, labels = _parse_labels(given)
    if None in labels or not 0 < len(labels) <= MAX_COLUMN_VALUES:
        raise table.build_error("values", "an array of 1 to 10^6 values, all text (in one line), numbers or booleans")
    other = table.get_optional("other", SWITCH, False)
    if other and kind != "text":
        raise table.build_error("other", "false unless the values are text")
    label, times = Counter([*labels, OTHER_LABEL] if other else labels).most_common(1)[0]
    if times > 1:
        rule = 'different from each other and from "other"' if other else "different from each other"
        raise table.build_error("values", rule, got=f"{format_value(label)} twice")
    return Column(name, kind, values=tuple(labels), other=other)


def _parse_labels(given: list[Any]) -> tuple[Kind, list[Any]]:
    """Return the type of the first value, and all values parsed as that type.

    A value that does not parse becomes None.
    """
    if given and isinstance(given[0], bool):
        return "boolean", [value if isinstance(value, bool) else None for value in given]
    if given and isinstance(given[0], str):
        return "text", [value if is_line(value) else None for value in given]
    return "number", [parse_label_number(value) for value in given]


_COLUMN_PARSERS: dict[str, Callable[[str, TomlTable], Column]] = {
    "type": lambda name, table: Column(name, table.get_required("type", TYPE)),
    "values": _parse_valued_column,
    "bounds": _parse_bounded_column,
    "hash_cells": _parse_hashed_column,
    "max_groups": lambda name, table: Column(
        name, max_groups=table.get_required("max_groups", build_int_rule(1, MAX_COUNT))
    ),
}
