"""Sinks: destinations that contain each tick once and completely.

kinds       the sink of a [[sink]] table
formats     releases as lines
wide_csv    CSV with a line per tick and group
file        a file of lines
parquet     a folder of Parquet parts
stdout      standard output
errors      errors of sinks
"""

from streamgauge.sinks.errors import SinkAccessError, SinkError
from streamgauge.sinks.file import LineFile
from streamgauge.sinks.formats import CsvLines, JsonLines
from streamgauge.sinks.kinds import open_sink
from streamgauge.sinks.parquet import ParquetParts
from streamgauge.sinks.stdout import StandardOutput
from streamgauge.sinks.wide_csv import WideCsv

__all__ = [
    "CsvLines",
    "JsonLines",
    "LineFile",
    "ParquetParts",
    "SinkAccessError",
    "SinkError",
    "StandardOutput",
    "WideCsv",
    "open_sink",
]
