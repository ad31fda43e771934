"""Shares of records that have a time, a column, a value: what tells a curator of a wrong name.

    of 20,000 records 100 % have a readable time inside the stream (ts), 100 % have the column origin, 0 %
    have a declared value of origin
    warning: none of 20,000 records has a declared value of origin: releases that need it publish noise alone

The curator reads this after the first block of records and at the end. Of a finished source all records are
counted before the first tick is published, so that both are one. Counted are the time, the user and the
columns that releases read, each as a share of all records, readable or not.

**Privacy.** All of it depends on the data, so it is the curator's alone, as the number of events is: it goes
to a terminal or to curator.log, never to standard output, a release, an exit code or the store. With
pan_private = true nothing is counted, and there is no object of this class.
"""

from collections.abc import Callable, Iterator

from streamgauge.engines.passes import Pass
from streamgauge.pipeline.words import counted
from streamgauge.query.settings import Stream

UNTIMED = ("no time", "not readable", "outside")  # rules by which a record has no time inside the stream


class RecordShares:
    """Counts of records so far, over all runs of one process."""

    def __init__(self, stream: Stream, tell: Callable[[str], None]) -> None:
        self._time = f"a readable time inside the stream ({stream.time})"
        self._tell = tell
        self._counts: dict[str, tuple[int, int]] = {}  # exact: records with it, of so many
        self._begun = False  # whether the first records were reported
        self._reported: list[str] = []  # exact: the last report

    def restart(self) -> None:
        """Start from nothing, for a source that is read again from its beginning."""
        self._counts, self._begun = {}, False

    def add(self, answer: Pass) -> None:
        """Add the counts of a pass; the first one that has records is reported at once."""
        records = answer.counts["records"]
        untimed = sum(answer.counts[rule] for rule in UNTIMED)
        for what, absent in {self._time: untimed, **answer.absences}.items():
            before = self._counts.get(what, (0, 0))
            self._counts[what] = before[0] + records - absent, before[1] + records
        if records and not self._begun:
            self._begun = True
            self.report()

    def report(self) -> None:
        """Tell the curator, unless the last report said the same."""
        lines = list(self._lines())
        if lines != self._reported:
            self._reported = lines
            for line in lines:
                self._tell(line)

    def shares(self) -> dict[str, str]:
        """Return the share of records that have each thing, in whole percents."""
        found = dict(self._counts).items()
        return {what: percent(count, records) for what, (count, records) in found if records}

    def _lines(self) -> Iterator[str]:
        """Return one line with all shares, and a warning for each that is 0."""
        if not self._counts:
            return
        records = self._counts[self._time][1]
        if not records:
            yield "warning: no record was read: what is published is noise alone"
            return
        shares = [f"{share} have {what}" for what, share in self.shares().items()]
        yield f"of {counted(records, 'record')} {', '.join(shares)}"
        for what, (count, records) in self._counts.items():
            if records and not count:
                of = counted(records, "record")
                yield f"warning: none of {of} has {what}: releases that need it publish noise alone"


def percent(count: int, records: int) -> str:
    """Return a share in whole percents; 0 and 100 are exact.

    >>> [percent(count, 1000) for count in (0, 4, 504, 996, 1000)]
    ['0 %', 'under 1 %', '50 %', 'over 99 %', '100 %']
    """
    whole = round(100 * count / records)
    if whole == 0 and count:
        return "under 1 %"
    return "over 99 %" if whole == 100 and count < records else f"{whole} %"
