"""Shares of records that have a time, a column, a value. They reveal a wrong name.

    of 20,000 records 100 % have a readable time inside the stream (ts), 100 % have the column origin, 0 %
    have a declared value of origin
    warning: none of 20,000 records has a declared value of origin: releases that need it publish noise alone

The curator gets this after the first block of records and at the end. For a batch source all records are
counted before the first tick is published, so there is only one report. It counts the time, the user and the
columns that releases read, each as a share of all records, readable or not.

Privacy
    All of it depends on the data, so it is for the curator only, like the number of events. It goes to a terminal or
    to curator.log, never to standard output, a release, an exit code or the store. With pan_private = true nothing
    is counted, and there is no object of this class.
"""

from collections.abc import Callable, Iterator

from streamgauge.config.settings import Stream
from streamgauge.plan.measure import Pass

UNTIMED_RULES = ("no time", "not readable", "outside")  # rules by which a record has no time inside the stream


class RecordShares:
    """Counts of records so far, over all runs of one process."""

    def __init__(self, stream: Stream, tell: Callable[[str], None]) -> None:
        self._time = f"a readable time inside the stream ({stream.time})"
        self._tell = tell
        self._counts: dict[str, tuple[int, int]] = {}  # exact: records that have it, and all records
        self._has_reported = False  # True after the first report
        self._last_report: list[str] = []  # exact: the last report

    def restart(self) -> None:
        """Reset the counts, for a source that is read again from its beginning."""
        self._counts, self._has_reported = {}, False

    def add(self, answer: Pass) -> None:
        """Add the counts of a pass. Report the first pass that has records at once."""
        records = answer.counts["records"]
        untimed = sum(answer.counts[rule] for rule in UNTIMED_RULES)
        for what, absent in {self._time: untimed, **answer.absences}.items():
            before = self._counts.get(what, (0, 0))
            self._counts[what] = before[0] + records - absent, before[1] + records
        if records and not self._has_reported:
            self._has_reported = True
            self.report()

    def report(self) -> None:
        """Report to the curator, unless the last report was the same."""
        lines = list(self._lines())
        if lines != self._last_report:
            self._last_report = lines
            for line in lines:
                self._tell(line)

    def shares(self) -> dict[str, str]:
        """Return the share of records that have each item, in whole percents."""
        found = dict(self._counts).items()
        return {what: percent(count, records) for what, (count, records) in found if records}

    def _lines(self) -> Iterator[str]:
        """Yield one line with all shares, and a warning for each share of 0."""
        if not self._counts:
            return
        records = self._counts[self._time][1]
        if not records:
            yield "warning: no record was read: what is published is noise alone"
            return
        shares = [f"{share} have {what}" for what, share in self.shares().items()]
        yield f"of {_count(records)} {', '.join(shares)}"
        for what, (count, records) in self._counts.items():
            if records and not count:
                yield f"warning: none of {_count(records)} has {what}: releases that need it publish noise alone"


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"


def percent(count: int, records: int) -> str:
    """Return a share in whole percents; 0 and 100 are exact.

    >>> [percent(count, 1000) for count in (0, 4, 504, 996, 1000)]
    ['0 %', 'under 1 %', '50 %', 'over 99 %', '100 %']
    """
    whole = round(100 * count / records)
    if whole == 0 and count:
        return "under 1 %"
    return "over 99 %" if whole == 100 and count < records else f"{whole} %"
