"""What a file opens with: in CSV the header, perhaps after a byte order mark, which is no text.

The header is the first line: names between commas, in double quotes where they hold a comma or a quote.
It is public, as the columns of a pipeline file are. What cannot be read as one is refused without being
shown, since it may be a record.
"""

import csv

from streamgauge.query.blocks import LONGEST
from streamgauge.sources.errors import SourceError

MARK = b"\xef\xbb\xbf"


class Opening:
    """Of the file `name`: its `header`, and the `length` of all that comes before the first record."""

    def __init__(self, name: str, *, has_header: bool) -> None:
        self.name = name
        self.has_header = has_header
        self.header: tuple[str, ...] | None = None
        self.length: int | None = None  # not known yet

    def read(self, data: bytes, *, ended: bool) -> bool:
        """Whether the first bytes of the file are enough to know; `ended` if there are no more."""
        if not self.has_header:
            self.length = 0
        else:
            start = len(MARK) if data.startswith(MARK) else 0
            end = data.find(b"\n", start)
            if end >= 0 or ended or len(data) - start > LONGEST + 1:
                text = data[start:] if end < 0 else data[start:end]
                self.header = self._names(text.removesuffix(b"\r"))
                self.length = len(data) if end < 0 else end + 1
        return self.length is not None

    def _names(self, line: bytes) -> tuple[str, ...]:
        if len(line) > LONGEST:
            raise self._refused(f"be one line of at most {LONGEST} bytes")
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise self._refused("be UTF-8") from None
        if "\r" in text or "\0" in text:
            raise self._refused("have no carriage return or NUL inside")
        names = tuple(name.strip() for name in self._cells(text))
        if len(set(names) - {""}) < len([name for name in names if name]):
            raise self._refused("name each column once")
        return names

    def _cells(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], strict=True, skipinitialspace=True), [])
        except csv.Error:
            raise self._refused("close each quote before the next comma") from None

    def _refused(self, rule: str) -> SourceError:
        return SourceError(f"the header of {self.name} must {rule}, got a first line that does not")
