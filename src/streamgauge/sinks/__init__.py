"""Where releases go, each tick once and whole: files of lines, Parquet parts, standard output."""

from streamgauge.sinks.csv_file import CsvLines
from streamgauge.sinks.failures import ForeignSink, ReaderGone, SinkColumnsError, SinkFailed, SinkInUse
from streamgauge.sinks.json_lines import JsonLines
from streamgauge.sinks.line_file import LineFile
from streamgauge.sinks.opening import open_sink
from streamgauge.sinks.parquet_parts import ParquetParts
from streamgauge.sinks.standard_output import StandardOutput
from streamgauge.sinks.wide_csv import WideCsv

__all__ = [
    "CsvLines",
    "ForeignSink",
    "JsonLines",
    "LineFile",
    "ParquetParts",
    "ReaderGone",
    "SinkColumnsError",
    "SinkFailed",
    "SinkInUse",
    "StandardOutput",
    "WideCsv",
    "open_sink",
]
