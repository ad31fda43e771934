"""Where events come from: bytes become clean whole lines, one file per kind of source."""

from streamgauge.sources.errors import SourceError, SourceLost, SourceTruncated
from streamgauge.sources.finished import open_finished
from streamgauge.sources.follow import open_live
from streamgauge.sources.inbox import Inbox, InboxClosed, InboxFull, Ticket, inbox_of
from streamgauge.sources.standard_input import StandardInput

__all__ = [
    "Inbox",
    "InboxClosed",
    "InboxFull",
    "SourceError",
    "SourceLost",
    "SourceTruncated",
    "StandardInput",
    "Ticket",
    "inbox_of",
    "open_finished",
    "open_live",
]
