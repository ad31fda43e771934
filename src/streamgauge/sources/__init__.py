"""Where events come from: bytes become clean whole lines, one file per kind of source."""

from streamgauge.sources.errors import SourceError, SourceLost, SourceTruncated
from streamgauge.sources.finished import open_finished
from streamgauge.sources.follow import open_live
from streamgauge.sources.standard_input import StandardInput

__all__ = ["SourceError", "SourceLost", "SourceTruncated", "StandardInput", "open_finished", "open_live"]
