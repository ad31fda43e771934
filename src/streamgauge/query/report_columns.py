"""Columns of reports: codes or vectors by which devices answer, private before they are sent.

    emoji = { report = "HadamardCountMeanSketch", epsilon = 2, values = ["a", "b"], hashes = 1024,
              width = 1024, seed = 7, again = "charge", reports_per_user = 30 }

    report                                     values                          besides
    HadamardCountMeanSketch, LocalHashing,     what is estimated; a device     hashes, width, seed
    CountMeanSketch                            may report anything
    RandomisedResponse, HadamardResponse,      all that a device may report
    UnaryEncoding

Reports of CountMeanSketch and UnaryEncoding are vectors of bits, which records have as text
(`report_texts`); those of the others are whole numbers.

`again` is what a device does that reports again: it sends its first report, whatever its answer became
("repeat"), or draws anew and is charged anew ("charge"). `reports_per_user` is how often one reports at most,
once a tick: what is drawn anew costs anew, and what is repeated has the same noise again, so that error bars
are wider. Devices keep to it: the server cannot know.

Privacy
    Local: one report loses `epsilon` to whoever gets it; a user loses `per_user` in all.
"""

from collections import Counter
from dataclasses import KW_ONLY, asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from streamgauge import localdp
from streamgauge.privacy import Pure
from streamgauge.query.settings import Column
from streamgauge.query.toml_keys import BadFile, Rule, Table, shown
from streamgauge.query.toml_rules import EPSILON, is_line, one_of, whole

REPORT = "report"
HASHED = ("HadamardCountMeanSketch", "LocalHashing", "CountMeanSketch")
LISTED = ("RandomisedResponse", "HadamardResponse", "UnaryEncoding")
VECTORS = ("CountMeanSketch", "UnaryEncoding")
SETTINGS = ("hashes", "width", "seed")
REPORT_KEYS = (REPORT, "epsilon", *SETTINGS, "again", "reports_per_user")
PROTOCOL = one_of(*HASHED, *LISTED)
AGAIN: Rule[Literal["repeat", "charge"]] = one_of("repeat", "charge")
MOST_VALUES = 10**5
MOST_CODES = 2**28
MOST_CELLS = 2**27  # of a table
MOST_BITS = 2**16  # of a vector
MOST_SEED = 2**53 - 1


@dataclass(frozen=True)
class ReportColumn:
    """A column that devices have made private."""

    protocol: str
    epsilon: Fraction
    _: KW_ONLY
    values: tuple[str | int, ...]
    again: Literal["repeat", "charge"]
    reports_per_user: int
    hashes: int | None = None
    width: int | None = None
    seed: int | None = None

    @cached_property
    def claim(self) -> Any:
        """What devices keep to, and collectors count by."""
        given = {"items": self.values} if self.protocol in LISTED else self.settings
        return getattr(localdp, self.protocol)(self.loss, **given)

    @property
    def is_vector(self) -> bool:
        """Whether a report is a vector of bits, told as text."""
        return self.protocol in VECTORS

    @property
    def settings(self) -> dict[str, int]:
        found = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def loss(self) -> Pure:
        """Of one report."""
        return Pure(self.epsilon)

    @property
    def per_user(self) -> Pure:
        """Of all reports of one user."""
        return self.loss.group(self.reports_per_user if self.again == "charge" else 1)

    def copies(self, ticks: int | None) -> int:
        """How often the same report is in a window of so many ticks, at most; None is all of them."""
        if self.again == "charge":
            return 1
        return self.reports_per_user if ticks is None else min(ticks, self.reports_per_user)

    @property
    def settled(self) -> "ReportColumn":
        """The same, with the settings that its protocol has where none are declared: what is pinned must stay
        what it is, whatever a later version would take."""
        settings = SETTINGS if self.protocol in HASHED else ()
        return replace(self, **{name: getattr(self.claim, name) for name in settings})

    def declared(self) -> dict[str, Any]:
        """What is known of it, without what its protocol does not have."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        same = "" if self.again == "charge" else ", always the same"
        often = f"reports at most {counted(self.reports_per_user)}{same}"
        one, all_of_them = float(self.epsilon), float(self.per_user.epsilon)
        return f"epsilon {one:.4g} a report, {all_of_them:.4g} a user who {often}"


def counted(times: int) -> str:
    return "once" if times == 1 else f"{times:,} times"


def report_column(name: str, table: Table) -> Column:
    """The column that a table declares."""
    protocol = table.required(REPORT, PROTOCOL)
    for key in table:
        if key not in (*REPORT_KEYS, "values") or (protocol in LISTED and key in SETTINGS):
            raise BadFile(f"{table.at(key)} must be left out for {protocol}, got one")
    again = table.required("again", AGAIN)
    report = ReportColumn(
        protocol,
        table.required("epsilon", EPSILON),
        values=_values(table),
        again=again,
        hashes=table.optional("hashes", whole(most=MOST_CODES)),
        width=table.optional("width", whole(2, MOST_CODES)),
        seed=table.optional("seed", whole(0, MOST_SEED)),
        reports_per_user=table.required("reports_per_user", whole()),
    )
    _check(table, report)
    return Column(name, "text" if report.is_vector else "number", report=report.settled)


def _values(table: Table) -> tuple[str | int, ...]:
    given = table.array("values", "values")
    texts = all(is_line(value) for value in given)
    numbers = all(type(value) is int and abs(value) < 2**53 for value in given)
    if not (texts or numbers) or not 0 < len(given) <= MOST_VALUES:
        raise table.bad("values", "an array of 1 to 10^5 values, all text (in one line) or whole numbers")
    value, times = Counter(given).most_common(1)[0]
    if times > 1:
        raise BadFile(f"{table.at('values')} must be different from each other, got {shown(value)} twice")
    return tuple(given)


def _check(table: Table, report: ReportColumn) -> None:
    """What the protocol refuses is refused in its words, without a number that is no setting of the file."""
    try:
        claim = report.claim
    except ValueError as refusal:
        raise BadFile(f"{table.where}: {refusal}") from None
    if report.is_vector:
        _check_vector(table, report)
    elif claim.codes > MOST_CODES:
        rule = f"{table.where} must have hashes x width of at most 2^27"
        raise BadFile(f"{rule}, got {claim.codes} codes of reports")


def _check_vector(table: Table, report: ReportColumn) -> None:
    key, bits = ("values", len(report.values)) if report.protocol in LISTED else ("width", report.claim.width)
    if bits > MOST_BITS:
        rule = f"{table.at(key)} must be at most {MOST_BITS}, the bits of a report of {report.protocol}"
        raise BadFile(f"{rule}, got {bits}")
    if key == "width" and report.claim.hashes * bits > MOST_CELLS:
        rule = f"{table.where} must have hashes x width of at most 2^27"
        raise BadFile(f"{rule}, got {report.claim.hashes} x {bits}")
