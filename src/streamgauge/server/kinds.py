"""What kind of number each measure of a release is: whether ticks of it add up is a matter of its kind."""

from streamgauge.query.query import Refused
from streamgauge.query.settings import PipelineFile
from streamgauge.query.sql import parse


class Kinds:
    """Of the releases of one file, by their SQL; each is read once."""

    def __init__(self, file: PipelineFile) -> None:
        self._file = file
        self._known: dict[str, list[str]] = {}

    def of(self, sql: str) -> list[str]:
        """In the order of the measures; nothing where the SQL is of a dialect that is no more."""
        if sql not in self._known:
            self._known[sql] = self._read(sql)
        return self._known[sql]

    def _read(self, sql: str) -> list[str]:
        try:
            query = parse(sql, self._file.stream, self._file.lookups)
        except Refused:
            return []
        return [aggregate.kind for aggregate in query.aggregates]
