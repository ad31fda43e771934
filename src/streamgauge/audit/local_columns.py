"""Columns of reports of a pipeline file under audit: what devices send, and the rest of the file.

What is released of such a column is a function of reports, which are private when they come: so the law of a
report is what is audited, exactly (`local_reports`), and its releases lose nothing besides. Other releases
are attacked as if the column were not there: nothing may read it.

A protocol of many rows is enumerated over few: rows, and columns of Hadamard signs, are drawn before an item
is looked at, and no coin depends on how many there are. Of a long list the first values are taken. A vector
has a coin for each bit, all alike but those of the item's own: few bits have all that many of them tell.
"""

from dataclasses import replace
from typing import Any

from streamgauge.audit.local_reports import LocalSubject
from streamgauge.audit.verdict import Verdict
from streamgauge.localdp import CountMeanSketch, HadamardCountMeanSketch, UnaryEncoding
from streamgauge.query.planner import planned
from streamgauge.query.settings import PipelineFile, SinkSettings

ROWS, COLUMNS = 2, 4
LISTED = 48  # values
BITS = 4  # of a vector that has one for each value
TRIED = 3  # items whose reports are compared, beside one that is on no list


def of_columns(file: PipelineFile) -> list[Verdict]:
    """A verdict on each column of reports."""
    return [column_verdict(file.path.name, name, each.claim) for name, each in file.stream.reports.items()]


def without_reports(file: PipelineFile) -> PipelineFile:
    """The same file with its other columns and releases alone, and what the ledger charges for these."""
    if not file.stream.reports:
        return file
    others = tuple(each for each in file.releases if planned(file, each).query.report is None)
    names = {each.name for each in others}
    sinks = (_narrowed(sink, names) for sink in file.sinks if not sink.releases or names & {*sink.releases})
    columns = {name: column for name, column in file.stream.columns.items() if column.report is None}
    stream = replace(file.stream, columns=columns)
    return replace(file, stream=stream, releases=others, sinks=tuple(sinks))


def _narrowed(sink: SinkSettings, names: set[str]) -> SinkSettings:
    return replace(sink, releases=tuple(name for name in sink.releases if name in names))


def column_verdict(file: str, name: str, claim: Any) -> Verdict:
    small = of_few(claim)
    items = getattr(small, "items", ("a", "b", "c"))[:TRIED]
    subject = LocalSubject(small, items, f"{file}: column {name}, a report")
    worst = replace(subject.worst(), part="" if small == claim else sizes(small))
    return Verdict.on(subject.name, subject.loss, worst, None, subject.faults())


def of_few(claim: Any) -> Any:
    """The same protocol with few reports."""
    if hasattr(claim, "items"):
        return replace(claim, items=claim.items[: BITS if isinstance(claim, UnaryEncoding) else LISTED])
    few = replace(claim, hashes=min(claim.hashes, ROWS))
    by_columns = isinstance(claim, HadamardCountMeanSketch | CountMeanSketch)
    return replace(few, width=min(claim.width, COLUMNS)) if by_columns else few


def sizes(claim: Any) -> str:
    return f"{len(claim.items)} values" if hasattr(claim, "items") else f"{claim.hashes} x {claim.width}"
